/** The software Vulkan driver that WebGPU tests run on: SwiftShader, which Debian's package chromium carries. */
import { existsSync } from 'node:fs'

/**
 * What Dawn is told here: workgroup memory is not cleared, so no kernel may read what it has not written. (The software driver
 * writes clearing out element by element, and takes four times as long to compile a kernel.)
 */
export const dawnOptions: readonly string[] = ['enable-dawn-features=disable_workgroup_init']

const driver = '/usr/lib/chromium/vk_swiftshader_icd.json'

/** Why WebGPU tests cannot run here: the reason to skip them, or an error where SINTER_REQUIRE_WEBGPU is set. */
export function absent(why: string): string {
  if (process.env.SINTER_REQUIRE_WEBGPU !== undefined) throw new Error(`SINTER_REQUIRE_WEBGPU is set, but: ${why}`)
  return why
}

/** Chooses the software driver unless VK_DRIVER_FILES names one; says what is missing. */
export function chooseDriver(): string | undefined {
  if (process.env.VK_DRIVER_FILES !== undefined) return undefined
  if (!existsSync(driver)) return absent(`no software Vulkan driver: ${driver} is missing (Debian package chromium)`)
  process.env.VK_DRIVER_FILES = driver
  return undefined
}
