/**
 * The type of index arithmetic: 32 bits where intervals prove that a number, and all that it is summed from, fits them, else 64. What
 * decides it stands here; the code that is made follows from the types of the expressions.
 */
import { type Atom, type Expr, type Range, rangeOf, type Term } from '../affine/expr.ts'

export type IndexType = 'i32' | 'i64'

/** Most that 32 bits hold. */
export const most32 = 2 ** 31 - 1

/** The type of numbers in a range. */
export const indexType = ({ lo, hi }: Range): IndexType => (lo >= -most32 - 1 && hi <= most32 ? 'i32' : 'i64')

/** The type of numbers from 0 to one. */
export const typeUpTo = (most: number): IndexType => indexType({ lo: 0, hi: most })

/**
 * How far beyond its extent code counts along an axis: blocks (or chunks, where the program holds more than so many indices) that a loop
 * asks about before they begin, and threads of the last one.
 */
const blocksBeyond = 4
const mostChunk = 2 ** 22

/** The type of coordinates along an axis of which a program holds `size` indices at a time. */
export const axisType = (extent: number, size: number): IndexType =>
  typeUpTo(extent + blocksBeyond * Math.min(size, mostChunk))

/** The longest axis whose coordinates are of 32 bits however many indices a program holds. */
export const longestAxis32 = most32 - blocksBeyond * mostChunk

const scaled = ({ lo, hi }: Range, by: number): Range =>
  by < 0 ? { lo: hi * by, hi: lo * by } : { lo: lo * by, hi: hi * by }

/** The range of an atom. */
export const atomRange = (a: Atom): Range => rangeOf({ terms: [{ atom: a, coef: 1 }], offset: 0, key: '' })

export const termRange = (t: Term): Range => scaled(atomRange(t.atom), t.coef)

/** The type of a sum that may be made in any order: compilers change it, and move what is constant elsewhere. */
export function sumType(offset: number, terms: readonly Term[]): IndexType {
  let [lo, hi] = [Math.min(offset, 0), Math.max(offset, 0)]
  for (const t of terms) {
    const r = termRange(t)
    lo += Math.min(r.lo, 0)
    hi += Math.max(r.hi, 0)
    if (indexType({ lo: t.coef, hi: t.coef }) === 'i64' || indexType(atomRange(t.atom)) === 'i64') return 'i64'
  }
  return indexType({ lo, hi })
}

/** The type that an index expression has. */
export const typeOfExpr = (e: Expr): IndexType => sumType(e.offset, e.terms)

/**
 * A sum of 64 bits in two: what is added in 64, and what is added in 32 before: the terms of the least reach whose sum fits.
 */
export function splitSum(terms: readonly Term[]): { readonly wide: readonly Term[]; readonly narrow: readonly Term[] } {
  const reach = (t: Term): number => {
    const r = termRange(t)
    return Math.max(-r.lo, r.hi)
  }
  const narrow = new Set<Term>()
  let sum = 0
  for (const t of [...terms].sort((a, b) => reach(a) - reach(b))) {
    sum += reach(t)
    if (sum > most32 || Math.abs(t.coef) > most32 || indexType(atomRange(t.atom)) === 'i64') break
    narrow.add(t)
  }
  return { wide: terms.filter((t) => !narrow.has(t)), narrow: terms.filter((t) => narrow.has(t)) }
}
