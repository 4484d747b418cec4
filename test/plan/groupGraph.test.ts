/** The graph of groups under merging: reachability, order and acyclicity on toy graphs and on random ones. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { GroupGraph } from '../../src/plan/algorithms/groupGraph.ts'

type Edge = readonly [from: number, to: number]

function graphOf(count: number, edges: readonly Edge[]): GroupGraph {
  const g = new GroupGraph()
  for (let i = 0; i < count; i++) g.add(i)
  for (const [a, b] of edges) g.connect(a, b)
  return g
}

const edgesOf = (g: GroupGraph): Edge[] => g.ids().flatMap((a) => [...g.successors(a)].map((b): Edge => [a, b]))

/** Longest simple path between two groups of a small acyclic graph, in edges; -1 where there is none. */
function longestPath(g: GroupGraph, from: number, to: number): number {
  if (from === to) return 0
  let best = -1
  for (const s of g.successors(from)) {
    const rest = longestPath(g, s, to)
    if (rest >= 0) best = Math.max(best, rest + 1)
  }
  return best
}

/** What a planner does to merge two groups. */
function merge(g: GroupGraph, a: number, b: number, into: number): void {
  const from = new Set([...g.predecessors(a), ...g.predecessors(b)])
  const to = new Set([...g.successors(a), ...g.successors(b)])
  g.remove(a)
  g.remove(b)
  g.add(into)
  for (const p of from) if (g.has(p)) g.connect(p, into)
  for (const s of to) if (g.has(s)) g.connect(into, s)
}

const dag = fc.integer({ min: 1, max: 9 }).chain((count) =>
  fc.array(fc.tuple(fc.nat(count - 1), fc.nat(count - 1)), { maxLength: 16 }).map((pairs) => ({
    count,
    edges: pairs.map(([a, b]): Edge => (a < b ? [a, b] : [b, a])).filter(([a, b]) => a !== b),
  })),
)

test('several groups as one are on a cycle exactly where a path leaves them and comes back', () => {
  fc.assert(
    fc.property(dag, fc.array(fc.nat(8), { minLength: 2, maxLength: 5 }), ({ count, edges }, picks) => {
      const g = graphOf(count, edges)
      const among = new Set(picks.map((p) => p % count))
      const one = g.contracted(new Map([...among].map((id) => [id, -1])))
      const cyclic = (): boolean => {
        try {
          one.order(() => 0)
          return false
        } catch {
          return true
        }
      }
      expect(g.leads(among)).toBe(cyclic())
    }),
  )
})

describe('toy graphs', () => {
  test('an edge alone is no indirect path', () => {
    const g = graphOf(2, [[0, 1]])
    expect(g.hasIndirectPath(0, 1)).toBe(false)
    expect(g.hasIndirectPath(1, 0)).toBe(false)
  })

  test('a diamond has an indirect path beside its edge', () => {
    const g = graphOf(3, [
      [0, 1],
      [1, 2],
      [0, 2],
    ])
    expect(g.hasIndirectPath(0, 2)).toBe(true)
    expect(g.hasIndirectPath(0, 1)).toBe(false)
  })

  test('a group is no neighbour of itself', () => {
    const g = graphOf(1, [[0, 0]])
    expect(edgesOf(g)).toEqual([])
  })

  test('what is removed leaves no edges', () => {
    const g = graphOf(3, [
      [0, 1],
      [1, 2],
    ])
    g.remove(1)
    expect(edgesOf(g)).toEqual([])
    expect([...g.predecessors(2)]).toEqual([])
    expect(g.has(1)).toBe(false)
  })

  test('among what is ready the least rank comes first', () => {
    const g = graphOf(4, [[3, 1]])
    expect(g.order((id) => id)).toEqual([0, 2, 3, 1])
    expect(g.order((id) => -id)).toEqual([3, 2, 1, 0])
  })

  test('a cycle has no order', () => {
    expect(() =>
      graphOf(2, [
        [0, 1],
        [1, 0],
      ]).order((id) => id),
    ).toThrow('cycle')
  })
})

describe('random acyclic graphs', () => {
  test('an indirect path is a path of more than one edge', () => {
    fc.assert(
      fc.property(dag, ({ count, edges }) => {
        const g = graphOf(count, edges)
        for (let a = 0; a < count; a++)
          for (let b = 0; b < count; b++) if (a !== b) expect(g.hasIndirectPath(a, b)).toBe(longestPath(g, a, b) > 1)
      }),
      { numRuns: 150 },
    )
  })

  test('so in whatever order it is asked, also after links have changed', () => {
    const asked = fc.array(fc.tuple(fc.boolean(), fc.nat(8), fc.nat(8)), { minLength: 20, maxLength: 60 })
    fc.assert(
      fc.property(dag, asked, ({ count, edges }, questions) => {
        const g = graphOf(count, edges)
        const holds = (a: number, b: number): void =>
          a === b ? undefined : expect(g.hasIndirectPath(a, b)).toBe(longestPath(g, a, b) > 1)
        for (const [links, p, q] of questions) {
          const [a, b] = [Math.min(p, q) % count, Math.max(p, q) % count]
          if (links && a < b) g.connect(a, b)
          // Of one group as the end of the path, then of another as its beginning.
          for (let i = 0; i < count; i++) holds(i, b)
          for (let i = 0; i < count; i++) holds(a, i)
        }
      }),
      { numRuns: 60 },
    )
  })

  test('merging where no indirect path is keeps them acyclic; their order respects every edge', () => {
    fc.assert(
      fc.property(dag, fc.array(fc.tuple(fc.nat(20), fc.nat(20)), { maxLength: 12 }), ({ count, edges }, tries) => {
        const g = graphOf(count, edges)
        let next = count
        for (const [p, q] of tries) {
          const ids = g.ids()
          const a = ids[p % ids.length] ?? 0
          const b = ids[q % ids.length] ?? 0
          if (a === b || g.hasIndirectPath(a, b) || g.hasIndirectPath(b, a)) continue
          merge(g, a, b, next++)
          const order = g.order((id) => (id * 7) % 5)
          expect([...order].sort((x, y) => x - y)).toEqual(g.ids().sort((x, y) => x - y))
          for (const [from, to] of edgesOf(g)) expect(order.indexOf(from)).toBeLessThan(order.indexOf(to))
        }
      }),
      { numRuns: 150 },
    )
  })

  test('merging where an indirect path is makes a cycle', () => {
    fc.assert(
      fc.property(dag, ({ count, edges }) => {
        for (let a = 0; a < count; a++)
          for (let b = a + 1; b < count; b++) {
            const g = graphOf(count, edges)
            if (!g.hasIndirectPath(a, b)) continue
            merge(g, a, b, count)
            expect(() => g.order((id) => id)).toThrow('cycle')
          }
      }),
      { numRuns: 60 },
    )
  })
})
