/**
 * pow and rem on f32x4 through f64x2, two lanes at a time: the extra precision makes log2, the product and 2^t plain
 * polynomials. Coefficients: minimax fits by the Remez exchange. pow on f64x2 keeps the logarithm in two doubles. Edge cases: C99
 * (docs/numerics.md, "Floats").
 */
import * as wide from '../../../scalar/polynomials64.ts'
import * as X from '../ir/expr.ts'
import * as T from '../ir/types.ts'
import { atEdges, reduceDouble, splitDouble } from './log.ts'
import type { Ex, Exact, Vector } from './vector.ts'

/** log2(m) / s in s^2, where s = (m - 1) / (m + 1) and m in [sqrt(1/2), sqrt(2)): error 4e-12. Highest power first. */
const log2Terms = [0.3407301116061406, 0.4116727184711666, 0.5770835849806464, 0.9617966733416596, 2.8853900817900864]
/** 2^t on [-1/2, 1/2] with constant term 1: error 1.9e-9. */
const exp2Terms = [
  0.00015476328919224072, 0.0013400296225716455, 0.009618003791546153, 0.05550327725224386, 0.2402265134667824,
  0.6931472062787468, 1,
]

/** Lanes 2 half and 2 half + 1 of an f32x4 as f64x2. */
const promote = (x: Ex, half: 0 | 1): Ex =>
  X.convert(T.f64x2, half === 0 ? X.view(T.f32x4, x) : X.shuffle(T.f32x4, x, x, [2, 3, 2, 3]))

/** Two f64x2 as one f32x4. */
const demote = (low: Ex, high: Ex): Ex =>
  X.shuffle(T.f32x4, X.convert(T.f32x4, X.view(T.f64x2, low)), X.convert(T.f32x4, X.view(T.f64x2, high)), [0, 1, 4, 5])

/** log2 of a non-negative f64 that came from an f32 (so it is no f64 subnormal). */
function log2(d: Vector, x: Ex): Ex {
  const split = splitDouble(d, x)
  const m = d.let(split.m)
  const s = d.let(d.div(d.sub(m, d.c(1)), d.add(m, d.c(1))))
  const z = d.let(d.mul(s, s))
  const y = d.let(d.add(split.e, d.mul(s, d.poly(z, log2Terms))))
  const finite = d.select(d.lt(x, d.c(Number.POSITIVE_INFINITY)), y, x)
  return d.select(d.eq(x, d.c(0)), d.c(Number.NEGATIVE_INFINITY), finite)
}

/** 2^t; beyond 200 in magnitude the result is past every f32. */
function exp2(d: Vector, t: Ex): Ex {
  const a = d.let(d.atLeast(d.atMost(t, d.c(200)), d.c(-200)))
  const anchor = d.c(1.5 * 2 ** 52)
  const shifted = d.let(d.add(a, anchor))
  const f = d.let(d.sub(a, d.sub(shifted, anchor)))
  return d.iadd(d.poly(f, exp2Terms), d.shl(shifted, 52))
}

/** |x|^y of f32. */
function powerOfSingles(v: Vector, a: Ex, y: Ex): Ex {
  const d = v.doubles()
  const power = (half: 0 | 1): Ex => {
    const t = d.let(d.mul(d.let(log2(d, d.let(promote(a, half)))), promote(y, half)))
    return d.let(d.select(d.eq(t, t), exp2(d, t), t))
  }
  return demote(power(0), power(1))
}

/** The 26 first bits of f64: products of two such are exact. */
const cut = (v: Vector, x: Ex): Ex => v.let(v.and(x, v.i(-(2n ** 27n))))

/** a b - p, where p is that product rounded (T. J. Dekker, 1971). */
function lostBy(v: Vector, a: Ex, b: Ex, p: Ex): Ex {
  if (v.fused) return v.fma(a, b, v.neg(p))
  const [ah, bh] = [cut(v, a), cut(v, b)]
  const [al, bl] = [v.let(v.sub(a, ah)), v.let(v.sub(b, bh))]
  const sum = v.add(v.add(v.sub(v.mul(ah, bh), p), v.mul(ah, bl)), v.mul(al, bh))
  return v.add(sum, v.mul(al, bl))
}

/** e^t from here on is infinite, or less than the least number. */
const mostExponent = 1000

/** Adding it leaves the exponent bits of 2^n in the low bits of the pattern. */
const powerAnchor = 1.5 * 2 ** 52 + 1023

/** 2/3 in two parts. */
const twoThirds = { high: 2 / 3, low: 3.700743415417188e-17 }

/**
 * |x|^y of f64: log |x| = e ln 2 + 2 s + 2/3 s^3 + s^5 R, s = f / (2 + f), with what s, its cube, the sum and the product with y lack: of the
 * logarithm's bits up to ten are its exponent's in the power, so 2^-62 of it may be lost.
 */
function powerOfDoubles(v: Vector, a: Ex, y: Ex): Ex {
  const { e, f } = reduceDouble(v, a)
  const d = v.let(v.add(f, v.c(2)))
  const dLow = v.sub(f, v.sub(d, v.c(2)))
  const s = v.let(v.div(f, d))
  const sd = v.let(v.mul(s, d))
  const sLow = v.let(v.div(v.sub(v.sub(v.sub(f, sd), lostBy(v, s, d, sd)), v.mul(s, dLow)), d))
  const z = v.let(v.mul(s, s))
  const zLow = v.fma(v.add(s, s), sLow, lostBy(v, s, s, z))
  const third = v.c(twoThirds.high)
  const q = v.let(v.mul(z, third))
  const qLow = v.fma(z, v.c(twoThirds.low), v.fma(zLow, third, lostBy(v, z, third, q)))
  const cube = v.let(v.mul(s, q))
  const more = v.mul(v.mul(s, z), v.mul(z, v.poly(z, wide.logTerms)))
  const rest = v.add(v.fma(s, qLow, v.fma(sLow, q, lostBy(v, s, q, cube))), v.add(more, v.add(sLow, sLow)))
  const twice = v.let(v.add(s, s))
  const l = v.let(v.add(twice, cube))
  const lLow = v.add(v.sub(cube, v.sub(l, twice)), rest)
  const whole = v.let(v.mul(e, v.c(wide.ln2.high)))
  const sum = v.let(v.add(whole, l))
  const lost = v.let(v.add(v.sub(l, v.sub(sum, whole)), v.fma(e, v.c(wide.ln2.low), lLow)))
  const high = v.let(v.add(sum, lost))
  const low = v.sub(lost, v.sub(high, sum))
  const log = v.let(atEdges(v, a, high))
  const t = v.let(v.mul(log, y))
  const tLow = v.fma(y, low, lostBy(v, log, y, t))
  return expOfSum(v, t, v.let(v.and(tLow, v.lt(v.abs(t), v.c(mostExponent)))))
}

/** e^(t + low) of f64, where `low` is less than the last place of t: rounded about once. */
function expOfSum(v: Vector, t: Ex, low: Ex): Ex {
  const a = v.let(v.atLeast(v.atMost(t, v.c(mostExponent)), v.c(-mostExponent)))
  const n = v.let(v.float('nearest', v.mul(a, v.c(Math.LOG2E))))
  // r + rLow = t + low - n ln 2, and e^r = 1 + r + r^2 p.
  const first = v.let(v.fnma(n, v.c(wide.ln2.high), a))
  const second = v.let(v.fnma(n, v.c(wide.ln2.low), low))
  const r = v.let(v.add(first, second))
  const rLow = v.add(v.sub(first, r), second)
  const unit = v.let(v.add(v.c(1), r))
  const unitLow = v.add(v.sub(v.c(1), unit), r)
  const more = v.fma(v.mul(r, r), v.poly(r, wide.expm1Terms), v.fma(rLow, unit, unitLow))
  // In two halves: the power itself may be beyond the greatest or below the least normal number.
  const half = v.let(v.float('nearest', v.mul(n, v.c(0.5))))
  const power = (m: Ex): Ex => v.shl(v.add(m, v.c(powerAnchor)), 52)
  return v.mul(v.mul(v.add(unit, more), power(half)), power(v.sub(n, half)))
}

export function pow(v: Vector, x: Ex, y: Ex): Ex {
  const a = v.let(v.abs(x))
  const magnitude = v.let(v.wide ? powerOfDoubles(v, a, y) : powerOfSingles(v, a, y))
  const whole = v.let(v.eq(y, v.trunc(y)))
  const half = v.let(v.mul(y, v.c(0.5)))
  const isOdd = v.and(whole, v.ne(half, v.trunc(half)))
  const signed = v.or(magnitude, v.and(v.signOf(x), isOdd))
  const negative = v.and(v.lt(x, v.c(0)), v.gt(x, v.c(Number.NEGATIVE_INFINITY)))
  const undefinedPower = v.andnot(negative, whole)
  const infinite = v.and(v.eq(a, v.c(1)), v.eq(v.abs(y), v.c(Number.POSITIVE_INFINITY)))
  const one = v.or(v.or(v.eq(y, v.c(0)), v.eq(x, v.c(1))), infinite)
  // A NaN y is not whole, but x below zero gives NaN then anyway.
  return v.select(one, v.c(1), v.or(signed, undefinedPower))
}

/** Quotients up to here times an f32 are exact in f64. */
const exactQuotient = 2 ** 28

/** x - trunc(x / y) y, exact; lanes with a larger quotient go one by one. */
export function rem(v: Vector, x: Ex, y: Ex, exact: Exact): Ex {
  const d = v.doubles()
  const ax = v.let(v.abs(x))
  const ay = v.let(v.abs(y))
  const remainder = (half: 0 | 1): Ex => {
    const [p, q] = [v.let(promote(ax, half)), v.let(promote(ay, half))]
    const r = v.let(d.sub(p, d.mul(d.trunc(d.div(p, q)), q)))
    // The quotient may have been rounded up to a whole number.
    return v.let(d.add(r, v.and(d.lt(r, d.c(0)), q)))
  }
  const infinite = v.eq(ay, v.c(Number.POSITIVE_INFINITY))
  const finite = v.lt(ax, v.c(Number.POSITIVE_INFINITY))
  const near = v.select(v.and(infinite, finite), ax, demote(remainder(0), remainder(1)))
  const result = v.letMutable(v.or(near, v.signOf(x)))
  const far = v.let(v.and(v.gt(v.div(ax, ay), v.c(exactQuotient)), v.and(finite, v.gt(ay, v.c(0)))))
  v.f.if(v.any(far), () => result.set(v.select(far, v.lanewise([x, y], exact), result.get)))
  return result.get
}
