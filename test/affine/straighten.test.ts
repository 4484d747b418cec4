/** Coordinates under bounds against brute force: the same wherever the bounds hold, and without quotients where rows are skewed. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { add, axis, div, type Expr, evaluate, mod, mul, sub, visitAtoms } from '../../src/affine/expr.ts'
import type { Bound } from '../../src/affine/predicate.ts'
import { straighten } from '../../src/affine/straighten.ts'

const hasQuotients = (e: Expr): boolean => {
  let has = false
  visitAtoms(e, (a) => {
    has ||= a.kind === 'div' || a.kind === 'mod'
  })
  return has
}

/** Calls at every point of i < n, j < m. */
function points(n: number, m: number, call: (at: (name: string) => number) => void): void {
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) call((name) => (name === 'i' ? i : j))
}

const valueAt = (e: Expr, at: (name: string) => number): number => evaluate(e, at, () => 0)

describe('coordinates under bounds', () => {
  it('are the same wherever the bounds hold', () => {
    const extents = fc.integer({ min: 1, max: 12 })
    fc.assert(
      fc.property(
        fc.tuple(extents, extents),
        fc.tuple(fc.integer({ min: -20, max: 20 }), fc.integer({ min: -20, max: 20 })),
        fc.integer({ min: 1, max: 20 }),
        fc.tuple(fc.integer({ min: -4, max: 22 }), fc.integer({ min: -4, max: 22 })),
        ([n, m], [ci, cj], by, [lo, hi]) => {
          const of = add(mul(axis('i', n), ci), mul(axis('j', m), cj))
          const index = [div(of, by), mod(of, by)]
          const bound: Bound = { expr: index[1] ?? of, lo, hi }
          const straight = straighten(index, [bound])
          points(n, m, (at) => {
            const there = valueAt(bound.expr, at)
            if (there < lo || there >= hi) return
            expect(straight.map((e) => valueAt(e, at))).toEqual(index.map((e) => valueAt(e, at)))
          })
        },
      ),
    )
  })

  it('of rows read again one element shorter are sums', () => {
    const [n, taps] = [100, 31]
    const flat = add(axis('i', n), mul(axis('j', taps), n))
    const [row, at] = [div(flat, n + 1), mod(flat, n + 1)]
    const straight = straighten([row, at], [{ expr: at, lo: 0, hi: n - taps + 1 }])
    expect(straight.map((e) => e.key)).toEqual([axis('j', taps).key, sub(axis('i', n), axis('j', taps)).key])
  })

  it('stay as they are where a remainder has several quotients, or none', () => {
    const flat = add(axis('i', 100), mul(axis('j', 31), 100))
    const index = [div(flat, 101), mod(flat, 101)]
    const all = straighten(index, [{ expr: index[1] ?? flat, lo: 0, hi: 101 }])
    expect(all.every(hasQuotients)).toBe(true)
    expect(straighten(index, [{ expr: index[1] ?? flat, lo: 200, hi: 300 }])).toEqual(index)
  })
})
