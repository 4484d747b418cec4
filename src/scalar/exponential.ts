/**
 * Exponentials, logarithms, powers and hyperbolic functions of doubles, by operations that IEEE 754 defines exactly: the same bits on every engine, whose own Math.exp and
 * others differ in the last place. Arguments are reduced to where a Taylor series is short, leading terms are summed in two doubles
 * (`twofold.ts`), and the error stays below 0.6 units in the last place of a normal result. J.-M. Muller: Elementary Functions, 2016.
 */
import {
  add,
  bits,
  divide,
  last,
  multiply,
  pair,
  powerOfTwo,
  quickSum,
  root,
  scale,
  series,
  twoProduct,
  twoSum,
} from './twofold.ts'

/** ln 2 in parts: products of the first two with whole numbers below 2^21 are exact. */
const [ln2First, ln2Second, ln2Third] = [0.6931471803691238, 1.9082149288430703e-10, 4.275175589747649e-20]
const log2e = Math.LOG2E

/** 1/3!, 1/4!, ..., 1/17!, the last first. */
const factorials: readonly number[] = Array.from({ length: 15 }, (_, i) => {
  let f = 1
  for (let k = 2; k <= 17 - i; k++) f *= k
  return 1 / f
})

/** The power of two that `reducedExp` took out. */
let taken = 0

/** exp(x) = 2^taken (1 + r), |r| < 0.42: r in two doubles. For |x| below 800. */
function reducedExp(x: number, xl: number): number {
  const n = Math.floor(x * log2e + 0.5)
  taken = n
  const h = twoSum(x - n * ln2First, -n * ln2Second)
  const r = quickSum(h, last.low + (xl - n * ln2Third))
  const rl = last.low
  const square = twoProduct(r, r)
  const tail = last.low / 2 + rl * r + square * r * series(r, factorials)
  const s = twoSum(r, square / 2)
  return quickSum(s, last.low + (tail + rl))
}

/** 2^n (1 + r), rounded. */
function finishExp(r: number, rl: number, n: number): number {
  const s = twoSum(1, r)
  return scale(s + (last.low + rl), n)
}

/** exp(x + xl). */
function expOf(x: number, xl: number, halvings = 0): number {
  if (Number.isNaN(x)) return x
  if (x > 711) return Number.POSITIVE_INFINITY
  if (x < -746) return 0
  const r = reducedExp(x, xl)
  return finishExp(r, last.low, taken - halvings)
}

/** e to the x. */
export const exp = (x: number): number => expOf(x, 0)

/** exp(x) - 1 in two doubles, |x| < 40. */
function expm1Pair(x: number): number {
  const r = reducedExp(x, 0)
  const unit = powerOfTwo(taken)
  return taken === 0 ? r : add(unit - 1, 0, r * unit, last.low * unit)
}

/** exp(x) - 1. */
export function expm1(x: number): number {
  if (Math.abs(x) < 2 ** -54) return x
  if (x > 40) return exp(x)
  if (x < -40) return -1
  const high = expm1Pair(x)
  return high + last.low
}

/** Hyperbolic sine. */
export function sinh(x: number): number {
  const a = Math.abs(x)
  if (a < 2 ** -28 || Number.isNaN(x)) return x
  if (a >= 40) return x < 0 ? -expOf(a, 0, 1) : expOf(a, 0, 1)
  const e = expm1Pair(a)
  const el = last.low
  const d = add(e, el, 1, 0)
  const q = divide(e, el, d, last.low)
  const y = add(e, el, q, last.low) / 2
  return x < 0 ? -y : y
}

/** Hyperbolic cosine. */
export function cosh(x: number): number {
  const a = Math.abs(x)
  if (!(a < 40)) return expOf(a, 0, 1)
  const m = expm1Pair(a)
  const e = add(m, last.low, 1, 0)
  const el = last.low
  const q = divide(1, 0, e, el)
  return add(e, el, q, last.low) / 2
}

/** Hyperbolic tangent. */
export function tanh(x: number): number {
  const a = Math.abs(x)
  if (a < 2 ** -28 || Number.isNaN(x)) return x
  if (a > 22) return x < 0 ? -1 : 1
  const e = expm1Pair(2 * a)
  const el = last.low
  const d = add(e, el, 2, 0)
  const y = divide(e, el, d, last.low)
  return x < 0 ? -y : y
}

/** 1/3, 1/5, ..., 1/29, the last first. */
const oddQuotients: readonly number[] = Array.from({ length: 14 }, (_, i) => 1 / (29 - 2 * i))
/** 1/9, 1/11, ..., and the three before in two doubles, the last first. */
const laterQuotients = oddQuotients.slice(0, 11)
const firstQuotients = [7, 5, 3].map((n) => {
  const high = divide(1, 0, n, 0)
  return { high, low: last.low }
})

/**
 * ln(x + xl) in two doubles, for a positive finite x: 2 artanh(s), s = (m - 1) / (m + 1), of the mantissa m in [sqrt(1/2), sqrt(2)).
 * What artanh has beyond s is at most 1% of it, and summed in one double unless the logarithm is wanted to 70 bits.
 */
function logPair(x: number, xl: number, isLong: boolean): number {
  const isTiny = x < 2 ** -1022
  bits.setFloat64(0, isTiny ? x * 2 ** 54 : x)
  const word = bits.getUint32(0)
  bits.setUint32(0, (word & 0xfffff) | 0x3ff00000)
  let m = bits.getFloat64(0)
  let k = (word >>> 20) - (isTiny ? 1077 : 1023)
  if (m > Math.SQRT2) {
    m /= 2
    k++
  }
  const f = twoSum(m - 1, xl === 0 ? 0 : scale(xl, -k))
  const fl = last.low
  const d = add(f, fl, 2, 0)
  const s = divide(f, fl, d, last.low)
  const sl = last.low
  let t: number
  if (isLong) {
    const z = multiply(s, sl, s, sl)
    const zl = last.low
    t = multiply(z, zl, series(z, laterQuotients), 0)
    for (const c of firstQuotients) {
      t = add(c.high, c.low, t, last.low)
      t = multiply(z, zl, t, last.low)
    }
    t = multiply(s, sl, t, last.low)
    t = add(s, sl, t, last.low)
  } else {
    const z = s * s
    t = quickSum(s, sl + s * (z * series(z, oddQuotients)))
  }
  const tl = last.low
  if (k === 0) return pair(2 * t, 2 * tl)
  const whole = twoSum(k * ln2First, k * ln2Second)
  return add(whole, last.low + k * ln2Third, 2 * t, 2 * tl)
}

/** Natural logarithm. */
export function log(x: number): number {
  if (!(x > 0)) return x === 0 ? Number.NEGATIVE_INFINITY : Number.NaN
  return x === Number.POSITIVE_INFINITY ? x : logPair(x, 0, false)
}

/** ln(1 + x). */
export function log1p(x: number): number {
  if (Math.abs(x) < 2 ** -54 || x === Number.POSITIVE_INFINITY) return x
  if (!(x > -1)) return x === -1 ? Number.NEGATIVE_INFINITY : Number.NaN
  const s = twoSum(1, x)
  return logPair(s, last.low, false)
}

/** ln(1 + x + xl), and the sign of `side`. */
function signedLog1p(x: number, xl: number, side: number, factor = 1): number {
  const s = add(1, 0, x, xl)
  const y = logPair(s, last.low, false) * factor
  return side < 0 ? -y : y
}

/** ln(2 x) for a great x. */
function logTwice(x: number): number {
  const y = logPair(x, 0, false)
  return add(y, last.low, ln2First + ln2Second, ln2First - (ln2First + ln2Second) + ln2Second + ln2Third)
}

/** Inverse hyperbolic sine: a + a^2 / (1 + sqrt(1 + a^2)) is what it has beyond 1 in its logarithm. */
export function asinh(x: number): number {
  const a = Math.abs(x)
  if (!(a >= 2 ** -28) || a === Number.POSITIVE_INFINITY) return x
  if (a > 2 ** 28) return x < 0 ? -logTwice(a) : logTwice(a)
  const z = twoProduct(a, a)
  const zl = last.low
  const inner = add(z, zl, 1, 0)
  const r = root(inner, last.low)
  const d = add(r, last.low, 1, 0)
  const q = divide(z, zl, d, last.low)
  const u = add(q, last.low, a, 0)
  return signedLog1p(u, last.low, x)
}

/** Inverse hyperbolic cosine. */
export function acosh(x: number): number {
  if (!(x > 1)) return x === 1 ? 0 : Number.NaN
  if (x > 2 ** 28) return x === Number.POSITIVE_INFINITY ? x : logTwice(x)
  const t = x - 1
  const square = twoProduct(t, t)
  const p = add(square, last.low, 2 * t, 0)
  const r = root(p, last.low)
  const u = add(r, last.low, t, 0)
  return signedLog1p(u, last.low, 1)
}

/** Inverse hyperbolic tangent. */
export function atanh(x: number): number {
  const a = Math.abs(x)
  if (!(a < 1)) return a === 1 ? x * Number.POSITIVE_INFINITY : Number.NaN
  if (a < 2 ** -28) return x
  const d = twoSum(1, -a)
  const u = divide(2 * a, 0, d, last.low)
  return signedLog1p(u, last.low, x, 0.5)
}

/** x to the y, as C99 has it: pow(1, y) = 1 for every y, pow(-1, +-inf) = 1. */
export function pow(x: number, y: number): number {
  if (x === 1 || y === 0) return 1
  const a = Math.abs(x)
  if (a === 1 && Math.abs(y) === Number.POSITIVE_INFINITY) return 1
  // What is left of these the language defines exactly.
  if (!Number.isFinite(x) || !Number.isFinite(y) || x === 0) return x ** y
  if (x < 0 && !Number.isInteger(y)) return Number.NaN
  const sign = x < 0 && Math.abs(y % 2) === 1 ? -1 : 1
  if (a === 1) return sign
  const l = logPair(a, 0, true)
  const ll = last.low
  const rough = l * y
  if (Math.abs(rough) > 800) return sign * (rough > 0 ? Number.POSITIVE_INFINITY : 0)
  const p = multiply(l, ll, y, 0)
  return sign * expOf(p, last.low)
}
