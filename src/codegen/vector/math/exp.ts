/**
 * exp and its relatives on f32x4: reduction x = n ln 2 + r (W. J. Cody, W. Waite: Software Manual for the Elementary
 * Functions, 1980), then a polynomial in r.
 */
import { expm1Range, expm1Terms, expTerms, halfExpEnd, ln2, sinhTerms, tanhEnd } from '../../../scalar/polynomials.ts'
import type { Ex, Vector } from './vector.ts'

const log2e = Math.LOG2E
/** Adding it leaves round(x) in the low bits of the f32 pattern, and the rest is a multiple of 2^9: see `anchor`. */
const integerAnchor = 1.5 * 2 ** 23

/** x - n ln 2. */
const reduce = (v: Vector, x: Ex, n: Ex): Ex => v.fnma(n, v.c(ln2.low), v.fnma(n, v.c(ln2.high), x))

/**
 * e^x 2^(bias - 127) with n = floor(x / ln 2), so the polynomial lies in [1, 2] and the power of two alone decides: with bias
 * 127, n = 128 has the bits of infinity and n = -127 those of zero, so results overflow to infinity and flush below 2^-126 to
 * zero without a test. `a` is clamped to where n + bias is from 0 to 255.
 */
function scaledExp(v: Vector, a: Ex, bias: number): Ex {
  // Just above -1/2: the tie at x = 0 must go up.
  const shifted = v.let(v.add(v.fma(a, v.c(log2e), v.c(-0.49999997)), v.c(integerAnchor + bias)))
  const n = v.let(v.sub(shifted, v.c(integerAnchor + bias)))
  const r = v.let(reduce(v, a, n))
  return v.mul(v.poly(r, expTerms), v.shl(shifted, 23))
}

export const exp = (v: Vector, x: Ex): Ex => scaledExp(v, v.let(v.atLeast(v.atMost(x, v.c(88.9)), v.c(-87.9))), 127)

/** e^|x| / 2: overflows no earlier than sinh and cosh. */
const halfExp = (v: Vector, x: Ex): Ex => scaledExp(v, v.let(v.atMost(v.abs(x), v.c(halfExpEnd))), 126)

/**
 * (e^x - 1) / 2 as s p + (s - 1/2) with p = e^r - 1 and s = 2^(n - 1): exact where n = 0, and n may be 128. `x` is at most 88.8
 * and at least -17.5.
 */
function halfExpm1(v: Vector, a: Ex): Ex {
  const shifted = v.let(v.fma(a, v.c(log2e), v.c(integerAnchor + 126)))
  const n = v.let(v.sub(shifted, v.c(integerAnchor + 126)))
  const r = v.let(reduce(v, a, n))
  const p = v.fma(v.mul(r, r), v.poly(r, expm1Terms), r)
  const s = v.let(v.shl(shifted, 23))
  return v.fma(s, p, v.sub(s, v.c(0.5)))
}

export function expm1(v: Vector, x: Ex): Ex {
  const half = v.let(halfExpm1(v, v.let(v.atLeast(v.atMost(x, v.c(expm1Range.to)), v.c(expm1Range.from)))))
  return v.add(half, half)
}

/** With h = (e^(2|x|) - 1) / 2: tanh |x| = h / (h + 1). Beyond 10 it rounds to one. */
export function tanh(v: Vector, x: Ex): Ex {
  const a = v.let(v.atMost(v.abs(x), v.c(tanhEnd)))
  const h = v.let(halfExpm1(v, v.let(v.add(a, a))))
  return v.or(v.div(h, v.add(h, v.c(1))), v.signOf(x))
}

/** 1 / (1 + e^-x). */
export const sigmoid = (v: Vector, x: Ex): Ex => v.div(v.c(1), v.add(v.c(1), exp(v, v.let(v.neg(x)))))

/** h - 1 / (4 h) with h = e^|x| / 2; up to one, where that cancels, a polynomial. */
export function sinh(v: Vector, x: Ex): Ex {
  const h = v.let(halfExp(v, x))
  const far = v.sub(h, v.div(v.c(0.25), h))
  const z = v.let(v.mul(x, x))
  const near = v.fma(v.mul(x, z), v.poly(z, sinhTerms), x)
  return v.select(v.gt(v.abs(x), v.c(1)), v.or(far, v.signOf(x)), near)
}

/** h + 1 / (4 h) with h = e^|x| / 2. */
export function cosh(v: Vector, x: Ex): Ex {
  const h = v.let(halfExp(v, x))
  return v.add(h, v.div(v.c(0.25), h))
}
