/**
 * exp and its relatives on vectors: reduction x = n ln 2 + r (W. J. Cody, W. Waite: Software Manual for the Elementary
 * Functions, 1980), then a polynomial in r.
 */
import * as narrow from '../../../scalar/polynomials.ts'
import * as wide from '../../../scalar/polynomials64.ts'
import type { Ex, Vector } from './vector.ts'

/** What the functions are on lanes of a format. */
interface Format {
  /** The exponent's first bit, and what is added to it. */
  readonly at: number
  readonly bias: number
  /** Just above -1/2: the tie at x = 0 must go up. */
  readonly half: number
  /** Where e^x is computed: below, it is zero, above, infinity. */
  readonly from: number
  readonly to: number
  readonly ln2: { readonly high: number; readonly low: number }
  readonly expTerms: readonly number[]
  readonly expm1Terms: readonly number[]
  readonly expm1Range: { readonly from: number; readonly to: number }
  readonly halfExpEnd: number
  readonly tanhEnd: number
  readonly sinhTerms: readonly number[]
}

const singles: Format = { ...narrow, at: 23, bias: 127, half: -0.49999997, from: -87.9, to: 88.9 }
const doubles: Format = { ...wide, at: 52, bias: 1023, half: -0.49999999999999994, from: -708.6, to: 709.8 }

const formatOf = (v: Vector): Format => (v.wide ? doubles : singles)

const log2e = Math.LOG2E

/** Adding it leaves round(x) in the low bits of the pattern; what is added to it besides, there too. */
const anchorOf = (k: Format): number => 1.5 * 2 ** k.at

/** x - n ln 2. */
const reduce = (v: Vector, k: Format, x: Ex, n: Ex): Ex => v.fnma(n, v.c(k.ln2.low), v.fnma(n, v.c(k.ln2.high), x))

/**
 * e^x 2^-less with n = floor(x / ln 2), so the polynomial lies in [1, 2] and the power of two alone decides: where n is too great for the format
 * it has the bits of infinity and where it is too small those of zero, so results overflow to infinity and flush below the least normal number to
 * zero without a test. `a` is clamped to where the exponent fits its bits.
 */
function scaledExp(v: Vector, a: Ex, less: 0 | 1): Ex {
  const k = formatOf(v)
  const anchor = anchorOf(k) + k.bias - less
  const shifted = v.let(v.add(v.fma(a, v.c(log2e), v.c(k.half)), v.c(anchor)))
  const n = v.let(v.sub(shifted, v.c(anchor)))
  const r = v.let(reduce(v, k, a, n))
  return v.mul(v.poly(r, k.expTerms), v.shl(shifted, k.at))
}

export function exp(v: Vector, x: Ex): Ex {
  const { from, to } = formatOf(v)
  return scaledExp(v, v.let(v.atLeast(v.atMost(x, v.c(to)), v.c(from))), 0)
}

/** e^|x| / 2: overflows no earlier than sinh and cosh. */
const halfExp = (v: Vector, x: Ex): Ex => scaledExp(v, v.let(v.atMost(v.abs(x), v.c(formatOf(v).halfExpEnd))), 1)

/**
 * (e^x - 1) / 2 as s p + (s - 1/2) with p = e^r - 1 and s = 2^(n - 1): exact where n = 0, and n may be that of the format's greatest number and one
 * more. `a` lies in `expm1Range`.
 */
function halfExpm1(v: Vector, a: Ex): Ex {
  const k = formatOf(v)
  const anchor = anchorOf(k) + k.bias - 1
  const shifted = v.let(v.fma(a, v.c(log2e), v.c(anchor)))
  const n = v.let(v.sub(shifted, v.c(anchor)))
  const r = v.let(reduce(v, k, a, n))
  const p = v.fma(v.mul(r, r), v.poly(r, k.expm1Terms), r)
  const s = v.let(v.shl(shifted, k.at))
  return v.fma(s, p, v.sub(s, v.c(0.5)))
}

export function expm1(v: Vector, x: Ex): Ex {
  const { from, to } = formatOf(v).expm1Range
  const half = v.let(halfExpm1(v, v.let(v.atLeast(v.atMost(x, v.c(to)), v.c(from)))))
  return v.add(half, half)
}

/** With h = (e^(2|x|) - 1) / 2: tanh |x| = h / (h + 1). Beyond `tanhEnd` it rounds to one. */
export function tanh(v: Vector, x: Ex): Ex {
  const a = v.let(v.atMost(v.abs(x), v.c(formatOf(v).tanhEnd)))
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
  const near = v.fma(v.mul(x, z), v.poly(z, formatOf(v).sinhTerms), x)
  return v.select(v.gt(v.abs(x), v.c(1)), v.or(far, v.signOf(x)), near)
}

/** h + 1 / (4 h) with h = e^|x| / 2. */
export function cosh(v: Vector, x: Ex): Ex {
  const h = v.let(halfExp(v, x))
  return v.add(h, v.div(v.c(0.25), h))
}
