/**
 * The entry point `sinter/webgpu`: GPUs in browsers, and in Node through the package `webgpu`.
 * @module sinter/webgpu
 */

import { checkOptions, kinds, optionNames } from './api/calls/options.ts'
import { located } from './api/calls/place.ts'
import { type ByteSize, byteSize } from './api/device/bytes.ts'
import { createCompiledDevice } from './api/device/compiled.ts'
import type { Device } from './api/device/device.ts'
import { registerDevice } from './api/device/session.ts'
import { createWebgpuBackend, webgpuCapabilities } from './backends/webgpu/backend.ts'
import { UserError } from './diagnostics/errors.ts'

export type { Device } from './api/device/device.ts'

/** Which adapter, and how much memory. */
export interface WebgpuDeviceOptions {
  /** Which adapter, where there are several. */
  readonly powerPreference?: 'low-power' | 'high-performance'
  /** Most bytes of memory: `512MB`, `1GiB` or a number. */
  readonly memoryLimit?: ByteSize
}

const deviceOptions = optionNames<WebgpuDeviceOptions>("{ memoryLimit: '1GiB' }", {
  powerPreference: kinds.anything,
  memoryLimit: kinds.anything,
})

/**
 * A GPU as a device: `setDevice(await webgpu())`; from then on its name is `'webgpu'`. Every call opens a new one (after a
 * device is lost, that is the way back). WebGPU cannot wait, so values are read with `await tensor.data()` alone.
 * @throws E_DEVICE naming what is missing; E_ARGUMENT for options that are none
 * @example
 * setDevice(await webgpu({ powerPreference: 'high-performance' }))
 * await ones([1000, 1000]).sum().data() // [1000000]
 */
export async function webgpu(options: WebgpuDeviceOptions = {}): Promise<Device> {
  try {
    return await opened(options)
  } catch (error) {
    throw located(error)
  }
}

async function opened(options: WebgpuDeviceOptions): Promise<Device> {
  checkOptions(options, 'webgpu', deviceOptions)
  const { powerPreference, memoryLimit } = options
  if (powerPreference !== undefined && powerPreference !== 'low-power' && powerPreference !== 'high-performance')
    throw new UserError('E_ARGUMENT', `there is no powerPreference ${JSON.stringify(powerPreference)}`, {
      help: "use 'low-power' or 'high-performance'",
    })
  const backend = await createWebgpuBackend({
    ...(powerPreference === undefined ? {} : { powerPreference }),
    ...(memoryLimit === undefined ? {} : { memoryLimit: byteSize(memoryLimit, 'memoryLimit') }),
  })
  return registerDevice(createCompiledDevice('webgpu', backend, backend.machine, webgpuCapabilities))
}
