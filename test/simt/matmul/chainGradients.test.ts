/** Gradients through chains on tensor cores, as CUDA sources on the host: tiles that are made again, and two sums of what is made of them. */
import { describe, expect, test } from 'vitest'
import { candidateSources } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { Machine } from '../../../src/target/machine.ts'
import { vjpGraph } from '../../../src/transforms/vjp.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { trace } from '../../compile/support.ts'
import { dataOf, expectAlike } from '../../support/alike.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

interface Case {
  readonly name: string
  readonly dtype: DType
  /** Query heads, key heads, queries, keys, width, width of values. */
  readonly sizes: readonly [number, number, number, number, number, number]
  readonly options: c.AttentionOptions
  /** Products by groups of warps, not by single ones. */
  readonly groups: boolean
  /** Kernels that are chains (three unless given): of few programs all gradients are one kernel, or each has one. */
  readonly chains?: number
}

const cases: readonly Case[] = [
  {
    name: 'causal',
    dtype: 'bf16',
    sizes: [2, 2, 256, 256, 16, 16],
    options: { causal: true },
    groups: false,
    chains: 2,
  },
  {
    name: 'tails, a cap',
    dtype: 'f16',
    sizes: [1, 1, 130, 75, 32, 16],
    options: { softcap: 5 },
    groups: false,
    chains: 4,
  },
  { name: 'groups', dtype: 'bf16', sizes: [1, 1, 192, 128, 64, 64], options: {}, groups: true },
  { name: 'groups, tails', dtype: 'f16', sizes: [1, 1, 150, 200, 64, 64], options: { causal: true }, groups: true },
  { name: 'two widths', dtype: 'bf16', sizes: [1, 1, 130, 130, 64, 128], options: { causal: true }, groups: true },
  {
    name: 'a window',
    dtype: 'bf16',
    sizes: [1, 1, 256, 256, 128, 128],
    options: { causal: true, window: 90 },
    groups: true,
  },
  { name: 'heads that share keys', dtype: 'bf16', sizes: [4, 2, 130, 150, 64, 64], options: {}, groups: true },
  {
    name: 'heads that share keys, causal',
    dtype: 'bf16',
    sizes: [4, 2, 192, 192, 64, 64],
    options: { causal: true },
    groups: true,
  },
]

/** The machine without memory for values as large as the scores: those are made again. */
const without = (bytes: number): Machine => ({
  ...cudaTarget,
  mostBytes: { ...cudaTarget.mostBytes, value: bytes - 1 },
})

const graphOf = ({ dtype, sizes: [heads, keyHeads, queries, keys, width, out], options }: Case): Graph =>
  vjpGraph(
    trace(
      [
        { shape: [heads, queries, width], dtype },
        { shape: [keyHeads, keys, width], dtype },
        { shape: [keyHeads, keys, out], dtype },
      ],
      ([q, k, v]) => c.attention(q as Node, k as Node, v as Node, options),
    ),
    [0, 1, 2],
  )

describe.skipIf(!hasCompiler())('gradients through chains on tensor cores (skipped where g++ is missing)', () => {
  test.each(cases)('$name', { timeout: 180_000 }, async (x) => {
    const graph = graphOf(x)
    const [heads, , queries, keys] = x.sizes
    const target = without(2 * heads * queries * keys)
    const { program, report } = compileGraph(graph, { mode: 'fast', target, verify: true })
    expect(report.kernels.filter((k) => k.kind === 'chain')).toHaveLength(x.chains ?? 3)
    const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    // Every form of their schedules has code, and multiplies as wide as its blocks allow.
    for (const k of kernels)
      for (const { source } of candidateSources(k, cudaTarget.simt)) {
        const products = source.source.match(/dot %\d+ on tensor cores/g) ?? []
        if (products.length > 0) expect(source.source.includes('wgmma')).toBe(x.groups)
      }
    const inputs = dataOf(graph, 11)
    const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
    const emulated = new Emulated(kernels)
    const run = () => execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
    const got = (await run()).flatMap((y) => y ?? [])
    expectAlike(got, want, graph, 'emulated')
    // Each sum has one order.
    expect((await run()).flatMap((y) => y ?? [])).toEqual(got)
    emulated.dispose()
  })
})
