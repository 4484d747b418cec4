/** Gradients through chains of contractions: kernels that make weights again, over random scores, masks, groups and dtypes. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { stopGradient } from '../../src/compose/stopGradient.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { evaluateGraph } from '../../src/reference/evaluate.ts'
import { cudaTarget, cudaTargetOf } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import type { DType } from '../../src/types/dtype.ts'
import type { HostArray } from '../../src/types/host.ts'
import { at, type Input, trace } from '../compile/support.ts'
import { dataOf, random } from '../support/alike.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { seedsOf, some } from '../support/nightly.ts'
import { runGraph } from '../support/runGraph.ts'
import { hidden, key, query, type Score } from '../support/scores.ts'

/** Blocks so small that short rows are several, and memory that holds no value of some bytes. */
const small = (bytes: number): Machine => ({
  ...wasmTarget,
  minPrograms: 1,
  chains: { rows: 8, shared: 8, width: 64 },
  mostBytes: { ...wasmTarget.mostBytes, value: bytes - 1 },
})
const scores: Record<string, Score> = {
  plain: (s) => s,
  scaled: (s) => c.mul(s, 0.3),
  capped: (s) => c.mul(c.tanh(c.div(s, 3)), 3),
  sloped: (s) => c.add(s, c.mul(c.cast(c.sub(key(s), query(s)), 'f32'), 0.125)),
  biased: (s, [bias]) => c.add(s, c.expandDims(bias as Node, [1])),
}

const masks: Record<string, Score> = {
  none: (s) => s,
  causal: (s) => c.where(c.compare('le', key(s), query(s)), s, hidden),
  window: (s) =>
    c.where(c.logicalAnd(c.compare('le', key(s), query(s)), c.compare('gt', key(s), c.sub(query(s), 5))), s, hidden),
  additive: (s) => c.add(s, c.where(c.compare('le', key(s), query(s)), c.full(s.shape, 0, 'f32'), hidden)),
  finite: (s) => c.add(s, c.where(c.compare('le', key(s), query(s)), c.full(s.shape, 0, 'f32'), -1e9)),
  data: (s, [, seen]) =>
    c.where(c.logicalOr(c.expandDims(seen as Node, [0, 1]), c.compare('eq', key(s), query(s))), s, hidden),
  prefix: (s) => c.where(c.logicalOr(c.compare('le', key(s), query(s)), c.compare('lt', key(s), 4)), s, hidden),
}

const weights: Record<string, (s: Node) => Node> = {
  softmax: (s) => c.softmax(s, -1),
  oneMore: (s) => {
    const m = stopGradient(c.max(c.reduceMax(s, -1, true), 0))
    const e = c.exp(c.sub(s, m))
    return c.div(e, c.add(c.sum(e, -1, true), c.exp(c.neg(m))))
  },
  sigmoid: (s) => c.sigmoid(s),
}

const pick = <T>(of: Readonly<Record<string, T>>, next: () => number): readonly [string, T] =>
  at(Object.entries(of), Math.floor(next() * Object.keys(of).length))

/** Results of a chain by a seed, and the gradients of queries, keys and values. */
function caseOf(
  seed: number,
  of?: DType,
): {
  readonly forward: Graph
  readonly graph: Graph
  /** The gradients of a number that is made of the results. */
  readonly under: (loss: (results: Node) => Node) => Graph
  readonly what: string
  readonly bytes: number
} {
  const next = random(seed)
  const size = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1))
  const [batch, heads, queries, keys] = [size(1, 2), size(1, 2), size(33, 40), size(34, 43)]
  const [width, out] = [size(4, 9), size(4, 9)]
  const [scoreName, score] = pick(scores, next)
  const [maskName, mask] = pick(masks, next)
  const [weightName, weight] = pick(weights, next)
  const last = next() < 0.3
  const drawn: DType = next() < 0.75 ? 'f32' : 'bf16'
  const dtype = of ?? drawn
  const shape = (n: number, d: number): Input => ({ shape: last ? [batch, n, heads, d] : [batch, heads, n, d], dtype })
  const inputs: Input[] = [
    shape(queries, width),
    shape(keys, width),
    shape(keys, out),
    { shape: [heads, keys] },
    { shape: [queries, keys], dtype: 'bool' },
  ]
  const resultsOf = (p: readonly Node[]): Node => {
    const [q, k, v] = p.slice(0, 3).map((x) => (last ? c.permute(x, [0, 2, 1, 3]) : x)) as [Node, Node, Node]
    const s = c.cast(c.matmul(q, c.permute(k, [0, 1, 3, 2])), 'f32')
    return c.matmul(c.cast(weight(mask(score(s, p.slice(3)), p.slice(3))), dtype), v)
  }
  const forward = trace(inputs, resultsOf)
  return {
    bytes: 2 * batch * heads * queries * keys,
    forward,
    under: (loss) =>
      vjpGraph(
        trace(inputs, (p) => loss(c.cast(resultsOf(p), 'f32'))),
        [0, 1, 2],
      ),
    graph: vjpGraph(forward, [0, 1, 2]),
    what: `${dtype} ${scoreName}, ${maskName}, ${weightName}, [${batch}, ${heads}, ${queries}, ${keys}]`,
  }
}

describe('gradients through chains', () => {
  const seeds = seedsOf('SINTER_SEEDS', 2, 40)
  test.each(Array.from({ length: seeds }, (_, i) => i))('seed %i stores no weights', (seed) => {
    const { graph, what, bytes } = caseOf(seed)
    const compiled = runGraph(graph, seed, small(bytes))
    const kinds = compiled.report.kernels.map((k) => k.kind)
    expect([what, kinds.filter((k) => k === 'chain').length >= 2]).toEqual([what, true])
  })
})

const graphOf = (inputs: readonly Input[], build: (p: readonly Node[]) => Node, wrt = [0, 1, 2]): Graph =>
  vjpGraph(trace(inputs, build), wrt)
const attended = (p: readonly Node[], options: c.AttentionOptions): Node =>
  c.attention(p[0] as Node, p[1] as Node, p[2] as Node, options)

/** Numbers that are made of results: adjoints of the first two are one for all results, of the others every result's own. */
const losses: Record<string, (results: Node) => Node> = {
  sum: (y) => c.sum(y),
  mean: (y) => c.mean(y),
  'sum of squares': (y) => c.sum(c.square(y)),
  'sum of rows': (y) => c.sum(c.square(c.sum(y, -1))),
  greatest: (y) => c.sum(c.reduceMax(y, -1)),
}

/** Blocks as small, and memory so slow that nothing large is worth storing. */
const slow: Machine = { ...small(1e9), memories: [{ bytes: Number.POSITIVE_INFINITY, bandwidth: 1e8 }], launch: 0 }

describe('gradients of numbers through chains', () => {
  // The last sums keys' gradients over heads, all of which stand in a step whose ends data give.
  const drawn = Array.from({ length: seedsOf('SINTER_LOSSES', 2, 9) }, (_, i) => i)
  test.each([...drawn, 9])('seed %i', (seed) => {
    const { under, what } = caseOf(200 + seed, 'f32')
    const [name, loss] = at(Object.entries(losses), seed % Object.keys(losses).length)
    const compiled = runGraph(under(loss), seed, slow)
    const chains = compiled.report.kernels.filter((k) => k.kind === 'chain').length
    if (name === 'sum of squares' || name === 'greatest') expect([what, name, chains >= 2]).toEqual([what, name, true])
  })

  test.each(some(Object.keys(losses), 3))('on matrix units: %s', (name) => {
    const inputs = [0, 1, 2].map(() => ({ shape: [4, 32, 4096, 128], dtype: 'bf16' as const }))
    const loss = losses[name] ?? c.sum
    const graph = graphOf(inputs, (p) => loss(c.cast(attended(p, { causal: true }), 'f32')))
    const { report } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
    expect(report.kernels.filter((k) => k.kind === 'chain').length).toBe(3)
    // Results and their adjoints, and what is known of every row.
    expect(report.memory.arenaBytes).toBeLessThanOrEqual(2 * 4 * 4 * 32 * 4096 * 128 + 16 * 4 * 32 * 4096)
  })
})

/** What a cotangent weighs results to, in double precision. */
function weighed(forward: Graph, inputs: readonly HostArray[], cotangent: HostArray): number {
  const [y] = evaluateGraph(forward, inputs)
  return Array.from(cotangent as Float32Array).reduce((n, g, i) => n + g * Number(y?.data[i]), 0)
}

describe('gradients through chains by differences', () => {
  test.each(Array.from({ length: seedsOf('SINTER_DIFFERENCES', 1, 12) }, (_, i) => i))('seed %i', (seed) => {
    const { forward, graph, what, bytes } = caseOf(100 + seed, 'f32')
    const { program, report } = compileGraph(graph, { mode: 'fast', target: small(bytes), verify: true })
    expect(report.kernels.filter((k) => k.kind === 'chain').length).toBeGreaterThanOrEqual(2)
    const inputs = dataOf(graph, seed)
    const cotangent = at(inputs, inputs.length - 1)
    const gradients = interpretProgram(program, inputs, 'dtype', graph.outputs).slice(1)
    const next = random(seed)
    gradients.forEach((gradient, which) => {
      const x = at(inputs, which)
      const [above, below] = [Float32Array.from(x as Float32Array), Float32Array.from(x as Float32Array)]
      let along = 0
      let size = 0
      for (let i = 0; i < x.length; i++) {
        const by = 0.004 * (next() - 0.5)
        above[i] = Number(x[i]) + by
        below[i] = Number(x[i]) - by
        const step = Number(gradient[i]) * (Number(above[i]) - Number(below[i]))
        along += step
        size += step ** 2
      }
      const weighedAt = (y: Float32Array): number =>
        weighed(
          forward,
          inputs.slice(0, -1).map((z, i) => (i === which ? y : z)),
          cotangent,
        )
      const moved = weighedAt(above) - weighedAt(below)
      if (!(Math.abs(moved - along) <= 2e-3 * Math.sqrt(size)))
        expect.fail(`${what}, input ${which}: ${along}, not ${moved}`)
    })
  })
})

describe('what gradients through chains move', () => {
  test('scores that memory does not hold, forward and backward', () => {
    const shape = [4, 32, 16384, 64]
    const graph = graphOf([{ shape }, { shape }, { shape }], (p) => attended(p, { causal: true, softcap: 20 }))
    const { report } = compileGraph(graph, { mode: 'fast', target: wasmTarget, verify: true })
    expect(report.kernels.map((k) => k.kind)).toEqual(['chain', 'chain', 'chain'])
    // A greatest score, a sum of weights, and a sum of results and their adjoints, of every row.
    expect(report.memory.arenaBytes).toBeLessThanOrEqual(3 * 4 * 4 * 32 * 16384 + 4096)
  })

  test('the same on matrix units', () => {
    const shape = [4, 32, 16384, 128]
    const inputs = [0, 1, 2].map(() => ({ shape, dtype: 'bf16' as const }))
    const graph = graphOf(inputs, (p) => attended(p, { causal: true }))
    const { report } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
    expect(report.kernels.map((k) => k.kind)).toEqual(['chain', 'chain', 'chain'])
  })

  test('heads that share keys, on matrix units: keys are gone through for every head of their group', () => {
    const inputs = [32, 8, 8].map((heads) => ({ shape: [4, heads, 4096, 128], dtype: 'bf16' as const }))
    const graph = graphOf(inputs, (p) => attended(p, { causal: true }))
    const { report } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
    expect(report.kernels.map((k) => k.kind)).toEqual(['chain', 'chain', 'chain'])
  })

  test.each(some([64, 16, 128, 112, 256, 192], 4))(
    'blocks of width %i have room, with groups of warps and without',
    (width) => {
      const shape = [16, 1024, width]
      const inputs = [0, 1, 2].map(() => ({ shape, dtype: 'bf16' as const }))
      const facts = { multiprocessors: 132, hasLibrary: false }
      const machines = [
        cudaTargetOf({ ...facts, capability: 90, sharedBytes: 227 << 10 }),
        cudaTargetOf({ ...facts, capability: 89, sharedBytes: 99 << 10 }),
      ]
      for (const target of machines) {
        const graph = graphOf(inputs, (p) => attended(p, { causal: true }))
        const { program } = compileGraph(graph, { mode: 'fast', target, verify: true })
        for (const s of program.steps) if (s.kind === 'kernel') emitKernel(s.kernel, target.simt)
      }
    },
  )

  test('heads that share keys: their gradients sum over the heads of a group', () => {
    const inputs = [{ shape: [1, 4, 40, 6] }, { shape: [1, 2, 44, 6] }, { shape: [1, 2, 44, 5] }]
    const graph = graphOf(inputs, (p) => attended(p, {}))
    const { report } = runGraph(graph, 3, small(4 * 4 * 40 * 44))
    expect(report.kernels.map((k) => k.kind)).toContain('chain')
  })

  test('dropout draws the same weights both ways', () => {
    const inputs = [
      { shape: [2, 40, 6] },
      { shape: [2, 44, 6] },
      { shape: [2, 44, 5] },
      { shape: [2], dtype: 'u32' as const },
    ]
    const graph = graphOf(inputs, ([q, k, v, seed]) => {
      const w = c.softmax(c.matmul(q as Node, c.permute(k as Node, [0, 2, 1])))
      return c.matmul(c.dropout(w, seed as Node, 0.3), v as Node)
    })
    const { report } = runGraph(graph, 4, small(4 * 2 * 40 * 44))
    expect(report.kernels.map((k) => k.kind)).toContain('chain')
  })
})
