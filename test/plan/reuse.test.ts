/** What a launch binds where results are written over what is read: as many kernels a launch as fit, never more than fit. */
import { afterAll, describe, expect, test } from 'vitest'
import { shareParams } from '../../src/backends/webgpu/aliases.ts'
import { uniformParams } from '../../src/backends/webgpu/uniforms.ts'
import { type Compiled, compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { type Base, commandsOf, type Place } from '../../src/runtime/commands.ts'
import type { KernelStep, Program } from '../../src/runtime/program.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import type { Machine } from '../../src/target/machine.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, check, type Input, trace } from '../compile/support.ts'
import { difference, smallBlocks } from '../random/execute.ts'
import { randomGraph } from '../random/graphs.ts'
import { makeRng, type Rng } from '../random/rng.ts'
import { compiledBackend } from '../support/device.ts'
import { nightly, some, turn } from '../support/nightly.ts'

const backend = compiledBackend({ threads: 1 })
afterAll(() => backend.dispose())

/** Results of a program that may overwrite what it is given. */
function run(program: Program, graph: Graph, inputs: readonly HostArray[]): HostArray[] {
  const executable = backend.prepare(program)
  const bound = inputs.map((data) => {
    const b = backend.alloc(data.byteLength)
    backend.write(b, data)
    return b
  })
  const got = executable.run(bound).map((b, i) => {
    const { dtype, shape } = at(graph.outputs, i)
    return backend.readSync(b, dtype, sizeOf(shape))
  })
  executable.dispose()
  return got
}

/** Storage buffers that WebGPU binds for a kernel: those of the default limits beside uniform buffers. */
function storageBuffers({ kernel }: KernelStep, places: readonly Place[], bases: readonly Base[]): number {
  const shared = shareParams(kernel, places)
  const uniform = uniformParams(shared, bases)
  expect(uniform.size).toBeLessThanOrEqual(12)
  return shared.kernel.params.length - uniform.size
}

/** What WebGPU binds in every launch of a program: main kernels and finishing stages. */
function bindings(program: Program): { readonly step: KernelStep; readonly count: number }[] {
  expect(kernelsOf(program).every((k) => k.program === program)).toBe(true)
  const { commands, bases } = commandsOf(program, { alignment: 256 })
  return commands.flatMap((x) =>
    x.kind === 'launch' ? [{ step: x.step, count: storageBuffers(x.step, x.places, bases) }] : [],
  )
}

const countsOf = ({ program }: Compiled): number[] => bindings(program).map((b) => b.count)

/** Compiles for so many bindings, checks results, and that nothing binds more. */
function planned(graph: Graph, most: number, donated: readonly boolean[], target: Partial<Machine> = {}): Compiled {
  const compiled = check(graph, { target: { ...webgpuTarget({ storageBuffers: most }), ...target }, donated })
  for (const n of countsOf(compiled)) expect(n).toBeLessThanOrEqual(most)
  return compiled
}

/** Parts of the kernels of a program, main kernels alone. */
const parts = ({ report }: Compiled): number[] => report.kernels.map((k) => k.parts)

type Rule = (p: Node, g: Node, slots: readonly Node[]) => Node[]

const adamw: Rule = (p, g, [m, v]) => {
  const m1 = c.add(c.mul(m as Node, 0.9), c.mul(g, 0.1))
  const v1 = c.add(c.mul(v as Node, 0.999), c.mul(c.mul(g, g), 0.001))
  const step = c.div(m1, c.add(c.sqrt(c.unary('abs', v1)), 1e-3))
  return [c.sub(p, c.mul(c.add(step, c.mul(p, 0.01)), 1e-2)), m1, v1]
}
const momentum: Rule = (p, g, [m]) => {
  const m1 = c.add(c.mul(m as Node, 0.9), g)
  return [c.sub(p, c.mul(m1, 0.1)), m1]
}
const lion: Rule = (p, g, [m]) => {
  const mix = c.add(c.mul(m as Node, 0.9), c.mul(g, 0.1))
  return [c.sub(p, c.mul(c.unary('sign', mix), 0.1)), c.add(c.mul(m as Node, 0.99), c.mul(g, 0.01))]
}
const sgd: Rule = (p, g) => [c.sub(p, c.mul(g, 0.1))]

/** Sizes of parameters: unequal, a scalar and an empty one among them. */
const shapes = Array.from({ length: 20 }, (_, i): number[] =>
  i === 7 ? [] : i === 11 ? [0, 3] : [40 - i, 2 + (i % 3)],
)

/** A step over all tensors: parameters, then every slot, then gradients; and which of them are donated. */
function step(rule: Rule, slots: number): { graph: Graph; donate: boolean[] } {
  const n = shapes.length
  const inputs = Array.from({ length: (2 + slots) * n }, (_, i): Input => ({ shape: at(shapes, i % n) }))
  const graph = trace(inputs, (all) => {
    const next = shapes.map((_, i) =>
      rule(
        at(all, i),
        at(all, (1 + slots) * n + i),
        Array.from({ length: slots }, (_, k) => at(all, (1 + k) * n + i)),
      ),
    )
    return Array.from({ length: 1 + slots }, (_, k) => next.map((of) => at(of, k))).flat()
  })
  return { graph, donate: inputs.map((_, i) => i < (1 + slots) * n) }
}

/** For each kernel the places among `shapes` of the tensors whose first parameter it reads. */
const tensorsOf = ({ program }: Compiled): number[][] =>
  bindings(program).map(({ step }) => {
    const inputs = step.buffers.map((b) => program.inputs.indexOf(b)).filter((i) => i >= 0 && i < shapes.length)
    return [...new Set(inputs)].sort((a, b) => a - b)
  })

describe('optimiser steps', () => {
  const cases = [
    { name: 'AdamW', rule: adamw, slots: 2, donated: [4, 2], kept: [2, 1] },
    { name: 'SGD with momentum', rule: momentum, slots: 1, donated: [5, 2], kept: [3, 1] },
    { name: 'Lion', rule: lion, slots: 1, donated: [5, 2], kept: [3, 1] },
    { name: 'SGD', rule: sgd, slots: 0, donated: [8, 4], kept: [5, 2] },
  ]
  const full = shapes.flatMap((s, i) => (sizeOf(s) === 0 ? [] : [i]))

  test.each(some(cases, 2))(
    '$name: as many tensors a launch as fit, neighbours together',
    ({ rule, slots, donated, kept }) => {
      const { graph, donate } = step(rule, slots)
      const limits = [
        [0, 16],
        [1, 8],
      ] as const
      for (const [k, most] of turn(limits, slots))
        for (const [given, each] of [
          [donate, at(donated, k)],
          [[], at(kept, k)],
        ] as const) {
          // Single values are tensors like others here.
          const made = planned(graph, most, given, { valueBuffers: 0 })
          const groups = Array.from({ length: Math.ceil(full.length / each) }, (_, i) =>
            full.slice(i * each, (i + 1) * each),
          )
          expect(tensorsOf(made)).toEqual(groups)
          expect(parts(made)).toEqual(groups.map((g) => g.length))
          if (given.length > 0) expect(made.report.memory.inPlace).toBe((1 + slots) * full.length)
        }
    },
  )

  test('every result stands where its tensor stood, so that buffers do not change places', () => {
    for (const { rule, slots } of cases) {
      const { graph, donate } = step(rule, slots)
      const { program } = planned(graph, 16, donate)
      const stands = program.outputs.map((o) => program.inputs.indexOf(o))
      expect(stands).toEqual(stands.map((_, i) => (full.includes(i % shapes.length) ? i : -1)))
    }
  })

  test.each([
    [7, 0],
    [8, 12],
  ])('what all tensors read is a buffer or a value beside them: %i together', (each, valueBuffers) => {
    const n = shapes.length
    const inputs = [...Array.from({ length: 2 * n }, (_, i): Input => ({ shape: at(shapes, i % n) })), { shape: [] }]
    const graph = trace(inputs, (all) => {
      const count = c.add(at(all, 2 * n), 1)
      const rate = c.div(0.1, c.sqrt(count))
      return [...shapes.map((_, i) => c.sub(at(all, i), c.mul(at(all, n + i), rate))), count]
    })
    const donate = inputs.map((_, i) => i < n || i === 2 * n)
    const made = planned(graph, 16, donate, { valueBuffers })
    // The counter's kernel updates the scalar as well.
    const others = full.filter((i) => at(shapes, i).length > 0)
    const groups = [0, 1, 2].map((k) => others.slice(k * each, (k + 1) * each))
    expect(tensorsOf(made)).toEqual([[7], ...groups])
  })

  test('gradients that are donated as well change nothing', () => {
    const { graph } = step(adamw, 2)
    const made = planned(
      graph,
      16,
      graph.params.map(() => true),
    )
    expect(parts(made)).toEqual([4, 4, 4, 4, 3])
  })

  test('a target that binds them apart counts them apart', () => {
    const { graph, donate } = step(adamw, 2)
    expect(parts(planned(graph, 16, donate, { joinsOverwritten: false }))).toEqual(Array(10).fill(2).with(9, 1))
  })
})

describe('what is counted', () => {
  const many = (n: number, ...inputs: Input[]): Input[] => Array.from({ length: n }, () => inputs).flat()
  /** Parts of the launches of `n` kernels made of inputs of their own. */
  function joined(
    n: number,
    inputs: readonly Input[],
    build: (p: readonly Node[]) => Node[],
    donate: readonly number[],
    most = 16,
    target: Partial<Machine> = {},
  ): Compiled {
    const graph = trace(many(n, ...inputs), (p) =>
      Array.from({ length: n }, (_, i) => build(p.slice(i * inputs.length, (i + 1) * inputs.length))).flat(),
    )
    return planned(
      graph,
      most,
      graph.params.map((_, i) => donate.includes(i % inputs.length)),
      target,
    )
  }
  const x: Input = { shape: [37, 29] }

  test('one result over a donated input that two could take', () => {
    const made = joined(16, [x], ([a]) => [c.exp(a as Node), c.tanh(a as Node)], [0])
    expect(parts(made)).toEqual([8, 8])
    expect(countsOf(made)).toEqual([16, 16])
  })

  test('a result of another dtype is a parameter of its own, over the input or not', () => {
    const made = joined(10, [{ shape: [50], dtype: 'i32' }], ([a]) => [c.cast(a as Node, 'f32')], [0])
    expect(made.report.memory.inPlace).toBe(10)
    expect(parts(made)).toEqual([8, 2])
  })

  test('an input that is read elsewhere than it is stored', () => {
    const made = joined(10, [x], ([a]) => [c.exp(c.flip(a as Node, 0))], [0])
    expect(made.report.memory.inPlace).toBe(0)
    expect(parts(made)).toEqual([8, 2])
  })

  test('an input that is a result too', () => {
    const made = joined(10, [x], ([a]) => [c.exp(a as Node), a as Node], [0])
    expect(parts(made)).toEqual([8, 2])
  })

  test('softmax over its rows', () => {
    expect(parts(joined(20, [x], ([a]) => [c.softmax(a as Node, 1)], [0]))).toEqual([16, 4])
  })

  test('a row that a second result needs as well', () => {
    const both = ([a]: readonly Node[]): Node[] => [c.softmax(a as Node, 1), c.mul(c.reduceMax(a as Node, 1), 2)]
    const made = joined(10, [x], both, [0])
    expect(made.report.memory.inPlace).toBe(0)
    expect(parts(made)).toEqual([5, 5])
  })

  test('a shape beside another of the same elements', () => {
    const made = joined(20, [x], ([a]) => [c.reshape(c.exp(a as Node), [29 * 37])], [0])
    expect(made.report.memory.inPlace).toBe(20)
    expect(parts(made)).toEqual([16, 4])
  })

  test('finishing stages: a bias less the sums of its columns', () => {
    const inputs = [{ shape: [8192, 8] }, { shape: [8] }]
    const update = ([g, b]: readonly Node[]): Node[] => [c.sub(b as Node, c.sum(c.tanh(g as Node), 0))]
    const launches = (donate: number[]): Compiled => joined(8, inputs, update, donate)
    // Main kernels bind an input and partial sums; finishing stages those and the bias, over which they store.
    const [over, kept] = [launches([1]), launches([])]
    expect(over.report.totals.stages).toBe(1)
    expect(parts(over)).toEqual([8])
    expect(countsOf(over)).toEqual([16, 16])
    expect(parts(kept)).toEqual([5, 3])
  })

  test('an input of the main kernel and of the finishing stage: the last of them writes over it', () => {
    const inputs = [{ shape: [8192, 8] }, { shape: [8] }]
    const update = ([g, b]: readonly Node[]): Node[] => [
      c.sub(b as Node, c.sum(c.tanh(c.add(g as Node, b as Node)), 0)),
    ]
    const made = joined(8, inputs, update, [1])
    expect(parts(made)).toEqual([5, 3])
    expect(countsOf(made)).toEqual([15, 10, 9, 6])
    expect(made.report.memory.inPlace).toBe(8)
  })

  test('intermediates over the intermediates that they alone read', () => {
    // Rows and columns in turn, too many for one program to hold.
    const turns = ([a]: readonly Node[]): Node[] => [[0, 1, 0, 1].reduce((t, axis) => c.cumsum(t, axis), a as Node)]
    const made = joined(16, [x], turns, [], 16, { rowBytes: 2048, blockRowBytes: 2048 })
    // The first and the last kernel bind an input or a result beside an intermediate.
    expect(parts(made)).toEqual([8, 8, 16, 16, 8, 8])
    expect(countsOf(made)).toEqual([16, 16, 16, 16, 16, 16])
  })
})

describe('other readers of a donated input', () => {
  const vector: Input = { shape: [600] }

  test('in another kernel: it runs before', () => {
    // Each tensor is overwritten by its own update and read backwards by the next one's.
    const n = 6
    const graph = trace(
      Array.from({ length: n }, () => vector),
      (p) => {
        const read = p.map((_, i) => c.exp(c.sliceAxis(c.flip(at(p, i), 0), 0, 0, 299)))
        return [...p.map((x) => c.mul(x, 0.5)), ...read]
      },
    )
    for (const most of [16, 8, 4]) {
      const made = planned(
        graph,
        most,
        graph.params.map(() => true),
      )
      expect(made.report.memory.inPlace).toBe(n)
    }
  })

  test('two kernels that each read what the other overwrites', () => {
    const graph = trace([vector, vector, vector], (p) => [
      c.add(at(p, 0), c.flip(at(p, 1), 0)),
      c.add(at(p, 1), c.flip(at(p, 0), 0)),
      c.mul(at(p, 2), 2),
    ])
    for (const most of [16, 8, 4]) planned(graph, most, [true, true, true])
  })

  test('through a view, an effect or a product', () => {
    const square: Input = { shape: [24, 24] }
    const graph = trace([square, square], (p) => [
      c.sub(at(p, 0), c.matmul(at(p, 1), at(p, 1))),
      c.matmul(at(p, 0), at(p, 1)),
      c.mul(at(p, 1), 2),
      c.reshape(c.permute(at(p, 1), [1, 0]), [576]),
    ])
    for (const most of [16, 8, 4]) planned(graph, most, [true, true])
  })
})

/** A program of unlike updates, some of which read other tensors than their own. */
function randomUpdates(rng: Rng): { graph: Graph; donated: boolean[] } {
  const n = rng.int(3, 12)
  const shape = [rng.int(1, 9), rng.int(1, 9)]
  const inputs = Array.from({ length: 2 * n }, (): Input => {
    const own = rng.chance(0.6) ? shape : rng.pick([[5, 7], [64, 3], [11], [], [0, 4]])
    return { shape: own, dtype: rng.chance(0.1) ? 'i32' : 'f32' }
  })
  const graph = trace(inputs, (all) => {
    const real = (x: Node): Node => (x.dtype === 'f32' ? x : c.cast(x, 'f32'))
    const like = (x: Node): Node[] => all.filter((y) => y.shape.join() === x.shape.join())
    const turned = (x: Node): Node => (x.shape.length > 0 && rng.chance(0.25) ? c.flip(x, 0) : x)
    const outputs = Array.from({ length: n }, (_, i) => {
      const x = at(all, i)
      const y = turned(rng.pick(like(x)))
      const sum = c.add(c.mul(real(x), 0.5), c.tanh(real(y)))
      const rank = x.shape.length
      const z = rank > 0 && rng.chance(0.3) ? c.sub(sum, c.sum(sum, rng.int(0, rank - 1), true)) : sum
      const more = rng.chance(0.4) ? [c.add(c.mul(z, z), real(turned(rng.pick(like(x)))))] : []
      return rng.chance(0.15) ? [c.cast(z, 'i32'), ...more] : [z, ...more]
    })
    return outputs.flat()
  })
  // The interpreter keeps results over inputs in arrays of the inputs.
  return { graph, donated: inputs.map((x) => x.dtype === 'f32' && rng.chance(0.7)) }
}

test.each(some([0, 20, 40, 60, 80, 100], 6))('random updates from seed %i on', (first) => {
  let reused = 0
  for (let seed = first; seed < first + (nightly ? 20 : 12); seed++) {
    const rng = makeRng(seed)
    const { graph, donated } = randomUpdates(rng)
    const most = rng.pick([6, 8, 16])
    const small = rng.chance(0.5) ? { elementBlock: 24, minPrograms: 6 } : {}
    reused += planned(graph, most, donated, small).report.memory.inPlace
  }
  expect(reused).toBeGreaterThan(nightly ? 20 : 12)
})

test.each(some([0, 25, 50, 75, 100, 125, 150, 175], 8))('random programs from seed %i on', (first) => {
  for (let seed = first; seed < first + (nightly ? 25 : 12); seed++) {
    const p = randomGraph(seed)
    const rng = makeRng(seed)
    const target = { ...smallBlocks, maxUnionBuffers: rng.int(2, 9), joinsOverwritten: true }
    const donated = p.graph.params.map(() => rng.chance(0.7))
    const { program, plan } = compileGraph(p.graph, { mode: 'fast', target, donated, verify: true })
    const got = run(program, p.graph, p.inputs)
    evaluateGraph(p.graph, p.inputs, { rounding: 'dtype' })
      .map(toHostArray)
      .forEach((want, i) => {
        const dtype = at(p.graph.outputs, i).dtype
        expect(difference(at(got, i), want, dtype, p.tolerances[i] ?? 0), `seed ${seed}, output ${i}`).toBeUndefined()
      })
    for (const { step: s, count } of bindings(program))
      if (plan.groups[s.launch]?.kind === 'union')
        expect(count, `seed ${seed}`).toBeLessThanOrEqual(target.maxUnionBuffers)
  }
})
