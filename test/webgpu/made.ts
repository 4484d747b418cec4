/** Devices on a software adapter that plan and emit for what they are told they have. */
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import type { Device } from '../../src/api/device/device.ts'
import { WebgpuBackend, webgpuCapabilities } from '../../src/backends/webgpu/backend.ts'
import { type DeviceFeatures, WebgpuDevice } from '../../src/backends/webgpu/device.ts'
import { type DeviceLimits, limitNames } from '../../src/backends/webgpu/host.ts'
import type { SimtTarget } from '../../src/target/machine.ts'

/** A device of features that were not asked for, as another machine if told. */
export function deviceOf(gpu: GPUDevice, found: DeviceFeatures, machine?: SimtTarget): Device {
  const limits = Object.fromEntries(limitNames.map((l) => [l, gpu.limits[l]])) as DeviceLimits
  const opened = new WebgpuDevice(gpu, limits, found, undefined)
  if (machine !== undefined) Object.assign(opened, { machine })
  const backend = new WebgpuBackend(opened, 'told')
  return createCompiledDevice('webgpu', backend, backend.machine, webgpuCapabilities)
}
