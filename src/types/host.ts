/** Host storage of tensors: which typed array holds a dtype, and how elements are read and written. */
import { type DType, dtypeBytes } from './dtype.ts'

/** f16 and bf16 stand as raw bits in Uint16Array, bool as 0/1 in Uint8Array. */
export type HostArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array

type HostArrayConstructor = new (buffer: ArrayBufferLike, byteOffset: number, length: number) => HostArray

const arrays: Readonly<Record<DType, HostArrayConstructor>> = {
  f32: Float32Array,
  f64: Float64Array,
  f16: Uint16Array,
  bf16: Uint16Array,
  i8: Int8Array,
  i16: Int16Array,
  i32: Int32Array,
  i64: BigInt64Array,
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  u64: BigUint64Array,
  bool: Uint8Array,
}

/** A zeroed host array of `n` elements. */
export const hostArray = (dtype: DType, n: number): HostArray =>
  new arrays[dtype](new ArrayBuffer(n * dtypeBytes(dtype)), 0, n)

/** A host view of `n` elements at a byte offset of a buffer. */
export const hostView = (dtype: DType, buffer: ArrayBufferLike, byteOffset: number, n: number): HostArray =>
  new arrays[dtype](buffer, byteOffset, n)
