/**
 * One account of memory, lifetimes and reuse: buffer assignments (src/plan/memory/assignment.ts) against a simulator that allocates, frees
 * and overwrites step by step, for plans of numbers and for 500 random programs; and the modelled peak of a plan is that of its program.
 * Sites that counted for themselves: order.ts, peak.ts, liveness.ts, readersFirst.ts, takeovers.ts and horizontalFusion.ts in src/plan, memory.ts,
 * steps.ts and assemble.ts in src/compile.
 */
import { describe, expect, test } from 'vitest'
import { type Compiled, compileGraph } from '../../src/compile/index.ts'
import { memoryStep } from '../../src/compile/steps.ts'
import * as c from '../../src/compose/index.ts'
import { withContext } from '../../src/graph/build.ts'
import type { Graph } from '../../src/graph/node.ts'
import { accessOf } from '../../src/plan/memory/access.ts'
import { assignBuffers, type BufferNeed, type MemoryStep, peakBytes } from '../../src/plan/memory/assignment.ts'
import { liveBytes } from '../../src/plan/memory/liveness.ts'
import { placeBuffers } from '../../src/plan/memory/placement.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { ProgramStep } from '../../src/runtime/program.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { vjpGraph } from '../../src/transforms/index.ts'
import { isFloat } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, inputsOf, trace } from '../compile/support.ts'
import { difference, smallBlocks } from '../random/execute.ts'
import { randomGraph } from '../random/graphs.ts'
import { makeRng, type Rng } from '../random/rng.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { nightly, seedsOf } from '../support/nightly.ts'

interface ToyStep {
  readonly reads: readonly number[]
  readonly writes: readonly number[]
  /** What the step may write over what. */
  readonly legal: ReadonlySet<string>
}

interface Toy {
  readonly needs: readonly BufferNeed[]
  readonly steps: readonly ToyStep[]
}

/** Steps that write a few buffers each and read some of those before. */
function randomToy(rng: Rng): Toy {
  const needs: BufferNeed[] = []
  const made: number[] = []
  const buffer = (kind: BufferNeed['kind']): number => needs.push({ bytes: 4 << rng.int(0, 3), kind }) - 1
  for (let i = rng.int(0, 3); i > 0; i--) made.push(buffer(rng.chance(0.6) ? 'donated' : 'fixed'))
  const steps = Array.from({ length: rng.int(1, 14) }, (): ToyStep => {
    const reads = [...new Set(Array.from({ length: rng.int(0, 4) }, () => rng.int(0, made.length)))]
      .flatMap((i) => made[i] ?? [])
      // Recent ones, so that others die.
      .filter((b) => b >= needs.length - 8)
    const writes = Array.from({ length: rng.int(1, 3) }, () => buffer(rng.chance(0.2) ? 'result' : 'intermediate'))
    made.push(...writes)
    const legal = new Set(writes.flatMap((w) => reads.flatMap((r) => (rng.chance(0.6) ? [`${w} ${r}`] : []))))
    return { reads, writes, legal }
  })
  return { needs, steps }
}

const memorySteps = (steps: readonly ToyStep[]): MemoryStep[] =>
  steps.map(({ reads, writes, legal }) => ({
    touches: [...reads, ...writes],
    donorFor: (write, isFree) => reads.find((r) => isFree(r) && legal.has(`${write} ${r}`)),
  }))

/** For each buffer the steps that touch it. */
function touchesOf(steps: readonly Omit<ToyStep, 'legal'>[], buffers: number): readonly (readonly number[])[] {
  const all = Array.from({ length: buffers }, (): number[] => [])
  steps.forEach(({ reads, writes }, i) => {
    for (const b of new Set([...reads, ...writes])) at(all, b).push(i)
  })
  return all
}

/** First and last of some steps, -1 where there is none. */
const ends = (steps: readonly number[]): [number, number] => [steps[0] ?? -1, steps.at(-1) ?? -1]

describe('an assignment of numbers', () => {
  test('is what a simulation of 500 random plans does', () => {
    let reused = 0
    for (let seed = 0; seed < 500; seed++) {
      const { needs, steps } = randomToy(makeRng(seed))
      const assigned = assignBuffers(memorySteps(steps), needs)
      const touches = touchesOf(steps, needs.length)
      expect(needs.map((_, b) => [assigned.from[b], assigned.to[b]])).toEqual(touches.map(ends))
      const donors = [...assigned.donors.values()]
      expect(new Set(donors).size).toBe(donors.length)
      reused += donors.length
      // Every place holds one value: who writes over another is the last to touch it, and may.
      const isFree = (step: number, read: number): boolean => at(touches, read).every((i) => i <= step)
      steps.forEach(({ reads, writes, legal }, i) => {
        for (const w of writes) {
          const fits = reads.filter((r) => {
            const [to, from] = [at(needs, w), at(needs, r)]
            const kinds = to.kind === 'result' ? from.kind === 'donated' : from.kind === 'intermediate'
            return kinds && to.bytes === from.bytes && isFree(i, r) && legal.has(`${w} ${r}`)
          })
          const donor = assigned.donors.get(w)
          if (donor !== undefined) expect(fits).toContain(donor)
          else for (const r of fits) expect(donors).toContain(r)
        }
      })
      // Allocate, overwrite, free.
      const live = new Set<number>()
      let peak = 0
      steps.forEach(({ reads, writes }, i) => {
        for (const w of writes) if (at(needs, w).kind === 'intermediate') live.add(w)
        const given = writes.flatMap((w) => assigned.donors.get(w) ?? []).filter((d) => live.has(d))
        for (const d of given) live.delete(d)
        peak = Math.max(
          peak,
          [...live].reduce((n, b) => n + at(needs, b).bytes, 0),
        )
        for (const b of [...reads, ...writes]) if (isFree(i, b)) live.delete(b)
      })
      expect(peakBytes(assigned, needs, steps.length)).toBe(peak)
      const { arenaBytes } = placeBuffers(
        needs.flatMap(({ bytes, kind }, buffer) => {
          const [from = -1, to = -1, donor] = [assigned.from[buffer], assigned.to[buffer], assigned.donors.get(buffer)]
          return kind !== 'intermediate' || from < 0
            ? []
            : [{ buffer, bytes, from, to, ...(donor === undefined ? {} : { donor }) }]
        }),
      )
      expect(arenaBytes).toBeGreaterThanOrEqual(peak)
    }
    expect(reused).toBeGreaterThan(300)
  })

  test('keeps to what is decided, though another would do', () => {
    const needs: BufferNeed[] = [0, 1, 2, 3].map(() => ({ bytes: 8, kind: 'intermediate' }))
    const legal = new Set(['2 0', '2 1', '3 0', '3 1'])
    const steps: ToyStep[] = [
      { reads: [], writes: [0, 1], legal: new Set() },
      { reads: [0, 1], writes: [2, 3], legal },
    ]
    expect(assignBuffers(memorySteps(steps), needs).donors).toEqual(
      new Map([
        [2, 0],
        [3, 1],
      ]),
    )
    expect(assignBuffers(memorySteps(steps), needs, new Map([[3, 0]])).donors).toEqual(
      new Map([
        [3, 0],
        [2, 1],
      ]),
    )
  })
})

/** Buffers that a step reads, and those that it writes. */
function effectsOf(s: ProgramStep): { readonly reads: readonly number[]; readonly writes: readonly number[] } {
  switch (s.kind) {
    case 'kernel': {
      const of = (...access: string[]): number[] =>
        s.buffers.filter((_, i) => access.includes(s.kernel.params[i]?.access ?? ''))
      return { reads: of('read', 'update'), writes: of('write', 'update') }
    }
    case 'product':
      return { reads: [s.a, s.b], writes: [s.out] }
    case 'copy':
      return { reads: [s.from], writes: [s.to] }
    case 'opaque':
      return { reads: s.inputs, writes: [s.output] }
    case 'inspect':
      return { reads: [s.buffer], writes: [] }
    default:
      throw new Error(`random programs have no ${s.kind}`)
  }
}

/** Runs through a program as its arena is: each byte remembers whose it is. Gives the most bytes alive at once, partial results among them. */
function simulate({ program }: Compiled): number {
  const { buffers, steps } = program
  const offsets = new Map(
    buffers.flatMap(({ source }, b) => (source.kind === 'temp' ? [[b, source.offset] as const] : [])),
  )
  const bytes = (b: number): number => at(buffers, b).bytes
  const launchOf = (s: ProgramStep, i: number): string => (s.kind === 'kernel' ? `launch ${s.launch}` : `step ${i}`)
  const effects = steps.map((s, i) => ({ ...effectsOf(s), launch: launchOf(s, i) }))
  const touches = touchesOf(effects, buffers.length)
  const diesAt = (i: number, b: number): boolean => ends(at(touches, b))[1] <= i
  const owner = new Int32Array(program.arenaBytes).fill(-1)
  const live = new Set<number>()
  /** Live bytes by launch: main kernel and finishing stages are one. */
  const alive = new Map<string, Set<number>>()
  const written = new Map<string, Set<number>>()
  effects.forEach(({ reads, writes, launch }, i) => {
    for (const b of reads) {
      const offset = offsets.get(b)
      if (offset === undefined) continue
      const whole = owner.subarray(offset, offset + bytes(b)).every((o) => o === b)
      if (!whole) expect.fail(`others wrote over bytes of buffer ${b} before step ${i}`)
    }
    for (const w of writes) {
      const offset = offsets.get(w)
      if (offset === undefined || live.has(w)) continue
      for (const other of live) {
        const start = offsets.get(other) ?? 0
        if (offset >= start + bytes(other) || start >= offset + bytes(w)) continue
        // What lives there is read here, nowhere later, and gives all of its place.
        expect(reads).toContain(other)
        expect(diesAt(i, other)).toBe(true)
        expect([start, bytes(other)]).toEqual([offset, bytes(w)])
        const gone = written.get(launch) ?? new Set()
        written.set(launch, gone.add(other))
      }
      owner.fill(w, offset, offset + bytes(w))
      live.add(w)
    }
    const here = alive.get(launch) ?? new Set()
    for (const b of live) here.add(b)
    alive.set(launch, here)
    for (const b of [...live]) if (diesAt(i, b)) live.delete(b)
  })
  return [...alive].reduce((most, [launch, here]) => {
    const gone = written.get(launch)
    const held = [...here].filter((b) => gone?.has(b) !== true)
    return Math.max(
      most,
      held.reduce((n, b) => n + bytes(b), 0),
    )
  }, 0)
}

const large = { operations: 24, dtypes: ['f32'], maxElements: 2000 } as const

/**
 * A random program, by its number: of many dtypes, of some thousand elements, with its gradients, or with outputs that stand in one
 * memory (a reshape, an output twice, an input).
 */
function randomProgram(seed: number): Graph {
  const { graph } = randomGraph(seed, seed % 2 === 0 ? {} : large)
  switch (seed % 4) {
    case 1: {
      const floats = graph.params.flatMap((p, i) => (isFloat(p.dtype) ? [i] : []))
      return vjpGraph(graph, floats)
    }
    case 2:
      return withContext(() => {
        const [first] = graph.outputs
        const flat = first === undefined ? [] : [first, c.reshape(first, [sizeOf(first.shape)])]
        return { ...graph, outputs: [...graph.outputs, ...flat, ...graph.params.slice(0, 1)] }
      })
    default:
      return graph
  }
}

describe('programs', () => {
  /** Cuts reductions of few elements. */
  const cut: Machine = { ...smallBlocks, minPrograms: 200, elementBlock: 8 }
  const targets: readonly Machine[] = [wasmTarget, webgpuTarget(), cut]

  const programs = seedsOf('SINTER_MEMORY_SEEDS', 30, 500)

  test(`${programs} random ones keep what lives apart, and their plans know their peaks`, () => {
    const met = { holding: 0, reusing: 0, over: 0, backward: 0, partials: 0 }
    for (let seed = 0; seed < programs; seed++) {
      const graph = randomProgram(seed)
      const donated = graph.params.map(() => seed % 3 === 1)
      for (const fuse of seed % 5 === 0 ? [true, false] : [true]) {
        const made = compileGraph(graph, { mode: 'fast', target: at(targets, seed % targets.length), fuse, donated })
        const { program, plan } = made
        const peak = simulate(made)
        expect(liveBytes(made.graph, plan), `seed ${seed}`).toBe(peak)
        if (peak > 0) met.holding++
        if (made.report.memory.inPlace > 0) met.reusing++
        if (program.outputs.some((o) => program.inputs.includes(o))) met.over++
        if (made.report.passes !== undefined) met.backward++
        met.partials += program.steps.filter((s) => s.kind === 'kernel' && s.stage === 'finishing').length
        // Lifetimes are what steps touch, whatever the kind of a buffer.
        const { buffers, steps } = program
        const needs = buffers.map(({ bytes }): BufferNeed => ({ bytes, kind: 'intermediate' }))
        const { from, to } = assignBuffers(steps.map(memoryStep), needs)
        const touches = touchesOf(steps.map(effectsOf), buffers.length)
        expect(buffers.map((_, b) => [from[b], to[b]])).toEqual(touches.map(ends))
      }
    }
    expect(met.holding).toBeGreaterThan(0.5 * programs)
    expect(met.reusing).toBeGreaterThan(0.3 * programs)
    expect(met.over).toBeGreaterThan(0.16 * programs)
    expect(met.backward).toBeGreaterThan(0.2 * programs)
    expect(met.partials).toBeGreaterThan(0.025 * programs)
  })

  test('partial results count while their launch runs', () => {
    let cut = 0
    for (let i = 0; i < (nightly ? 24 : 12); i++) {
      const shape = [300 + 7 * i, 100 + 3 * i]
      const graph = trace([{ shape }, { shape }], ([x, y]) => {
        if (x === undefined || y === undefined) return []
        const whole = c.sum(c.mul(c.exp(x), y))
        const columns = c.reduceMax(c.add(x, whole), 0)
        return i % 2 === 0 ? [columns, c.mul(y, whole)] : [c.sum(c.mul(c.sub(y, columns), x), 0)]
      })
      for (const target of [wasmTarget, webgpuTarget()]) {
        const made = compileGraph(graph, { mode: 'fast', target })
        const peak = simulate(made)
        expect(liveBytes(made.graph, made.plan), `shape ${shape}`).toBe(peak)
        cut += made.program.steps.filter((s) => s.kind === 'kernel' && s.stage === 'finishing').length
      }
    }
    expect(cut).toBeGreaterThan(nightly ? 20 : 10)
  })

  test('so do those beside matrix products: of sums of their results, and of a depth in parts', () => {
    let partials = 0
    for (let i = 0; i < (nightly ? 24 : 6); i++) {
      const [m, n] = [130 + 11 * i, 100 + 7 * i]
      const k = i % 3 === 0 ? 8192 : 64
      const specs = [{ shape: [m, k] }, { shape: [k, n] }, { shape: [m, n] }]
      const graph = trace(specs, ([x, y, z]) => {
        if (x === undefined || y === undefined || z === undefined) return []
        const h = c.add(c.matmul(c.exp(x), y), z)
        return i % 3 === 0 ? [c.exp(c.sum(c.tanh(h), 0))] : [c.sum(h, 0), c.mul(c.sum(c.mul(h, h)), z)]
      })
      for (const target of [wasmTarget, webgpuTarget(), cudaTarget]) {
        const made = compileGraph(graph, { mode: 'fast', target })
        expect(liveBytes(made.graph, made.plan), `${m} by ${k} by ${n}`).toBe(simulate(made))
        const beside = made.plan.groups.filter((g) => g.kind === 'kernel' && g.roles.kind === 'matrix')
        for (const g of beside) if (g.kind === 'kernel') partials += accessOf(g).partials.length
      }
    }
    expect(partials).toBeGreaterThan(nightly ? 60 : 15)
  })

  const overwriting = seedsOf('SINTER_OVERWRITING', 34, 250)

  test('that may overwrite all their inputs keep their results', () => {
    let over = 0
    for (let seed = 0; seed < overwriting; seed++) {
      const { graph, inputs, tolerances } = randomGraph(seed)
      const donated = graph.params.map(() => true)
      const made = compileGraph(graph, { mode: 'fast', target: at(targets, seed % 3), donated })
      const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
      interpretProgram(made.program, inputs, 'dtype', graph.outputs).forEach((got, i) => {
        const why = difference(got, at(want, i), at(graph.outputs, i).dtype, at(tolerances, i))
        expect(why, `seed ${seed}, output ${i}`).toBeUndefined()
      })
      if (made.report.memory.inPlace > 0) over++
    }
    expect(over).toBeGreaterThan(0.24 * overwriting)
  })

  test('and give bit for bit what they give over memory of their own, with gradients and outputs in one memory', () => {
    let over = 0
    for (let seed = 1; seed < overwriting; seed += seed % 2 === 1 ? 1 : 3) {
      const graph = randomProgram(seed)
      // Data of the program itself, and any for the cotangents behind it.
      const { inputs } = randomGraph(seed, seed % 2 === 0 ? {} : large)
      const data = [...inputs, ...inputsOf(graph).slice(inputs.length)]
      const run = (donated: boolean) => {
        const options = {
          mode: 'strict',
          target: at(targets, seed % 3),
          donated: graph.params.map(() => donated),
        } as const
        const { program } = compileGraph(graph, options)
        if (program.outputs.some((o) => program.inputs.includes(o))) over++
        return interpretProgram(program, data, 'dtype', graph.outputs)
      }
      expect(run(true), `seed ${seed}`).toEqual(run(false))
    }
    expect(over).toBeGreaterThan(0.24 * overwriting)
  })
})
