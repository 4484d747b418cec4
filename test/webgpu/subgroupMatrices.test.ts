/**
 * Products of halves on matrices of subgroups. No software adapter has them: here every thread holds whole matrices and multiplies them by itself,
 * so that what is tested is all but the device's own instructions (the GPU's checks run those).
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Device } from '../../src/api/device/device.ts'
import { openAdapter, openGpu } from '../../src/backends/webgpu/host.ts'
import * as s from '../../src/index.ts'
import { debug } from '../../src/schedule/debug.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { atNight, some } from '../support/nightly.ts'
import { deviceOf } from './made.ts'
import { openSoftware } from './software.ts'

const sources: string[] = []

/** WGSL that does by itself what a subgroup does together. */
function withoutSubgroups(code: string): string {
  if (!code.includes('subgroup_matrix')) return code
  sources.push(code)
  const tiles = [...code.matchAll(/var<workgroup> (\w+): array<vec4<u32>, \d+>;/g)].map(([, name]) => name)
  // Places and pitches count groups: of eight halves, or of four sums.
  const load = (name: string | undefined, order: string, place: string): string => `
fn load_${name}_${order}(at: u32, pitch: u32) -> array<f32, 256> {
  var m: array<f32, 256>;
  for (var r = 0u; r < 16u; r++) { for (var c = 0u; c < 16u; c++) {
    let half = ${place};
    m[r * 16u + c] = unpack2x16float(${name}[at + half / 8u][(half / 2u) & 3u])[half & 1u];
  } }
  return m;
}`
  const loads = tiles.flatMap((name) => [
    load(name, 'col_major', 'c * pitch * 8u + r'),
    load(name, 'row_major', 'r * pitch * 8u + c'),
  ])
  const stores = tiles.map(
    (name) => `
fn store_${name}(at: u32, m: array<f32, 256>, pitch: u32) {
  var all = m;
  for (var r = 0u; r < 16u; r++) { for (var c = 0u; c < 16u; c++) {
    ${name}[at + r * pitch + c / 4u][c & 3u] = bitcast<u32>(all[r * 16u + c]);
  } }
}`,
  )
  const multiply = `
fn multiply(a: array<f32, 256>, b: array<f32, 256>, sums: array<f32, 256>) -> array<f32, 256> {
  var x = a; var y = b; var m = sums;
  for (var r = 0u; r < 16u; r++) { for (var c = 0u; c < 16u; c++) {
    for (var k = 0u; k < 16u; k++) { m[r * 16u + c] += x[r * 16u + k] * y[k * 16u + c]; }
  } }
  return m;
}`
  const plain = code
    .replace(/^(enable (f16|chromium_\w+)|diagnostic\(.*\));$/gm, '')
    .replace(/subgroup_matrix_result<f32, 16, 16>/g, 'array<f32, 256>')
    .replace(/subgroupMatrixLoad<subgroup_matrix_\w+<f16, 16, 16>, (\w+)>\(&(\w+), /g, 'load_$2_$1(')
    .replace(/subgroupMatrixStore<row_major>\(&(\w+), /g, 'store_$1(')
    .replace(/subgroupMatrixMultiplyAccumulate/g, 'multiply')
  return [plain, ...loads, ...stores, multiply].join('\n')
}

let missing: string | undefined
let device: Device
beforeAll(async () => {
  const opened = await openSoftware()
  if (typeof opened === 'string') {
    missing = opened
    return
  }
  const adapter = await openAdapter(await openGpu())
  const { maxComputeWorkgroupStorageSize } = adapter.limits
  const gpu = await adapter.requestDevice({ requiredLimits: { maxComputeWorkgroupStorageSize } })
  const make = gpu.createShaderModule.bind(gpu)
  gpu.createShaderModule = (d) => make({ ...d, code: withoutSubgroups(d.code) })
  const found = { laneBits: 0, hasHalfConversions: true, hasSubgroupMatrices: true }
  const machine = webgpuTarget({ ...found, storageBuffers: 8, sharedBytes: 49152 })
  const simt = { ...machine.simt, leastProduct: 0, maxSharedBytes: 22528 }
  device = deviceOf(gpu, found, { ...machine, simt })
  debug.verify = true
})
beforeEach(({ skip }) => skip(missing !== undefined, missing))
afterAll(() => {
  debug.verify = false
  s.setDevice('reference')
})

type Shape = readonly number[]

const half = (seed: number, shape: Shape): s.Tensor =>
  s.tensor(
    Array.from({ length: shape.reduce((n, x) => n * x, 1) }, (_, i) => Math.sin(seed + 1.3 * i) / 2),
    { dtype: 'f16', shape },
  )

/** Runs a program of halves on the reference and on the device, whose kernels have to multiply on matrices once. */
async function same(program: (...x: s.Tensor[]) => s.Tensor, ...shapes: readonly Shape[]): Promise<void> {
  const run = async (on: Device | 'reference'): Promise<number[]> => {
    s.setDevice(on)
    const inputs = shapes.map((shape, i) => half(i + 1, shape))
    return Array.from(
      await s
        .jit(program)(...inputs)
        .astype('f32')
        .data(),
      Number,
    )
  }
  const want = await run('reference')
  sources.length = 0
  const got = await run(device)
  expect(sources.length).toBe(1)
  const size = Math.max(...want.map(Math.abs))
  want.forEach((x, i) => {
    expect(Math.abs((got[i] ?? Number.NaN) - x), `[${i}]: ${got[i]}, not ${x}`).toBeLessThanOrEqual(2 ** -8 * size)
  })
}

describe('products', () => {
  const sizes = [
    [40, 17, 500],
    [77, 45, 131],
    [64, 96, 64],
    [64, 64, 64],
    [33, 200, 40],
  ] as const
  test.each(some(sizes, 9))('%i x %i x %i', (m, k, n) => same((a, b) => a.matmul(b), [m, k], [k, n]))

  atNight('transposed operands', () => same((a, b) => a.transpose().matmul(b.transpose()), [72, 96], [130, 72]))

  atNight('a batch, with a bias and a function behind and an operand that is computed', () =>
    same((a, w, b, c) => s.nn.gelu(a.mul(w).matmul(b).add(c)), [3, 40, 64], [64], [3, 64, 50], [50]),
  )

  const windows = [
    [2, 1, 8, 13],
    [1, 2, 8, 13],
    [1, 1, 5, 40],
  ] as const
  test.each(some(windows, 3))(
    'windows at stride %i, dilation %i over %i rows of %i channels',
    (stride, dilation, rows, channels) =>
      same((x, w) => s.conv(x, w, { stride, dilation, padding: 1 }), [2, channels, rows, 7], [32, channels, 3, 3]),
  )
})
