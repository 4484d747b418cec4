/** The bindings: the backend on a driver and a compiler built from C here, which check what they are given. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import type { Device } from '../../src/api/device/device.ts'
import { type CudaBackend, type CudaOptions, createCudaBackend, theDriver } from '../../src/backends/cuda/backend.ts'
import { openProducts } from '../../src/backends/cuda/cublasLt.ts'
import { guarded } from '../../src/backends/cuda/device.ts'
import { loadFfi } from '../../src/backends/cuda/library.ts'
import * as api from '../../src/index.ts'
import { toHost } from '../../src/scalar/host.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { pricesByClass } from '../../src/target/prices.ts'
import { sinter } from '../cli/support.ts'

const folder = mkdtempSync(join(tmpdir(), 'sinter-'))
let missing: string | undefined
let backend: CudaBackend

function build(sources: readonly string[], to: string): void {
  const files = sources.map((f) => fileURLToPath(new URL(`./stub/${f}`, import.meta.url)))
  const r = spawnSync('cc', ['-shared', '-fPIC', '-w', '-o', join(folder, to), ...files], { encoding: 'utf8' })
  if (r.error !== undefined) missing = 'no C compiler (cc) to build the driver with'
  else if (r.status !== 0) throw new Error(r.stderr)
}

beforeAll(() => {
  // One library: products are put on the driver's stream.
  build(['driver.c', 'products.c'], 'libcuda.so.1')
  build(['compiler.c'], 'libnvrtc.so.13')
  if (missing !== undefined) return
  process.env.SINTER_LIBCUDA = join(folder, 'libcuda.so.1')
  process.env.SINTER_NVRTC = join(folder, 'libnvrtc.so.13')
  process.env.SINTER_CUBLASLT = join(folder, 'libcuda.so.1')
  backend = createCudaBackend({ cacheFolder: join(folder, 'cache') })
  api.setDevice(createCompiledDevice('cuda', backend, cudaTarget))
})
beforeEach(({ skip }) => skip(missing !== undefined, missing))
afterAll(() => {
  api.setDevice('wasm')
  rmSync(folder, { recursive: true })
})

const counts = (): { launches: number; updates: number; graphs: number } => {
  const out = new Int32Array(3)
  loadFfi().load(join(folder, 'libcuda.so.1')).func('stubCounts', 'int', ['void*'])(out)
  const [launches = 0, updates = 0, graphs = 0] = out
  return { launches, updates, graphs }
}

test('the device', () => {
  expect(backend.properties).toMatchObject({ name: 'Stub GPU', capability: 90, multiprocessors: 132, memory: 2 ** 34 })
})

test('explain plans for the device, and tells what kernels take of it', async () => {
  process.env.SINTER_CACHE = join(folder, 'explain')
  const { code, out, err } = await sinter('explain', 'examples/residual.ts', '--device', 'cuda')
  expect(code, err).toBe(0)
  expect(out).toContain('planned for Stub GPU: compute capability 9.0, products by cuBLASLt where they are faster')
  expect(out).toMatch(/\d+ registers +\d+ B local/)
  expect(out).not.toContain('missing')
  const none = await sinter('explain', 'examples/residual.ts', '--device', 'cuda', '--index', '7')
  expect(none.code).toBe(1)
  expect(none.err).toContain('error [E_DEVICE] there is no CUDA device 7: the driver sees 1')
})

test('values go to the device and back, in pieces larger than the staging memory', async () => {
  const n = 5 * 2 ** 20 + 3
  const data = Float32Array.from({ length: n }, (_, i) => i % 1021)
  const b = backend.alloc(data.byteLength)
  backend.write(b, data)
  const same = (got: ArrayBufferView): boolean =>
    Buffer.compare(Buffer.from(got.buffer, got.byteOffset, got.byteLength), Buffer.from(data.buffer)) === 0
  expect(same(backend.readSync(b, 'f32', n))).toBe(true)
  const copy = backend.copy(b)
  backend.free(b)
  expect(same(await backend.read(copy, 'f32', n))).toBe(true)
  backend.free(copy)
})

test('launches, then graphs', () => {
  const f = api.jit((x: api.Tensor) => [x.exp().sum(), x.add(1)])
  const x = api.tensor(new Float32Array(1 << 20))
  const before = counts()
  for (let i = 0; i < 3; i++) for (const t of f(x)) t.dispose()
  const after = counts()
  expect(after.graphs - before.graphs).toBe(2)
  expect((after.launches - before.launches) % 3).toBe(0)
  const kept = Array.from({ length: 6 }, () => f(x))
  expect(kept.length).toBe(6)
  expect(counts().updates).toBeGreaterThan(0)
})

/** Programmatic edges since the last call; from now on the driver refuses them or does not. */
const earlyEdges = (refuse = false): number =>
  loadFfi().load(join(folder, 'libcuda.so.1')).func('stubEarlyEdges', 'int', ['int'])(refuse ? 1 : 0)

describe('kernels that start early', () => {
  /** Runs to the second graph of a sum of all elements: a kernel and the finishing stage behind it. */
  const sums = (options: CudaOptions = {}): CudaBackend => {
    const own = createCudaBackend({ cacheFolder: join(folder, 'cache'), ...options })
    api.setDevice(createCompiledDevice('cuda', own, cudaTarget))
    const f = api.jit((x: api.Tensor) => x.exp().sum())
    const x = api.tensor(new Float32Array(1 << 20))
    for (let i = 0; i < 3; i++) f(x).dispose()
    return own
  }
  afterEach(() => {
    earlyEdges()
    api.setDevice(createCompiledDevice('cuda', backend, cudaTarget))
  })

  test('an edge from a kernel to its finishing stage', () => {
    earlyEdges()
    sums()
    expect(earlyEdges()).toBe(1)
    sums({ earlyStart: 'exit' })
    expect(earlyEdges()).toBe(1)
    sums({ earlyStart: 'never' })
    expect(earlyEdges()).toBe(0)
  })

  test('a driver that refuses such edges gets plain ones', () => {
    const { graphs } = counts()
    earlyEdges(true)
    sums()
    expect(counts().graphs - graphs).toBe(2)
    expect(earlyEdges()).toBe(0)
  })
})

/** Where a product of a kernel costs far more than a call. */
const eager = (): Machine => {
  const target = backend.machine
  if (target.library === undefined) throw new Error('no library')
  return {
    ...target,
    matrixRate: 1e3,
    plainMatrixRate: 1e3,
    prices: pricesByClass({ simple: 1e6, divide: 1e6, special: 1e6, random: 1e6 }),
    library: { ...target.library, leastFlops: 1, launch: 0 },
  }
}

const stubProducts = (): { objects: number; products: number } => {
  const out = new Int32Array(2)
  loadFfi().load(join(folder, 'libcuda.so.1')).func('stubProducts', 'int', ['void*'])(out)
  const [objects = 0, products = 0] = out
  return { objects, products }
}

describe('products', () => {
  type Program = (a: api.Tensor, b: api.Tensor) => api.Tensor
  const t = (x: api.Tensor): api.Tensor => x.transpose([1, 0])
  const cases: readonly [string, readonly number[], readonly number[], Program][] = [
    ['of rows', [5, 7], [7, 9], (a, b) => a.matmul(b)],
    ['transposed', [7, 5], [9, 7], (a, b) => t(a).matmul(t(b))],
    ['with transposed results', [5, 7], [9, 7], (a, b) => t(a.matmul(t(b)))],
    ['of batches, scaled', [3, 5, 7], [3, 7, 9], (a, b) => a.matmul(b).mul(-0.5)],
    ['of heads', [2, 5, 3, 8], [2, 3, 6, 8], (q, k) => api.einsum('bshd,bhtd->bhst', q, k)],
    ['of slices', [9, 12], [7, 9], (a, b) => a.slice([2, 7], [3, 10]).matmul(b)],
    ['added to rows', [5, 7], [7, 7], (a, b) => a.sub(a.matmul(b))],
    [
      'added to slices of batches',
      [3, 5, 9],
      [3, 9, 4],
      (a, b) => a.slice([0, 3], [0, 5], [2, 6]).mul(2).add(a.matmul(b)),
    ],
  ]

  const numbers = (shape: readonly number[], shift: number): number[] =>
    Array.from({ length: shape.reduce((x, y) => x * y, 1) }, (_, i) => ((i * 7 + shift) % 11) - 5)

  test.each(['f32', 'f64', 'bf16'] as const)('%s: layouts, by calls and by captured graphs', (dtype) => {
    const device = createCompiledDevice('cuda', backend, eager())
    const { objects } = stubProducts()
    const tensor = (on: Device | 'reference', values: readonly number[], shape: readonly number[]): api.Tensor => {
      api.setDevice(on)
      return api.tensor(toHost(values, dtype), { shape, dtype })
    }
    for (const [name, first, second, f] of cases) {
      const g = api.jit((a: api.Tensor, b: api.Tensor, c: api.Tensor) => [f(a, b), f(c, b)])
      const kept: (() => void)[] = []
      for (let i = 0; i < 7; i++) {
        const values = [numbers(first, i), numbers(second, i), numbers(first, i + 3)] as const
        const args = (on: Device | 'reference'): [api.Tensor, api.Tensor, api.Tensor] => [
          tensor(on, values[0], first),
          tensor(on, values[1], second),
          tensor(on, values[2], first),
        ]
        const [a, b, c] = args('reference')
        const want = [f(a, b).tolist(), f(c, b).tolist()]
        const got = g(...args(device))
        kept.push(() => expect([name, i, ...got.map((y) => y.tolist())]).toEqual([name, i, ...want]))
        if (i === 0) expect(g.explain(...args(device)).totals).toMatchObject({ kernels: 0, libraryCalls: 2 })
      }
      for (const k of kept) k()
    }
    api.setDevice(createCompiledDevice('cuda', backend, cudaTarget))
    // A description a product, a layout a matrix; wishes are given back.
    expect(stubProducts().objects - objects).toBeLessThanOrEqual(5 * cases.length)
    expect(stubProducts().products).toBeGreaterThanOrEqual(14 * cases.length)
  })

  test('one that the library has no algorithm for is a kernel, and the report says why', () => {
    api.setDevice(createCompiledDevice('cuda', backend, eager()))
    try {
      const report = api.jit((a: api.Tensor, b: api.Tensor) => a.matmul(b)).explain(api.ones([5, 7]), api.ones([7, 11]))
      expect(String(report)).toContain(
        'a kernel of its own: cuBLASLt has no algorithm for 5 x 11 x 7 f32: CUBLAS_STATUS_NOT_SUPPORTED',
      )
    } finally {
      api.setDevice(createCompiledDevice('cuda', backend, cudaTarget))
    }
  })

  test('a call that fails while it is captured leaves the stream usable', () => {
    const context = theDriver().open(0)
    const broken = (): void => {
      throw new Error('broken on the way')
    }
    expect(() => context.makeGraph([{ enqueue: broken }], [[]])).toThrow('broken on the way')
    let streams = 0
    const note = (stream: number): void => {
      streams = stream
    }
    const graph = context.makeGraph([{ enqueue: note }], [[]])
    graph.launch()
    graph.update([0])
    graph.dispose()
    expect(streams).toBe(0x77)
  })

  test('what the library reports is a clear error', () => {
    const handle = openProducts()
    if ('missing' in handle) throw new Error(handle.missing)
    expect(handle.version).toBe('13.1.0')
    const matrix = { dtype: 'f32', order: 'columns', leading: 2, batch: 0 } as const
    const product = { batches: 1, m: 4, n: 4, k: 4, alpha: 1, a: matrix, b: matrix, out: matrix }
    const context = theDriver().open(0)
    const find = (): unknown => handle.open(context).find(product, { a: 4, b: 4, out: 4 }, 1 << 20)
    expect(() => guarded('Stub GPU', find)).toThrow(/E_DEVICE.*Stub GPU.*cublasLtMatrixLayoutCreate.*INVALID_VALUE/)
  })
})

test('memory beyond what the driver has is a clear error', () => {
  expect(() => backend.alloc(2 ** 33)).toThrow(/E_OUT_OF_MEMORY.*Stub GPU/)
  expect(() => backend.alloc(1024)).not.toThrow()
})

test('time on the clock of the device', () => {
  const f = api.jit((x: api.Tensor) => x.mul(3))
  f(api.tensor([1, 2, 3]))
  expect(backend.timed(() => f(api.tensor([1, 2, 3])))).toBe(1.5)
})
