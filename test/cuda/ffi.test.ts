/** The bindings: the backend on a driver and a compiler built from C here, which check what they are given. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { createCompiledDevice } from '../../src/api/compiled.ts'
import { type CudaBackend, createCudaBackend } from '../../src/backends/cuda/backend.ts'
import { loadFfi } from '../../src/backends/cuda/library.ts'
import * as api from '../../src/index.ts'
import { cudaTarget } from '../../src/plan/target.ts'

const folder = mkdtempSync(join(tmpdir(), 'sinter-'))
let missing: string | undefined
let backend: CudaBackend

function build(source: string, to: string): void {
  const file = fileURLToPath(new URL(`./stub/${source}`, import.meta.url))
  const r = spawnSync('cc', ['-shared', '-fPIC', '-w', '-o', join(folder, to), file], { encoding: 'utf8' })
  if (r.error !== undefined) missing = 'no C compiler (cc) to build the driver with'
  else if (r.status !== 0) throw new Error(r.stderr)
}

beforeAll(() => {
  build('driver.c', 'libcuda.so.1')
  build('compiler.c', 'libnvrtc.so.13')
  if (missing !== undefined) return
  process.env.SINTER_LIBCUDA = join(folder, 'libcuda.so.1')
  process.env.SINTER_NVRTC = join(folder, 'libnvrtc.so.13')
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

test('memory beyond what the driver has is a clear error', () => {
  expect(() => backend.alloc(2 ** 33)).toThrow(/E_OUT_OF_MEMORY.*Stub GPU/)
  expect(() => backend.alloc(1024)).not.toThrow()
})

test('time on the clock of the device', () => {
  const f = api.jit((x: api.Tensor) => x.mul(3))
  f(api.tensor([1, 2, 3]))
  expect(backend.timed(() => f(api.tensor([1, 2, 3])))).toBe(1.5)
})
