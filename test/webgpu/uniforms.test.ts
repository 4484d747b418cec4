/** Single values on the WebGPU device: bound as uniform buffers where they have memory of their own, as buffers elsewhere. */
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import { createWebgpuBackend, webgpuCapabilities } from '../../src/backends/webgpu/backend.ts'
import { openAdapter, openGpu } from '../../src/backends/webgpu/host.ts'
import { uniformBuffers } from '../../src/backends/webgpu/uniforms.ts'
import * as api from '../../src/index.ts'
import { type Tensor, tensor } from '../../src/index.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { openSoftware } from './software.ts'

let missing: string | undefined
beforeAll(async () => {
  const device = await openSoftware()
  if (typeof device === 'string') missing = device
})
beforeEach(({ skip }) => skip(missing !== undefined, missing))
afterAll(() => api.setDevice('wasm'))

const limits = { maxStorageBuffersPerShaderStage: 8 }

/** Runs a jitted function here and on the reference; gives the code of the kernels it made. */
async function same(make: () => Tensor[], f: (...x: Tensor[]) => Tensor[], donate: number[] = []): Promise<string[]> {
  const backend = await createWebgpuBackend({ limits })
  const gpu = await (await openAdapter(await openGpu())).requestDevice()
  const modules = vi.spyOn(Object.getPrototypeOf(gpu) as GPUDevice, 'createShaderModule')
  gpu.destroy()
  const results: number[][][] = []
  const device = createCompiledDevice('webgpu', backend, backend.machine, webgpuCapabilities)
  let code: string[] = []
  for (const on of ['reference', device] as const) {
    api.setDevice(on)
    modules.mockClear()
    const inputs = make()
    await Promise.all(inputs.map((x) => x.data()))
    const out = api.jit(f, { donate })(...inputs)
    results.push(await Promise.all(out.map(async (t) => Array.from(await t.data(), Number))))
    code = modules.mock.calls.map(([d]) => d.code)
  }
  modules.mockRestore()
  const [want = [], got = []] = results
  expect(got.map((x) => x.length)).toEqual(want.map((x) => x.length))
  want.forEach((w, k) => {
    for (const [i, x] of w.entries())
      expect(Math.abs((got[k]?.[i] ?? Number.NaN) - x), `output ${k}[${i}]`).toBeLessThanOrEqual(
        1e-5 * (1 + Math.abs(x)),
      )
  })
  return code
}

const uniforms = (code: readonly string[]): number[] => code.map((c) => c.split('var<uniform>').length - 1)

const vector = (n: number, seed: number): Tensor =>
  tensor(Array.from({ length: n }, (_, i) => Math.sin(seed * 12.9898 + i * 78.233)))

test('scalars of every dtype: those of 32 bits are values', async () => {
  const code = await same(
    () => [
      vector(301, 1),
      tensor(0.5),
      tensor(3, { dtype: 'i32' }),
      tensor(4, { dtype: 'u32' }),
      tensor(1.5, { dtype: 'f16' }),
      tensor(true),
    ],
    (x, a, b, c, d, e) => [[a, b, c, d, e].reduce((y, s) => y.add((s as Tensor).astype('f32')), (x as Tensor).mul(2))],
  )
  expect(uniforms(code)).toEqual([3])
})

test('the planner counts on as many as the backend binds', () => {
  expect(webgpuTarget().valueBuffers).toBe(uniformBuffers)
})

test('a value that is read behind a mask, in many places, and stored whole', async () => {
  const code = await same(
    () => [tensor([0.5]), vector(7, 2), vector(300, 3)],
    (a, x, y) => [
      api.pad(a as Tensor, [[1, 2]]),
      api.concat([a as Tensor, x as Tensor, a as Tensor], 0).exp(),
      (y as Tensor).mul(a as Tensor).sum(),
    ],
  )
  expect(Math.max(...uniforms(code))).toBeGreaterThan(0)
})

test('a donated value that is written over is no uniform buffer', async () => {
  const code = await same(
    () => [tensor(0.5), vector(40, 4)],
    (a, x) => [(a as Tensor).add(1), (x as Tensor).mul(2)],
    [0, 1],
  )
  expect(uniforms(code).every((n) => n === 0)).toBe(true)
})

test('more values than uniform buffers: the others are buffers', async () => {
  const n = uniformBuffers + 4
  const code = await same(
    () => [vector(200, 5), ...Array.from({ length: n }, (_, i) => tensor(0.1 * i))],
    (x, ...values) => [values.reduce((y, s) => y.mul(0.5).add(s), x as Tensor)],
  )
  expect(Math.max(...uniforms(code))).toBeLessThanOrEqual(uniformBuffers)
  for (const c of code) expect(c.split('var<storage').length - 1).toBeLessThanOrEqual(8)
})

test('values in the memory of intermediates are buffers', async () => {
  const code = await same(
    () => [vector(50_000, 6), vector(50_000, 7)],
    (x, y) => {
      const total = (x as Tensor).sin().square().mean()
      return [(y as Tensor).mul(total), (x as Tensor).sub(total)]
    },
  )
  expect(uniforms(code).every((n) => n === 0)).toBe(true)
})

test('inside a loop, whose values stand wherever the program has them', async () => {
  await same(
    () => [vector(64, 8), tensor(0.25)],
    (x, a) => {
      const [y, b] = api.foriLoop(0, 3, (_, [p, q]) => [p.mul(q).add(1), q.mul(0.5)] as [Tensor, Tensor], [x, a] as [
        Tensor,
        Tensor,
      ])
      return [y, b]
    },
  )
})
