/** Conversions of one element between dtypes, and rounding to a dtype (docs/numerics.md, "Casts"). */
import { type DType, dtypeBits, isFloat, isWide } from '../types/dtype.ts'
import { hostView } from '../types/host.ts'
import { roundBf16, roundF16 } from './half.ts'
import { readElement, writeElement } from './host.ts'
import { wrapNarrow, wrapWide } from './integer.ts'
import { extreme, type Scalar } from './ops.ts'

/** A double rounded to a float dtype; halves go through f32, as arithmetic on them does. */
export function roundFloat(dtype: DType, x: number): number {
  switch (dtype) {
    case 'f32':
      return Math.fround(x)
    case 'f16':
      return roundF16(Math.fround(x))
    case 'bf16':
      return roundBf16(Math.fround(x))
    default:
      return x
  }
}

/** A value as the dtype holds it: floats rounded, integers wrapped, anything nonzero true. */
export function roundTo(dtype: DType, value: Scalar): Scalar {
  if (isFloat(dtype)) return roundFloat(dtype, Number(value))
  if (dtype === 'bool')
    return typeof value === 'boolean' ? value : typeof value === 'bigint' ? value !== 0n : value !== 0
  if (isWide(dtype)) return wrapWide(dtype, BigInt(value))
  return typeof value === 'bigint' ? Number(narrowBits(dtype, value)) : wrapNarrow(dtype, Number(value))
}

const narrowBits = (dtype: DType, v: bigint): bigint =>
  dtype.startsWith('u') ? BigInt.asUintN(dtypeBits(dtype), v) : BigInt.asIntN(dtypeBits(dtype), v)

/**
 * A 64-bit integer as a double that rounds to any narrower float as the integer itself would: cut to 53 bits with the
 * lost bits or-ed into the last (rounding to odd).
 */
function toDoubleOdd(v: bigint): number {
  const a = v < 0n ? -v : v
  if (a <= 9007199254740992n) return Number(v)
  const shift = BigInt(a.toString(2).length - 53)
  const cut = a >> shift
  const sticky = cut << shift === a ? cut : cut | 1n
  const r = Number(sticky) * 2 ** Number(shift)
  return v < 0n ? -r : r
}

/** Truncates; saturates at the dtype's bounds; NaN gives 0. */
function floatToInteger(x: number, to: DType): Scalar {
  const least = extreme(to, 'least')
  const greatest = extreme(to, 'greatest')
  if (isWide(to)) {
    if (Number.isNaN(x)) return 0n
    if (x <= Number(least)) return least
    if (x >= Number(greatest)) return greatest
    return BigInt(Math.trunc(x))
  }
  if (Number.isNaN(x)) return 0
  return Math.trunc(Math.min(Number(greatest), Math.max(Number(least), x))) + 0
}

/** The conversion of one value; float results are not rounded yet. */
export function castScalar(value: Scalar, from: DType, to: DType): Scalar {
  if (to === 'bool') return typeof value === 'bigint' ? value !== 0n : typeof value === 'boolean' ? value : value !== 0
  if (isFloat(to))
    return typeof value === 'bigint' ? (to === 'f64' ? Number(value) : toDoubleOdd(value)) : Number(value)
  if (isFloat(from)) return floatToInteger(Number(value), to)
  return roundTo(to, typeof value === 'boolean' ? Number(value) : value)
}

const scratch = new ArrayBuffer(8)

/** The same bits read as another dtype of the same width. */
export function bitcastScalar(value: Scalar, from: DType, to: DType): Scalar {
  writeElement(hostView(from, scratch, 0, 1), from, 0, value)
  return readElement(hostView(to, scratch, 0, 1), to, 0)
}
