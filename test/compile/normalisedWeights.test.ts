/** Weights that the backward pass makes from one number a row: the same values in float64, and where it is not done. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import { takeKnownSums } from '../../src/compile/knownSums.ts'
import { normaliseWeights } from '../../src/compile/normalisedWeights.ts'
import * as c from '../../src/compose/index.ts'
import { stopGradient } from '../../src/compose/stopGradient.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { phasesOf } from '../../src/plan/remat/phases.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { RefTensor } from '../../src/reference/tensor.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import type { DType } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { dataOf } from '../support/alike.ts'
import { hidden, key, query, type Score } from '../support/scores.ts'
import { at, trace } from './support.ts'

const softmax = (s: Node): Node => c.softmax(s, -1)

/** Weights of rows that one more term divides: 1 against the greatest of the scores and 0. */
const withOneMore = (s: Node): Node => {
  const m = stopGradient(c.max(c.reduceMax(s, -1, true), 0))
  const e = c.exp(c.sub(s, m))
  return c.div(e, c.add(c.sum(e, -1, true), c.exp(c.neg(m))))
}

const causal: Score = (s) => c.where(c.compare('le', key(s), query(s)), s, hidden)

const valueAt = (n: Node): RefTensor => {
  const [value] = evaluateGraph({ params: [], outputs: [n], effects: [] }, [])
  return value ?? expect.fail('no value')
}

/** A graph as planning gets it. */
const prepared = (graph: Graph): Graph =>
  takeKnownSums(rewriteGraph(graph, { mode: 'fast', fold: (n) => toHostArray(valueAt(n)) }).graph)

/** Gradients of weighed values, rewritten as the compiler plans them. */
function graphOf(
  score: Score,
  weights = softmax,
  dtype: DType = 'f32',
  sizes: readonly [number, number, number, number] = [2, 9, 12, 4],
): Graph {
  const [heads, queries, keys, width] = sizes
  const forward = trace(
    [
      { shape: [heads, queries, width], dtype },
      { shape: [heads, keys, width], dtype },
      { shape: [heads, keys, width], dtype },
      { shape: [queries, keys] },
    ],
    (p) => {
      const [q, k, v, bias] = p as [Node, Node, Node, Node]
      const s = c.cast(c.matmul(q, c.permute(k, [0, 2, 1])), 'f32')
      return c.matmul(c.cast(weights(score(s, [bias])), dtype), v)
    },
  )
  return prepared(vjpGraph(forward, [0, 1, 2]))
}

/** Values of the forward pass that nodes of the backward pass read, but for parameters and constants. */
function readOf(graph: Graph): Set<Node> {
  const phases = phasesOf(graph)
  if (phases === undefined) expect.fail('no backward pass')
  const { backward } = phases
  return new Set([...backward].flatMap((n) => n.inputs.filter((x) => !backward.has(x) && x.inputs.length > 0)))
}

const cases: Record<string, { readonly score: Score; readonly weights?: (s: Node) => Node }> = {
  plain: { score: (s) => s },
  'scaled, causal': { score: (s) => causal(c.mul(s, 0.3), []) },
  'a soft cap': { score: (s) => c.mul(c.tanh(c.div(s, 3)), 3) },
  slopes: { score: (s) => c.add(s, c.mul(c.cast(c.sub(key(s), query(s)), 'f32'), 0.125)) },
  'slopes by numbers of the program': {
    score: (s) =>
      c.add(s, c.mul(c.cast(c.sub(key(s), query(s)), 'f32'), c.constant(Float32Array.of(0.5, 0.25), [2, 1, 1], 'f32'))),
  },
  'one more term': { score: (s) => s, weights: withOneMore },
  'one more term, causal': { score: causal, weights: withOneMore },
}

describe('weights of the backward pass', () => {
  test.each(Object.entries(cases))('%s: the same in float64', (_, { score, weights }) => {
    const graph = graphOf(score, weights)
    const made = normaliseWeights(graph)
    expect(made).not.toBe(graph)
    verifyGraph(made)
    const inputs = dataOf(graph, 3)
    const [want, got] = [graph, made].map((g) => evaluateGraph(g, inputs, { rounding: 'f64' }))
    expect(want).toHaveLength(4)
    want?.forEach((w, i) => {
      const y = got?.[i]
      w.data.forEach((x, j) => {
        expect(Number(y?.data[j])).toBeCloseTo(Number(x), 10)
      })
    })
    // One number a row stands for the exponentials and what they are divided by.
    const read = [...readOf(made)]
    expect([...readOf(graph)].some((n) => n.op === 'exp')).toBe(true)
    expect(read.some((n) => n.op === 'exp')).toBe(false)
    expect(read.filter((n) => sizeOf(n.shape) === 18)).toHaveLength(1)
  })

  test('a row of which nothing is seen, and scores that are no numbers, give what they gave', () => {
    const graph = graphOf((s) => c.where(c.compare('gt', query(s), key(s)), s, hidden))
    const made = normaliseWeights(graph)
    expect(made).not.toBe(graph)
    const inputs = dataOf(graph, 5)
    ;(at(inputs, 0) as Float32Array)[5] = Number.NaN
    ;(at(inputs, 1) as Float32Array)[30] = Number.POSITIVE_INFINITY
    const [want, got] = [graph, made].map((g) => evaluateGraph(g, inputs, { rounding: 'f64' }))
    want?.forEach((w, i) => {
      w.data.forEach((x, j) => {
        const y = Number(got?.[i]?.data[j])
        if (Number.isNaN(Number(x))) expect(y).toBeNaN()
        else expect(y).toBeCloseTo(Number(x), 10)
      })
    })
  })

  const far: Record<string, Score> = {
    'a finite mask': (s) => c.add(s, c.where(c.compare('le', key(s), query(s)), c.full(s.shape, 0, 'f32'), -1e9)),
    'scores that a number replaces': (s) => c.where(c.compare('le', key(s), query(s)), s, -1e9),
    'a mask of integers': (s) =>
      c.add(s, c.cast(c.where(c.compare('le', key(s), query(s)), 0, c.full(s.shape, -1e9, 'i32')), 'f32')),
    'a tensor that is added, which may be such a mask': (s, [bias]) => c.add(s, bias as Node),
  }
  test.each(Object.entries(far))(
    '%s: two numbers a row are kept, since one would lose the number of equal weights',
    (_, score) => {
      const graph = graphOf(score)
      expect(normaliseWeights(graph)).toBe(graph)
    },
  )

  test('a value that others than weights are made of stays as it is', () => {
    const forward = trace([{ shape: [6, 8] }, { shape: [8, 4] }, { shape: [6, 1] }], (p) => {
      const [x, v, y] = p as [Node, Node, Node]
      const s = c.matmul(c.matmul(x, v), c.permute(v, [1, 0]))
      const e = c.exp(c.sub(s, stopGradient(c.reduceMax(s, -1, true))))
      return c.add(c.matmul(c.div(e, c.sum(e, -1, true)), v), c.mul(c.sum(c.mul(e, e), -1, true), y))
    })
    const graph = rewriteGraph(vjpGraph(forward, [0, 1]), {
      mode: 'fast',
      fold: () => expect.fail('nothing to fold'),
    }).graph
    expect(normaliseWeights(graph)).toBe(graph)
  })

  const hasLogarithm = (graph: Graph): boolean => nodesOf(graph).some((n) => n.op === 'log')

  test('plans whose chains make weights again keep two numbers a row, of which one is the sum of results and adjoints', () => {
    const sizes = [8, 2048, 2048, 64] as const
    const graph = graphOf(causal, softmax, 'bf16', sizes)
    const fast = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
    expect(fast.report.kernels.map((k) => k.kind)).toEqual(['chain', 'chain', 'chain'])
    expect(hasLogarithm(fast.graph)).toBe(true)
    // Places are at multiples of 128 bytes.
    expect(fast.program.arenaBytes).toBeLessThanOrEqual(2 * (8 * 2048 * 4 + 128))
    // Strict mode has no chains, and rounds as it is written.
    const strict = compileGraph(graph, { mode: 'strict', target: cudaTarget, verify: true })
    expect(hasLogarithm(strict.graph)).toBe(false)
    // Where scores are stored there is nothing to make again.
    const { chains: _, ...apart } = cudaTarget
    expect(hasLogarithm(compileGraph(graph, { mode: 'fast', target: apart }).graph)).toBe(false)
  })
})
