/** Sources: literals, filled tensors, ranges, the identity matrix. */
import { UserError } from '../diagnostics/errors.ts'
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { roundTo } from '../scalar/cast.ts'
import { extreme, type Scalar } from '../scalar/ops.ts'
import { type DType, isFloat, isWide, positionDType } from '../types/dtype.ts'
import { type HostArray, hostArray } from '../types/host.ts'
import { type Shape, sizeOf } from '../types/shape.ts'

/** Whether a host value is an exact element of an integer dtype. */
export function fitsInteger(value: Scalar, dtype: DType): boolean {
  if (typeof value === 'boolean') return true
  if (typeof value === 'number' && !Number.isInteger(value)) return false
  const v = BigInt(value)
  return v >= BigInt(extreme(dtype, 'least')) && v <= BigInt(extreme(dtype, 'greatest'))
}

/**
 * A host value as an element of a dtype: bigint for 64-bit integers, boolean for bool, number otherwise (rounded to the dtype).
 * Throws E_OVERFLOW for an integer dtype that cannot hold it.
 */
export function scalarOf(value: Scalar, dtype: DType): Scalar {
  if (dtype === 'bool') return typeof value === 'boolean' ? value : value !== 0 && value !== 0n
  if (isFloat(dtype)) return roundTo(dtype, Number(value))
  if (!fitsInteger(value, dtype))
    throw new UserError('E_OVERFLOW', `${String(value)} is no value of ${dtype}`, {
      help: 'round or clamp it, or choose another dtype',
    })
  return isWide(dtype) ? BigInt(value) : Number(value)
}

/** A literal tensor of row-major `data`, which must not change afterwards. Throws E_SHAPE when the sizes differ. */
export const constant = (data: HostArray, shape: Shape, dtype: DType): Node =>
  makeNode('constant', [], { data, shape, dtype })

/** One value over a shape. Throws E_OVERFLOW for an integer dtype that cannot hold it. */
export const full = (shape: Shape, value: Scalar, dtype: DType): Node =>
  makeNode('full', [], { value: scalarOf(value, dtype), shape, dtype })

/** Zeros over a shape. */
export const zeros = (shape: Shape, dtype: DType = 'f32'): Node => full(shape, 0, dtype)
/** Ones over a shape. */
export const ones = (shape: Shape, dtype: DType = 'f32'): Node => full(shape, 1, dtype)

/** A tensor of x's shape and dtype filled with one value. */
export const fullLike = (x: Node, value: Scalar): Node => full(x.shape, value, x.dtype)

/** Index along `axis` of a shape; without a dtype i32, or i64 where that does not hold it. */
export const iota = (shape: Shape, axis: number, dtype: DType = positionDType(positionsIn(shape[axis] ?? 0))): Node =>
  makeNode('iota', [], { axis, shape, dtype })

/** The positions along an axis of an extent. */
export const positionsIn = (extent: number): { readonly lo: number; readonly hi: number } => ({
  lo: 0,
  hi: Math.max(0, extent - 1),
})

/** Throws E_OVERFLOW for the first of the numbers that an integer dtype does not hold: what `what` reaches. */
export function checkReached(what: string, numbers: readonly number[], dtype: DType, help: string): void {
  if (isFloat(dtype)) return
  for (const x of numbers)
    if (!fitsInteger(Math.trunc(x), dtype))
      throw new UserError('E_OVERFLOW', `${what} reaches ${x}, which is no value of ${dtype}`, { help })
}

/** A rank-1 literal of whole numbers (index lists, counts). */
export function integers(values: readonly number[], dtype: 'i32' | 'i64' = 'i32'): Node {
  if (dtype === 'i64') return constant(BigInt64Array.from(values, BigInt), [values.length], 'i64')
  return constant(Int32Array.from(values), [values.length], 'i32')
}

/** A rank-1 f32 literal. */
export const floats = (values: readonly number[]): Node => constant(Float32Array.from(values), [values.length], 'f32')

/** Whether a node is a literal whose elements are all at least zero. */
export function knownNonNegative(x: Node): boolean {
  if (x.op === 'iota') return true
  if (x.op === 'full') return Number(x.attrs.value) >= 0
  if (x.op === 'constant') return x.attrs.data.every((v: number | bigint) => v >= 0)
  return x.dtype.startsWith('u')
}

/** Uninitialised (zero) host storage for a shape. */
export const hostOf = (shape: Shape, dtype: DType): HostArray => hostArray(dtype, sizeOf(shape))
