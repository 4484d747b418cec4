/**
 * log and its relatives on f32x4: x = 2^e m with m in [sqrt(1/2), sqrt(2)), then a polynomial in m - 1 (the scheme of
 * Cody & Waite, 1980).
 */
import { largeOfLog, ln2, logTerms } from '../../../scalar/polynomials.ts'
import * as X from '../ir/expr.ts'
import * as T from '../ir/types.ts'
import type { Ex, Vector } from './vector.ts'

/** Bits of sqrt(1/2) as f32. */
const rootHalf = 0x3f3504f3

export function log(v: Vector, x: Ex): Ex {
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
  const y = v.fma(e, v.c(ln2.high), v.add(f, low))
  // Infinity and NaN give themselves, zero -infinity, negatives NaN.
  const finite = v.select(v.lt(x, v.c(Number.POSITIVE_INFINITY)), y, x)
  return v.or(v.select(v.eq(x, v.c(0)), v.c(Number.NEGATIVE_INFINITY), finite), v.lt(x, v.c(0)))
}

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
  const big = v.let(v.gt(a, v.c(largeOfLog)))
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
