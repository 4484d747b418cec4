/**
 * Rows too long for registers: blocks so small that short rows are, sums along rows as statements, what is in the buffers, and the
 * tests that every kernel of such rows takes: its results in both dialects, and how often emitted code walks a row.
 */
import { describe, expect, test } from 'vitest'
import * as api from '../../../src/api/index.ts'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import type { Kernel, KernelParam } from '../../../src/kernel/ir.ts'
import { writeElement } from '../../../src/scalar/host.ts'
import type { Scalar } from '../../../src/scalar/ops.ts'
import { cudaSimt, type SimtMachine, webgpuSimt } from '../../../src/target/simt.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import { hostArray } from '../../../src/types/host.ts'
import { seedsOf, some } from '../../support/nightly.ts'
import { type Buffers, Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { openDevice, runWgsl } from '../dialects/wgsl.ts'

/** Threads of a block. */
export const threads = 64
/** Elements of a chunk in blocks of so many threads; half as many in WGSL where they are walked again. */
export const chunk = 2048
export const cuda: SimtMachine = { ...cudaSimt, maxThreads: threads, clusters: 1 }
export const wgsl: SimtMachine = { ...webgpuSimt, maxThreads: threads, laneBits: 5 }

/** A row: element i of n, given some noise in (-1, 1). */
export interface Row {
  readonly name: string
  readonly at: (i: number, n: number, x: number) => number
}

/** A kernel of rows of n. */
interface Sized {
  readonly kernel: Kernel
  readonly n: number
}

export interface Case extends Sized {
  readonly name: string
  /** Loops over chunks, in either dialect. */
  readonly walks: number
}

export const named = (name: string, n: number, count: number, kernel: Kernel): Case => ({
  name: `${name} of ${n}`,
  kernel,
  n,
  walks: count,
})

/** Loops over the chunks of an axis. */
export const walks = (source: string, axis = 'c'): number =>
  [...source.matchAll(new RegExp(`for \\((?:var|int) ${axis}_at`, 'g'))].length

/** Sums as statements that give value 99, each with numbers of its own, and the stores of them to parameters of their names. */
export const storedSums = <Name extends string>(which: readonly Name[], textOf: (sum: Name) => string): string =>
  which
    .map((sum, i) => {
      const text = textOf(sum)
      const by = 100 * (i + 1)
      const own = new Set([...text.matchAll(/(?<=^\s*%)\d+(?= [a-z])/gm)].map(([id]) => id))
      const apart = text.replace(/%(\d+)/g, (whole, id) => (own.has(id) ? `%${by + Number(id)}` : whole))
      return `  ${apart}\n  store ${sum}[r] = %${by + 99}`
    })
    .join('\n')

/** Buffers of a kernel: inputs by element, and in the others what must not stay. */
export function buffersOf(k: Kernel, at: (p: KernelParam, i: number) => Scalar): Buffers {
  const out: Buffers = {}
  for (const p of k.params) {
    const data = hostArray(
      p.dtype,
      p.shape.reduce((a, b) => a * b, 1),
    )
    for (let i = 0; i < data.length; i++) writeElement(data, p.dtype, i, p.access === 'read' ? at(p, i) : 77)
    out[p.name] = data
  }
  return out
}

/** What kernels are run on, and what their results are held to; `threads` share a row. */
export interface Held {
  readonly dataFor: (k: Kernel, n: number) => Buffers
  readonly check: (k: Kernel, n: number, got: Buffers, threads: number) => void
}

/** Runs the CUDA sources of kernels on the host. */
export function emulate(kernels: readonly Sized[], caps: SimtMachine, { dataFor, check }: Held): void {
  const emulated = new Emulated(
    kernels.map((c) => c.kernel),
    caps,
  )
  kernels.forEach(({ kernel, n }, i) => {
    const buffers = dataFor(kernel, n)
    emulated.run(i, buffers)
    check(kernel, n, buffers, caps.maxThreads * (caps.clusters ?? 1))
  })
  emulated.dispose()
}

/** Kernels by how they are tested: each in CUDA (by day one of `every`) and, by day every other one or one of twice as many, in WGSL; drawn ones, and one whose row a cluster of blocks shares. */
export interface Kernels {
  readonly cases: readonly Case[]
  readonly random: (seed: number) => Sized
  readonly clustered: Sized
  readonly every?: number
}

export function testLongRows({ cases, random, clustered, every = 1 }: Kernels, held: Held): void {
  describe('WGSL', () => {
    test.for(some(cases, 2 * every))('$name', async ({ kernel, n }, { skip }) => {
      const machine = await openDevice()
      skip(typeof machine === 'string', String(machine))
      if (typeof machine === 'string') return
      const buffers = held.dataFor(kernel, n)
      await runWgsl({ ...machine, limits: { ...machine.limits, maxThreads: threads } }, [kernel], buffers)
      held.check(kernel, n, buffers, threads)
    })
  })

  describe.skipIf(!hasCompiler())('CUDA sources on the host (skipped where g++ is missing)', () => {
    test('all', { timeout: 240_000 }, () => emulate(some(cases, every), cuda, held))

    test('random sums', { timeout: 240_000 }, () =>
      emulate(
        Array.from({ length: seedsOf('SINTER_LONG_ROWS', Math.ceil(4 / every), 10) }, (_, seed) => random(seed)),
        cuda,
        held,
      ),
    )

    test('in clusters, where a row does not stay in one', { timeout: 240_000 }, () =>
      emulate([clustered], { ...cuda, maxThreads: 32, clusters: 2 }, held),
    )
  })

  describe('walks over a row', () => {
    test.each(cases)('$name', (c) => {
      for (const [dialect, caps] of [
        ['cuda', cuda],
        ['wgsl', wgsl],
      ] as const)
        expect([dialect, walks(emitKernel(c.kernel, caps).source)]).toEqual([dialect, c.walks])
    })
  })
}

/** Loops over chunks in each kernel of a function planned for WebGPU, where it has any. */
export function loopsOf<Name extends string>(
  specs: Readonly<Record<Name, api.InputSpec>>,
  f: (inputs: Record<Name, api.Tensor>) => unknown,
): number[] {
  const { graph } = api.program(f, specs, 'case').trace()
  const { program } = compileGraph(graph, { mode: 'fast', target: webgpuTarget() })
  return program.steps.flatMap((s) => {
    if (s.kind !== 'kernel') return []
    const { source } = emitKernel(s.kernel, { ...wgsl, maxThreads: 256 })
    const loops = [...source.matchAll(/for \(var \w+_at\w* = 0/g)].length
    return loops > 0 ? [loops] : []
  })
}
