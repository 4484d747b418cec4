/** Axes that are cut into parts where a launch says how long they are: parts behind the end hold nothing. */

import { type Expr, launched, rangeOf, sub } from '../affine/expr.ts'
import type { Bound, Predicate } from '../affine/predicate.ts'
import { type Body, endOf } from '../plan/body/body.ts'

/** That a place lies before the end of an axis, where that is open; nothing where all places do. */
export function beforeEnd(body: Pick<Body, 'axes' | 'scales'>, axis: string, place: Expr): Predicate {
  const end = endOf(body, axis)
  if (end === undefined) return []
  const expr = sub(place, launched(end))
  const bound: Bound = { expr, lo: Math.min(-1, rangeOf(expr).lo), hi: 0 }
  return [bound]
}
