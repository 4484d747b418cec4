/** Rows that are joined between two products are computed in parts, where nothing reads them whole; others stay. */
import { describe, expect, test } from 'vitest'
import { splitRows } from '../../src/compile/splitRows.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import { sameValues, trace } from './support.ts'

type Build = (q: Node, k: Node, v: Node, z: Node) => Node | Node[]

const [rows, keys] = [7, 11]

const rewritten = (graph: Graph): Graph => rewriteGraph(graph, { mode: 'fast' }).graph

const graphOf = (build: Build): Graph =>
  rewritten(
    trace(
      [{ shape: [3, rows, 4] }, { shape: [3, keys, 4] }, { shape: [3, keys, 5] }, { shape: [3, rows, 2] }],
      ([q, k, v, z]) => {
        if (q === undefined || k === undefined || v === undefined || z === undefined) throw new Error('four inputs')
        return build(q, k, v, z)
      },
    ),
  )

const scores = (q: Node, k: Node): Node => c.matmul(q, c.swapAxes(k, -1, -2))
const first = (w: Node): Node => c.sliceAxis(w, -1, 0, keys)

/** Joined or padded values. */
const joins = (graph: Graph): number => nodesOf(graph).filter((n) => n.op === 'concat' || n.op === 'pad').length

const forms: Readonly<Record<string, Build>> = {
  'sinks behind the scores': (q, k, v, z) => c.matmul(first(c.softmax(c.concat([scores(q, k), z], -1), -1)), v),
  'sinks in front': (q, k, v, z) => {
    const w = c.softmax(c.concat([z, scores(q, k)], -1), -1)
    return c.matmul(c.sliceAxis(w, -1, 2, keys + 2), v)
  },
  'both sides, scaled and masked by what is made or read for all': (q, k, v, z) => {
    const s = c.concat([z, scores(q, k), z], -1)
    const at = c.iota(s.shape, 2)
    const w = c.softmax(c.where(c.compare('lt', at, 9), c.mul(s, 0.5), Number.NEGATIVE_INFINITY), -1)
    return c.matmul(c.sliceAxis(w, -1, 2, keys + 2), v)
  },
  'weights of sinks that something reads': (q, k, v, z) => {
    const w = c.softmax(c.concat([scores(q, k), z], -1), -1)
    return [c.matmul(first(w), v), c.sliceAxis(w, -1, keys, keys + 2)]
  },
}

describe('joined rows between products', () => {
  test.each(Object.entries(forms))('%s', (_, build) => {
    const graph = graphOf(build)
    expect(joins(graph)).toBe(1)
    expect(joins(sameValues(graph, splitRows(graph), 'in parts'))).toBe(0)
  })

  test('with what their gradients pad', () => {
    const graph = rewritten(
      vjpGraph(
        graphOf((...x) => forms['sinks behind the scores']?.(...x) ?? []),
        [0, 1, 2, 3],
      ),
    )
    const made = sameValues(graph, splitRows(graph), 'in parts')
    expect(joins(graph)).toBe(2)
    expect(joins(made)).toBe(0)
  })

  test.each<[string, Build]>([
    [
      'a result',
      (q, k, v, z) => {
        const s = c.concat([scores(q, k), z], -1)
        return [c.matmul(first(c.softmax(s, -1)), v), s]
      },
    ],
    [
      'a product that takes them whole',
      (q, k, _, z) => {
        const w = c.softmax(c.concat([scores(q, k), z], -1), -1)
        return [c.matmul(w, c.swapAxes(w, -1, -2)), first(w)]
      },
    ],
    [
      'a slice across parts',
      (q, k, v, z) => {
        const w = c.softmax(c.concat([scores(q, k), z], -1), -1)
        return [c.matmul(first(w), v), c.sliceAxis(w, -1, keys - 1, keys + 1)]
      },
    ],
    ['no product behind', (q, k, _, z) => first(c.softmax(c.concat([scores(q, k), z], -1), -1))],
    [
      'no product in front',
      (_, __, v, z) => {
        const s = c.broadcastTo(c.sum(z, -1, true), [3, rows, keys])
        return c.matmul(first(c.softmax(c.concat([s, z], -1), -1)), v)
      },
    ],
  ])('that %s reads or lacks: as they are', (_, build) => {
    const graph = graphOf(build)
    expect(splitRows(graph)).toBe(graph)
  })
})
