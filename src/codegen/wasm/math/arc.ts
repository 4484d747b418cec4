/** Inverse trigonometric functions on f32x4. Coefficients: minimax fits by the Remez exchange. */
import type { Ex, Vector } from './vector.ts'

/** pi / 2 and pi as an f32 and what it lacks. */
const halfPi = 1.5707963705062866
const halfPiRest = -4.371139000186241e-8
const pi = 3.1415927410125732
const piRest = -8.742278000372482e-8

/** (atan(t) - t) / t^3 in t^2, t in [0, 1]: error 2.7e-9 of atan. Highest power first. */
const atanTerms = [
  -0.0017886083805933595, 0.010891420766711235, -0.031133051961660385, 0.057910818606615067, -0.08400601148605347,
  0.10951169580221176, -0.14264041185379028, 0.1999852955341339, -0.33333298563957214,
]

/** (asin(t) - t) / t^3 in t^2, t in [0, 1/2]: error 4.9e-9 of asin. */
const asinTerms = [
  0.04216641187667847, 0.02418077364563942, 0.045469772070646286, 0.07495306432247162, 0.16666752099990845,
]

/** t + t^3 P(t^2), given t and t^2. */
const oddPoly = (v: Vector, t: Ex, z: Ex, terms: readonly number[]): Ex => v.fma(v.mul(t, z), v.poly(z, terms), t)

/** (c - y), c in two parts. */
const from = (v: Vector, c: number, rest: number, y: Ex): Ex => v.add(v.sub(v.c(c), y), v.c(rest))

export function atan(v: Vector, x: Ex): Ex {
  const a = v.let(v.abs(x))
  const t = v.let(v.div(v.atMost(a, v.c(1)), v.atLeast(a, v.c(1))))
  const y = v.let(oddPoly(v, t, v.let(v.mul(t, t)), atanTerms))
  return v.or(v.select(v.gt(a, v.c(1)), from(v, halfPi, halfPiRest, y), y), v.signOf(x))
}

/** The angle of (x, y): atan of the lesser over the greater magnitude, unfolded by octant. */
export function atan2(v: Vector, y: Ex, x: Ex): Ex {
  const ax = v.let(v.abs(x))
  const ay = v.let(v.abs(y))
  const steep = v.let(v.gt(ay, ax))
  const above = v.select(steep, ax, ay)
  const below = v.let(v.select(steep, ay, ax))
  // 0 / 0 counts as 0, inf / inf as 1.
  const ratio = v.let(v.div(above, below))
  const defined = v.andnot(ratio, v.eq(below, v.c(0)))
  const t = v.let(v.select(v.eq(v.op('f32x4.min', ax, ay), v.c(Number.POSITIVE_INFINITY)), v.c(1), defined))
  const octant = v.let(oddPoly(v, t, v.let(v.mul(t, t)), atanTerms))
  const quadrant = v.let(v.select(steep, from(v, halfPi, halfPiRest, octant), octant))
  const angle = v.select(v.shrS(x, 31), from(v, pi, piRest, quadrant), quadrant)
  return v.or(v.or(angle, v.signOf(y)), v.or(v.ne(x, x), v.ne(y, y)))
}

/** For |x| > 1/2 through asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)): the parts both functions need. */
function halves(v: Vector, x: Ex): { readonly beyond: Ex; readonly p: Ex } {
  const a = v.let(v.abs(x))
  const beyond = v.let(v.gt(a, v.c(0.5)))
  const z = v.let(v.select(beyond, v.mul(v.sub(v.c(1), a), v.c(0.5)), v.mul(a, a)))
  const t = v.let(v.select(beyond, v.sqrt(z), a))
  return { beyond, p: v.let(oddPoly(v, t, z, asinTerms)) }
}

export function asin(v: Vector, x: Ex): Ex {
  const { beyond, p } = halves(v, x)
  const far = from(v, halfPi, halfPiRest, v.add(p, p))
  return v.or(v.select(beyond, far, p), v.signOf(x))
}

export function acos(v: Vector, x: Ex): Ex {
  const { beyond, p } = halves(v, x)
  const twice = v.let(v.add(p, p))
  const far = v.select(v.shrS(x, 31), from(v, pi, piRest, twice), twice)
  return v.select(beyond, far, from(v, halfPi, halfPiRest, v.or(p, v.signOf(x))))
}
