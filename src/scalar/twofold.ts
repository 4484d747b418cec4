/**
 * Sums, products, quotients and roots to about 106 bits, by unevaluated sums of two doubles: a function gives the leading one and leaves the
 * trailing one in `last`. T. J. Dekker: A floating-point technique for extending the available precision, 1971; D. E. Knuth, TAOCP 2, 4.2.2.
 * Only operations that IEEE 754 defines exactly are used, so every engine gives the same bits.
 */

/** The trailing part of the last result. */
export const last = { low: 0 }

/** Leaves a trailing part, and gives the leading one. */
export function pair(high: number, trailing: number): number {
  last.low = trailing
  return high
}

/** a + b, exactly. */
export function twoSum(a: number, b: number): number {
  const s = a + b
  const t = s - a
  last.low = a - (s - t) + (b - t)
  return s
}

/** a + b, exactly, where |a| >= |b| or a is 0. */
export function quickSum(a: number, b: number): number {
  const s = a + b
  last.low = b - (s - a)
  return s
}

const splitter = 2 ** 27 + 1

/** a b, exactly, for factors below 2^996. */
export function twoProduct(a: number, b: number): number {
  const p = a * b
  const u = splitter * a
  const ah = u - (u - a)
  const al = a - ah
  const v = splitter * b
  const bh = v - (v - b)
  const bl = b - bh
  last.low = ah * bh - p + ah * bl + al * bh + al * bl
  return p
}

export function add(ah: number, al: number, bh: number, bl: number): number {
  const s = twoSum(ah, bh)
  return quickSum(s, last.low + al + bl)
}

export function multiply(ah: number, al: number, bh: number, bl: number): number {
  const p = twoProduct(ah, bh)
  return quickSum(p, last.low + (ah * bl + al * bh))
}

export function divide(ah: number, al: number, bh: number, bl: number): number {
  const q = ah / bh
  const p = twoProduct(q, bh)
  return quickSum(q, (ah - p - last.low + al - q * bl) / bh)
}

/** The root of a positive number. */
export function root(ah: number, al: number): number {
  const s = Math.sqrt(ah)
  const p = twoProduct(s, s)
  return quickSum(s, (ah - p - last.low + al) / (2 * s))
}

/** A double as two words, the high one first. */
export const bits = new DataView(new ArrayBuffer(8))

/** 2^n of a normal number. */
export function powerOfTwo(n: number): number {
  bits.setUint32(0, (n + 1023) << 20)
  bits.setUint32(4, 0)
  return bits.getFloat64(0)
}

/** x 2^n, rounded once where the result is normal. */
export function scale(x: number, n: number): number {
  const half = n >> 1
  return x * powerOfTwo(half) * powerOfTwo(n - half)
}

/** The polynomial with these coefficients, highest power first. */
export function series(x: number, coefficients: readonly number[]): number {
  let sum = 0
  for (let i = 0; i < coefficients.length; i++) sum = sum * x + (coefficients[i] as number)
  return sum
}
