/**
 * sin, cos and tan on f32x4: reduction by multiples of pi/2 in four parts (Cody & Waite, 1980), polynomials on
 * [-pi/4, pi/4]; lanes beyond the reduction's range are computed one by one in double precision.
 */
import { cosTerms, halfPiParts, sinTerms } from '../../../scalar/polynomials.ts'
import type { Ex, Exact, Vector } from './vector.ts'

/** pi / 2 in parts of 10 bits and a rest: products with multiples below 2^14 are exact. */
const parts = halfPiParts(3, 10)
/** Up to here the reduction is good. */
const range = 25000
const integerAnchor = 1.5 * 2 ** 23

interface Reduced {
  /** |x| - quarter pi / 2. */
  readonly sin: Ex
  readonly cos: Ex
  /** Low bits: the quarter. */
  readonly quarter: Ex
  readonly far: Ex
}

function reduce(v: Vector, x: Ex): Reduced {
  const a = v.let(v.abs(x))
  const quarter = v.let(v.fma(a, v.c(2 / Math.PI), v.c(integerAnchor)))
  const n = v.let(v.sub(quarter, v.c(integerAnchor)))
  const r = v.let(parts.reduce<Ex>((rest, p) => v.fnma(n, v.c(p), rest), a))
  const z = v.let(v.mul(r, r))
  const sin = v.let(v.fma(v.mul(r, z), v.poly(z, sinTerms), r))
  const cos = v.let(v.fma(v.mul(z, z), v.poly(z, cosTerms), v.fnma(v.c(0.5), z, v.c(1))))
  return { sin, cos, quarter, far: v.gt(a, v.c(range)) }
}

/** All ones where the quarter is odd. */
const odd = (v: Vector, quarter: Ex): Ex => v.shrS(v.shl(quarter, 31), 31)
/** The sign bit where the quarter is 2 or 3 modulo 4. */
const lower = (v: Vector, quarter: Ex): Ex => v.and(v.shl(quarter, 30), v.i(-0x80000000))

/** `near`, with the lanes of `far` replaced by a double-precision function of their element. */
function withFar(v: Vector, x: Ex, far: Ex, near: Ex, exact: Exact): Ex {
  const y = v.letMutable(near)
  v.f.if(v.any(far), () => y.set(v.select(far, v.lanewise([x], exact), y.get)))
  return y.get
}

export function sin(v: Vector, x: Ex, exact: Exact): Ex {
  const { sin: s, cos: c, quarter, far } = reduce(v, x)
  const near = v.xor(v.select(odd(v, quarter), c, s), v.xor(lower(v, quarter), v.signOf(x)))
  return withFar(v, x, far, near, exact)
}

export function cos(v: Vector, x: Ex, exact: Exact): Ex {
  const { sin: s, cos: c, quarter, far } = reduce(v, x)
  const near = v.xor(v.select(odd(v, quarter), s, c), lower(v, v.iadd(quarter, v.i(1))))
  return withFar(v, x, far, near, exact)
}

export function tan(v: Vector, x: Ex, exact: Exact): Ex {
  const { sin: s, cos: c, quarter, far } = reduce(v, x)
  const swap = v.let(odd(v, quarter))
  // In odd quarters tan is -cot.
  const above = v.xor(v.select(swap, c, s), v.and(swap, v.i(-0x80000000)))
  const near = v.xor(v.div(above, v.select(swap, s, c)), v.signOf(x))
  return withFar(v, x, far, near, exact)
}
