/**
 * Rotary embeddings and other rows that are normalised whole and used in pieces: one kernel on every target, forward; the
 * gradients in as few as the table says; results against the reference at odd sizes, in both modes.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { PlannedGroup } from '../../src/plan/plan.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { vjpGraph } from '../../src/transforms/index.ts'
import { at, check, inputsOf, trace } from '../compile/support.ts'
import { smallBlocks } from '../random/execute.ts'
import { makeRng } from '../random/rng.ts'
import { compiledBackend } from '../support/device.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { nightly, seedsOf, some, turn } from '../support/nightly.ts'
import { type Rotary, rmsNorm, rotaries } from '../support/rotary.ts'

const targets: readonly Machine[] = [wasmTarget, cudaTarget, webgpuTarget()]
const large = [4096, 40, 128] as const
const backend = compiledBackend({ threads: 1 })
afterAll(() => backend.dispose())

const gradient = (r: Rotary, graph: Graph): Graph => {
  const whole = vjpGraph(graph, r.wrt)
  return { ...whole, outputs: whole.outputs.slice(-r.wrt.length) }
}

const kernels = (graph: Graph, target: Machine, mode: 'fast' | 'strict' = 'fast'): string => {
  const { report } = compileGraph(graph, { mode, target, verify: true })
  return `${report.totals.kernels} + ${report.totals.stages}`
}

/** Extents of rows that the pieces of a program divide. */
const rowsOf = (r: Rotary): readonly number[] => (r.name.includes('partly') ? [12, 36, 132] : [2, 6, 34, 130])

describe('kernels', () => {
  for (const [i, r] of rotaries('f32').entries())
    for (const target of turn(targets, i)) {
      test(`${r.name}, ${target.name}`, () => {
        const graph = trace(r.inputs(...large), r.build)
        expect(kernels(graph, target)).toBe('1 + 0')
        expect(kernels(graph, target, 'strict')).toBe('1 + 0')
        // The gradient of the weight is a sum over all rows: partial results and a finishing stage.
        expect(kernels(gradient(r, graph), target)).toBe(r.name.includes('norm') ? '1 + 1' : '1 + 0')
      })
    }

  for (const r of some(rotaries('f32'), 2))
    test(`${r.name}, forward and backward`, () => {
      const both = vjpGraph(trace(r.inputs(...large), r.build), r.wrt)
      const folds = r.name.includes('norm') ? 1 : 0
      for (const target of targets.slice(0, 2))
        expect(kernels(both, target), target.name).toBe(`${r.name === 'norm, pairs' ? 2 : 1} + ${folds}`)
    })

  for (const [i, r] of rotaries('bf16').entries())
    for (const target of turn(targets.slice(1), i)) {
      test(`${r.name}, bf16, ${target.name}`, () => {
        expect(kernels(trace(r.inputs(...large), r.build), target)).toBe('1 + 0')
      })
    }

  test('a row is read once: both halves of a pair in one program', () => {
    const [r] = rotaries('f32')
    if (r === undefined) throw new Error('no program')
    const { program } = compileGraph(trace(r.inputs(...large), r.build), { mode: 'fast', target: cudaTarget })
    const [step] = program.steps
    if (step?.kind !== 'kernel') throw new Error('no kernel')
    expect(step.kernel.parts).toHaveLength(1)
    const lets = at(step.kernel.parts, 0).body.filter((s) => s.kind === 'let')
    expect(lets.filter(({ op }) => op.kind === 'load' && op.param === 'x2')).toHaveLength(2)
    expect(lets.filter(({ op }) => op.kind === 'reduce')).toHaveLength(1)
  })
})

describe('results', () => {
  for (const [k, r] of rotaries('f32').entries())
    for (const d of some(rowsOf(r), 4)) {
      test(`${r.name}, rows of ${d}`, () => {
        const graph = trace(r.inputs(5, 3, d), r.build)
        for (const [i, target] of [...targets, smallBlocks].entries())
          for (const g of turn([graph, gradient(r, graph), vjpGraph(graph, r.wrt)], i + k))
            for (const mode of turn(['fast', 'strict'] as const, i))
              check(g, { target, mode }, target === wasmTarget || target === smallBlocks ? backend : undefined)
      })
    }

  test('in strict mode fused equals unfused bit for bit', () => {
    for (const r of rotaries('f32')) {
      const graph = trace(r.inputs(3, 2, 36), r.build)
      const inputs = inputsOf(graph)
      const run = (fuse: boolean) =>
        interpretProgram(compileGraph(graph, { mode: 'strict', target: wasmTarget, fuse }).program, inputs)
      expect(run(true), r.name).toEqual(run(false))
    }
  })

  test('rows of nothing', () => {
    for (const r of rotaries('f32'))
      for (const [t, h] of [
        [0, 3],
        [4, 0],
      ])
        check(trace(r.inputs(t ?? 0, h ?? 0, 8), r.build), {}, backend)
  })
})

describe('other folds of rows in pieces', () => {
  const count = (inputs: readonly (readonly number[])[], build: (p: readonly Node[]) => Node | Node[]): number => {
    const graph = trace(
      inputs.map((shape) => ({ shape })),
      build,
    )
    check(graph, { mode: 'strict' }, backend)
    return check(graph, {}, backend).report.totals.kernels
  }
  const halves = (x: Node): [Node, Node] => [c.sliceAxis(x, 1, 0, 24), c.sliceAxis(x, 1, 24, 48)]

  test('softmax of a row, its halves exchanged', () => {
    expect(count([[37, 48]], (p) => c.concat(halves(c.softmax(at(p, 0))).reverse(), 1))).toBe(1)
  })
  test('layer normalisation, one half gated by the other', () => {
    expect(
      count([[37, 48]], (p) => {
        const [a, b] = halves(c.layerNorm(at(p, 0)))
        return c.mul(a, c.sigmoid(b))
      }),
    ).toBe(1)
  })
  test('a maximum along a row, taken from unlike ranges of it', () => {
    expect(
      count([[37, 48]], (p) => {
        const x = at(p, 0)
        const y = c.sub(x, c.reduceMax(x, 1, true))
        return c.concat([c.exp(c.sliceAxis(y, 1, 0, 16)), c.sliceAxis(y, 1, 16, 48)], 1)
      }),
    ).toBe(1)
  })
  test('two softmaxes side by side', () => {
    expect(
      count(
        [
          [37, 24],
          [37, 24],
        ],
        (p) => c.concat([c.softmax(at(p, 0)), c.softmax(at(p, 1))], 1),
      ),
    ).toBe(1)
    expect(
      count(
        [
          [37, 24],
          [37, 24],
        ],
        (p) => c.concat([c.softmax(at(p, 0)), c.softmax(at(p, 1))], 0),
      ),
    ).toBe(1)
  })
  test('softmax beside what is not folded', () => {
    expect(
      count(
        [
          [37, 24],
          [37, 9],
        ],
        (p) => c.concat([c.softmax(at(p, 0)), c.tanh(at(p, 1))], 1),
      ),
    ).toBe(1)
  })
  test('the norm of joined tensors', () => {
    expect(count([[37, 24], [37, 24], [48]], (p) => rmsNorm(c.concat([at(p, 0), at(p, 1)], 1), at(p, 2)))).toBe(1)
  })
  test('the position of the greatest, beside both halves', () => {
    expect(
      count([[37, 48]], (p) => {
        const y = c.sub(at(p, 0), c.reduceMax(at(p, 0), 1, true))
        return [c.concat(halves(y).reverse(), 1), c.argmax(at(p, 0), 1)]
      }),
    ).toBe(1)
  })
  test('softmaxes of unlike numbers of rows stay apart', () => {
    expect(
      count(
        [
          [37, 24],
          [11, 24],
        ],
        (p) => c.concat([c.softmax(at(p, 0)), c.softmax(at(p, 1))], 0),
      ),
    ).toBeGreaterThan(1)
  })
})

/** A row normalised whole, taken apart, its pieces changed and put together in another order, with what else may be stored. */
function randomPieces(seed: number): { readonly graph: Graph; readonly cut: boolean } {
  const rng = makeRng(seed)
  const parts = rng.int(2, 4)
  const kind = rng.pick(['ranges', 'like ranges', 'runs'] as const)
  const sizes = Array.from({ length: parts }, () => (kind === 'ranges' ? rng.int(1, 9) : 4 * rng.int(1, 3)))
  const one = sizes[0] ?? 4
  const width = kind === 'ranges' ? sizes.reduce((a, b) => a + b, 0) : parts * one
  const rows = rng.int(1, 9)
  const graph = trace([{ shape: [rows, 3, width] }, { shape: [width] }], (p) => {
    const x = rng.chance(0.5) ? at(p, 0) : c.tanh(at(p, 0))
    const whole = rng.pick([
      () => rmsNorm(x, at(p, 1)),
      () => c.softmax(x),
      () => c.sub(x, c.reduceMax(x, -1, true)),
      () => c.layerNorm(x),
      () => c.mul(x, at(p, 1)),
    ])()
    let next = 0
    const pieces = sizes.map((n, k) => {
      if (kind === 'runs') return c.sliceAxis(whole, -1, k, width, parts)
      const from = kind === 'ranges' ? next : k * one
      next += n
      return c.sliceAxis(whole, -1, from, kind === 'ranges' ? next : from + one)
    })
    const changed = pieces.map((y, k) => {
      const other = pieces[(k + 1) % parts]
      if (kind !== 'ranges' && other !== undefined && rng.chance(0.7)) return c.sub(c.mul(y, 0.5), other)
      return rng.chance(0.5) ? c.neg(y) : c.sigmoid(y)
    })
    if (rng.chance(0.5)) changed.reverse()
    const joined = kind === 'runs' && rng.chance(0.7) ? c.reshape(c.stack(changed, -1), x.shape) : c.concat(changed, -1)
    const out: Node[] = [joined]
    if (rng.chance(0.3)) out.push(whole)
    if (rng.chance(0.3)) out.push(c.sum(joined, [0, 1]))
    if (rng.chance(0.3)) out.push(c.sum(c.mul(x, x), -1))
    if (rng.chance(0.2)) out.push(c.argmax(joined, -1))
    return out
  })
  return { graph, cut: compileGraph(graph, { mode: 'fast', target: cudaTarget }).plan.groups.some(storesPieces) }
}

const storesPieces = (g: PlannedGroup): boolean =>
  g.kind === 'kernel' && g.body.stores.some((s) => s.pieces !== undefined)

test('random rows in pieces', { timeout: 120_000 }, () => {
  let cut = 0
  const seeds = seedsOf('SINTER_PIECES', 6, 100)
  for (let seed = 0; seed < seeds; seed++) {
    const made = randomPieces(seed)
    if (made.cut) cut++
    for (const mode of ['fast', 'strict'] as const) {
      check(made.graph, { mode, target: cudaTarget })
      check(made.graph, { mode, target: seed % 2 === 0 ? smallBlocks : wasmTarget }, backend)
    }
  }
  expect(cut).toBeGreaterThan((nightly ? 0.6 : 0.15) * seeds)
})

describe('a sum whose row is read in pieces as long as the result it is stored in', () => {
  // The softmax is padded from 3 to 5, so 5 falls into pieces of 2 and 3: the second has the axis of the sums themselves.
  const graph = trace([{ shape: [2, 3, 5] }], (inputs) => {
    const x = at(inputs, 0)
    const v = c.sum(x, [0, 2])
    const rows = c.softmax(v)
    return [c.sub(x, c.reshape(v, [3, 1])), rows, c.pad(rows, [[2, 0]])]
  })
  test.each([wasmTarget, smallBlocks])('%#', (target) => {
    for (const mode of ['fast', 'strict'] as const) check(graph, { mode, target }, backend)
  })
})
