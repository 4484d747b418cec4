/** Predicates: conjunctions of bounds on index expressions (padding, concatenation, tails). */
import { type Atom, type Expr, evaluate, rangeOf, substitute } from './expr.ts'

/** lo <= expr < hi. */
export interface Bound {
  readonly expr: Expr
  readonly lo: number
  readonly hi: number
}

/** All bounds hold; the empty predicate is true. */
export type Predicate = readonly Bound[]

export const always: Predicate = []

export const predicateKey = (p: Predicate): string => p.map((b) => `${b.lo}<=${b.expr.key}<${b.hi}`).join('&')

/** What the ranges alone say of a bound. */
export function decideBound(b: Bound): 'true' | 'false' | 'unknown' {
  const r = rangeOf(b.expr)
  if (r.lo >= b.lo && r.hi < b.hi) return 'true'
  if (r.hi < b.lo || r.lo >= b.hi || b.lo >= b.hi) return 'false'
  return 'unknown'
}

/** Adds bounds, dropping what is known to hold and what stands already; sorted, so equal conjunctions have equal keys. */
export function conjoin(p: Predicate, ...bounds: readonly Bound[]): Predicate {
  const by = new Map<string, Bound>()
  for (const b of [...p, ...bounds]) if (decideBound(b) !== 'true') by.set(predicateKey([b]), b)
  return [...by.entries()].sort((a, b) => (a[0] < b[0] ? -1 : 1)).map(([, b]) => b)
}

/** No point satisfies it, by ranges alone. */
export const isNever = (p: Predicate): boolean => p.some((b) => decideBound(b) === 'false')

export const substitutePredicate = (p: Predicate, map: (a: Atom) => Expr | undefined): Predicate =>
  conjoin(always, ...p.map((b) => ({ ...b, expr: substitute(b.expr, map) })))

export const holds = (p: Predicate, axisAt: (name: string) => number, valueAt: (id: number) => number): boolean =>
  p.every((b) => {
    const v = evaluate(b.expr, axisAt, valueAt)
    return v >= b.lo && v < b.hi
  })
