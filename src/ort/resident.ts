/**
 * Tensors of ONNX Runtime's API whose elements stay on a device: results that a session was asked to leave there (`preferredOutputLocation`), and
 * feeds that stand there already. Their `gpuBuffer` is a handle, which only this library reads: it is no buffer of WebGPU.
 */
import { type InferenceSession, Tensor } from 'onnxruntime-common'

import type { Device } from '../api/device/device.ts'
import type { Storage } from '../api/tensor/storage.ts'
import { UserError } from '../diagnostics/errors.ts'
import { kindOf } from '../diagnostics/shown.ts'
import type { DType } from '../types/dtype.ts'
import { ortTypes } from './types.ts'

/** What is behind a handle. */
interface Resident {
  readonly storage: Storage
  readonly device: Device
  isFreed: boolean
}

const residents = new WeakMap<object, Resident>()

/** Types that ONNX Runtime's API has tensors of on a device. */
const residentTypes = {
  f32: 'float32',
  f16: 'float16',
  i32: 'int32',
  i64: 'int64',
  u32: 'uint32',
  u8: 'uint8',
  bool: 'bool',
} as const satisfies Partial<Record<DType, Tensor.GpuBufferDataTypes>>

const canStay = (d: DType): d is keyof typeof residentTypes => Object.hasOwn(residentTypes, d)

const hostLocations: readonly unknown[] = ['cpu', 'cpu-pinned']

/** Outputs that stay on the device: those named, and what else can of all, where all are asked to. */
export interface Staying {
  readonly named: ReadonlySet<string>
  readonly all: boolean
}

/**
 * What `preferredOutputLocation` asks for. Throws E_ONNX_INPUT for an output that the model does not have, E_UNSUPPORTED for another location than
 * the host and `gpu-buffer`, E_ARGUMENT for what is none.
 */
export function stayingOf(
  preferred: InferenceSession.SessionOptions['preferredOutputLocation'],
  outputs: readonly InferenceSession.ValueMetadata[],
): Staying {
  const stays = (location: unknown, what: string): boolean => {
    if (location === 'gpu-buffer') return true
    if (hostLocations.includes(location)) return false
    throw new UserError('E_UNSUPPORTED', `preferredOutputLocation of ${what} is ${String(location)}`, {
      help: "outputs come to the host ('cpu') or stay on the device ('gpu-buffer')",
    })
  }
  const given: unknown = preferred ?? 'cpu'
  if (typeof given === 'string') return { named: new Set(), all: stays(given, 'all outputs') }
  if (typeof given !== 'object' || given === null)
    throw new UserError('E_ARGUMENT', `preferredOutputLocation is ${kindOf(given)}`, {
      help: "give 'cpu' or 'gpu-buffer', or one of them for each output by name",
    })
  const named = Object.entries(given).flatMap(([name, location]) => {
    const output = outputs.find((v) => v.name === name)
    if (output === undefined)
      throw new UserError('E_ONNX_INPUT', `preferredOutputLocation names the output "${name}", which is not there`, {
        help: `the model's outputs are ${outputs.map((v) => v.name).join(', ')}`,
      })
    return stays(location, `"${name}"`) ? [name] : []
  })
  return { named: new Set(named), all: false }
}

/** Whether an output of a dtype stays on the device. Throws E_UNSUPPORTED for one that is named and cannot. */
export function isStaying({ named, all }: Staying, name: string, dtype: DType): boolean {
  if (canStay(dtype)) return all || named.has(name)
  if (!named.has(name)) return false
  const types: Readonly<Partial<Record<DType, string>>> = ortTypes
  throw new UserError(
    'E_UNSUPPORTED',
    `the output "${name}" is of type ${types[dtype] ?? dtype}, which cannot stay on a device`,
    {
      help: `ONNX Runtime's API has tensors of ${Object.values(residentTypes).join(', ')} there: leave it at 'cpu'`,
    },
  )
}

/** Half precision stands in `Float16Array` where the engine has it, by its bits elsewhere. */
function asOrt(data: ArrayBufferView, dtype: DType): Tensor.DataType {
  const { Float16Array: half } = globalThis as {
    readonly Float16Array?: new (buffer: ArrayBufferLike, offset: number, length: number) => ArrayBufferView
  }
  const elements =
    dtype === 'f16' && half !== undefined ? new half(data.buffer, data.byteOffset, data.byteLength / 2) : data
  return elements as unknown as Tensor.DataType
}

/** A tensor of ONNX Runtime's API on a device; `dispose` gives its memory back, and so does the engine once nothing refers to it. */
export function residentTensor(storage: Storage, device: Device): Tensor {
  const { dtype, shape } = storage
  const handle = { size: storage.bytes, mapState: 'unmapped' as const }
  const resident: Resident = { storage, device, isFreed: false }
  residents.set(handle, resident)
  const free = (): void => {
    resident.isFreed = true
    storage.free()
  }
  return Tensor.fromGpuBuffer(handle as unknown as Tensor.GpuBufferType, {
    dataType: residentTypes[dtype as keyof typeof residentTypes],
    dims: [...shape],
    download: async () => asOrt(await storage.read(), dtype) as Tensor.DataTypeMap[Tensor.GpuBufferDataTypes],
    dispose: free,
  })
}

/** What is behind a tensor, where a session left it on a device. Throws E_DISPOSED for one whose memory was given back. */
export function residentOf(name: string, x: object): Pick<Resident, 'storage' | 'device'> | undefined {
  if (!('location' in x) || x.location !== 'gpu-buffer' || !('gpuBuffer' in x)) return undefined
  const handle = x.gpuBuffer
  const found = typeof handle === 'object' && handle !== null ? residents.get(handle) : undefined
  if (found?.isFreed === true)
    throw new UserError('E_DISPOSED', `the input "${name}" was disposed of, or its data released`, {
      help: 'dispose of a tensor after the last run that reads it',
    })
  return found
}
