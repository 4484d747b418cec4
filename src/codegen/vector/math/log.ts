/**
 * log and its relatives on vectors: x = 2^e m with m in [sqrt(1/2), sqrt(2)), then a polynomial in f = m - 1, or for f64 in s = f / (2 + f) (the
 * schemes of Cody & Waite, 1980).
 */
import { largeOfLog, ln2, logTerms } from '../../../scalar/polynomials.ts'
import * as wide from '../../../scalar/polynomials64.ts'
import * as X from '../ir/expr.ts'
import * as T from '../ir/types.ts'
import type { Ex, Vector } from './vector.ts'

/** Bits of sqrt(1/2) as f32. */
const rootHalf = 0x3f3504f3

/** The logarithm of a positive finite number stands for that of any: infinity and NaN give themselves, zero -infinity, negatives NaN. */
export function atEdges(v: Vector, x: Ex, y: Ex): Ex {
  const finite = v.select(v.lt(x, v.c(Number.POSITIVE_INFINITY)), y, x)
  return v.or(v.select(v.eq(x, v.c(0)), v.c(Number.NEGATIVE_INFINITY), finite), v.lt(x, v.c(0)))
}

function logOfSingles(v: Vector, x: Ex): Ex {
  // Subnormals are scaled by 2^23.
  const tiny = v.let(v.lt(x, v.c(2 ** -126)))
  const scaled = v.let(v.select(tiny, v.mul(x, v.c(2 ** 23)), x))
  const offset = v.let(v.isub(scaled, v.i(rootHalf)))
  const exponent = v.isub(v.shrS(offset, 23), v.and(tiny, v.i(23)))
  const e = v.let(X.convert(T.f32x4, exponent))
  const m = v.iadd(v.and(offset, v.i(0x7fffff)), v.i(rootHalf))
  const f = v.let(v.sub(m, v.c(1)))
  const z = v.let(v.mul(f, f))
  const cubic = v.fma(e, v.c(ln2.low), v.mul(v.poly(f, logTerms), v.mul(f, z)))
  const low = v.fnma(v.c(0.5), z, cubic)
  return atEdges(v, x, v.fma(e, v.c(ln2.high), v.add(f, low)))
}

/** Bits of sqrt(1/2) as f64, and of a fraction. */
const rootHalfOfDoubles = 0x3fe6a09e667f3bcdn
const fraction = 0xfffffffffffffn
/** Added to the exponent of the offset bits so that it is positive. */
const exponentBias = 1100
/** As bits, an f64 that holds the integer in its low bits: 2^52 and that integer. */
const integerPattern = 0x4330000000000000n

/** A positive normal f64 as 2^e m with m in [sqrt(1/2), sqrt(2)). */
export function splitDouble(v: Vector, x: Ex): { readonly e: Ex; readonly m: Ex } {
  const offset = v.let(v.isub(x, v.i(rootHalfOfDoubles)))
  const field = v.shrU(v.iadd(offset, v.i(BigInt(exponentBias) << 52n)), 52)
  const e = v.sub(v.or(field, v.i(integerPattern)), v.c(2 ** 52 + exponentBias))
  return { e, m: v.iadd(v.and(offset, v.i(fraction)), v.i(rootHalfOfDoubles)) }
}

/** A positive finite f64 as 2^e (1 + f). */
export function reduceDouble(v: Vector, x: Ex): { readonly e: Ex; readonly f: Ex } {
  // Subnormals are scaled by 2^54.
  const tiny = v.let(v.lt(x, v.c(2 ** -1022)))
  const { e, m } = splitDouble(v, v.let(v.select(tiny, v.mul(x, v.c(2 ** 54)), x)))
  return { e: v.let(v.sub(e, v.and(v.c(54), tiny))), f: v.let(v.sub(m, v.c(1))) }
}

function logOfDoubles(v: Vector, x: Ex): Ex {
  const { e, f } = reduceDouble(v, x)
  const s = v.let(v.div(f, v.add(f, v.c(2))))
  const z = v.let(v.mul(s, s))
  // log(1 + f) = f - (h - s (h + R)) with h = f^2 / 2 and R what the logarithm has beyond 2 s, over s.
  const h = v.let(v.mul(v.mul(f, v.c(0.5)), f))
  const low = v.fma(s, v.fma(z, v.poly(z, [...wide.logTerms, 2 / 3]), h), v.mul(e, v.c(wide.ln2.low)))
  return atEdges(v, x, v.fma(e, v.c(wide.ln2.high), v.sub(f, v.sub(h, low))))
}

export const log = (v: Vector, x: Ex): Ex => (v.wide ? logOfDoubles(v, x) : logOfSingles(v, x))

/** log(u) + d / u where u + d = 1 + x exactly (Knuth's two-sum); d / u counts only where it is a small number. */
export function log1p(v: Vector, x: Ex): Ex {
  const u = v.let(v.add(x, v.c(1)))
  const back = v.let(v.sub(u, v.c(1)))
  const d = v.add(v.sub(v.c(1), v.sub(u, back)), v.sub(x, back))
  const correction = v.let(v.div(d, u))
  const used = v.and(correction, v.lt(v.abs(correction), v.c(1)))
  return v.add(v.let(log(v, u)), used)
}

/** log(1 + w), or log(2 a) where a is large. */
function logBeyond(v: Vector, a: Ex, w: Ex): Ex {
  const big = v.let(v.gt(a, v.c(v.wide ? wide.largeOfLog : largeOfLog)))
  const y = v.let(log1p(v, v.let(v.select(big, a, w))))
  return v.add(y, v.and(big, v.c(Math.LN2)))
}

/** sign(x) log(1 + a + a^2 / (1 + sqrt(a^2 + 1))), a = |x|. */
export function asinh(v: Vector, x: Ex): Ex {
  const a = v.let(v.abs(x))
  const square = v.let(v.mul(a, a))
  const w = v.add(a, v.div(square, v.add(v.c(1), v.sqrt(v.add(square, v.c(1))))))
  return v.or(logBeyond(v, a, w), v.signOf(x))
}

/** log(1 + t + sqrt(2 t + t^2)), t = x - 1. */
export function acosh(v: Vector, x: Ex): Ex {
  const t = v.let(v.sub(x, v.c(1)))
  const w = v.add(t, v.sqrt(v.mul(t, v.add(t, v.c(2)))))
  return v.or(logBeyond(v, x, w), v.lt(x, v.c(1)))
}

/** sign(x) log(1 + 2 a / (1 - a)) / 2, a = |x|. */
export function atanh(v: Vector, x: Ex): Ex {
  const a = v.let(v.abs(x))
  const w = v.let(v.div(v.add(a, a), v.sub(v.c(1), a)))
  return v.or(v.mul(v.let(log1p(v, w)), v.c(0.5)), v.signOf(x))
}
