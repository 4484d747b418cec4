/**
 * Trigonometric functions of doubles and their inverses, by operations that IEEE 754 defines exactly: the same bits on every engine, whose own Math.exp and
 * others differ in the last place. Arguments are reduced to where a Taylor series is short, leading terms are summed in two doubles
 * (`twofold.ts`), and the error stays below 0.6 units in the last place of a normal result. J.-M. Muller: Elementary Functions, 2016;
 * for arguments of many digits M. H. Payne and R. N. Hanek: Radian reduction for trigonometric functions, 1983.
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

/** pi / 2 in parts: products of the first two with whole numbers below 2^20 are exact. The third in two doubles. */
const [halfPiFirst, halfPiSecond] = [1.5707963267341256, 6.077100506303966e-11]
const [halfPiThird, halfPiRest] = [2.0222662487959506e-21, 1.0085854035872483e-37]
const [halfPi, halfPiLow] = [1.5707963267948966, 6.123233995736766e-17]
const twoOverPi = 0.6366197723675814
/** floor(2^1216 2 / pi). */
const manyDigits =
  0xa2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babn
const digits = 1216n
/** Bits of a fraction that are kept of those. */
const kept = 160

/** The quarter of the circle, 0 to 3, that `reducedAngle` left. */
let quarter = 0

/** x less a multiple of pi / 2, at most pi / 4 in magnitude, in two doubles. */
function reducedAngle(x: number): number {
  const a = Math.abs(x)
  if (a <= 0.785) {
    quarter = 0
    return pair(x, 0)
  }
  if (a < 2 ** 19) {
    const n = Math.floor(x * twoOverPi + 0.5)
    quarter = n & 3
    const h = twoSum(x - n * halfPiFirst, -n * halfPiSecond)
    const hl = last.low
    const p = twoProduct(n, halfPiThird)
    return add(h, hl, -p, -last.low - n * halfPiRest)
  }
  bits.setFloat64(0, a)
  const word = bits.getUint32(0)
  const mantissa = (BigInt((word & 0xfffff) | 0x100000) << 32n) | BigInt(bits.getUint32(4))
  const exponent = (word >>> 20) - 1075
  const product = mantissa * manyDigits
  const turns = exponent < 0 ? product >> BigInt(-exponent) : product << BigInt(exponent)
  const n = (turns + (1n << (digits - 1n))) >> digits
  const sign = x < 0 ? -1 : 1
  quarter = (sign * Number(n & 3n)) & 3
  const fraction = (turns - (n << digits)) >> (digits - BigInt(kept))
  const h = Number(fraction)
  const l = Number(fraction - BigInt(h))
  const unit = sign * powerOfTwo(-kept)
  return multiply(h * unit, l * unit, halfPi, halfPiLow)
}

/** -1/3!, 1/5!, ..., 1/21! and 1/4!, -1/6!, ..., 1/20!, the last first. */
const alternating = (from: number, last: number, signOfLast: number): readonly number[] =>
  Array.from({ length: (last - from) / 2 + 1 }, (_, i) => {
    let f = signOfLast * (i % 2 === 0 ? 1 : -1)
    for (let k = 2; k <= last - 2 * i; k++) f *= k
    return 1 / f
  })
const sineSeries = alternating(3, 21, 1)
const cosineSeries = alternating(4, 20, 1)

/** sin(r + rl) in two doubles, |r| < 0.8. */
function sinePair(r: number, rl: number): number {
  const z = r * r
  return quickSum(r, z * r * series(z, sineSeries) + rl * (1 - z / 2))
}

/** cos(r + rl) in two doubles, |r| < 0.8. */
function cosinePair(r: number, rl: number): number {
  const z = twoProduct(r, r)
  const zl = last.low
  const h = quickSum(1, -z / 2)
  return quickSum(h, last.low + (z * z * series(z, cosineSeries) - zl / 2 - r * rl))
}

/** Sine of a quarter turn times `turns` more than x. */
function sineFrom(x: number, turns: number): number {
  if (!Number.isFinite(x)) return Number.NaN
  const r = reducedAngle(x)
  const q = (quarter + turns) & 3
  const y = q % 2 === 0 ? sinePair(r, last.low) : cosinePair(r, last.low)
  return q < 2 ? y : -y
}

/** Sine. */
export const sin = (x: number): number => (Math.abs(x) < 2 ** -28 ? x : sineFrom(x, 0))

/** Cosine. */
export const cos = (x: number): number => sineFrom(x, 1)

/** Tangent. */
export function tan(x: number): number {
  if (Math.abs(x) < 2 ** -28) return x
  if (!Number.isFinite(x)) return Number.NaN
  const r = reducedAngle(x)
  const rl = last.low
  const s = sinePair(r, rl)
  const sl = last.low
  const c = cosinePair(r, rl)
  return quarter % 2 === 0 ? divide(s, sl, c, last.low) : -divide(c, last.low, s, sl)
}

/** atan(i / 8), i from 0 to 8, in two doubles. */
const arcs: readonly (readonly [number, number])[] = [
  [0, 0],
  [0.12435499454676144, -3.1253241424539383e-18],
  [0.24497866312686414, 1.0698755618734451e-17],
  [0.35877067027057225, -2.4623815582638635e-17],
  [0.4636476090008061, 2.2698777452961687e-17],
  [0.5585993153435624, -5.4556305485916264e-18],
  [0.6435011087932844, 1.5834785051444286e-17],
  [0.7188299996216245, -2.1478388444456983e-17],
  [0.7853981633974483, 3.061616997868383e-17],
]
/** -1/3, 1/5, ..., 1/17, the last first. */
const arcSeries: readonly number[] = Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? 1 : -1) / (17 - 2 * i))

/** atan(a + al) in two doubles, 0 <= a <= 1: the arc of the nearest eighth and that of the rest. */
function smallArc(a: number, al: number): number {
  const i = Math.floor(a * 8 + 0.5)
  const c = i / 8
  const [arc, arcLow] = arcs[i] ?? [0, 0]
  let t = a
  let tl = al
  if (i > 0) {
    const n = twoSum(a - c, al)
    const nl = last.low
    const d = twoSum(1, a * c)
    t = divide(n, nl, d, last.low + al * c)
    tl = last.low
  }
  const z = t * t
  const rest = z * t * series(z, arcSeries) + tl
  return add(arc, arcLow, t, rest)
}

/** The angle, 0 to pi, of a point with the coordinates x and y >= 0, each in two doubles and not both 0: rounded. */
function angle(y: number, yl: number, x: number, xl: number): number {
  const [a, al] = x < 0 ? [-x, -xl] : [x, xl]
  let arc: number
  if (y <= a) {
    const q = divide(y, yl, a, al)
    arc = smallArc(q, last.low)
  } else {
    const q = divide(a, al, y, yl)
    arc = smallArc(q, last.low)
    arc = add(halfPi, halfPiLow, -arc, -last.low)
  }
  return x < 0 ? add(2 * halfPi, 2 * halfPiLow, -arc, -last.low) : arc
}

/** Arc tangent. */
export function atan(x: number): number {
  const a = Math.abs(x)
  if (a < 2 ** -28 || Number.isNaN(x)) return x
  const y = a > 2 ** 60 ? halfPi : angle(a, 0, 1, 0)
  return x < 0 ? -y : y
}

/** sqrt(1 - x^2) in two doubles. */
function otherSide(x: number): number {
  const z = twoProduct(x, x)
  const d = add(1, 0, -z, -last.low)
  return d === 0 ? pair(0, 0) : root(d, last.low)
}

/** Arc sine. */
export function asin(x: number): number {
  const a = Math.abs(x)
  if (!(a <= 1)) return Number.NaN
  if (a < 2 ** -28) return x
  const w = otherSide(a)
  const y = angle(a, 0, w, last.low)
  return x < 0 ? -y : y
}

/** Arc cosine. */
export function acos(x: number): number {
  if (!(Math.abs(x) <= 1)) return Number.NaN
  const w = otherSide(x)
  return angle(w, last.low, x, 0)
}

/** The angle of the point (x, y), with the sign of y; zeros and infinities as in C99. */
export function atan2(y: number, x: number): number {
  // Only signs and equal multiples of pi / 4: the language names the results, engines round them alike.
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.NaN
  const negative = y < 0 || Object.is(y, -0)
  const left = x < 0 || Object.is(x, -0)
  const signed = (v: number): number => (negative ? -v : v)
  const [a, b] = [Math.abs(y), Math.abs(x)]
  if (a === 0) return signed(left ? 2 * halfPi : 0)
  if (b === 0) return signed(halfPi)
  if (a === Number.POSITIVE_INFINITY) return signed(b === a ? (left ? 3 * (halfPi / 2) : halfPi / 2) : halfPi)
  if (b === Number.POSITIVE_INFINITY) return signed(left ? 2 * halfPi : 0)
  const ratio = a / b
  if (ratio > 2 ** 60) return signed(halfPi)
  if (ratio < 2 ** -60) return signed(left ? 2 * halfPi : ratio)
  // Both near 1, so that products are exact.
  bits.setFloat64(0, Math.max(a, b))
  const exponent = Math.max((bits.getUint32(0) >>> 20) - 1023, -1022)
  const [sa, sb] = [scale(a, -exponent), scale(b, -exponent)]
  return signed(angle(sa, 0, left ? -sb : sb, 0))
}
