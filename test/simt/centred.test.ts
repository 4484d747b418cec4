/**
 * Sums against the mean of a row too long for registers (variance, layer normalisation) stream beside the sum: nothing cancels
 * wherever a row lies, the row is walked once less, and rows that stay resident are lowered as they were.
 */
import { describe, expect, test } from 'vitest'
import * as api from '../../src/api/index.ts'
import type { SimtCaps } from '../../src/codegen/simt/capability.ts'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { webgpuTarget } from '../../src/plan/target.ts'
import { makeRng } from '../random/rng.ts'
import { all, centred, check, dataFor, normalised, others, type SumName } from './centred.ts'
import { Emulated, hasCompiler } from './emulator/emulator.ts'
import { chunk } from './streamed.ts'
import { type Case, cuda, named, threads, walks, wgsl } from './walks.ts'
import { openDevice, runWgsl } from './wgsl.ts'

const cases: readonly Case[] = [
  named('sums of resident rows', 1999, 0, centred(all, 1999, 'f32')),
  named('sums of odd rows', chunk + 3, 1, centred(all, chunk + 3, 'f32')),
  named('sums of whole chunks', 2 * chunk, 1, centred(all, 2 * chunk, 'f32')),
  named('sums with whole chunks and a tail', 4 * chunk + 809, 1, centred(all, 4 * chunk + 809, 'f32')),
  named('sums of rows in f16', 2 * chunk + 8, 1, centred(all, 2 * chunk + 8, 'f16')),
  named('sums of rows in bf16', 4 * chunk + 16, 1, centred(all, 4 * chunk + 16, 'bf16')),
  named('sums of several rows a program', chunk + 100, 1, centred(all, chunk + 100, 'f32', 3)),
  named('layer normalisation in f32', 4 * chunk + 1, 2, normalised(4 * chunk + 1, 'f32')),
  named('layer normalisation in bf16', 2 * chunk + 24, 2, normalised(2 * chunk + 24, 'bf16')),
  named('sums of a walk backward, the tail first', 5 * chunk + 3, 2, centred(all, 5 * chunk + 3, 'f32', 1, true)),
  named('sums of a walk backward from a short tail', chunk + 1, 2, centred(all, chunk + 1, 'f32', 1, true)),
  named('what does not stream', chunk + 5, 3, others(chunk + 5)),
]

describe('WGSL', () => {
  test.for(cases)('$name', async (c, { skip }) => {
    const machine = await openDevice()
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const buffers = dataFor(c.kernel, c.n)
    await runWgsl({ ...machine, limits: { ...machine.limits, maxThreads: threads } }, [c.kernel], buffers)
    check(c.kernel, c.n, buffers, threads)
  })
})

describe.skipIf(!hasCompiler())('CUDA sources on the host (skipped where g++ is missing)', () => {
  const run = (kernels: readonly { readonly n: number; readonly kernel: Kernel }[], caps: SimtCaps): void => {
    const emulated = new Emulated(
      kernels.map((c) => c.kernel),
      caps,
    )
    kernels.forEach((c, i) => {
      const buffers = dataFor(c.kernel, c.n)
      emulated.run(i, buffers)
      check(c.kernel, c.n, buffers, caps.maxThreads * (caps.clusters ?? 1))
    })
    emulated.dispose()
  }

  test('all', { timeout: 240_000 }, () => run(cases, cuda))

  test('random sums', { timeout: 240_000 }, () => {
    const random = Array.from({ length: 10 }, (_, seed) => {
      const rng = makeRng(seed)
      const n = rng.int(chunk + 1, 6 * chunk)
      const which = rng.shuffle([...all]).slice(0, rng.int(1, 4))
      return { n, kernel: centred(which, n, rng.pick(['f32', 'f16', 'bf16']), rng.int(1, 3)) }
    })
    run(random, cuda)
  })

  test('in clusters, where a row does not stay in one', { timeout: 240_000 }, () => {
    const n = 3 * chunk + 7
    run([{ n, kernel: centred(all, n, 'f32') }], { ...cuda, maxThreads: 32, clusters: 2 })
  })
})

describe('walks over a row', () => {
  test.each(cases)('$name', (c) => {
    for (const [dialect, caps] of [
      ['cuda', cuda],
      ['wgsl', wgsl],
    ] as const)
      expect([dialect, walks(emitKernel(c.kernel, dialect, caps).source)]).toEqual([dialect, c.walks])
  })

  test('strict sums walk again, in order', () => {
    const { source } = emitKernel(normalised(chunk + 5, 'f32', 'strict'), 'cuda', cuda)
    expect(walks(source)).toBe(3)
    expect(source).not.toContain('anchor')
  })

  test('a sum of squares is never below zero', () => {
    const clamped = (name: SumName): boolean =>
      /sum_(\d+) = f32_max\(sum_\1, 0\.0f\)/.test(emitKernel(centred([name], 2 * chunk, 'f32'), 'cuda', cuda).source)
    expect(all.filter(clamped)).toEqual(['squares', 'far'])
  })

  test('whole chunks count their terms at once', () => {
    const { source } = emitKernel(centred(['squares'], 2 * chunk, 'f32'), 'wgsl', wgsl)
    expect(source.match(/met_f32 = met_f32 \+ .*/g)).toEqual(['met_f32 = met_f32 + 16.0;'])
  })

  /** Loops over chunks in each kernel of a function, where it has any. */
  const loops = (columns: number, f: (x: api.Tensor, g: api.Tensor) => unknown): number[] => {
    const specs = { x: { shape: [64, columns], dtype: 'f32' }, g: { shape: [64, columns], dtype: 'f32' } } as const
    const { graph } = api.program(({ x, g }: { x: api.Tensor; g: api.Tensor }) => f(x, g), specs, 'case').trace()
    const { program } = compileGraph(graph, { mode: 'fast', target: webgpuTarget() })
    const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    const sources = kernels.map((k) => emitKernel(k, 'wgsl', { ...wgsl, maxThreads: 256 }).source)
    return sources.map((s) => [...s.matchAll(/for \(var \w+_at\w* = 0/g)].length).filter((n) => n > 0)
  }

  test('functions of long rows', () => {
    expect(loops(32000, (x) => x.std(-1))).toEqual([1])
    expect(loops(32000, (x) => api.nn.layerNorm(x))).toEqual([2])
    const backward = (x: api.Tensor, g: api.Tensor): unknown =>
      api.grad((y: api.Tensor) => api.nn.layerNorm(y).mul(g).sum())(x)
    // The gradient's own sum waits for both sums against the mean.
    expect(loops(32000, backward)).toEqual([3])
    expect(loops(4096, (x) => api.nn.layerNorm(x))).toEqual([])
  })
})
