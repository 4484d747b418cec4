/** f16 by WGSL's built-in functions, which this software adapter has right of finite numbers alone; and the question whether a device has. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Device } from '../../src/api/device/device.ts'
import { convertsHalves } from '../../src/backends/webgpu/halves.ts'
import { openAdapter, openGpu } from '../../src/backends/webgpu/host.ts'
import * as s from '../../src/index.ts'
import { some } from '../support/nightly.ts'
import { deviceOf } from './made.ts'
import { openSoftware } from './software.ts'

let missing: string | undefined
let gpu: GPUDevice
let builtIn: Device
beforeAll(async () => {
  const opened = await openSoftware()
  if (typeof opened === 'string') {
    missing = opened
    return
  }
  gpu = await (await openAdapter(await openGpu())).requestDevice()
  builtIn = deviceOf(gpu, { laneBits: 0, hasHalfConversions: true, hasSubgroupMatrices: false })
})
beforeEach(({ skip }) => skip(missing !== undefined, missing))
afterAll(() => s.setDevice('reference'))

/** Asks a device whose functions are what `change` makes of calls of them. */
async function asked(change: (call: string) => string): Promise<boolean> {
  const { createShaderModule } = gpu
  gpu.createShaderModule = (d) => {
    const code = d.code.replace(/pack2x16float\(vec2<f32>\(a, a\)\)|unpack2x16float\(h(?: << 16u)?\)\.[xy]/g, change)
    return createShaderModule.call(gpu, { ...d, code })
  }
  try {
    return await convertsHalves(gpu)
  } finally {
    gpu.createShaderModule = createShaderModule
  }
}

const packed = '(f16_bits(a) | (f16_bits(a) << 16u))'
const right = (call: string): string => (call.startsWith('pack') ? packed : 'f16_value(h)')

test('a device is asked about every half', async () => {
  expect(await asked(right)).toBe(true)
  const wrong: readonly ((call: string) => string)[] = [
    // Ties away from zero; a subnormal that is zero; infinity that is a number; an upper half that is the lower one's neighbour.
    (call) =>
      call.startsWith('pack') ? packed.replaceAll('f16_bits(a)', 'f16_bits(bitcast<f32>(bits + 1u))') : right(call),
    (call) => (call.startsWith('pack') ? right(call) : 'select(f16_value(h), 0.0, h == 1u)'),
    (call) => (call.startsWith('pack') ? packed.replaceAll('f16_bits(a)', 'min(f16_bits(a), 0xfbffu)') : right(call)),
    (call) => (call.endsWith('.y') ? 'f16_value(h ^ 1u)' : right(call)),
  ]
  for (const change of wrong) expect(await asked(change)).toBe(false)
})

/** Every half that is a number, by its bits. */
const finite = Array.from({ length: 65536 }, (_, i) => i).filter((i) => (i & 0x7c00) !== 0x7c00)
const halfValue = (h: number): number => {
  const [sign, exponent, m] = [h & 0x8000 ? -1 : 1, (h >> 10) & 31, h & 0x3ff]
  return sign * (exponent === 0 ? m * 2 ** -24 : (1024 + m) * 2 ** (exponent - 25))
}

test('all finite halves to f32 and back', async () => {
  s.setDevice(builtIn)
  const values = finite.map(halfValue)
  const x = s.tensor(values, { dtype: 'f16' })
  const y = await s
    .jit((a: s.Tensor) => a.astype('f32').mul(1))(x)
    .data()
  expect(Array.from(y, Number)).toEqual(values.map((v) => (v === 0 ? v * 1 : v)))
  const back = await s
    .jit((a: s.Tensor) => a.astype('f32').neg().astype('f16').neg())(x)
    .data()
  expect(Array.from(back, Number)).toEqual(values)
})

const sizes = [
  [37, 61],
  [64, 96],
  [5, 1031],
] as const
test.each(some(sizes, 3))('programs of %i by %i halves are as in float64', async (rows, columns) => {
  const data = Array.from({ length: rows * columns }, (_, i) => Math.sin(1.7 * i) * 2)
  const program = (x: s.Tensor, w: s.Tensor) => [
    x.softmax(-1),
    x.mul(w).add(0.25).astype('f32').sum([0]),
    s.nn.gelu(x).mul(w),
    x.transpose().astype('f32').sub(0.1).astype('f16'),
  ]
  const run = async (device: Device | 'reference'): Promise<number[][]> => {
    s.setDevice(device)
    const x = s.tensor(data, { dtype: 'f16', shape: [rows, columns] })
    const w = s.tensor(data.slice(0, columns), { dtype: 'f16' })
    return Promise.all(
      s
        .jit(program)(x, w)
        .map(async (t) => Array.from(await t.data(), Number)),
    )
  }
  const [want, got] = [await run('reference'), await run(builtIn)]
  want.forEach((y, k) => {
    const size = Math.max(...y.map(Math.abs))
    y.forEach((v, i) => {
      expect(Math.abs((got[k]?.[i] ?? Number.NaN) - v), `result ${k}[${i}]`).toBeLessThanOrEqual(2 ** -9 * size)
    })
  })
})
