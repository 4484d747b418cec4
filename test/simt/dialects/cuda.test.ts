/** CUDA sources of hard cases and of workloads compile for a Hopper GPU and keep everything in registers. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import * as api from '../../../src/api/index.ts'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { cudaSimt } from '../../../src/target/simt.ts'
import { loadKernels } from '../../kernel/hard-cases/case.ts'
import { hardCases } from '../../kernel/hard-cases/cases.ts'
import { nightly, some, turn } from '../../support/nightly.ts'
import { workloads } from '../programs/workloads.ts'
import { compile, nvcc } from './nvcc.ts'

const numbered = (kernels: readonly Kernel[]): string[] =>
  kernels.map((k, i) => emitKernel({ ...k, name: `k${i}_${k.name}` }, cudaSimt).source)

async function check(kernels: readonly Kernel[], batches: number): Promise<void> {
  const sources = numbered(kernels)
  const folder = mkdtempSync(join(tmpdir(), 'sinter-cuda-'))
  try {
    const cut = Array.from({ length: batches }, (_, b) => sources.filter((_x, i) => i % batches === b))
    const usages = await Promise.all(cut.map((s, b) => compile(s, folder, `batch${b}`)))
    const found = new Map(usages.flatMap((u) => [...u]))
    expect([...found.keys()].sort((a, b) => a - b)).toEqual(kernels.map((_, i) => i))
    for (const [i, u] of found) {
      expect(u, kernels[i]?.name).toMatchObject({ stack: 0, spills: 0 })
      // A thread of a warp group's product holds 128 results: two blocks of 128 threads fill a multiprocessor's registers.
      // So does one block of 256 whose operands are split: a block's sums beside the running ones, and both terms of fragments.
      const most = /multiply_group_|split_tf32/.test(sources[i] ?? '') ? 255 : 168
      expect(u.registers, kernels[i]?.name).toBeLessThanOrEqual(most)
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

describe.skipIf(nvcc === undefined)('CUDA sources compile (skipped where nvcc is missing)', () => {
  test('hard cases', { timeout: 240_000 }, async () => {
    // By day each case in one of the modes.
    const kernels = some(hardCases, 2).flatMap((c, i) =>
      loadKernels(c.file).flatMap((k): Kernel[] =>
        turn([k, { ...k, mode: 'strict' as const, name: `${k.name}_strict` }], i),
      ),
    )
    expect(kernels.length).toBeGreaterThanOrEqual(nightly ? 60 : 15)
    await check(kernels, 2)
  })

  test('workloads', { timeout: 240_000 }, async () => {
    const kernels = some(Object.values(workloads()), 3).flatMap((graph) =>
      compileGraph(graph, { mode: 'fast', target: cudaTarget }).program.steps.flatMap((s) =>
        s.kind === 'kernel' ? [s.kernel] : [],
      ),
    )
    await check(kernels, 2)
  })

  test('a loop over rows that loads ahead leaves room for two blocks', { timeout: 120_000 }, async () => {
    const [x, weights] = [
      { shape: [16384, 4096], dtype: 'bf16' },
      { shape: [4096], dtype: 'bf16' },
    ] as const
    const backward = api.program(
      ({ a, scale, bias, g }) => {
        const [y, pull] = api.vjp((p, s, b) => api.nn.layerNorm(p, { scale: s, bias: b }), a, scale, bias)
        return [y, ...pull(g)]
      },
      { a: x, scale: weights, bias: weights, g: x },
      'backward',
    )
    const [kernel] = compileGraph(backward.trace().graph, { mode: 'fast', target: cudaTarget }).program.steps.flatMap(
      (s) => (s.kind === 'kernel' ? [s.kernel] : []),
    )
    if (kernel === undefined) throw new Error('no kernel')
    const { source, threads, sharedBytes } = emitKernel({ ...kernel, name: 'k0_rows' }, cudaSimt)
    expect(source).toContain('copy_words_4(')
    expect(2 * sharedBytes).toBeLessThan(cudaSimt.maxSharedBytes)
    const folder = mkdtempSync(join(tmpdir(), 'sinter-cuda-'))
    try {
      const used = (await compile([source], folder, 'rows')).get(0)
      expect(used).toMatchObject({ stack: 0, spills: 0 })
      expect(2 * threads * (used?.registers ?? 255)).toBeLessThanOrEqual(65536)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test('clusters of blocks', { timeout: 120_000 }, async () => {
    const logits = { x: { shape: [4096, 128256], dtype: 'bf16' }, t: { shape: [4096], dtype: 'i32' } } as const
    const programs = [
      api.program(
        ({ x, t }) => api.valueAndGrad((l: api.Tensor) => api.nn.crossEntropy(l.astype('f32'), t).mean())(x),
        logits,
        'cross_entropy',
      ),
      api.program(({ x }) => x.softmax(-1), { x: { shape: [64, 32768], dtype: 'bf16' } }, 'softmax'),
      api.program(({ x }) => x.softmax(-1), { x: { shape: [64, 262144], dtype: 'bf16' } }, 'long_softmax'),
      api.program(({ x }) => x.sub(x.mean(-1, true)).div(x.abs().max(-1, true)), { x: { shape: [64, 99999] } }, 'odd'),
    ]
    const kernels = programs.flatMap((p) =>
      compileGraph(p.trace().graph, { mode: 'fast', target: cudaTarget }).program.steps.flatMap((s) =>
        s.kind === 'kernel' ? [s.kernel] : [],
      ),
    )
    const clusters = kernels.map((k) => emitKernel(k, cudaSimt).cluster)
    expect(clusters.filter((n) => n > 1)).toEqual([8, 2, 8, 8])
    await check(kernels, 1)
  })
})
