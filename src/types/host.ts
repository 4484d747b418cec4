/** Host storage of tensors: which typed array holds a dtype, and how elements are read and written. */
import type { DType } from './dtype.ts'

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

const makers = {
  f32: (b: ArrayBufferLike, o: number, n: number) => new Float32Array(b, o, n),
  f64: (b: ArrayBufferLike, o: number, n: number) => new Float64Array(b, o, n),
  f16: (b: ArrayBufferLike, o: number, n: number) => new Uint16Array(b, o, n),
  bf16: (b: ArrayBufferLike, o: number, n: number) => new Uint16Array(b, o, n),
  i8: (b: ArrayBufferLike, o: number, n: number) => new Int8Array(b, o, n),
  i16: (b: ArrayBufferLike, o: number, n: number) => new Int16Array(b, o, n),
  i32: (b: ArrayBufferLike, o: number, n: number) => new Int32Array(b, o, n),
  i64: (b: ArrayBufferLike, o: number, n: number) => new BigInt64Array(b, o, n),
  u8: (b: ArrayBufferLike, o: number, n: number) => new Uint8Array(b, o, n),
  u16: (b: ArrayBufferLike, o: number, n: number) => new Uint16Array(b, o, n),
  u32: (b: ArrayBufferLike, o: number, n: number) => new Uint32Array(b, o, n),
  u64: (b: ArrayBufferLike, o: number, n: number) => new BigUint64Array(b, o, n),
  bool: (b: ArrayBufferLike, o: number, n: number) => new Uint8Array(b, o, n),
} satisfies Record<DType, (b: ArrayBufferLike, o: number, n: number) => HostArray>

const widths: Record<DType, number> = {
  f32: 4,
  f64: 8,
  f16: 2,
  bf16: 2,
  i8: 1,
  i16: 2,
  i32: 4,
  i64: 8,
  u8: 1,
  u16: 2,
  u32: 4,
  u64: 8,
  bool: 1,
}

/** A zeroed host array of `n` elements. */
export const hostArray = (dtype: DType, n: number): HostArray => makers[dtype](new ArrayBuffer(n * widths[dtype]), 0, n)

/** A host view of `n` elements at a byte offset of a buffer. */
export const hostView = (dtype: DType, buffer: ArrayBufferLike, byteOffset: number, n: number): HostArray =>
  makers[dtype](buffer, byteOffset, n)
