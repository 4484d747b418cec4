/**
 * What a program holds of a device goes with the jitted function: at once by `dispose` or `using`, or when it is collected. `memory()` tells.
 * Sites looked at: jit's entries, the lazy cache, WasmExecutable with its worker threads' modules, CudaExecutable with kernels and graphs,
 * WebgpuExecutable with pipelines, users' kernels that refer to the function they run in, functions that end while they run.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest'
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import type { Device } from '../../src/api/device/device.ts'
import { createCudaBackend } from '../../src/backends/cuda/backend.ts'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import * as s from '../../src/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { codeOf } from '../api/messages.ts'
import { fakeDevice } from '../cuda/fake.ts'
import { nightly, seedsOf } from '../support/nightly.ts'
import { openSoftware } from '../webgpu/software.ts'

setFlagsFromString('--expose-gc')
/** Functions that are made and dropped; what was dropped is collected after so many. */
const functions = seedsOf('SINTER_FUNCTIONS', 12, 200)
const every = Math.min(20, functions / 2)

const gc = runInNewContext('gc') as () => void

/** Collects, and lets the engine free what was collected. */
async function collect(): Promise<void> {
  for (let i = 0; i < 3; i++) {
    gc()
    await new Promise((done) => setTimeout(done, 0))
  }
}

beforeAll(() => s.setDevice('wasm', { threads: 1 }))
afterAll(() => s.setDevice('reference'))

type State = Omit<ReturnType<typeof s.memory>, 'limit'>
const stateOf = (device: Device): State => {
  const { limit, ...state } = device.memory()
  expect(limit).toBeGreaterThan(0)
  return state
}

const webgpu = await openSoftware()
const devices: [string, (() => Device) | string][] = [
  ['wasm', () => createCompiledDevice('wasm', createWasmBackend({ threads: 1 }), wasmTarget)],
  [
    'wasm with threads',
    () => createCompiledDevice('wasm', createWasmBackend({ threads: 2, shareAbove: 0 }), wasmTarget),
  ],
  [
    'cuda',
    () => {
      const { driver, compiler } = fakeDevice()
      return createCompiledDevice('cuda', createCudaBackend({ driver, compiler, cacheFolder: '/nowhere' }), cudaTarget)
    },
  ],
  ['webgpu', typeof webgpu === 'string' ? webgpu : () => webgpu],
]

describe.each(devices)('programs on %s', (_, open) => {
  const skipped = typeof open === 'string'

  test.skipIf(skipped)(`of ${functions} functions dropped`, { timeout: 120_000 }, async () => {
    if (typeof open === 'string') return
    const device = open()
    const x = s.tensor(new Float32Array(16), { shape: [4, 4] })
    const one = (i: number): void => {
      // Each a program of its own, with an intermediate.
      const f = s.jit((a: s.Tensor) => a.matmul(a).add(i).matmul(a).add(i).matmul(a), { device })
      f(x).dispose()
    }
    const states: State[] = []
    for (let i = 1; i <= functions; i++) {
      one(i)
      if (i % every !== 0) continue
      await collect()
      if (i === every || i === functions) states.push(stateOf(device))
    }
    expect(states[1]).toEqual(states[0])
    expect(states[0]?.programs).toBe(0)
    expect(states[0]?.arenaBytes).toBe(0)
  })

  test.skipIf(skipped)('of a function disposed of', () => {
    if (typeof open === 'string') return
    const device = open()
    const make = () => s.jit((a: s.Tensor) => a.matmul(a).add(1).matmul(a).add(1).matmul(a), { device })
    const x = s.tensor(new Float32Array(4096), { shape: [64, 64] })
    // Scratch of the threads stays with the device.
    const first = make()
    first(x).dispose()
    first.dispose()
    const before = stateOf(device)
    const f = make()
    const y = f(x)
    const during = stateOf(device)
    expect(during.programs).toBe(before.programs + 1)
    expect(during.modules).toBeGreaterThan(before.modules)
    expect(during.arenaBytes).toBeGreaterThan(before.arenaBytes)
    f.dispose()
    f.dispose()
    const { programs, modules, arenaBytes } = stateOf(device)
    expect({ programs, modules, arenaBytes }).toEqual({
      programs: before.programs,
      modules: before.modules,
      arenaBytes: before.arenaBytes,
    })
    expect(codeOf(() => f(x))).toBe('E_DISPOSED')
    expect(codeOf(() => f.explain(x))).toBe('E_DISPOSED')
    y.dispose()
    expect(stateOf(device).used).toBe(before.used)
  })
})

const four = s.tensor(Float32Array.of(1, 1, 1, 1))

test('`using` ends a function', () => {
  const before = s.memory().programs
  const f = s.jit((a: s.Tensor) => a.add(1))
  f(four)
  expect(s.memory().programs).toBe(before + 1)
  f[Symbol.dispose]()
  expect(s.memory().programs).toBe(before)
})

test('results outlive the function that gave them', () => {
  const f = s.jit((a: s.Tensor) => a.add(1))
  const y = f(four)
  f.dispose()
  expect(y.dataSync()).toEqual(Float32Array.of(2, 2, 2, 2))
})

test('a function ends while a result of it is being read', async () => {
  const f = s.jit((a: s.Tensor) => a.matmul(a).add(1).matmul(a))
  const x = s.tensor(new Float32Array(64).fill(1), { shape: [8, 8] })
  const pending = f(x).data()
  f.dispose()
  expect(await pending).toEqual(new Float32Array(64).fill(72))
})

test('a function that ends while it runs', () => {
  const x = s.tensor(new Float32Array(64).fill(1), { shape: [8, 8] })
  const before = s.memory().programs
  const f: s.JitFunction<[s.Tensor], s.Tensor> = s.jit((a: s.Tensor) =>
    s.inspect(a.add(1).sum(0), () => f.dispose()).mul(a.matmul(a)),
  )
  const y = f(x)
  expect(s.memory().programs).toBe(before)
  expect(y.dataSync()).toEqual(new Float32Array(64).fill(128))
  expect(codeOf(() => f(x))).toBe('E_DISPOSED')
})

test("a user's kernel that refers to its function does not keep it", async () => {
  const make = (): void => {
    const calls: unknown[] = []
    const f = s.jit((a: s.Tensor) =>
      s.opaque(
        { name: 'own', shapeRule: () => ({ shape: [4], dtype: 'f32' }), run: (_, out) => void calls.push(f, out) },
        a.add(1),
      ),
    )
    f(four).dispose()
  }
  await collect()
  const before = s.memory()
  make()
  expect(s.memory().programs).toBe(before.programs + 1)
  await collect()
  expect(s.memory().programs).toBe(before.programs)
})

test('lazy programs are bounded by what they hold', () => {
  const before = s.memory().arenaBytes
  const n = 1 << 20
  for (let i = 0; i < 24; i++) {
    // A structure of its own each, with an intermediate of 12 MiB.
    let y = s.ones([3, n]).add(i)
    for (let k = 0; k <= i; k++) y = y.matmul(s.ones([n, 1])).add(s.ones([3, n]))
    y.sum().item()
  }
  expect(s.memory().arenaBytes - before).toBeLessThanOrEqual(160 << 20)
})

test('values read one by one leave no memory behind', { timeout: 60_000 }, async () => {
  const f = s.jit((a: s.Tensor, k: s.Tensor) => a.mul(k))
  const x = s.ones([1 << 20]).evaluate()
  const before = s.memory().used
  let most = 0
  for (let i = 0; i < (nightly ? 150 : 80); i++) {
    await f(x, s.tensor(i)).data()
    most = Math.max(most, s.memory().used - before)
  }
  expect(most).toBeLessThan(200 << 20)
})

describe('values read one by one with nothing awaited', () => {
  afterEach(() => s.setDevice('wasm', { threads: 1 }))
  const limit = 96 << 20
  const count = nightly ? 100 : 40
  const loops: readonly (readonly [what: string, step: (a: s.Tensor, k: s.Tensor) => s.Tensor])[] = [
    ['jitted', s.jit((a: s.Tensor, k: s.Tensor) => a.mul(k))],
    ['lazy', (a, k) => a.mul(k)],
  ]
  it.each(loops)('%s: all of them, or the error that names the remedy; the remedy works', async (_, step) => {
    s.setDevice('wasm', { threads: 1, memoryLimit: limit })
    const x = s.ones([1 << 20]).evaluate()
    let error: unknown
    try {
      for (let i = 0; i < count; i++) {
        expect(step(x, s.tensor(i)).dataSync()[7]).toBe(i)
        expect(s.memory().used).toBeLessThanOrEqual(limit)
      }
    } catch (e) {
      error = e
    }
    if (error !== undefined)
      expect(error).toMatchObject({ code: 'E_OUT_OF_MEMORY', help: expect.stringContaining('await x.data()') })
    await collect()
    for (let i = 0; i < count; i++) expect((await step(x, s.tensor(i)).data())[7]).toBe(i)
    for (let i = 0; i < count; i++) {
      const y = step(x, s.tensor(i))
      expect(y.dataSync()[7]).toBe(i)
      y.dispose()
    }
  })
})
