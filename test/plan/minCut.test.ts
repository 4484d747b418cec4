/** Minimum cuts against every cut there is, on seeded random networks. */
import { describe, expect, test } from 'vitest'
import { FlowNetwork } from '../../src/plan/algorithms/minCut.ts'
import { makeRng } from '../random/rng.ts'

type Edge = readonly [from: number, to: number, capacity: number]

/** Capacity of the cut that separates a side with the sink from the rest. */
const cutOf = (edges: readonly Edge[], side: (v: number) => boolean): number =>
  edges.reduce((sum, [from, to, c]) => (!side(from) && side(to) ? sum + c : sum), 0)

function leastCut(edges: readonly Edge[], vertices: number): { readonly capacity: number; readonly smallest: number } {
  let capacity = Number.POSITIVE_INFINITY
  let smallest = vertices
  for (let bits = 0; bits < 2 ** vertices; bits++) {
    const side = (v: number): boolean => ((bits >> v) & 1) === 1
    if (side(0) || !side(1)) continue
    const c = cutOf(edges, side)
    const size = bits.toString(2).replaceAll('0', '').length
    if (c < capacity - 1e-9) [capacity, smallest] = [c, size]
    else if (c < capacity + 1e-9) smallest = Math.min(smallest, size)
  }
  return { capacity, smallest }
}

describe('minimum cut', () => {
  test('is the least of all cuts, with as few vertices on the side of the sink as there can be', () => {
    const rng = makeRng(5)
    for (let round = 0; round < 300; round++) {
      const vertices = 3 + Math.floor(rng.unit() * 7)
      const edges: Edge[] = []
      for (let e = 0; e < vertices * 3; e++) {
        const from = Math.floor(rng.unit() * vertices)
        const to = Math.floor(rng.unit() * vertices)
        if (from !== to) edges.push([from, to, Math.floor(rng.unit() * 6)])
      }
      const net = new FlowNetwork()
      for (let v = 0; v < vertices; v++) net.vertex()
      for (const [from, to, c] of edges) net.connect(from, to, c)
      const side = net.sinkSide(0, 1)
      const least = leastCut(edges, vertices)
      expect(cutOf(edges, (v) => side.has(v))).toBeCloseTo(least.capacity, 9)
      expect(side.size).toBe(least.smallest)
    }
  })

  test('does not cut what is infinite', () => {
    const net = new FlowNetwork()
    const [source, a, b, sink] = [net.vertex(), net.vertex(), net.vertex(), net.vertex()]
    net.connect(source, a, 3)
    net.connect(a, b, Number.POSITIVE_INFINITY)
    net.connect(b, sink, 5)
    expect([...net.sinkSide(source, sink)].sort()).toEqual([a, b, sink])
  })
})
