/** Host elements: reading and writing one scalar of a tensor's host array, with its dtype's representation. */
import { invariant } from '../diagnostics/errors.ts'
import { type DType, isWide } from '../types/dtype.ts'
import { type HostArray, hostArray } from '../types/host.ts'
import { bf16ToNumber, f16ToNumber, numberToBf16, numberToF16 } from './half.ts'
import type { Scalar } from './ops.ts'

/** Element `i`: bigint for 64-bit integers, boolean for bool, number otherwise (halves decoded). */
export function readElement(data: HostArray, dtype: DType, i: number): Scalar {
  const v = data[i]
  invariant(v !== undefined, `element ${i} of ${data.length}`)
  switch (dtype) {
    case 'f16':
      return f16ToNumber(Number(v))
    case 'bf16':
      return bf16ToNumber(Number(v))
    case 'bool':
      return Number(v) !== 0
    default:
      return v
  }
}

/** Stores a value as element `i`; floats round to nearest even, integers wrap, halves become bits, bool becomes 0 or 1. */
export function writeElement(data: HostArray, dtype: DType, i: number, value: Scalar): void {
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
    data[i] = typeof value === 'bigint' ? value : BigInt(value)
    return
  }
  const v = Number(value)
  switch (dtype) {
    case 'f16':
      data[i] = numberToF16(v)
      return
    case 'bf16':
      data[i] = numberToBf16(v)
      return
    case 'bool':
      data[i] = value === 0n || v === 0 ? 0 : 1
      return
    default:
      data[i] = v
  }
}

/** A host array of the values in order. */
export function toHost(values: Iterable<Scalar>, dtype: DType): HostArray {
  const list = Array.isArray(values) ? (values as readonly Scalar[]) : [...values]
  const out = hostArray(dtype, list.length)
  list.forEach((v, i) => {
    writeElement(out, dtype, i, v)
  })
  return out
}

/** The scalar of a dtype that a plain number stands for (5 -> 5n for i64, 1 -> true for bool). */
export function scalarOf(dtype: DType, value: Scalar): Scalar {
  if (isWide(dtype)) return typeof value === 'bigint' ? value : BigInt(value)
  if (dtype === 'bool') return typeof value === 'boolean' ? value : Number(value) !== 0
  return Number(value)
}
