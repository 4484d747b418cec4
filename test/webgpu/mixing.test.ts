/** Tensors of several devices in one program of the user: what is copied, what cannot be, and how to copy it. */
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import type { Device } from '../../src/api/device/device.ts'
import { openAdapter, openGpu } from '../../src/backends/webgpu/host.ts'
import * as api from '../../src/index.ts'
import { setDevice, type Tensor, tensor } from '../../src/index.ts'
import { webgpu } from '../../src/webgpu.ts'
import { openSoftware } from './software.ts'

let missing: string | undefined
let first: Device
let second: Device
beforeAll(async () => {
  const device = await openSoftware()
  if (typeof device === 'string') missing = device
  else [first, second] = [device, await webgpu({ memoryLimit: '64MiB', powerPreference: 'low-power' })]
})
beforeEach(({ skip }) => skip(missing !== undefined, missing))
afterAll(() => setDevice('wasm'))

test('a tensor of WebAssembly is copied to WebGPU', async () => {
  setDevice('wasm')
  const x = tensor([1, 2]).add(1).evaluate()
  setDevice(first)
  expect(Array.from(await x.mul(tensor([3, 4])).data(), Number)).toEqual([6, 12])
})

test.for(['lazy', 'jitted'] as const)('a tensor of WebGPU elsewhere: the error names both devices, %s', (how) => {
  setDevice(first)
  const x = tensor([1, 2]).add(1).evaluate()
  const f = how === 'jitted' ? api.jit((t: Tensor) => t.mul(2)) : (t: Tensor) => t.mul(2).evaluate()
  setDevice('wasm')
  expect(() => f(x)).toThrow(
    /E_DEVICE\] a tensor f32\[2\] of the device webgpu is used on the device wasm: .*mixing\.test\.ts.*tensor\(await x\.data\(\)/s,
  )
  setDevice(second)
  expect(() => f(x)).toThrow('of the device webgpu is used on another webgpu device')
})

test.for(['f32', 'f16', 'bf16', 'bool', 'i8', 'u32', 'i64'] as const)(
  'the remedy keeps every value of %s',
  async (dtype) => {
    setDevice(first)
    const x = tensor([0, 1, 1, 0, 1]).astype(dtype).evaluate()
    const data = await x.data()
    for (const to of ['wasm', second] as const) {
      setDevice(to)
      const copy = tensor(await x.data(), { shape: x.shape, dtype: x.dtype })
      expect(await copy.reshape([5, 1]).flip(0).flip(0).data()).toEqual(data)
    }
  },
)

test('a tensor of WebGPU is shown without its elements', () => {
  setDevice(first)
  const x = tensor([1, 2]).add(1)
  expect(`${x}`).toBe('Tensor(f32[2], values on a WebGPU device cannot be read synchronously)')
})

test('options that are none', async () => {
  await expect(webgpu({ memoryLimit: -5 })).rejects.toThrow('E_ARGUMENT')
  await expect(webgpu({ powerPreference: 'most' as 'low-power' })).rejects.toThrow('E_ARGUMENT')
})

test('a tensor of a lost device is gone, on other devices too, and the rest goes on', async () => {
  // The GPUDevice underneath, as the adapter gives it.
  const adapter = await openAdapter(await openGpu())
  const request = vi.spyOn(Object.getPrototypeOf(adapter) as GPUAdapter, 'requestDevice')
  const lost = await webgpu()
  const opened: GPUDevice = await request.mock.results[0]?.value
  request.mockRestore()
  setDevice(lost)
  const f = api.jit((t: Tensor) => t.mul(2).add(1))
  const x = tensor([1, 2]).add(1).evaluate()
  expect(Array.from(await f(x).data(), Number)).toEqual([5, 7])
  opened.destroy()
  await opened.lost
  const gone =
    /E_DEVICE\].*the WebGPU device is lost \(destroyed.*its tensors are gone.*open it again, setDevice\(await webgpu\(\)\)/s
  await expect(async () => x.data()).rejects.toThrow(gone)
  expect(() => x.dataSync()).toThrow(gone)
  expect(() => f(x)).toThrow(gone)
  expect(`${x}`).toContain('the WebGPU device is lost')
  for (const to of ['wasm', await webgpu()] as const) {
    setDevice(to)
    expect(() => f(x)).toThrow(gone)
    expect(() => f(x)).not.toThrow('copy it there first')
    expect(Array.from(await f(tensor([3, 4])).data(), Number)).toEqual([7, 9])
  }
})
