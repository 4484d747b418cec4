/** Conversions of whole host arrays: what `cast.ts` and `host.ts` do to one element, in loops over one type of array each. */
import { type DType, isHalf, isWide } from '../types/dtype.ts'
import { type HostArray, hostArray } from '../types/host.ts'
import { castScalar } from './cast.ts'
import { f16Values, numberToBf16, numberToF16 } from './half.ts'
import { readElement, writeElement } from './host.ts'
import { extreme, type Scalar } from './ops.ts'

type Half = 'f16' | 'bf16'

/** The numbers that bits of halves stand for. */
export function decodeHalves(bits: Uint16Array, dtype: Half): Float32Array {
  const out = new Float32Array(bits.length)
  if (dtype === 'bf16') {
    const words = new Uint32Array(out.buffer)
    for (let i = 0; i < bits.length; i++) words[i] = (bits[i] ?? 0) << 16
  } else {
    const table = f16Values()
    for (let i = 0; i < bits.length; i++) out[i] = table[bits[i] ?? 0] ?? 0
  }
  return out
}

/**
 * Bits of the nearest halves, each rounded once from its double. A number goes through f32, whose bits round by an addition, unless they lie
 * in the middle between two halves: there the roundings to f32 and to a half could be two in one direction.
 */
export function encodeHalves(values: Float64Array, dtype: Half): Uint16Array {
  const singles = new Float32Array(values)
  const words = new Uint32Array(singles.buffer)
  const out = new Uint16Array(values.length)
  if (dtype === 'bf16')
    for (let i = 0; i < out.length; i++) {
      const w = words[i] ?? 0
      const isMiddle = (w & 0xffff) === 0x8000
      out[i] =
        isMiddle || (w & 0x7fffffff) > 0x7f800000
          ? numberToBf16(values[i] ?? 0)
          : (w + 0x7fff + ((w >>> 16) & 1)) >>> 16
    }
  else
    for (let i = 0; i < out.length; i++) {
      const w = words[i] ?? 0
      const magnitude = w & 0x7fffffff
      // Normal numbers below 2^16, where the exponent moves by 112; what rounds beyond the greatest becomes infinity.
      const isPlain = magnitude >= 0x38800000 && magnitude < 0x47800000 && (w & 0x1fff) !== 0x1000
      out[i] = isPlain
        ? ((w >>> 16) & 0x8000) | ((magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13)
        : numberToF16(values[i] ?? 0)
    }
  return out
}

/** Floats cut to integers of at most 32 bits: truncated, saturated at the dtype's bounds, 0 for NaN. */
function truncated(values: Float64Array, dtype: DType): HostArray {
  const [least, greatest] = [Number(extreme(dtype, 'least')), Number(extreme(dtype, 'greatest'))]
  const whole = new Float64Array(values.length)
  for (let i = 0; i < whole.length; i++) {
    const v = values[i] ?? 0
    whole[i] = v >= least ? Math.trunc(v > greatest ? greatest : v) : v < least ? least : 0
  }
  const out = hostArray(dtype, whole.length)
  out.set(whole as never)
  return out
}

/** Numbers as a host array of a dtype, converted as `castScalar` does from f64. */
export function fromNumbers(values: ArrayLike<number>, dtype: DType): HostArray {
  if (dtype === 'f32' || dtype === 'f64') {
    const out = hostArray(dtype, values.length) as Float32Array | Float64Array
    out.set(values)
    return out
  }
  const doubles = values instanceof Float64Array ? values : new Float64Array(values)
  if (isHalf(dtype)) return encodeHalves(doubles, dtype)
  if (dtype !== 'bool' && !isWide(dtype)) return truncated(doubles, dtype)
  const out = hostArray(dtype, doubles.length)
  for (let i = 0; i < out.length; i++) writeElement(out, dtype, i, castScalar(doubles[i] ?? 0, 'f64', dtype))
  return out
}

/** The elements of a host array, as `readElement` gives them. */
export function scalarsOf(data: HostArray, dtype: DType): Scalar[] {
  const out = new Array<Scalar>(data.length)
  if (dtype === 'bool') for (let i = 0; i < out.length; i++) out[i] = readElement(data, dtype, i)
  else {
    const numbers = isHalf(dtype) ? decodeHalves(data as Uint16Array, dtype) : data
    for (let i = 0; i < out.length; i++) out[i] = numbers[i] ?? 0
  }
  return out
}
