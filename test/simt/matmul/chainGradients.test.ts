/** Gradients through chains on tensor cores, as CUDA sources on the host: tiles that are made again, and two sums of what is made of them. */
import { describe, expect, test } from 'vitest'
import { candidateSources } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import { readElement } from '../../../src/scalar/host.ts'
import { scheduleText } from '../../../src/schedule/text.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { Machine } from '../../../src/target/machine.ts'
import { vjpGraph } from '../../../src/transforms/vjp.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { trace } from '../../compile/support.ts'
import { dataOf, expectAlike } from '../../support/alike.ts'
import { some } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

interface Case {
  readonly name: string
  readonly dtype: DType
  /** Query heads, key heads, queries, keys, width, width of values. */
  readonly sizes: readonly [number, number, number, number, number, number]
  readonly options: c.AttentionOptions
  /** A machine without groups of warps: products by single ones. */
  readonly single?: true
  /** Programs of 128 rows however few there are, each by two groups of warps that meet halfway. */
  readonly halfway?: true
  /** Kernels that are chains (three unless given): of few programs all gradients are one kernel, or each has one. */
  readonly chains?: number
}

/** By day each one of another kind of kernel: single warps, groups of warps, and such half a block apart. */
const cases: readonly Case[] = [
  {
    name: 'causal',
    dtype: 'bf16',
    sizes: [2, 2, 256, 256, 16, 16],
    options: { causal: true },
    single: true,
    chains: 2,
  },
  { name: 'two widths', dtype: 'bf16', sizes: [1, 1, 130, 130, 64, 128], options: { causal: true } },
  {
    name: 'tails, a cap',
    dtype: 'f16',
    sizes: [1, 1, 130, 75, 32, 16],
    options: { softcap: 5 },
    single: true,
    chains: 4,
  },
  {
    name: 'widths of no whole grains',
    dtype: 'bf16',
    sizes: [2, 2, 75, 130, 40, 40],
    options: { causal: true },
    single: true,
  },
  { name: 'panels of 16, causal', dtype: 'bf16', sizes: [2, 2, 150, 150, 16, 80], options: { causal: true } },
  { name: 'panels of 32, tails', dtype: 'f16', sizes: [2, 1, 130, 150, 32, 96], options: { softcap: 5 }, chains: 4 },
  { name: 'groups', dtype: 'bf16', sizes: [1, 1, 192, 128, 64, 64], options: {} },
  { name: 'groups, tails', dtype: 'f16', sizes: [1, 1, 150, 200, 64, 64], options: { causal: true } },
  { name: 'heads that share keys', dtype: 'bf16', sizes: [4, 2, 130, 150, 64, 64], options: {} },
  {
    name: 'a window',
    dtype: 'bf16',
    sizes: [1, 1, 256, 256, 128, 128],
    options: { causal: true, window: 90 },
  },
  {
    name: 'groups half a block apart, causal',
    dtype: 'bf16',
    sizes: [1, 1, 384, 384, 128, 128],
    options: { causal: true },
    halfway: true,
  },
  {
    name: 'heads that share keys, causal',
    dtype: 'bf16',
    sizes: [4, 2, 192, 192, 64, 64],
    options: { causal: true },
  },
  {
    name: 'groups half a block apart',
    dtype: 'bf16',
    sizes: [1, 1, 400, 330, 64, 64],
    options: {},
    halfway: true,
  },
  {
    name: 'groups half a block apart, heads that share keys',
    dtype: 'f16',
    sizes: [4, 2, 256, 256, 64, 64],
    options: { causal: true },
    halfway: true,
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
  test.each(some(cases, 6))('$name', { timeout: 180_000 }, async (x) => {
    const graph = graphOf(x)
    const [heads, , queries, keys] = x.sizes
    const target = { ...without(2 * heads * queries * keys), ...(x.halfway ? { minPrograms: 1 } : {}) }
    const { program, report } = compileGraph(graph, { mode: 'fast', target, verify: true })
    expect(report.kernels.filter((k) => k.kind === 'chain')).toHaveLength(x.chains ?? 3)
    const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    const simt = x.single === true ? { ...cudaTarget.simt, hasWarpGroupProducts: false } : cudaTarget.simt
    // Every form of their schedules has code, and multiplies as wide as its blocks allow.
    for (const k of kernels)
      for (const { source, form } of candidateSources(k, simt)) {
        const products = source.source.match(/dot %\d+ on tensor cores/g) ?? []
        if (products.length > 0) expect(source.source.includes('wgmma')).toBe(x.single !== true)
        // A block alone on its multiprocessor has memory for one tile more.
        if (products.length > 0 && form.alone === true)
          expect(source.source.includes('halfway_wait(')).toBe(x.halfway === true)
      }
    // What is multiplied along its rows and across them stands in memory once.
    const schedules = kernels.flatMap((k) =>
      scheduleText(k, { ...cudaTarget, simt }).filter((line) => line.includes('copies %')),
    )
    expect(schedules.some((line) => / %\d+ as %\d+/.test(line))).toBe(true)
    const inputs = dataOf(graph, 11)
    const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
    const emulated = new Emulated(kernels, simt)
    const run = () => execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
    const got = (await run()).flatMap((y) => y ?? [])
    expectAlike(got, want, graph, 'emulated')
    // Each sum has one order.
    expect((await run()).flatMap((y) => y ?? [])).toEqual(got)
    emulated.dispose()
  })
})

/** A softmax that weighs values, and the logarithm of what it divides by, of rows of scores; `least` bounds the greatest from below. */
const weighedOf = (dtype: DType, least?: number): Graph =>
  trace(
    [128, 320, 320].map((n) => ({ shape: [n, 64], dtype })),
    (p) => {
      const [q, k, v] = p as [Node, Node, Node]
      const s = c.mul(c.cast(c.matmul(q, c.permute(k, [1, 0])), 'f32'), 3)
      const greatest = c.reduceMax(s, -1, true)
      const m = least === undefined ? greatest : c.max(greatest, least)
      const e = c.exp(c.sub(s, m))
      const sum = c.sum(e, -1, true)
      return [c.matmul(c.cast(c.div(e, sum), dtype), v), c.add(m, c.log(sum))]
    },
  )

describe.skipIf(!hasCompiler())('statistics of chains in f32 (skipped where g++ is missing)', () => {
  const compiled = (graph: Graph) => {
    const { program, report } = compileGraph(graph, { mode: 'fast', target: without(2 * 128 * 320), verify: true })
    expect(report.kernels.map((k) => k.kind)).toEqual(['chain'])
    const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    const [first] = kernels.flatMap((k) => [...candidateSources(k, cudaTarget.simt)])
    return { program, kernels, source: first?.source.source ?? '' }
  }
  const wishes = [undefined, 5]
  test.each(some(wishes, 2))(
    'exponentials against the greatest so far are coarse, and leave sums as near as f32 adds them: %s',
    async (least) => {
      const graph = weighedOf('bf16', least)
      const { program, kernels, source } = compiled(graph)
      expect(source).toMatch(/= f32_exp_coarse\(/)
      // What rescales them is not.
      expect(source).toMatch(/= expf\(/)
      const inputs = dataOf(graph, 5)
      // Scores that are not rounded to bf16.
      const wide = inputs.map((x) =>
        Float32Array.from({ length: x.length }, (_, i) => Number(readElement(x, 'bf16', i))),
      )
      const [, want] = evaluateGraph(weighedOf('f32', least), wide).map(toHostArray)
      const emulated = new Emulated(kernels)
      const [, got] = await execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
      emulated.dispose()
      Array.from(got as Float32Array).forEach((x, i) => {
        // Of a logarithm the relative error of its operand, and its own rounding.
        expect(Math.abs(x - Number(want?.[i]))).toBeLessThanOrEqual(
          (3 + 2.5 * Math.log2(320)) * 2 ** -23 + 64 * 2 ** -23,
        )
      })
    },
  )
})
