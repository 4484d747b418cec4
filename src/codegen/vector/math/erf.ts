/** erf on f32x4: x P(x^2) / Q(x^2) up to where it rounds to one. */
import { erfTerms } from '../../../scalar/polynomials.ts'
import type { Ex, Vector } from './vector.ts'

export function erf(v: Vector, x: Ex): Ex {
  const a = v.let(v.atLeast(v.atMost(x, v.c(erfTerms.end)), v.c(-erfTerms.end)))
  const z = v.let(v.mul(a, a))
  const y = v.div(v.mul(a, v.poly(z, erfTerms.above)), v.poly(z, erfTerms.below))
  return v.atLeast(v.atMost(y, v.c(1)), v.c(-1))
}
