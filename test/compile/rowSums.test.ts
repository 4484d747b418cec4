/** Sums over several axes of what stands between products go along the products' axis first; others are as they were. */
import { expect, test } from 'vitest'
import { sumRowsFirst } from '../../src/compile/rowSums.ts'
import * as c from '../../src/compose/index.ts'
import { backwardOrigin, inOrigin } from '../../src/diagnostics/origin.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { sameValues, trace } from './support.ts'

type Build = (s: Node, v: Node, z: Node) => Node[]

/** Scores of 2 x 3 heads, what they weigh, and a factor of every score of a head. */
const graphOf = (build: Build): Graph => {
  const shapes = [
    [2, 3, 8, 2],
    [2, 3, 9, 2],
    [2, 3, 9, 4],
    [3, 8, 9],
  ]
  const graph = trace(
    shapes.map((shape) => ({ shape })),
    ([q, k, v, z]) => {
      if (q === undefined || k === undefined || v === undefined || z === undefined) throw new Error('four inputs')
      return build(c.matmul(q, c.swapAxes(k, -1, -2)), v, z)
    },
  )
  return rewriteGraph(graph, { mode: 'fast' }).graph
}

/** Axes of the sums over whole scores, of each. */
const axesOf = (graph: Graph): (readonly number[])[] =>
  nodesOf(graph).flatMap((n) =>
    n.op === 'reduce' && sizeOf(n.inputs[0]?.shape ?? []) === 2 * 3 * 8 * 9 ? [n.attrs.axes] : [],
  )

/** A sum of a backward pass. */
const summed = (x: Node, axes: number | readonly number[]): Node =>
  inOrigin(backwardOrigin(x.origin), () => c.sum(x, typeof axes === 'number' ? [axes] : axes))

const squares = (s: Node): Node => c.mul(s, s)

test.each<[string, Build, (readonly number[])[], (readonly number[])[]]>([
  ['over all of a head', (s, v) => [c.matmul(squares(s), v), summed(s, [0, 2, 3])], [[0, 2, 3]], [[3]]],
  ['over everything', (s, v) => [c.matmul(squares(s), v), summed(s, [0, 1, 2, 3])], [[0, 1, 2, 3]], [[3]]],
  [
    'over rows, where products sum rows',
    (s, v) => [c.matmul(c.swapAxes(squares(s), -1, -2), c.sliceAxis(v, 2, 0, 8)), summed(s, [0, 2])],
    [[0, 2]],
    [[2]],
  ],
  [
    'over the batch, times a factor, over the rest',
    (s, v, z) => [c.matmul(squares(s), v), summed(c.mul(z, c.neg(summed(s, 0))), [1, 2])],
    [[0]],
    [[3]],
  ],
])('%s', (_, build, before, after) => {
  const graph = graphOf(build)
  expect(axesOf(graph)).toEqual(before)
  expect(axesOf(sameValues(graph, sumRowsFirst(graph), 'rows first'))).toEqual(after)
})

test.each<[string, Build]>([
  ['of a forward pass', (s, v) => [c.matmul(squares(s), v), c.sum(s, [0, 2, 3])]],
  ['of one axis', (s, v) => [c.matmul(squares(s), v), summed(s, 3)]],
  ['of others than products sum', (s, v) => [c.matmul(squares(s), v), summed(s, [0, 2])]],
  ['beside no product that sums them', (s) => [squares(s), summed(s, [0, 2, 3])]],
  [
    'that is spread over all again',
    (s, v) => {
      const rest = c.sub(s, c.broadcastTo(c.reshape(summed(s, [0, 2, 3]), [1, 3, 1, 1]), s.shape))
      return [c.matmul(squares(rest), v)]
    },
  ],
])('%s: as it is', (_, build) => {
  const graph = graphOf(build)
  const [before, after] = [axesOf(graph), axesOf(sumRowsFirst(graph))]
  expect(after).toEqual(before)
})
