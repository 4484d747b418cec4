/** Exponentials of differences from a log-sum-exp as quotients: where products multiply them, and the same values. */
import { expect, test } from 'vitest'
import { takeWeightQuotients } from '../../src/compile/weightQuotients.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { at, sameValues, trace } from './support.ts'

const weights = (s: Node): Node => c.exp(c.sub(s, c.reduceMax(s, -1, true)))
const logSum = (s: Node): Node => c.add(c.reduceMax(s, -1, true), c.log(c.sum(weights(s), -1, true)))

/** A graph as the pass gets it: scores and what they are multiplied by. */
const graphOf = (f: (s: Node, v: Node) => Node | Node[]): Graph =>
  rewriteGraph(
    trace([{ shape: [3, 8, 10] }, { shape: [3, 10, 4] }], (p) => f(at(p, 0), at(p, 1))),
    { mode: 'fast' },
  ).graph

const quotients = (graph: Graph): number =>
  nodesOf(graph).filter((n) => n.op === 'div' && n.inputs[0]?.op === 'exp').length

test.each<[string, (s: Node, v: Node) => Node | Node[]]>([
  ['weights by log-sum-exp', (s, v) => c.matmul(c.exp(c.sub(s, logSum(s))), v)],
  ['exponentials of log-softmax', (s, v) => c.matmul(c.exp(c.logSoftmax(s, -1)), v)],
  [
    'log-softmax that is a result, too',
    (s, v) => {
      const d = c.logSoftmax(s, -1)
      return [c.matmul(c.exp(d), v), d]
    },
  ],
])('%s', (_, f) => {
  const graph = graphOf(f)
  const made = sameValues(graph, takeWeightQuotients(graph), 'quotients')
  expect(quotients(made)).toBe(1)
})

test.each<[string, (s: Node, v: Node) => Node | Node[]]>([
  ['no product', (s) => c.exp(c.sub(s, logSum(s)))],
  [
    'no greatest: the exponential might not be finite',
    (s, v) => c.matmul(c.exp(c.sub(s, c.log(c.sum(c.exp(s), -1, true)))), v),
  ],
  [
    'the greatest of other values',
    (s, v) => {
      const d = c.add(c.reduceMax(c.unary('abs', s), -1, true), c.log(c.sum(weights(s), -1, true)))
      return c.matmul(c.exp(c.sub(s, d)), v)
    },
  ],
])('%s: as it is', (_, f) => {
  const graph = graphOf(f)
  expect(takeWeightQuotients(graph)).toBe(graph)
})
