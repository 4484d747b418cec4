/**
 * Random tensors on every engine, and engines that cannot run kernels: bits and strict normals are equal bit for bit, fast normals within
 * the bounds of their functions; strict uses no relaxed SIMD; relaxed multiply-add is used where it fuses alone; an engine without
 * WebAssembly, SIMD, shared memory or the permission to compile gives a coded error.
 *
 * Sites: src/codegen/vector/{value/lanes,loop/gemm,loop/levelProducts,math/vector}.ts (all that multiply and add with one rounding), src/backends/wasm/{engine,device}.ts,
 * src/cli/devices.ts. Other engines run digests.mjs by itself.
 */
import { afterEach, describe, expect, it, vi } from 'vitest'
import { compileModule } from '../../src/codegen/wasm/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as s from '../../src/index.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { some } from '../support/nightly.ts'
import { digests, expected } from './digests.mjs'

const none = undefined as never

afterEach(() => {
  vi.unstubAllGlobals()
  vi.resetModules()
})

it('bits are those of every engine, and normals in strict', async () => {
  s.setDevice('wasm', { threads: 2 })
  expect(await digests(s)).toEqual(expected)
})

it('the reference draws the same bits and uniforms', () => {
  const draws = [
    (k: s.Tensor) => s.random.bits(k, [1001]),
    (k: s.Tensor) => s.random.bits(k, [1001], 'u8'),
    (k: s.Tensor) => s.random.uniform(k, [1001]),
    (k: s.Tensor) => s.random.uniform(k, [1001], 'bf16'),
    (k: s.Tensor) => s.random.bernoulli(k, 0.2, [1001]),
    (k: s.Tensor) => s.random.integers(k, [1001], 3, 17),
  ]
  for (const draw of draws) {
    const on = (device: s.DeviceName): unknown => s.jit(draw, { device })(s.random.key(5)).tolist()
    expect(on('wasm')).toEqual(on('reference'))
  }
})

it('normals are within the bounds of logarithm, root and cosine in both modes', () => {
  const n = 100_003
  const key = s.random.key(77)
  const [first, second] = s.random.split(key)
  const bits = (k: s.Tensor | undefined): Uint32Array =>
    Uint32Array.from(s.random.bits(k ?? key, [n]).dataSync() as Uint32Array)
  const [a, b] = [bits(first), bits(second)]
  const tau = Math.fround(2 * Math.PI)
  for (const mode of ['strict', 'fast'] as const) {
    const y = s
      .jit((k: s.Tensor) => s.random.normal(k, [n]), { mode })(key)
      .dataSync()
    let worst = 0
    for (let i = 0; i < n; i++) {
      const u = (((a[i] ?? 0) >>> 8) + 1) * 2 ** -24
      const angle = Math.fround(((b[i] ?? 0) >>> 8) * 2 ** -24 * tau)
      const radius = Math.sqrt(-2 * Math.log(u))
      const exact = radius * Math.cos(angle)
      // The logarithm's 4 ulp are 2 of its root; the root, both products and the cosine's 4 (2^-23 where it is small) are added.
      const bound = radius * (2 ** -23 + 2 ** -24 * Math.abs(angle)) + Math.abs(exact) * 8 * 2 ** -23
      worst = Math.max(worst, Math.abs(Number(y[i]) - exact) / bound)
    }
    expect(worst).toBeLessThanOrEqual(1)
    expect(worst).toBeGreaterThan(0)
  }
})

describe('relaxed SIMD', () => {
  /** The code of a function of random tensors, as WebAssembly. */
  function code(f: (x: s.Tensor) => unknown, mode: s.Mode, relaxed: boolean): string {
    const traced = s.program(({ x }: { x: s.Tensor }) => f(x), { x: { shape: [64, 64] } }).trace()
    const { program } = compileGraph(traced.graph, { mode, target: wasmTarget })
    const jobs = kernelsOf(program).map(({ step }, i) => ({ kernel: step.kernel, name: `k${i}`, mayAlias: () => true }))
    const { bytes } = compileModule(jobs, { machine: wasmTarget, relaxed, memory: { min: 1, max: 100, shared: false } })
    return Buffer.from(bytes).toString('hex')
  }
  const programs: Readonly<Record<string, (x: s.Tensor) => unknown>> = {
    'a matrix product': (x) => x.matmul(x),
    'a product of few rows': (x) => x.slice([0, 2]).matmul(x),
    softmax: (x) => x.softmax(-1),
    normals: (x) => s.random.normal(s.random.key(1), [64, 64]).add(x),
    functions: (x) => [s.exp, s.log, s.sin, s.erf, s.tanh, s.atan, s.log1p].map((f) => f(x)),
    powers: (x) => [s.pow(x, x), s.atan2(x, x)],
  }
  it.each(some(Object.entries(programs), 2))('none of it in strict, some in fast: %s', (_, f) => {
    expect(code(f, 'strict', true)).toBe(code(f, 'strict', false))
    expect(code(f, 'fast', true)).not.toBe(code(f, 'fast', false))
  })
})

/** The engine and the device as they are loaded under globals of the test's own. */
async function load(): Promise<{
  readonly engine: typeof import('../../src/backends/wasm/engine.ts')
  readonly api: typeof import('../../src/index.ts')
  readonly features: () => unknown
}> {
  vi.resetModules()
  const [engine, api, cli] = await Promise.all([
    import('../../src/backends/wasm/engine.ts'),
    import('../../src/index.ts'),
    import('../../src/cli/devices.ts'),
  ])
  return { engine, api, features: cli.wasmFeatures }
}

/** WebAssembly with some of it replaced. */
const wasmWith = (parts: object): object => Object.assign(Object.create(WebAssembly), parts)

/** An engine whose relaxed multiply-add rounds apart, as that of Bun. */
const apart = wasmWith({
  Instance: class {
    readonly exports = { f: (a: number, b: number, c: number) => Math.fround(Math.fround(a * b) + c) }
  },
})

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

describe('engines', () => {
  it('relaxed multiply-add is used where it fuses alone, and `sinter devices` says which it does', async () => {
    vi.stubGlobal('WebAssembly', apart)
    const odd = await load()
    expect(odd.engine.relaxedMultiplyAdd()).toBe('apart')
    expect(odd.features()).toMatchObject({ simd: true, multiplyAdd: 'apart' })
    const { deviceStatus } = await import('../../src/cli/devices.ts')
    expect((await deviceStatus())[0]?.detail).toContain('relaxed SIMD unused (its multiply-add does not fuse)')
    const { Device } = await import('../../src/backends/wasm/device.ts')
    expect(new Device({ threads: 1 }, wasmTarget).relaxed).toBe(false)
  })

  const forbidden = class {
    constructor() {
      throw new WebAssembly.CompileError(
        "Refused to compile or instantiate WebAssembly module because 'unsafe-eval' is not allowed",
      )
    }
  }
  const validate = (bytes: Uint8Array): boolean => WebAssembly.validate(bytes as Uint8Array<ArrayBuffer>)
  const cases: readonly (readonly [
    what: string,
    globals: Readonly<Record<string, unknown>>,
    summary: string,
    help: RegExp,
    threads: number | null,
  ])[] = [
    [
      'without WebAssembly',
      { WebAssembly: none },
      'this engine has no WebAssembly',
      /a browser that does not switch it off/,
      null,
    ],
    [
      'without SIMD',
      { WebAssembly: wasmWith({ validate: (b: Uint8Array) => !hex(b).includes('fd11') && validate(b) }) },
      'the WebAssembly of this engine has no SIMD',
      /Node 20 or later/,
      null,
    ],
    [
      'under a policy without wasm-unsafe-eval',
      { WebAssembly: wasmWith({ Module: forbidden }) },
      'the policy of this page forbids WebAssembly to compile',
      /add 'wasm-unsafe-eval' to script-src of its Content-Security-Policy, or compute on a GPU/,
      null,
    ],
    [
      'without shared memory, asked for threads',
      { SharedArrayBuffer: none },
      'threads is 2, and this engine shares no memory between threads',
      /leave threads out/,
      2,
    ],
  ]
  it.each(cases)('%s: E_DEVICE with a remedy', async (_, globals, summary, help, threads) => {
    for (const [name, value] of Object.entries(globals)) vi.stubGlobal(name, value)
    const { api } = await load()
    const options = threads === null ? {} : { threads }
    let error: unknown
    try {
      api.setDevice('wasm', options)
    } catch (e) {
      error = e
    }
    expect(error).toMatchObject({ code: 'E_DEVICE', summary, help: expect.stringMatching(help) })
    expect((error as s.UserError).where).toMatch(/random\.test\.ts/)
  })
  it('the first operation says it too, and another device works', async () => {
    vi.stubGlobal('WebAssembly', wasmWith({ Module: forbidden }))
    const { api } = await load()
    expect(() => api.ones([2]).add(1).dataSync()).toThrow(/\[E_DEVICE\] .*the policy of this page forbids WebAssembly/)
    api.setDevice('reference')
    expect([...api.ones([2]).add(1).dataSync()]).toEqual([2, 2])
  })
  it('without shared memory kernels run on the calling thread, unless threads are asked for', async () => {
    vi.stubGlobal('SharedArrayBuffer', none)
    const { api } = await load()
    api.setDevice('wasm')
    expect([...api.ones([2]).add(1).dataSync()]).toEqual([2, 2])
  })
})
