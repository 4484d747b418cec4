/** The CUDA backend on a driver that records calls: launches and graphs, memory, the cache of kernels, errors. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createCudaBackend } from '../../src/backends/cuda/backend.ts'
import { architectureFor } from '../../src/backends/cuda/compile.ts'
import { MemoryPool } from '../../src/backends/cuda/memory.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { softmax } from '../../src/compose/index.ts'
import { makeNode, param, withContext } from '../../src/graph/build.ts'
import type { Graph } from '../../src/graph/node.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { fakeDevice } from './fake.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sinter-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Two kernels: the sum of all elements cut into parts, then a function of the result. */
const twoKernels = (): Graph =>
  withContext(() => {
    const x = param(0, [4096, 4096], 'f32')
    const total = makeNode('reduce', [makeNode('exp', [x], {})], { combiner: 'sum', axes: [0, 1] })
    return { params: [x], outputs: [total], effects: [] }
  })

const rowKernel = (n = 64): Graph =>
  withContext(() => {
    const x = param(0, [n, 128], 'f32')
    return { params: [x], outputs: [softmax(x, -1)], effects: [] }
  })

function prepared(graph: Graph, memory?: number) {
  const fake = fakeDevice(memory)
  const backend = createCudaBackend({ driver: fake.driver, compiler: fake.compiler, cacheFolder: folder })
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget })
  return { fake, backend, program, executable: backend.prepare(program) }
}

describe('runs', () => {
  test('kernel by kernel first, then as one graph', () => {
    const { fake, backend, program, executable } = prepared(twoKernels())
    const kernels = program.steps.filter((s) => s.kind === 'kernel').length
    expect(kernels).toBeGreaterThan(1)
    const x = backend.alloc(4096 * 4096 * 4)
    const first = executable.run([x])
    expect(fake.calls.filter((c) => c === 'launch').length).toBe(kernels)
    for (const b of first) backend.free(b)
    fake.calls.length = 0
    for (let i = 0; i < 3; i++) for (const b of executable.run([x])) backend.free(b)
    expect(fake.calls).toEqual([`graph of ${kernels}`, 'launch graph', 'launch graph', 'launch graph'])
  })

  test('launches carry the addresses of this run', () => {
    const { fake, backend, executable } = prepared(twoKernels())
    const inputs = Array.from({ length: 7 }, () => backend.alloc(4096 * 4096 * 4))
    const seen = inputs.map((x) => {
      fake.launched.length = 0
      const out = executable.run([x])
      return { args: fake.launched.flatMap((l) => l.args), out }
    })
    // Results are kept, so every run has another input and another output: all are different, and used.
    expect(new Set(seen.map((s) => s.args.join())).size).toBe(inputs.length)
    expect(fake.calls.some((c) => c.startsWith('update'))).toBe(true)
    expect(fake.calls.filter((c) => c.startsWith('graph of')).length).toBe(4)
  })

  test('one kernel is launched as a graph too, from the second run on', () => {
    const { fake, backend, executable } = prepared(rowKernel())
    const x = backend.alloc(64 * 128 * 4)
    for (let i = 0; i < 3; i++) for (const b of executable.run([x])) backend.free(b)
    const launches = fake.calls.filter((c) => c === 'launch' || c === 'launch graph' || c.startsWith('graph of'))
    expect(launches).toEqual(['launch', 'graph of 1', 'launch graph', 'launch graph'])
  })

  test('resources of kernels', () => {
    const { backend, executable } = prepared(rowKernel())
    const [r] = backend.resources(executable)
    expect(r).toMatchObject({ registers: 40, localBytes: 0, blocks: expect.any(Number) })
    expect(r?.residentThreads).toBe(6 * (r?.threads ?? 0))
  })

  test('profile gives a time to every step', async () => {
    const { backend, executable, program } = prepared(twoKernels())
    const { times } = await backend.profile(executable, [backend.alloc(4096 * 4096 * 4)])
    expect(times.map((t) => t.step)).toEqual(program.steps.map((_, i) => i))
  })
})

describe('memory', () => {
  test('a full device is a clear error, and the backend goes on', () => {
    const { backend, fake } = prepared(rowKernel(), 256 << 20)
    const kept = backend.alloc(100 << 20)
    expect(() => backend.alloc(300 << 20)).toThrow('E_OUT_OF_MEMORY')
    backend.free(kept)
    expect(() => backend.alloc(180 << 20)).not.toThrow()
    expect(fake.allocated()).toBeLessThanOrEqual(256 << 20)
  })

  test('blocks join again, whatever the order', () => {
    const { driver } = fakeDevice()
    const pool = new MemoryPool(driver.open(0), undefined)
    let seed = 7
    const random = (n: number): number => {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
      return seed % n
    }
    const live: number[] = []
    for (let i = 0; i < 2000; i++) {
      if (live.length > 0 && random(2) === 0) pool.release(live.splice(random(live.length), 1)[0] ?? 0)
      else live.push(pool.alloc(random(100_000)))
      expect(new Set(live).size).toBe(live.length)
    }
    pool.verify()
    for (const a of live) pool.release(a)
    pool.verify()
    expect(pool.used).toBe(0)
    pool.trim()
    expect(pool.reserved).toBe(0)
  })

  test('the same calls get the same blocks, whatever the order in which those before were freed', () => {
    const { driver } = fakeDevice()
    const pool = new MemoryPool(driver.open(0), undefined)
    const apart = [1000, 5000, 1000, 5000, 1000, 5000]
    const first = apart.map((bytes) => pool.alloc(bytes))
    // Neighbours stay, so that those of equal size do not join.
    const equal = [0, 2, 4].flatMap((i) => first[i] ?? [])
    for (const order of [
      [2, 0, 1],
      [1, 2, 0],
      [0, 1, 2],
    ]) {
      for (const i of order) pool.release(equal[i] ?? 0)
      expect(equal.map(() => pool.alloc(1000))).toEqual(equal)
    }
    pool.verify()
  })

  test('what is freed is given out again', () => {
    const { backend } = prepared(rowKernel())
    const before = backend.memory().used
    const [a, b] = [backend.alloc(1000), backend.alloc(3 << 20)]
    backend.free(a)
    backend.free(b)
    expect(backend.memory().used).toBe(before)
    expect(() => backend.readSync(a, 'f32', 1)).toThrow('E_DISPOSED')
  })
})

describe('kernels', () => {
  test('are compiled once, for the architecture, and kept on disk', () => {
    const first = prepared(rowKernel())
    expect(first.fake.sources.length).toBe(1)
    expect(first.fake.sources[0]?.options).toContain('--gpu-architecture=sm_90a')
    first.backend.prepare(first.program)
    expect(first.fake.sources.length).toBe(1)
    expect(readdirSync(folder).length).toBe(1)
    expect(prepared(rowKernel()).fake.sources.length).toBe(0)
  })

  test('a damaged file is compiled again', () => {
    prepared(rowKernel())
    for (const f of readdirSync(folder)) writeFileSync(join(folder, f), '')
    expect(prepared(rowKernel()).fake.sources.length).toBe(1)
    expect(prepared(rowKernel()).fake.sources.length).toBe(0)
  })

  test('an architecture of the same generation', () => {
    expect(architectureFor(90, [80, 86, 90, 100])).toBe(90)
    expect(architectureFor(89, [80, 86, 90])).toBe(86)
    expect(() => architectureFor(120, [80, 90])).toThrow('E_DEVICE')
  })
})

test('an index the driver does not have', () => {
  const fake = fakeDevice()
  expect(() => createCudaBackend({ driver: fake.driver, compiler: fake.compiler, index: 3 })).toThrow(
    /E_DEVICE.*no CUDA device 3/,
  )
})
