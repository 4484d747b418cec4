/**
 * tanh and erf on f32x4: x P(x^2) / Q(x^2) up to where the result rounds to one. Coefficients: rational minimax fits of the
 * relative error by the Remez exchange.
 */
import type { Ex, Vector } from './vector.ts'

/** tanh(x)/x on [0, 9.02]: error 2.1e-8. Highest power first. */
const tanhAbove = [1.331906046e-8, 2.058347158e-5, 0.003494033903, 0.1337971736, 1]
const tanhBelow = [7.762014344e-7, 0.0003283091815, 0.02587107062, 0.467130326, 1]

/** erf(x)/x on [0, 3.925]: error 1.9e-8. */
const erfAbove = [2.046018595e-6, 0.0002848451137, 0.003772612998, 0.05276949291, 0.1905952007, 1.128379146]
const erfBelow = [3.804776587e-5, 0.001163873325, 0.01498332373, 0.1141833223, 0.5022433288, 1]

/** The odd function x P(x^2) / Q(x^2), constant beyond `end`, and never beyond one. */
function saturating(v: Vector, x: Ex, end: number, above: readonly number[], below: readonly number[]): Ex {
  const a = v.let(v.atLeast(v.atMost(x, v.c(end)), v.c(-end)))
  const z = v.let(v.mul(a, a))
  const y = v.div(v.mul(a, v.poly(z, above)), v.poly(z, below))
  return v.atLeast(v.atMost(y, v.c(1)), v.c(-1))
}

export const tanh = (v: Vector, x: Ex): Ex => saturating(v, x, 9.02, tanhAbove, tanhBelow)
export const erf = (v: Vector, x: Ex): Ex => saturating(v, x, 3.925, erfAbove, erfBelow)
