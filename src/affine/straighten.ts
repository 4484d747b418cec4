/**
 * Coordinates under bounds. Rows that are filled up and read again as rows of another length (a skew: how windows collect what their places hold, and how
 * relative positions are shifted) stand at (i + (m - 1) j) % m and at the quotient. Where a bound asks for a remainder that only one quotient
 * gives, both are sums: i - j, and j.
 */

import { add, addConst, constant, substitute } from './expr.ts'
import { type Atom, type Expr, floorMod, make, rangeOf, type Term } from './form.ts'
import type { Bound } from './predicate.ts'

/** The coordinates with remainders (and the quotients beside them) as the sums that they are wherever all bounds hold. */
export function straighten(index: readonly Expr[], bounds: readonly Bound[]): readonly Expr[] {
  let out = index
  for (const { expr, lo, hi } of bounds) {
    const [only, another] = expr.terms
    if (only?.atom.kind !== 'mod' || only.coef !== 1 || another !== undefined) continue
    const known = oneQuotient(only.atom.of, only.atom.by, lo - expr.offset, hi - expr.offset)
    if (known === undefined) continue
    const { of, by } = only.atom
    const map = (a: Atom): Expr | undefined =>
      (a.kind !== 'mod' && a.kind !== 'div') || a.by !== by || a.of.key !== of.key
        ? undefined
        : a.kind === 'mod'
          ? known.remainder
          : known.quotient
    out = out.map((e) => substitute(e, map))
  }
  return out
}

/** Quotient and remainder of an expression by a number, if remainders of [lo, hi) have one quotient, up to what the nearest multiples of its coefficients add. */
function oneQuotient(
  of: Expr,
  by: number,
  lo: number,
  hi: number,
): { readonly quotient: Expr; readonly remainder: Expr } | undefined {
  const [whole, near]: [Term[], Term[]] = [[], []]
  for (const { atom, coef } of of.terms) {
    const rest = floorMod(coef, by)
    const nearest = 2 * rest > by ? rest - by : rest
    if (nearest !== 0) near.push({ atom, coef: nearest })
    if (nearest !== coef) whole.push({ atom, coef: (coef - nearest) / by })
  }
  const rest = make(near, of.offset)
  const range = rangeOf(rest)
  let found: number | undefined
  for (let q = Math.floor(range.lo / by); q <= Math.floor(range.hi / by); q++) {
    const [from, to] = [Math.max(range.lo - q * by, 0), Math.min(range.hi - q * by, by - 1)]
    if (from >= hi || to < lo) continue
    if (found !== undefined) return undefined
    found = q
  }
  if (found === undefined) return undefined
  return { quotient: add(make(whole, 0), constant(found)), remainder: addConst(rest, -found * by) }
}
