/** `sinter explain --device webgpu` where there is no adapter: the plan is for WebGPU's default limits, and says so. */
import { expect, test } from 'vitest'
import { sinter } from './support.ts'

// A driver that is not there: the Vulkan loader finds no other.
process.env.VK_DRIVER_FILES = '/nowhere.json'

test('the default limits', async () => {
  const ran = await sinter('run', 'examples/layer.ts', '--device', 'webgpu')
  expect(ran.code).toBe(1)
  expect(ran.err).toContain('error [E_DEVICE] WebGPU finds no adapter')
  const { code, out } = await sinter('explain', 'examples/layer.ts', '--device', 'webgpu')
  expect(code).toBe(0)
  expect(out).toContain(' for webgpu, fast')
  expect(out).toContain(
    "planned for WebGPU's default limits: 8 buffers a kernel, aligned to 256 B; 256 threads a workgroup, which share 16384 B",
  )
  expect(out).toContain('WebGPU finds no adapter')
  expect(out).toContain('VK_DRIVER_FILES chooses a driver')
  const { plannedFor } = JSON.parse((await sinter('explain', 'examples/layer.ts', '--device', 'webgpu', '--json')).out)
  expect(plannedFor.gpu).toBeUndefined()
  expect(plannedFor.limits).toEqual({ storageBuffers: 8, alignment: 256, threads: 256, sharedBytes: 16384 })
})
