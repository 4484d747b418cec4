/** WebGPU on a software Vulkan driver (SwiftShader): what the tests of the device run on. */
import type { Device } from '../../src/api/device/device.ts'
import { openGpu } from '../../src/backends/webgpu/host.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import { webgpu } from '../../src/webgpu.ts'
import { absent, chooseDriver, dawnOptions } from '../support/softwareDriver.ts'

/** Opens the device, or says why there is none. The options of a file's first call hold. */
export async function openSoftware(options = dawnOptions): Promise<Device | string> {
  const missing = chooseDriver()
  if (missing !== undefined) return missing
  try {
    await openGpu(options)
    return await webgpu()
  } catch (e) {
    if (e instanceof UserError) return absent(e.message)
    throw e
  }
}
