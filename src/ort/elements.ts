/** Tensors of ONNX Runtime's API as host arrays of the library, and back. */
import { Tensor } from 'onnxruntime-common'
import type { Device } from '../api/device/device.ts'
import type { Storage } from '../api/tensor/storage.ts'
import { UserError } from '../diagnostics/errors.ts'
import type { DType } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import { showShape, sizeOf } from '../types/shape.ts'
import { residentOf } from './resident.ts'
import { dtypeOfOrt, hasOrtType, ortTypes } from './types.ts'

/** An input: its elements on the host, on the device, or both. */
export interface Fed {
  readonly data: HostArray | undefined
  /** Where it stands on the device of the session. */
  readonly resident?: Storage
  readonly shape: readonly number[]
  readonly dtype: DType
}

/** What a feed is used for: any object of the form of a tensor will do, since programs may hold several copies of ONNX Runtime's API. */
type Feed = Pick<Tensor, 'type' | 'dims' | 'data' | 'location' | 'getData'>

const isFeed = (x: unknown): x is Feed =>
  typeof x === 'object' && x !== null && 'dims' in x && Array.isArray(x.dims) && 'type' in x

/**
 * A feed of a session on a device; its elements are fetched where they stand on another. Throws E_ARGUMENT for what is no tensor, E_UNSUPPORTED for
 * strings and types of 4 bits, E_DISPOSED for a tensor whose memory was given back.
 */
export async function fedOf(name: string, x: unknown, device: Device): Promise<Fed> {
  if (!isFeed(x))
    throw new UserError('E_ARGUMENT', `the input "${name}" is no tensor`, {
      help: "give new Tensor('float32', data, dims)",
    })
  const dtype = dtypeOfOrt(x.type)
  if (dtype === undefined)
    throw new UserError('E_UNSUPPORTED', `the input "${name}" has elements of type ${x.type}`, {
      help: `elements may be ${Object.values(ortTypes).join(', ')}`,
    })
  const resident = residentOf(name, x)
  if (resident !== undefined) return residentFed(name, dtype, x.dims, resident, device)
  const data: unknown = x.location === 'cpu' || x.location === 'cpu-pinned' ? x.data : await x.getData()
  const shape = [...x.dims]
  if (!ArrayBuffer.isView(data))
    throw new UserError('E_ARGUMENT', `the input "${name}" holds no elements`, { help: 'it may have been disposed of' })
  const elements = hostOf(data, dtype)
  if (elements.length !== sizeOf(shape))
    throw new UserError('E_SHAPE', `the input "${name}" has ${elements.length} elements for ${showShape(shape)}`)
  return { data: elements, shape, dtype }
}

/** A feed that a session left on a device; a reshaped tensor has extents of its own. */
async function residentFed(
  name: string,
  dtype: DType,
  dims: readonly number[],
  { storage, device: of }: NonNullable<ReturnType<typeof residentOf>>,
  device: Device,
): Promise<Fed> {
  const shape = [...dims]
  if (storage.dtype !== dtype || storage.size !== sizeOf(shape))
    throw new UserError(
      'E_SHAPE',
      `the input "${name}" is ${dtype}${showShape(shape)} of memory that holds ${storage.dtype}${showShape(storage.shape)}`,
    )
  return of === device
    ? { data: undefined, resident: storage, shape, dtype }
    : { data: await storage.read(), shape, dtype }
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

/** Writes a result into the tensor that the caller keeps for it. Throws E_SHAPE for one of another type, E_UNSUPPORTED for one on a device. */
export function writeInto(to: Tensor, name: string, from: Tensor): Tensor {
  if (to.location !== 'cpu' && to.location !== 'cpu-pinned')
    throw new UserError('E_UNSUPPORTED', `the tensor for the output "${name}" is at "${to.location}"`, {
      help: 'name the output alone: preferredOutputLocation leaves its result on the device',
    })
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
