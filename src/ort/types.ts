/** Element types: ONNX Runtime's names of the library's dtypes. */
import type { Tensor } from 'onnxruntime-common'
import type { DType } from '../types/dtype.ts'

/** ONNX Runtime's names of element types. */
export const ortTypes = {
  f32: 'float32',
  f64: 'float64',
  f16: 'float16',
  i8: 'int8',
  i16: 'int16',
  i32: 'int32',
  i64: 'int64',
  u8: 'uint8',
  u16: 'uint16',
  u32: 'uint32',
  u64: 'uint64',
  bool: 'bool',
} as const satisfies Partial<Record<DType, Tensor.Type>>

export const hasOrtType = (d: DType): d is keyof typeof ortTypes => Object.hasOwn(ortTypes, d)

const dtypes: ReadonlyMap<string, DType> = new Map(Object.entries(ortTypes).map(([d, type]) => [type, d as DType]))

/** The dtype of a type of ONNX Runtime's; undefined for strings and those of 4 bits. */
export const dtypeOfOrt = (type: string): DType | undefined => dtypes.get(type)
