/**
 * Which special functions a kernel calls instead of holding their code in place. Loops over registers are unrolled, so the code of
 * a function that stands in many of them is there many times; compilers take seconds over it.
 */

import { isApproximated } from '../../../scalar/approximations.ts'
import type { Ex, S } from '../ir/ir.ts'
import { countOf, visitExpressions } from '../ir/walk.ts'

/** Code of functions in place, about a millisecond of compilation each. */
const weights: Readonly<Record<string, number>> = {
  // Arguments far from zero are reduced by a loop over the digits of pi.
  sin: 40,
  cos: 40,
  tan: 40,
  pow: 4,
  exp: 1,
  expm1: 2,
  log: 1,
  log1p: 2,
  tanh: 2,
  sinh: 2,
  cosh: 2,
  asin: 2,
  acos: 2,
  atan: 2,
  asinh: 2,
  acosh: 2,
  atanh: 2,
  atan2: 4,
  erf: 2,
}
/** Of functions that are formulas: two special functions and two polynomials or so. */
const formulaWeight = 6
/** What may stand in place. */
const mostInPlace = 2000

const weightOf = (fn: string): number => {
  const [, type, name] = /^(f32|f64)_(\w+)$/.exec(fn) ?? []
  const weight = weights[name ?? ''] ?? (isApproximated(name ?? '') ? formulaWeight : 0)
  return weight * (type === 'f64' ? 4 : 1)
}

/** Functions to call, the ones with most code first, until the rest is little enough. */
export function calledFunctions(body: readonly S[]): Set<string> {
  const code = new Map<string, number>()
  const count = (stmts: readonly S[], times: number): void => {
    const found = (e: Ex): void => {
      if (e.k !== 'call') return
      const w = weightOf(e.fn)
      if (w > 0) code.set(e.fn, (code.get(e.fn) ?? 0) + w * times)
    }
    for (const s of stmts) {
      if (s.k === 'for') count(s.body, s.unroll ? times * countOf(s) : times)
      else if (s.k === 'if') {
        visitExpressions([{ ...s, body: [], otherwise: [] }], found)
        count(s.body, times)
        count(s.otherwise, times)
      } else visitExpressions([s], found)
    }
  }
  count(body, 1)
  let total = [...code.values()].reduce((a, b) => a + b, 0)
  const out = new Set<string>()
  for (const [fn, weight] of [...code].sort((a, b) => b[1] - a[1])) {
    if (total <= mostInPlace) break
    out.add(fn)
    total -= weight
  }
  return out
}
