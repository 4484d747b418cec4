/** Optimiser steps on the WebGPU device: several, over unequal tensors, donated and kept; dispatches and bindings inside the limits. */
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { shareParams } from '../../src/backends/webgpu/aliases.ts'
import { openAdapter, openGpu } from '../../src/backends/webgpu/host.ts'
import { uniformParams } from '../../src/backends/webgpu/uniforms.ts'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import type { Tensor } from '../../src/index.ts'
import * as api from '../../src/index.ts'
import { commandsOf } from '../../src/runtime/commands.ts'
import type { Program } from '../../src/runtime/program.ts'
import { webgpuSimt } from '../../src/target/simt.ts'
import { at } from '../compile/support.ts'
import { some, turn } from '../support/nightly.ts'
import { openRecorded } from './recorded.ts'
import { openSoftware } from './software.ts'

let missing: string | undefined
beforeAll(async () => {
  const device = await openSoftware()
  if (typeof device === 'string') missing = device
})
beforeEach(({ skip }) => skip(missing !== undefined, missing))
afterAll(() => api.setDevice('wasm'))

/** A device of so many storage buffers a stage (or as many as the adapter has). */
const open = (most: number | undefined): ReturnType<typeof openRecorded> =>
  openRecorded(most === undefined ? {} : { maxStorageBuffersPerShaderStage: most })

/** Storage buffers of every dispatch of a program. */
const bindings = (program: Program): number[] =>
  emitted(program).map((source) => source.split('var<storage').length - 1)

/** The code of every dispatch of a program. */
function emitted(program: Program): string[] {
  const { commands, bases } = commandsOf(program, { alignment: 256 })
  return commands.flatMap((x) => {
    if (x.kind !== 'launch') return []
    const shared = shareParams(x.step.kernel, x.places)
    const uniform = uniformParams(shared, bases)
    const launch = { writable: (p: string) => shared.writable.has(p), uniform: (p: string) => uniform.has(p) }
    return [emitKernel(shared.kernel, webgpuSimt, launch).source]
  })
}

/** Unequal tensors, a scalar and an empty one among them. */
const shapes = [[301], [37, 5], [0, 3], [], [64, 9], [1023], [2, 3, 4], [7], [129, 3], [5]]
const full = shapes.filter((s) => !s.includes(0)).length

const make = (shape: readonly number[], seed: number): Tensor => {
  const n = shape.reduce((a, b) => a * b, 1)
  return api
    .tensor(Array.from({ length: n }, (_, i) => Math.sin(seed * 12.9898 + i * 78.233) * 1.7))
    .reshape([...shape])
}

const cases = [
  { name: 'AdamW', optimiser: api.optim.adamw({ learningRate: 1e-2 }), slots: 2 },
  { name: 'momentum', optimiser: api.optim.sgd({ learningRate: 1e-2, momentum: 0.9 }), slots: 1 },
]

type Optimiser = (typeof cases)[number]['optimiser']

const steps = 3

/** Parameters and state after some steps with changing gradients. */
async function train(optimiser: Optimiser, donate: readonly number[]): Promise<number[][]> {
  const one = api.jit(
    (params: Tensor[], state: ReturnType<typeof optimiser.init>, gradients: Tensor[]) =>
      optimiser.update(gradients, state as never, params),
    { donate },
  )
  let params = shapes.map((s, i) => make(s, i + 1))
  let state = optimiser.init(params) as ReturnType<typeof optimiser.init>
  for (let t = 0; t < steps; t++) {
    const next = one(
      params,
      state,
      shapes.map((s, i) => make(s, 100 * (t + 1) + i)),
    )
    params = next.params as Tensor[]
    state = next.state as typeof state
  }
  const slots = Object.values(state).flat() as Tensor[]
  return Promise.all([...params, ...slots].map(async (x) => Array.from(await x.data(), Number)))
}

const limits = [
  ['as many as the adapter has', undefined],
  ['the default', 8],
] as const

// By day each optimiser under one of the limits, donated or kept.
describe.each(limits.map((l, i) => [...l, i] as const))('buffers of a kernel: %s', (_, most, i) => {
  test.each(turn(cases, i))('$name', async ({ optimiser, slots }) => {
    const { device, programs, target } = await open(most)
    const buffers = target.maxBuffers
    api.setDevice('reference')
    const want = await train(optimiser, [])
    const ways = [
      [[0, 1], slots + 2],
      [[], 2 * (slots + 1) + 1],
    ] as const
    for (const [donate, each] of turn(ways, i)) {
      programs.length = 0
      api.setDevice(device)
      const got = await train(optimiser, donate)
      expect(got.map((x) => x.length)).toEqual(want.map((x) => x.length))
      want.forEach((w, k) => {
        for (const [i, x] of w.entries())
          expect(Math.abs((got[k]?.[i] ?? Number.NaN) - x), `tensor ${k}[${i}]`).toBeLessThanOrEqual(
            1e-5 * (1 + Math.abs(x)),
          )
      })
      for (const p of programs) for (const n of bindings(p)) expect(n).toBeLessThanOrEqual(buffers)
      // AdamW's tensors read the number of the step.
      if (slots === 2) expect(at(emitted(at(programs, programs.length - 1)), 1)).toContain('var<uniform>')
      const launches = bindings(at(programs, programs.length - 1)).length
      expect(launches).toBeLessThanOrEqual(Math.ceil(full / Math.floor(buffers / each)) + 1)
    }
  })
})

const given = [
  ['donated', [0, 1]],
  ['kept', []],
] as const
test.each(some(given, 2))('bind groups of a loop are made in its first steps: %s', async (_, donate) => {
  const { device } = await open(8)
  api.setDevice(device)
  const gpu = await (await openAdapter(await openGpu())).requestDevice()
  const made = vi.spyOn(Object.getPrototypeOf(gpu) as GPUDevice, 'createBindGroup')
  gpu.destroy()
  const one = api.jit(
    (params: Tensor[], slots: Tensor[], gradients: Tensor[]) => {
      const next = slots.map((v, i) => v.mul(0.9).add(at(gradients, i)))
      return [params.map((p, i) => p.sub(at(next, i).mul(0.01))), next] as const
    },
    { donate },
  )
  const gradient = api.jit((params: Tensor[]) => params.map((p) => p.mul(2)))
  let params = shapes.map((s, i) => make(s, i + 1))
  let slots = shapes.map((s, i) => make(s, i + 50))
  const counts: number[] = []
  for (let t = 0; t < 8; t++) {
    made.mockClear()
    const gradients = gradient(params)
    const next = one(params, slots, gradients)
    for (const x of [...gradients, ...(donate.length === 0 ? [...params, ...slots] : [])]) x.dispose()
    ;[params, slots] = [[...next[0]], [...next[1]]]
    counts.push(made.mock.calls.length)
  }
  made.mockRestore()
  expect(counts[0]).toBeGreaterThan(0)
  expect(counts.slice(4)).toEqual([0, 0, 0, 0])
})

test('dispatches of one code share a pipeline', async () => {
  const { device } = await open(8)
  api.setDevice(device)
  const gpu = await (await openAdapter(await openGpu())).requestDevice()
  const made = vi.spyOn(Object.getPrototypeOf(gpu) as GPUDevice, 'createComputePipeline')
  gpu.destroy()
  const step = api.jit((xs: Tensor[], ys: Tensor[]) => xs.map((x, i) => x.sub(at(ys, i).tanh())), { donate: [0] })
  const tensors = (seed: number): Tensor[] => Array.from({ length: 12 }, (_, i) => make([96], seed + i))
  const [xs, ys] = [tensors(1), tensors(50)]
  const want = await Promise.all(xs.map((x, i) => x.sub(at(ys, i).tanh()).data()))
  made.mockClear()
  expect(step.explain(xs, ys).totals.kernels).toBeGreaterThan(2)
  const got = await Promise.all(step(xs, ys).map((x) => x.data()))
  expect(made).toHaveBeenCalledTimes(1)
  made.mockRestore()
  for (const [i, w] of want.entries()) for (const [k, v] of w.entries()) expect(got[i]?.[k]).toBeCloseTo(Number(v), 5)
})
