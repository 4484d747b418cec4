/**
 * The entry point `sinter/cuda`: NVIDIA GPUs from Node, through the driver API, NVRTC and cuBLASLt.
 * @module sinter/cuda
 */

import { checkOptions, kinds, optionNames } from './api/calls/options.ts'
import { placed } from './api/calls/place.ts'
import { type ByteSize, byteSize } from './api/device/bytes.ts'
import { createCompiledDevice } from './api/device/compiled.ts'
import type { Device } from './api/device/device.ts'
import { registerDevice } from './api/device/session.ts'
import { type CudaOptions, createCudaBackend } from './backends/cuda/backend.ts'
import { UserError } from './diagnostics/errors.ts'

export type { Device } from './api/device/device.ts'

/** Which GPU, and how much of it. */
export interface CudaDeviceOptions {
  /** Which device, counted from 0. */
  readonly index?: number
  /** Most bytes of its memory (`16GiB` or a number); all of it unless given. */
  readonly memoryLimit?: ByteSize
  /** Folder where compiled kernels are kept; the user's cache folder unless given. */
  readonly cacheFolder?: string
  /** `false`: products are kernels of this library alone, even where cuBLASLt is found. */
  readonly library?: boolean
}

const deviceOptions = optionNames<CudaDeviceOptions>('{ index: 0 }', {
  index: { what: 'the number of a device, from 0', holds: (x) => Number.isSafeInteger(x) && Number(x) >= 0 },
  memoryLimit: kinds.anything,
  cacheFolder: kinds.anything,
  library: kinds.flag,
})

const open = new Map<string, Device>()

function openCuda(settings: CudaOptions): Device {
  const backend = createCudaBackend(settings)
  return createCompiledDevice('cuda', backend, backend.machine)
}

/**
 * An NVIDIA GPU as a device: `setDevice(cuda())`. Calls with equal options give the same device; from then on its name is
 * `'cuda'`. Opening it takes no memory of tensors; kernels are compiled when programs are.
 * @throws E_DEVICE naming what is missing: the package `koffi`, the driver, NVRTC, or the device; E_ARGUMENT for options that are none
 * @example
 * setDevice(cuda({ memoryLimit: '4GiB' }))
 * ones([1000, 1000]).sum().item() // 1000000
 */
export const cuda = (options: CudaDeviceOptions = {}): Device => placed(() => opened(options))

function opened(options: CudaDeviceOptions): Device {
  checkOptions(options, 'cuda', deviceOptions)
  const { index = 0, cacheFolder, library = true } = options
  if (cacheFolder !== undefined && typeof cacheFolder !== 'string')
    throw new UserError('E_ARGUMENT', `cacheFolder is ${String(cacheFolder)}, which is no path`, {
      help: 'give the path of a folder',
    })
  const memoryLimit = options.memoryLimit === undefined ? undefined : byteSize(options.memoryLimit, 'memoryLimit')
  const key = JSON.stringify([index, memoryLimit, cacheFolder, library])
  const settings: CudaOptions = {
    index,
    ...(memoryLimit === undefined ? {} : { memoryLimit }),
    ...(cacheFolder === undefined ? {} : { cacheFolder }),
    ...(library ? {} : { products: 'none' }),
  }
  const device = open.get(key) ?? openCuda(settings)
  open.set(key, device)
  return registerDevice(device)
}
