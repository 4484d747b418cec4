/** Tensors of ONNX Runtime's API as host arrays of the library, and back. */
import { Tensor } from 'onnxruntime-common'
import { UserError } from '../diagnostics/errors.ts'
import type { DType } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import { showShape, sizeOf } from '../types/shape.ts'

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

const hasOrtType = (d: DType): d is keyof typeof ortTypes => Object.hasOwn(ortTypes, d)

const dtypes: ReadonlyMap<string, DType> = new Map(Object.entries(ortTypes).map(([d, type]) => [type, d as DType]))

/** The dtype of a type of ONNX Runtime's; undefined for strings and those of 4 bits. */
export const dtypeOfOrt = (type: string): DType | undefined => dtypes.get(type)

/** An input with its elements on the host. */
export interface Fed {
  readonly data: HostArray
  readonly shape: readonly number[]
  readonly dtype: DType
}

/** What a feed is used for: any object of the form of a tensor will do, since programs may hold several copies of ONNX Runtime's API. */
type Feed = Pick<Tensor, 'type' | 'dims' | 'data' | 'location' | 'getData'>

const isFeed = (x: unknown): x is Feed =>
  typeof x === 'object' && x !== null && 'dims' in x && Array.isArray(x.dims) && 'type' in x

/** The elements of a feed. Throws E_ARGUMENT for what is no tensor, E_UNSUPPORTED for strings and types of 4 bits. */
export async function fedOf(name: string, x: unknown): Promise<Fed> {
  if (!isFeed(x))
    throw new UserError('E_ARGUMENT', `the input "${name}" is no tensor`, {
      help: "give new Tensor('float32', data, dims)",
    })
  const dtype = dtypes.get(x.type)
  if (dtype === undefined)
    throw new UserError('E_UNSUPPORTED', `the input "${name}" has elements of type ${x.type}`, {
      help: `elements may be ${[...dtypes.keys()].join(', ')}`,
    })
  const data: unknown = x.location === 'cpu' || x.location === 'cpu-pinned' ? x.data : await x.getData()
  const shape = [...x.dims]
  if (!ArrayBuffer.isView(data))
    throw new UserError('E_ARGUMENT', `the input "${name}" holds no elements`, { help: 'it may have been disposed of' })
  const elements = hostOf(data, dtype)
  if (elements.length !== sizeOf(shape))
    throw new UserError('E_SHAPE', `the input "${name}" has ${elements.length} elements for ${showShape(shape)}`)
  return { data: elements, shape, dtype }
}

/** Elements as the library holds them: half precision by its bits, bools as 0 and 1. */
function hostOf(data: ArrayBufferView, dtype: DType): HostArray {
  if (dtype === 'f16') return new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2)
  const elements = data as HostArray
  return dtype === 'bool' && elements instanceof Uint8Array ? elements.map((b) => (b === 0 ? 0 : 1)) : elements
}

/** A tensor of ONNX Runtime's API. Throws E_UNSUPPORTED for bf16, which that API has no type for. */
export function ortTensor(name: string, data: HostArray, shape: readonly number[], dtype: DType): Tensor {
  if (!hasOrtType(dtype))
    throw new UserError('E_UNSUPPORTED', `the output "${name}" has elements of type ${dtype}`, {
      help: "ONNX Runtime's API has no such type: cast the output in the model, or use sinter/onnx",
    })
  return new Tensor(ortTypes[dtype], data as Tensor.DataType, shape)
}

/** Writes a result into the tensor that the caller keeps for it. */
export function writeInto(to: Tensor, name: string, from: Tensor): Tensor {
  const isLike =
    to.type === from.type && to.dims.length === from.dims.length && to.dims.every((n, i) => n === from.dims[i])
  const data: unknown = to.data
  if (!isLike || !ArrayBuffer.isView(data))
    throw new UserError(
      'E_SHAPE',
      `the tensor for the output "${name}" is ${to.type}${showShape([...to.dims])}, the output ${from.type}${showShape([...from.dims])}`,
    )
  const bytes = (v: ArrayBufferView): Uint8Array => new Uint8Array(v.buffer, v.byteOffset, v.byteLength)
  bytes(data).set(bytes(from.data as unknown as ArrayBufferView))
  return to
}
