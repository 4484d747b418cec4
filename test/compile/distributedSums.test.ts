/** Products of differences of normalised rows are differences of products, where each has a normaliser of its own; others stay. */
import { expect, test } from 'vitest'
import { distributeSums } from '../../src/compile/distributedSums.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { sameValues, trace } from './support.ts'

type Build = (s: Node, t: Node, v: Node, m: Node) => Node

/** Two kinds of scores, what they weigh, and weights that are read. */
const graphOf = (build: Build): Graph => {
  const shapes = [
    [2, 8, 3],
    [2, 9, 3],
    [2, 9, 3],
    [2, 9, 4],
    [2, 8, 9],
  ]
  const graph = trace(
    shapes.map((shape) => ({ shape })),
    ([q, k, l, v, m]) => {
      if (q === undefined || k === undefined || l === undefined || v === undefined || m === undefined)
        throw new Error('five inputs')
      return build(c.matmul(q, c.swapAxes(k, -1, -2)), c.matmul(q, c.swapAxes(l, -1, -2)), v, m)
    },
  )
  return rewriteGraph(graph, { mode: 'fast' }).graph
}

const products = (graph: Graph): number => nodesOf(graph).filter((n) => n.op === 'contract').length
const soft = (s: Node): Node => c.softmax(s, -1)

test.each<[string, Build]>([
  ['a difference of weights', (s, t, v) => c.matmul(c.sub(soft(s), c.mul(soft(t), 0.5)), v)],
  ['a sum of weights', (s, t, v) => c.matmul(c.add(soft(s), soft(t)), v)],
  ['weights that are the second operand', (s, t, v) => c.einsum('bks,bsd->bkd', [c.sub(soft(s), soft(t)), v])],
  [
    'weights that a mask hides',
    (s, t, v, m) => c.matmul(c.sub(c.where(c.compare('gt', m, 0), soft(s), 0), soft(t)), v),
  ],
])('%s', (_, build) => {
  const graph = graphOf(build)
  expect(products(sameValues(graph, distributeSums(graph), 'term by term'))).toBe(products(graph) + 1)
})

test.each<[string, Build]>([
  ['one softmax of a sum', (s, t, v) => c.matmul(soft(c.add(s, t)), v)],
  [
    'one normaliser for both',
    (s, t, v) => {
      const [e, f] = [c.exp(s), c.exp(t)]
      const l = c.sum(c.add(e, f), -1, true)
      return c.matmul(c.add(c.div(e, l), c.div(f, l)), v)
    },
  ],
  ['one that is normalised, and what is read (a loss)', (s, _, v, m) => c.matmul(c.sub(soft(s), m), v)],
  ['no normaliser', (s, t, v) => c.matmul(c.sub(c.exp(s), c.exp(t)), v)],
  [
    'rows less their mean, by their deviation',
    (s, _, v) => {
      const r = c.unary('rsqrt', c.add(c.mean(c.mul(s, s), -1, true), 1))
      return c.matmul(c.sub(c.mul(s, r), c.mul(c.mean(s, -1, true), r)), v)
    },
  ],
])('%s: as it is', (_, build) => {
  const graph = graphOf(build)
  expect(distributeSums(graph)).toBe(graph)
})
