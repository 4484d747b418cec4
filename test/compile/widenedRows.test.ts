/** Softmax written out in 16 bits is planned as the library's, which computes in f32: forward and backward, with masks, and near misses that are not. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import { widenRows } from '../../src/compile/widenedRows.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { readElement } from '../../src/scalar/host.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import { hidden, key, query } from '../support/scores.ts'
import { at, inputsOf, trace } from './support.ts'

const written = (s: Node): Node => {
  const e = c.exp(c.sub(s, c.reduceMax(s, -1, true)))
  return c.div(e, c.sum(e, -1, true))
}
const library = (s: Node): Node => c.softmax(s, -1)
const causal = (s: Node): Node => c.where(c.compare('le', key(s), query(s)), s, hidden)

type Half = 'bf16' | 'f16'

/** The graph in f32 where it is to be: well formed, with the same values but for a rounding to halves. */
function widened(graph: Graph): Graph {
  const wide = widenRows(graph)
  verifyGraph(wide)
  const valuesOf = (g: Graph): number[] =>
    evaluateGraph(g, inputsOf(graph), { rounding: 'f64' }).flatMap((t) => {
      const data = toHostArray(t)
      return Array.from({ length: data.length }, (_, i) => Number(readElement(data, t.dtype, i)))
    })
  const want = valuesOf(graph)
  valuesOf(wide).forEach((v, i) => {
    const w = want[i] ?? Number.NaN
    expect(Math.abs(v - w)).toBeLessThanOrEqual(2 ** -7 * Math.abs(w))
  })
  return wide
}

/** Attention of 16 heads of 64, of which softmax and scores' change are given. */
function attention(softmax: (s: Node) => Node, dtype: Half, change: (s: Node) => Node, length = 1024): Graph {
  const input = { shape: [16, length, 64], dtype }
  return trace([input, input, input], (p) => {
    const [q, k, v] = [at(p, 0), at(p, 1), at(p, 2)]
    return c.matmul(softmax(change(c.mul(c.matmul(q, c.permute(k, [0, 2, 1])), 0.125))), v)
  })
}

const kernels = (graph: Graph): number =>
  compileGraph(graph, { mode: 'fast', target: cudaTarget }).program.steps.filter((s) => s.kind === 'kernel').length

describe.each(['bf16', 'f16'] as const)('%s', (dtype) => {
  test.each([
    ['no mask', (s: Node) => s],
    ['causal', causal],
  ] as const)('as many kernels as of the library: %s', (_, change) => {
    const [own, given] = [written, library].map((f) => attention(f, dtype, change))
    if (own === undefined || given === undefined) expect.fail('no graph')
    expect(kernels(own)).toBe(1)
    expect(kernels(given)).toBe(1)
    const both = [own, given].map((g) => kernels(vjpGraph(g, [0, 1, 2])))
    expect(both).toEqual([3, 3])
  })

  test('gives what it gave', () => {
    const input = { shape: [3, 8, 10], dtype }
    const graph = trace([input], ([x]) => written(causal(c.mul(x as Node, 0.125))))
    const wide = widened(graph)
    expect(
      nodesOf(wide)
        .filter((n) => n.op === 'exp')
        .map((n) => n.dtype),
    ).toEqual(['f32'])
    expect(wide.outputs.map((n) => n.dtype)).toEqual([dtype])
  })

  test('what else reads its values reads them in 16 bits', () => {
    const graph = trace([{ shape: [8, 10], dtype }], ([x]) => {
      const e = c.exp(c.sub(x as Node, c.reduceMax(x as Node, -1, true)))
      return [c.div(e, c.sum(e, -1, true)), c.reduceMax(x as Node, -1), c.argmax(e, -1), c.cumsum(e, 1)]
    })
    const wide = widened(graph)
    expect(wide).not.toBe(graph)
    expect(wide.outputs.map((n) => n.dtype)).toEqual(graph.outputs.map((n) => n.dtype))
  })
})

test.each<[string, Graph]>([
  ['f32', trace([{ shape: [8, 10] }], ([x]) => written(x as Node))],
  ['exponentials of no rows', trace([{ shape: [8, 10], dtype: 'bf16' }], ([x]) => c.exp(c.mul(x as Node, 2)))],
  [
    'differences of two values of one shape',
    trace(
      [
        { shape: [8], dtype: 'bf16' },
        { shape: [8], dtype: 'bf16' },
      ],
      ([x, y]) => c.exp(c.sub(x as Node, y as Node)),
    ),
  ],
])('%s stay as they are', (_, graph) => {
  expect(widenRows(graph)).toBe(graph)
})
