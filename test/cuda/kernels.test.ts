/** Kernels of a program: compiled together, on threads, and emitted again with smaller tiles where registers spill. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type CudaBackend, createCudaBackend } from '../../src/backends/cuda/backend.ts'
import type { CompileOutcome } from '../../src/backends/cuda/driver.ts'
import { EmittedSources } from '../../src/backends/cuda/emitted.ts'
import { poolOfThreads, type Threads } from '../../src/backends/cuda/parallel.ts'
import { printResources } from '../../src/cli/explain.ts'
import { candidateSources } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import type { Executable } from '../../src/runtime/backend.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import { at, trace } from '../compile/support.ts'
import { atNight } from '../support/nightly.ts'
import { type FakeDevice, fakeDevice } from './fake.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sinter-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

function prepare(graph: Graph, fake: FakeDevice): { backend: CudaBackend; executable: Executable } {
  const backend = createCudaBackend({ driver: fake.driver, compiler: fake.compiler, cacheFolder: folder })
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget })
  return { backend, executable: backend.prepare(program) }
}

const rows = trace([{ shape: [64, 8192] }], (p) => c.softmax(at(p, 0), -1))

/** Elements of the longest register array. */
const longest = (source: string): number =>
  Math.max(0, ...[...source.matchAll(/^\s*float \w+\[(\d+)\];$/gm)].map((m) => Number(m[1])))

describe('spills', () => {
  test('lead to smaller tiles, and resources say so', () => {
    const fake = fakeDevice(1 << 30, 90, (source) => (longest(source) > 8 ? 256 : 0))
    const { backend, executable } = prepare(rows, fake)
    expect(fake.sources.map((s) => longest(s.source))).toEqual([16, 8])
    expect(backend.resources(executable)).toMatchObject([{ localBytes: 0, replanned: { registers: 8, spilled: 256 } }])
    const lines: string[] = []
    printResources(backend.resources(executable), { line: (text = '') => lines.push(text) })
    expect(lines.join('\n')).toContain('planned again with tiles of 8 registers: 256 B a thread were spilled before')
    executable.run([backend.alloc(64 * 8192 * 4)])
    expect(fake.launched).toHaveLength(1)
    // Again, from the disk.
    const again = fakeDevice(1 << 30, 90, (source) => (longest(source) > 8 ? 256 : 0))
    const second = prepare(rows, again)
    expect(again.sources).toHaveLength(0)
    expect(second.backend.resources(second.executable)).toMatchObject([{ replanned: { registers: 8 } }])
  })

  test('of a loop that loads ahead lead to one that does not', () => {
    const normal = trace(
      [
        { shape: [4096, 4096], dtype: 'bf16' },
        { shape: [4096, 4096], dtype: 'bf16' },
      ],
      (p) => {
        const x = at(p, 0)
        const y = c.sub(x, c.sum(x, [-1], true))
        return [y, c.sum(c.mul(y, at(p, 1)), [0])]
      },
    )
    const fake = fakeDevice(1 << 30, 90, (source) => (source.includes('copy_words') ? 256 : 0))
    const { backend, executable } = prepare(normal, fake)
    const [r] = backend.resources(executable)
    expect(r).toMatchObject({ localBytes: 0, replanned: { loadsAhead: false, spilled: 256 } })
    const lines: string[] = []
    printResources([...backend.resources(executable)], { line: (text = '') => lines.push(text) })
    expect(lines.join('\n')).toContain('planned again without loads ahead of loops: 256 B a thread were spilled before')
  })

  test('of products in the background lead to ones that are waited for at once, if only fewer words spill', () => {
    const shape = [4, 1024, 128]
    const inputs = [0, 1, 2].map(() => ({ shape, dtype: 'bf16' as const }))
    const attended = trace(inputs, (p) => c.attention(at(p, 0), at(p, 1), at(p, 2), { causal: true }))
    const fake = fakeDevice(1 << 30, 90, (source) => (source.includes('group_wait_1();') ? 256 : 128))
    const { backend, executable } = prepare(vjpGraph(attended, [0, 1, 2]), fake)
    const all = backend.resources(executable)
    const again = all.filter((r) => r.replanned !== undefined)
    expect(again.length).toBeGreaterThanOrEqual(2)
    for (const r of again) expect(r).toMatchObject({ localBytes: 128, replanned: { waits: true, spilled: 256 } })
    const lines: string[] = []
    printResources([...all], { line: (text = '') => lines.push(text) })
    expect(lines.join('\n')).toContain('planned again with products that are waited for at once: 256 B')
  })

  test('that smaller tiles only lessen lead to those that spill less than half', () => {
    const spilled = (source: string): number => (longest(source) > 8 ? 256 : 64)
    const { backend, executable } = prepare(rows, fakeDevice(1 << 30, 90, spilled))
    expect(backend.resources(executable)).toMatchObject([{ localBytes: 64, replanned: { registers: 8, spilled: 256 } }])
  })

  test('that smaller tiles do not help leave the kernel as it was', () => {
    const { backend, executable } = prepare(
      rows,
      fakeDevice(1 << 30, 90, () => 128),
    )
    const [r] = backend.resources(executable)
    expect(r).toMatchObject({ localBytes: 128 })
    expect(r?.replanned).toBeUndefined()
  })

  test('what trigonometric functions keep in memory is none', () => {
    const fake = fakeDevice(1 << 30, 90, () => 40)
    prepare(
      trace([{ shape: [1 << 20] }], (p) => c.unary('cos', at(p, 0))),
      fake,
    )
    expect(fake.sources).toHaveLength(1)
  })
})

test('kernels of a program are compiled beside each other: all are begun before one is waited for', () => {
  const fake = fakeDevice(1 << 30, 90, (source) => (longest(source) > 8 ? 256 : 0))
  const pools: string[][] = []
  const begun: { readonly source: string; readonly name: string }[] = []
  const compiler: typeof fake.compiler = {
    ...fake.compiler,
    pool: (options) => {
      const told: string[] = []
      const jobs: { readonly source: string; readonly name: string }[] = begun
      const done = new Set<number>()
      pools.push(told)
      return {
        begin: (job, isUrgent = false) => {
          told.push(isUrgent ? 'urgent' : 'begin')
          return jobs.push(job) - 1
        },
        next: (mayWait) => {
          // The last comes first.
          const i = jobs.findLastIndex((_, k) => !done.has(k))
          const job = mayWait ? jobs[i] : undefined
          if (job === undefined) return undefined
          told.push('wait')
          done.add(i)
          return { i, outcome: fake.compiler.compile(job.source, job.name, options) }
        },
        end: () => told.push('end'),
      }
    },
  }
  const graph = trace([{ shape: [4096, 4096] }], (p) => {
    const x = c.softmax(at(p, 0), -1)
    return [c.softmax(c.matmul(x, x), -1), c.sum(c.exp(c.softmax(c.transpose(x), -1)))]
  })
  const { backend, executable } = prepare(graph, { ...fake, compiler })
  const steps = executable.program.steps.filter((s) => s.kind === 'kernel')
  const [told = []] = pools
  expect(pools).toHaveLength(1)
  expect(told.indexOf('wait')).toBe(steps.length)
  expect(told.filter((t) => t === 'urgent').length).toBeGreaterThan(0)
  expect(told.at(-1)).toBe('end')
  // The product, which is most code, is begun before the others.
  const product = begun.findIndex(({ source }) => source.includes('mma'))
  expect(product).toBe(0)
  // They are told of in the order of the program, by the schedules that they have now.
  const made = backend.resources(executable)
  expect(made.map((r) => r.name)).toEqual(steps.map((s) => s.kernel.name))
  expect(made.some((r) => r.localBytes === 0 && r.replanned?.spilled === 256)).toBe(true)
})

test('layers that are alike are compiled once', () => {
  const fake = fakeDevice()
  const graph = trace([{ shape: [128, 128] }, { shape: [128, 128] }], (p) => {
    let x = at(p, 0)
    for (let i = 0; i < 8; i++) x = c.softmax(c.matmul(x, at(p, 1)), -1)
    return x
  })
  const { backend, executable } = prepare(graph, fake)
  const kernels = executable.program.steps.filter((s) => s.kind === 'kernel').length
  expect(kernels).toBeGreaterThanOrEqual(8)
  expect(fake.sources.length).toBeLessThanOrEqual(Math.ceil(kernels / 2))
  expect(new Set(backend.resources(executable).map((r) => r.name)).size).toBe(kernels)
})

atNight('kernels that are equal up to their names are emitted once, each under its own', () => {
  const graph = trace([{ shape: [128, 128] }, { shape: [128, 128] }], (p) => {
    let x = at(p, 0)
    for (let i = 0; i < 8; i++) x = c.softmax(c.matmul(x, at(p, 1)), -1)
    return x
  })
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget })
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  const sources = new EmittedSources(cudaTarget.simt)
  const none = new Set<string>()
  const facts = { mayAlias: () => false, changing: () => false }
  const emitted = new Set<unknown>()
  for (const kernel of kernels) {
    const shared = [...sources.of(kernel, { shared: none, changing: none })]
    expect(shared).toEqual([...candidateSources(kernel, cudaTarget.simt, facts)])
    emitted.add(shared[0]?.source.bindings)
  }
  expect(kernels.length).toBeGreaterThanOrEqual(2 * emitted.size)
  // Memory that is shared keeps them apart.
  const [kernel = at(kernels, 0)] = kernels
  const names = new Set(kernel.params.map((p) => p.name))
  const [aliased] = sources.of(kernel, { shared: names, changing: none })
  expect(emitted.has(aliased?.source.bindings)).toBe(false)
})

// Node's own recursive making of folders never ends in /proc.
test.skipIf(!existsSync('/proc/self'))('a cache folder that cannot be made costs only the cache', () => {
  const fake = fakeDevice()
  const { driver, compiler } = fake
  const backend = createCudaBackend({ driver, compiler, cacheFolder: '/proc/nope/cache' })
  const { program } = compileGraph(rows, { mode: 'fast', target: cudaTarget })
  backend.prepare(program).run([backend.alloc(64 * 8192 * 4)])
  expect(fake.launched).toHaveLength(1)
})

describe('compiling on threads', () => {
  const code = `
    const { threadId } = require('node:worker_threads')
    const compile = (source, name, options) => {
      if (source.includes('throws')) throw new Error('no compiler')
      return { image: new Uint8Array([source.length, threadId]), log: setup + name + options.join() }
    }`
  const here = ({ source }: { readonly source: string }) => ({ image: new Uint8Array([source.length, 0]), log: 'here' })

  /** The outcome of each job. */
  function compiled(sources: readonly string[], options: readonly string[], threads: Threads): CompileOutcome[] {
    const pool = poolOfThreads(options, threads)
    const got: CompileOutcome[] = []
    for (const [i, source] of sources.entries()) expect(pool.begin({ source, name: `k${i}` })).toBe(i)
    for (let f = pool.next(true); f !== undefined; f = pool.next(true)) got[f.i] = f.outcome
    pool.end()
    return got
  }

  test('each job has its outcome, whoever made it', () => {
    const sources = Array.from({ length: 40 }, (_, i) => 'x'.repeat(i))
    const slow = (job: { readonly source: string }) => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
      return here(job)
    }
    const got = compiled(sources, ['-a', '-b'], { code, setup: 'with ', here: slow })
    expect(got.map((o) => o.image?.[0])).toEqual(sources.map((_, i) => i))
    for (const [i, o] of got.entries()) expect(o.log).toBe(o.image?.[1] === 0 ? 'here' : `with k${i}-a,-b`)
  })

  test('a job that fails there is an outcome like another', () => {
    const got = compiled(new Array<string>(8).fill('throws'), [], { code, setup: '', here })
    for (const o of got) expect(['here', 'Error: no compiler']).toContain(o.log)
  })

  test('threads that do not start leave the work to the caller', () => {
    const sources = Array.from({ length: 6 }, (_, i) => 'y'.repeat(i))
    const got = compiled(sources, [], { code: 'throw new Error("broken")', setup: '', here })
    expect(got.map((o) => o.log)).toEqual(sources.map(() => 'here'))
  })

  test('what is begun while others are waited for is compiled too, and nothing is given where nothing is under way', () => {
    const pool = poolOfThreads([], { code, setup: '', here })
    expect(pool.next(true)).toBeUndefined()
    const lengths: (number | undefined)[] = []
    pool.begin({ source: 'a', name: 'a' })
    pool.begin({ source: 'aa', name: 'b' })
    for (let f = pool.next(true); f !== undefined; f = pool.next(true)) {
      lengths.push(f.outcome.image?.[0])
      if (lengths.length < 20) pool.begin({ source: 'a'.repeat(lengths.length + 2), name: 'more' }, true)
    }
    pool.end()
    expect(lengths.length).toBe(21)
    expect(new Set(lengths).size).toBe(21)
  })
})
