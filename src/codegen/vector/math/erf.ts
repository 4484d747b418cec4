/** erf on vectors: for f32 x P(x^2) / Q(x^2) up to where it rounds to one; for f64 a polynomial up to one, and beyond one less a small number. */
import { tailTerms } from '../../../scalar/approximations.ts'
import { erfTerms } from '../../../scalar/polynomials.ts'
import * as wide from '../../../scalar/polynomials64.ts'
import { exp } from './exp.ts'
import type { Ex, Vector } from './vector.ts'

function erfOfSingles(v: Vector, x: Ex): Ex {
  const a = v.let(v.atLeast(v.atMost(x, v.c(erfTerms.end)), v.c(-erfTerms.end)))
  const z = v.let(v.mul(a, a))
  const y = v.div(v.mul(a, v.poly(z, erfTerms.above)), v.poly(z, erfTerms.below))
  return v.atLeast(v.atMost(y, v.c(1)), v.c(-1))
}

/** From 6 on it rounds to one. */
function erfOfDoubles(v: Vector, x: Ex): Ex {
  const a = v.let(v.atMost(v.abs(x), v.c(6)))
  const z = v.let(v.mul(a, a))
  const near = v.let(v.mul(a, v.poly(z, wide.erfTerms)))
  const t = v.let(v.div(v.c(1), v.fma(a, v.c(0.5), v.c(1))))
  const tail = v.div(v.mul(t, v.poly(t, tailTerms.above)), v.poly(t, tailTerms.below))
  const far = v.sub(v.c(1), v.mul(exp(v, v.let(v.neg(z))), tail))
  return v.or(v.select(v.lt(a, v.c(1)), near, far), v.signOf(x))
}

export const erf = (v: Vector, x: Ex): Ex => (v.wide ? erfOfDoubles(v, x) : erfOfSingles(v, x))
