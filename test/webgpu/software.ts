/** WebGPU on a software Vulkan driver (SwiftShader): what the tests of the device run on. */
import type { Device } from '../../src/api/device.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import { webgpu } from '../../src/webgpu.ts'
import { absent, chooseDriver } from '../support/softwareDriver.ts'

/** Opens the device, or says why there is none. */
export async function openSoftware(): Promise<Device | string> {
  const missing = chooseDriver()
  if (missing !== undefined) return missing
  try {
    return await webgpu()
  } catch (e) {
    if (e instanceof UserError) return absent(e.message)
    throw e
  }
}
