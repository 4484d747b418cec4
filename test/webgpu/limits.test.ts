/** Devices at WebGPU's default limits and at tighter ones: plans and kernels stay inside, and what cannot is named. */
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Tensor } from '../../src/index.ts'
import * as api from '../../src/index.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { nightly } from '../support/nightly.ts'
import { openRecorded } from './recorded.ts'
import { openSoftware } from './software.ts'

let missing: string | undefined
beforeAll(async () => {
  const device = await openSoftware()
  if (typeof device === 'string') missing = device
})
beforeEach(({ skip }) => skip(missing !== undefined, missing))

const noise = (n: number, seed: number): number[] =>
  Array.from({ length: n }, (_, i) => Math.sin(seed * 12.9898 + i * 78.233) * 1.7)
const make = (shape: readonly number[], seed: number): Tensor =>
  api
    .tensor(
      noise(
        shape.reduce((a, b) => a * b, 1),
        seed,
      ),
    )
    .reshape([...shape])

interface Case {
  readonly f: (...x: Tensor[]) => Tensor | Tensor[]
  readonly shapes: readonly (readonly number[])[]
}

const many = Array.from({ length: 21 }, (_, i) => [3 + i, 5])
const cases: Readonly<Record<string, Case>> = {
  'a sum of many operands': { f: (...x) => x.map((t) => t.sum()).reduce((a, b) => a.add(b)), shapes: many },
  'a concatenation of many operands': { f: (...x) => api.concat(x, 0).exp().sum(1), shapes: many },
  'a long row': { f: (x) => x.softmax(-1), shapes: [[3, 9001]] },
  'a matrix product': {
    f: (a, b) => a.matmul(b).relu(),
    shapes: [
      [70, 33],
      [33, 65],
    ],
  },
  'many sums of one tensor, which end as partial results': {
    f: (x) =>
      Array.from({ length: 9 }, (_, i) =>
        x
          .mul(i + 1)
          .sin()
          .sum(),
      ),
    shapes: [[40_003]],
  },
  'column sums beside a matrix product': {
    f: (a) =>
      Array.from({ length: 5 }, (_, i) =>
        a
          .matmul(a)
          .mul(i + 1)
          .sin()
          .sum(0),
      ),
    shapes: [[150, 150]],
  },
  'a tensor read in two shapes': {
    f: (x, y) => [x.sum(0), x.sum(1), x.max(0), x.max(1), x.min(0), api.concat([x, y], 0)],
    shapes: [
      [33, 3],
      [33, 3],
    ],
  },
  'many programs': { f: (x) => x.exp().add(1), shapes: [[100_003]] },
}

async function results({ f, shapes }: Case, device: Parameters<typeof api.setDevice>[0]): Promise<number[]> {
  api.setDevice(device)
  const out = api.jit(f)(...shapes.map((s, i) => make(s, i + 1)))
  const data = await Promise.all([out].flat().map((t) => t.data()))
  return data.flatMap((d) => Array.from(d, Number))
}

describe.each([
  ['the default limits', 'default'],
  [
    'tight limits',
    {
      maxStorageBuffersPerShaderStage: 4,
      maxComputeInvocationsPerWorkgroup: 100,
      maxComputeWorkgroupsPerDimension: 7,
      maxComputeWorkgroupStorageSize: 16384,
    },
  ],
] as const)('%s', (_, limits) => {
  const byDay = limits === 'default' ? [0, 4] : [1, 2, 3, 6]
  const own = Object.entries(cases).filter((_, i) => nightly || byDay.includes(i))
  test.each(own)('%s', async (_name, c) => {
    const { device, programs, target } = await openRecorded(limits)
    const want = await results(c, 'reference')
    const got = await results(c, device)
    expect(got.length).toBe(want.length)
    want.forEach((w, i) => {
      expect(Math.abs((got[i] ?? Number.NaN) - w), `element ${i}`).toBeLessThanOrEqual(1e-4 * (1 + Math.abs(w)))
    })
    expect(programs.length).toBeGreaterThan(0)
    for (const p of programs)
      for (const { step } of kernelsOf(p)) expect(step.kernel.params.length).toBeLessThanOrEqual(target.maxBuffers)
  })
})

test('a tensor beyond what a kernel may bind is named', async () => {
  const { device } = await openRecorded({ maxStorageBufferBindingSize: 4096 })
  api.setDevice(device)
  const f = api.jit((x: Tensor) => x.exp())
  expect(() => f(make([40, 31], 1))).toThrow(
    /E_OVERFLOW.*an input is f32\[1240\].* 4960 bytes .*; the target webgpu has at most 4096 bytes for a value/s,
  )
  expect(Array.from(await f(make([3], 1)).data(), Number).length).toBe(3)
})

test('a buffer beyond what the device has is refused', async () => {
  const { device } = await openRecorded({ maxBufferSize: 1 << 16 })
  api.setDevice(device)
  expect(() => api.evaluate(make([200, 100], 1).add(1))).toThrow(
    /E_OVERFLOW.*an input is f32\[20000\].*at most 65536 bytes for a value/s,
  )
  expect(Array.from(await make([2], 1).add(1).data(), Number).length).toBe(2)
})
