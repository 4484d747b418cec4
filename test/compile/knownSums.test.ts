/** Sums over terms of a product that a contraction holds already become sums over its results; others stay. */
import { describe, expect, test } from 'vitest'
import { takeKnownSums } from '../../src/compile/knownSums.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { type Input, sameValues, trace } from './support.ts'

/** Weights [b, s, t], factors of rows, two operands of the inner product, other weights. */
const inputs: readonly Input[] = [
  { shape: [2, 9, 40] },
  { shape: [2, 9, 1] },
  { shape: [2, 9, 3] },
  { shape: [2, 40, 3] },
  { shape: [2, 9, 40] },
]

const graphOf = (build: (p: readonly [Node, Node, Node, Node, Node]) => Node[]): Graph => {
  const graph = trace(inputs, (p) => build(p as unknown as [Node, Node, Node, Node, Node]))
  return rewriteGraph(graph, { mode: 'fast' }).graph
}

/** Elements that the sums of a graph go through. */
const summed = (graph: Graph): number =>
  nodesOf(graph).reduce((n, x) => n + (x.op === 'reduce' ? sizeOf(x.inputs[0]?.shape ?? []) : 0), 0)

const taken = (graph: Graph): Graph => sameValues(graph, takeKnownSums(graph), 'over results')

const inner = (g: Node, v: Node): Node => c.matmul(g, c.permute(v, [0, 2, 1]))

describe('sums that a contraction holds', () => {
  test('of weights times an inner product, where the weights weigh its operand', () => {
    const graph = graphOf(([w, r, g, v]) => {
      const p = c.mul(w, r)
      return [c.matmul(p, v), c.sum(c.mul(c.neg(inner(g, v)), c.mul(p, r)), -1)]
    })
    expect([summed(graph), summed(taken(graph))]).toEqual([2 * 9 * 40, 2 * 9 * 3])
  })

  test('weights that the terms have but for the reciprocal of a positive sum', () => {
    const graph = graphOf(([w, r, g, v]) => {
      const e = c.exp(w)
      const weights = c.mul(e, c.div(1, c.sum(e, -1, true)))
      return [c.matmul(weights, v), c.sum(c.mul(c.mul(e, r), inner(g, v)), -1)]
    })
    // The sum of exponentials stays.
    expect([summed(graph), summed(taken(graph))]).toEqual([2 * 2 * 9 * 40, 2 * 9 * 40 + 2 * 9 * 3])
  })

  test('not where the factor may be zero', () => {
    const graph = graphOf(([w, r, g, v]) => {
      const weights = c.mul(w, c.div(1, r))
      return [c.matmul(weights, v), c.sum(c.mul(w, inner(g, v)), -1)]
    })
    expect(takeKnownSums(graph)).toBe(graph)
  })

  test('weights that a condition hides', () => {
    const graph = graphOf(([w, , g, v, x]) => {
      const p = c.where(c.compare('gt', x, 0), w, 0)
      return [c.matmul(p, v), c.sum(c.mul(c.where(c.compare('gt', x, 0), inner(g, v), 0), w), -1)]
    })
    expect([summed(graph), summed(taken(graph))]).toEqual([2 * 9 * 40, 2 * 9 * 3])
  })

  test('adjoints that are one for all rows, or for all results', () => {
    const graph = graphOf(([w, r, , v]) => {
      const p = c.mul(w, r)
      const ones = c.full([2, 9, 3], 1, 'f32')
      return [c.matmul(p, v), c.sum(c.mul(c.neg(inner(ones, v)), c.mul(p, r)), -1)]
    })
    // Sums of the operand itself go too.
    expect([summed(graph), summed(taken(graph))]).toEqual([2 * 9 * 40 + 2 * 40 * 3, 2 * 9 * 3])
    const rows = graphOf(([w, , g, v]) => {
      const one = c.broadcastTo(c.sliceAxis(g, 1, 0, 1), [2, 9, 3])
      return [c.matmul(w, v), c.sum(c.mul(c.neg(inner(one, v)), w), -1)]
    })
    expect([summed(rows), summed(taken(rows))]).toEqual([2 * 9 * 40, 2 * 9 * 3])
  })

  test('that no contraction holds, where it may be added: of weights that one takes', () => {
    const graph = graphOf(([w, r, g, v]) => {
      const p = c.mul(w, r)
      return [c.matmul(c.permute(p, [0, 2, 1]), g), c.sum(c.mul(c.neg(inner(g, v)), c.mul(p, r)), -1)]
    })
    expect(takeKnownSums(graph)).toBe(graph)
    const added = sameValues(graph, takeKnownSums(graph, true), 'over added results')
    expect([summed(graph), summed(added)]).toEqual([2 * 9 * 40, 2 * 9 * 3])
    const others = graphOf(([w, , g, v, x]) => [c.matmul(c.permute(w, [0, 2, 1]), g), c.sum(c.mul(inner(g, v), x), -1)])
    expect(takeKnownSums(others, true)).toBe(others)
  })

  test('not with other weights, a factor too many, or along rows', () => {
    const others = graphOf(([w, , g, v, x]) => [c.matmul(w, v), c.sum(c.mul(inner(g, v), x), -1)])
    expect(takeKnownSums(others)).toBe(others)
    const scaled = graphOf(([w, r, g, v]) => [c.matmul(c.mul(w, r), v), c.sum(c.mul(inner(g, v), w), -1)])
    expect(takeKnownSums(scaled)).toBe(scaled)
    const rows = graphOf(([w, , g, v]) => [c.matmul(w, v), c.sum(c.mul(inner(g, v), w), 1)])
    expect(takeKnownSums(rows)).toBe(rows)
    const squares = graphOf(([w, , g, v]) => [c.matmul(w, v), c.sum(c.mul(c.square(inner(g, v)), w), -1)])
    expect(takeKnownSums(squares)).toBe(squares)
  })

  test('not of exponentially many factors', () => {
    const powers = graphOf(([w, , g, v]) => {
      let p = w
      for (let i = 0; i < 60; i++) p = c.mul(p, p)
      return [c.matmul(p, v), c.sum(c.mul(inner(g, v), p), -1)]
    })
    expect(takeKnownSums(powers)).toBe(powers)
  })
})
