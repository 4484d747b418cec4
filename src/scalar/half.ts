/** Half-precision conversion: f16 (IEEE binary16) and bf16 bit patterns to numbers and back, rounding to nearest even. */

/** A binary format narrower than f32: explicit fraction bits, exponent bias, least normal exponent. */
interface Format {
  readonly fraction: number
  readonly bias: number
  readonly leastExponent: number
  /** Bit pattern of +infinity. */
  readonly infinity: number
}

const f16: Format = { fraction: 10, bias: 15, leastExponent: -14, infinity: 0x7c00 }
const bf16: Format = { fraction: 7, bias: 127, leastExponent: -126, infinity: 0x7f80 }

const word = new Float64Array(1)
const halves = new Uint32Array(word.buffer)
const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1
const high = isLittleEndian ? 1 : 0

/** Unbiased exponent of a positive normal double. */
function exponentOf(x: number): number {
  word[0] = x
  return (((halves[high] ?? 0) >>> 20) & 0x7ff) - 1023
}

const roundingAnchor = 2 ** 52

/** Nearest whole number, ties to even, of 0 <= x < 2^51. */
const roundEven = (x: number): number => x + roundingAnchor - roundingAnchor

function encode(x: number, f: Format): number {
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0
  if (Number.isNaN(x)) return f.infinity | (1 << (f.fraction - 1))
  const a = Math.abs(x)
  if (a < 2 ** (f.leastExponent - f.fraction - 1)) return sign
  if (a >= 2 ** (f.bias + 1)) return sign | f.infinity
  // Below the normal range the exponent stays at its least; a carry out of the fraction lands in the exponent field.
  const e = Math.max(exponentOf(a), f.leastExponent)
  const scaled = roundEven(a * 2 ** (f.fraction - e))
  return sign | Math.min(f.infinity, ((e - f.leastExponent) << f.fraction) + scaled)
}

function decode(bits: number, f: Format): number {
  const sign = bits & 0x8000 ? -1 : 1
  const magnitude = bits & 0x7fff
  if (magnitude >= f.infinity) return magnitude === f.infinity ? sign * Number.POSITIVE_INFINITY : Number.NaN
  const e = magnitude >> f.fraction
  const m = magnitude & ((1 << f.fraction) - 1)
  if (e === 0) return sign * m * 2 ** (f.leastExponent - f.fraction)
  return sign * (m + (1 << f.fraction)) * 2 ** (e - f.bias - f.fraction)
}

function decodeTable(f: Format): Float32Array {
  const table = new Float32Array(65536)
  for (let b = 0; b < 65536; b++) table[b] = decode(b, f)
  return table
}

let f16Table: Float32Array | undefined
let bf16Table: Float32Array | undefined

/** All 65,536 f16 values by bit pattern. */
export function f16Values(): Float32Array {
  f16Table ??= decodeTable(f16)
  return f16Table
}

/** All 65,536 bf16 values by bit pattern. */
export function bf16Values(): Float32Array {
  bf16Table ??= decodeTable(bf16)
  return bf16Table
}

/** The value of f16 bits. */
export const f16ToNumber = (bits: number): number => decode(bits & 0xffff, f16)
/** The value of bf16 bits. */
export const bf16ToNumber = (bits: number): number => decode(bits & 0xffff, bf16)
/** Bits of the nearest f16, rounded once from the double; NaN gives the canonical quiet NaN 0x7e00. */
export const numberToF16 = (x: number): number => encode(x, f16)
/** Bits of the nearest bf16, rounded once from the double; NaN gives the canonical quiet NaN 0x7fc0. */
export const numberToBf16 = (x: number): number => encode(x, bf16)

function round(x: number, f: Format): number {
  if (!Number.isFinite(x) || x === 0) return x
  const a = Math.abs(x)
  if (a < 2 ** (f.leastExponent - f.fraction - 1)) return x < 0 ? -0 : 0
  if (a >= 2 ** (f.bias + 1)) return x < 0 ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
  const ulp = 2 ** (Math.max(exponentOf(a), f.leastExponent) - f.fraction)
  const r = roundEven(a / ulp) * ulp
  const bounded = r >= 2 ** (f.bias + 1) ? Number.POSITIVE_INFINITY : r
  return x < 0 ? -bounded : bounded
}

/** The nearest f16 value. */
export const roundF16 = (x: number): number => round(x, f16)
/** The nearest bf16 value. */
export const roundBf16 = (x: number): number => round(x, bf16)
