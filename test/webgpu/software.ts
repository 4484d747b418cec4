/** WebGPU on a software Vulkan driver (SwiftShader): what the tests of the device run on. */
import { existsSync } from 'node:fs'
import type { Device } from '../../src/api/device.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import { webgpu } from '../../src/webgpu.ts'

const driver = '/usr/lib/chromium/vk_swiftshader_icd.json'

/** Opens the device, or says why there is none. */
export async function openSoftware(): Promise<Device | string> {
  if (process.env.VK_DRIVER_FILES === undefined) {
    if (!existsSync(driver)) return `no software Vulkan driver: ${driver} is missing (Debian package chromium)`
    process.env.VK_DRIVER_FILES = driver
  }
  try {
    return await webgpu()
  } catch (e) {
    if (e instanceof UserError) return e.message
    throw e
  }
}
