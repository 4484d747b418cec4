/** Inverse trigonometric functions on f32x4. */
import { asinTerms, atanTerms, halfPi, pi } from '../../../scalar/polynomials.ts'
import type { Ex, Vector } from './vector.ts'

/** t + t^3 P(t^2), given t and t^2. */
const oddPoly = (v: Vector, t: Ex, z: Ex, terms: readonly number[]): Ex => v.fma(v.mul(t, z), v.poly(z, terms), t)

/** (c - y), c in two parts. */
const from = (v: Vector, c: typeof pi, y: Ex): Ex => v.add(v.sub(v.c(c.high), y), v.c(c.low))

export function atan(v: Vector, x: Ex): Ex {
  const a = v.let(v.abs(x))
  const t = v.let(v.div(v.atMost(a, v.c(1)), v.atLeast(a, v.c(1))))
  const y = v.let(oddPoly(v, t, v.let(v.mul(t, t)), atanTerms))
  return v.or(v.select(v.gt(a, v.c(1)), from(v, halfPi, y), y), v.signOf(x))
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
  const t = v.let(v.select(v.eq(v.min(ax, ay), v.c(Number.POSITIVE_INFINITY)), v.c(1), defined))
  const octant = v.let(oddPoly(v, t, v.let(v.mul(t, t)), atanTerms))
  const quadrant = v.let(v.select(steep, from(v, halfPi, octant), octant))
  const angle = v.select(v.shrS(x, 31), from(v, pi, quadrant), quadrant)
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
  const far = from(v, halfPi, v.add(p, p))
  return v.or(v.select(beyond, far, p), v.signOf(x))
}

export function acos(v: Vector, x: Ex): Ex {
  const { beyond, p } = halves(v, x)
  const twice = v.let(v.add(p, p))
  const far = v.select(v.shrS(x, 31), from(v, pi, twice), twice)
  return v.select(beyond, far, from(v, halfPi, v.or(p, v.signOf(x))))
}
