/**
 * erf on f32x4: x P(x^2) / Q(x^2) up to where it rounds to one. Coefficients: a rational minimax fit of the relative error by
 * the Remez exchange, then a search over neighbouring f32 values for the least rounded error.
 */
import type { Ex, Vector } from './vector.ts'

/** erf(x)/x on [0, 3.925]: error 1.9e-8. */
const above = [
  2.0460220184759237e-6, 0.00028484512586146593, 0.003772611729800701, 0.0527694970369339, 0.19059519469738007,
  1.128379225730896,
]
const below = [
  3.8047757698222995e-5, 0.0011638733558356762, 0.014983323402702808, 0.11418331414461136, 0.5022433400154114, 1,
]

const end = 3.925

export function erf(v: Vector, x: Ex): Ex {
  const a = v.let(v.atLeast(v.atMost(x, v.c(end)), v.c(-end)))
  const z = v.let(v.mul(a, a))
  const y = v.div(v.mul(a, v.poly(z, above)), v.poly(z, below))
  return v.atLeast(v.atMost(y, v.c(1)), v.c(-1))
}
