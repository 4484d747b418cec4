/** Values of the reference backend: row-major, floats and narrow integers as doubles, 64-bit integers as bigints. */
import { UserError } from '../diagnostics/errors.ts'
import { showSize } from '../graph/tooLarge.ts'
import { decodeHalves, encodeHalves } from '../scalar/arrays.ts'
import { roundFloat } from '../scalar/cast.ts'
import type { Scalar } from '../scalar/ops.ts'
import { type DType, isFloat, isHalf, isWide } from '../types/dtype.ts'
import { type HostArray, hostArray } from '../types/host.ts'
import { type Shape, showShape, sizeOf } from '../types/shape.ts'

export type Wide = BigInt64Array | BigUint64Array
export type RefData = Float64Array | Wide

/** A tensor of the reference backend; bool is 0 or 1. */
export interface RefTensor {
  readonly dtype: DType
  readonly shape: Shape
  readonly data: RefData
}

/**
 * `f64`: floats keep double precision between operations; only the operands of discontinuous operations and the results of
 * casts round. `dtype`: every result rounds to its dtype; accumulators are doubles. `strict`: also accumulates as the strict
 * mode of docs/numerics.md says, so exactly rounded programs agree bit for bit.
 */
export type Rounding = 'f64' | 'dtype' | 'strict'

/** Most bytes of one value: it stands in memory whatever reads it, views too. */
export const mostBytes = 2 ** 32

/** Bytes of an element: doubles and 64-bit integers. */
const elementBytes = 8

/** Bytes that a value of n elements takes. */
export const bytesFor = (n: number): number => n * elementBytes

/** Throws E_OVERFLOW for n elements that are more than a value may have. */
export function checkRoom(n: number): void {
  if (bytesFor(n) > mostBytes)
    throw new UserError('E_OVERFLOW', `the reference device would need ${showSize(bytesFor(n))} for one value`, {
      help: 'run it on another device, where values that kernels do not store take no memory',
    })
}

/** Zeroed storage for n elements. Throws E_OVERFLOW. */
export function allocate(dtype: DType, n: number): RefData {
  checkRoom(n)
  if (dtype === 'i64') return new BigInt64Array(n)
  if (dtype === 'u64') return new BigUint64Array(n)
  return new Float64Array(n)
}

export const isNarrow = (data: RefData): data is Float64Array => data instanceof Float64Array

/** The doubles of a tensor that is not of 64-bit integers. */
export function narrow(t: RefTensor): Float64Array {
  if (isNarrow(t.data)) return t.data
  throw new UserError('E_DTYPE', `doubles wanted, ${t.dtype} given`)
}

/** The bigints of a tensor of 64-bit integers. */
export function wide(t: RefTensor): Wide {
  if (!isNarrow(t.data)) return t.data
  throw new UserError('E_DTYPE', `64-bit integers wanted, ${t.dtype} given`)
}

/** The value of a scalar as storage holds it. */
export const stored = (dtype: DType, v: Scalar): number | bigint =>
  isWide(dtype) ? BigInt(v) : isFloat(dtype) ? roundFloat(dtype, Number(v)) : Number(v)

/** Storage filled with one scalar. */
export function filled(dtype: DType, n: number, v: Scalar): RefData {
  const data = allocate(dtype, n)
  if (isNarrow(data)) data.fill(Number(stored(dtype, v)))
  else data.fill(BigInt(v))
  return data
}

/** Rounds doubles to a float dtype in place; other dtypes stay. */
export function roundInPlace(data: RefData, dtype: DType): void {
  if (!isNarrow(data)) return
  if (dtype === 'f32') for (let i = 0; i < data.length; i++) data[i] = Math.fround(data[i] ?? 0)
  else if (dtype === 'f16' || dtype === 'bf16')
    for (let i = 0; i < data.length; i++) data[i] = roundFloat(dtype, data[i] ?? 0)
}

/** The tensor rounded to its dtype, as a copy. */
export function rounded(t: RefTensor): RefTensor {
  if (!isNarrow(t.data) || !isFloat(t.dtype) || t.dtype === 'f64') return t
  const data = t.data.slice()
  roundInPlace(data, t.dtype)
  return { ...t, data }
}

/** Reads a host array. Throws E_ARGUMENT where its length or type does not fit. */
export function fromHost(host: HostArray, dtype: DType, shape: Shape): RefTensor {
  const n = sizeOf(shape)
  if (host.length !== n || host.constructor !== hostArray(dtype, 0).constructor)
    throw new UserError(
      'E_ARGUMENT',
      `a ${host.constructor.name} of ${host.length} elements for ${dtype}${showShape(shape)}`,
    )
  if (host instanceof BigInt64Array || host instanceof BigUint64Array) return { dtype, shape, data: host.slice() }
  if (isHalf(dtype)) return { dtype, shape, data: new Float64Array(decodeHalves(host as Uint16Array, dtype)) }
  const data = new Float64Array(n)
  if (dtype === 'bool') for (let i = 0; i < n; i++) data[i] = host[i] === 0 ? 0 : 1
  else data.set(host)
  return { dtype, shape, data }
}

/** The tensor as a host array, rounded to its dtype. */
export function toHostArray(t: RefTensor): HostArray {
  if (!isNarrow(t.data)) return t.data.slice()
  // Halves are rounded to f32 before, as arithmetic on them is.
  if (isHalf(t.dtype)) return encodeHalves(new Float64Array(new Float32Array(t.data)), t.dtype)
  const out = hostArray(t.dtype, t.data.length)
  if (out instanceof BigInt64Array || out instanceof BigUint64Array)
    throw new UserError('E_DTYPE', `doubles stand for ${t.dtype}`)
  out.set(t.data)
  return out
}
