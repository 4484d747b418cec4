/** Chains of two products on tensor cores, as CUDA sources on the host: what the first gives stays in registers for the second. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import { readElement, writeElement } from '../../../src/scalar/host.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../../src/types/host.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import { at, trace } from '../../compile/support.ts'
import { nightly } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

interface Case {
  readonly name: string
  readonly dtype: DType
  /** Query heads, key heads, queries, keys, width, width of values. */
  readonly sizes: readonly [number, number, number, number, number, number]
  readonly options: c.AttentionOptions
  /** Queries are rotated in halves on the way in. */
  readonly rotated?: true
  /** Keys that every query sees, beside those up to its own position. */
  readonly prefix?: number
}

const cases: readonly Case[] = [
  { name: 'whole blocks', dtype: 'bf16', sizes: [1, 1, 128, 128, 32, 32], options: {} },
  { name: 'many blocks of keys, more than a ring', dtype: 'bf16', sizes: [1, 1, 64, 448, 16, 48], options: {} },
  { name: 'tails of rows and keys', dtype: 'bf16', sizes: [2, 2, 70, 75, 16, 16], options: { softcap: 5 } },
  { name: 'half precision, fewer keys than a block', dtype: 'f16', sizes: [1, 1, 20, 40, 16, 32], options: {} },
  { name: 'causal', dtype: 'bf16', sizes: [2, 1, 256, 256, 16, 16], options: { causal: true } },
  { name: 'a window, unaligned', dtype: 'f16', sizes: [1, 1, 200, 264, 16, 16], options: { causal: true, window: 70 } },
  { name: 'groups of warps', dtype: 'bf16', sizes: [1, 1, 128, 192, 64, 128], options: {} },
  { name: 'groups, causal', dtype: 'f16', sizes: [1, 1, 256, 256, 128, 64], options: { causal: true } },
  { name: 'groups, tails', dtype: 'bf16', sizes: [2, 1, 70, 200, 64, 64], options: { causal: true, window: 90 } },
  {
    name: 'groups, wide results',
    dtype: 'bf16',
    sizes: [1, 1, 64, 130, 64, 256],
    options: { causal: true, causalOffset: 50 },
  },
  { name: 'groups, long steps', dtype: 'bf16', sizes: [1, 1, 128, 640, 64, 64], options: {} },
  { name: 'groups, long steps under a mask', dtype: 'f16', sizes: [1, 1, 256, 256, 48, 48], options: { causal: true } },
  { name: 'groups apart in a ring of three', dtype: 'bf16', sizes: [1, 1, 128, 320, 192, 192], options: {} },
  { name: 'a prefix', dtype: 'bf16', sizes: [1, 1, 256, 256, 16, 16], options: {}, prefix: 150 },
  { name: 'groups, a prefix', dtype: 'bf16', sizes: [1, 1, 200, 200, 64, 64], options: {}, prefix: 70 },
  { name: 'heads that share keys', dtype: 'bf16', sizes: [4, 2, 96, 130, 16, 16], options: { scale: 0.5 } },
  { name: 'widths of no whole grains', dtype: 'bf16', sizes: [2, 1, 70, 75, 40, 40], options: { causal: true } },
  { name: 'a width and another of no whole grains', dtype: 'f16', sizes: [1, 1, 64, 130, 24, 72], options: {} },
]

/** Few queries over many keys, which are cut into parts. */
const longCases: readonly Case[] = [
  { name: 'one query of four heads', dtype: 'bf16', sizes: [4, 1, 1, 1999, 128, 128], options: {} },
  {
    name: 'queries rotated in halves',
    dtype: 'bf16',
    sizes: [8, 2, 1, 1999, 64, 64],
    options: { scale: 0.125 },
    rotated: true,
  },
  { name: 'one query, a width of no whole grains', dtype: 'bf16', sizes: [4, 1, 1, 1999, 40, 40], options: {} },
  {
    name: 'keys that nothing sees',
    dtype: 'f16',
    sizes: [2, 1, 3, 1600, 64, 64],
    options: { causal: true, causalOffset: 70 },
  },
  {
    name: 'a window over some parts',
    dtype: 'bf16',
    sizes: [1, 1, 5, 2100, 64, 128],
    options: { causal: true, causalOffset: 1500, window: 300 },
  },
]

function prefixMask(queries: number, keys: number, prefix: number): Node {
  const [query, key] = [c.iota([queries, keys], 0), c.iota([queries, keys], 1)]
  return c.logicalOr(c.compare('le', key, query), c.compare('lt', key, prefix))
}

/** A rotation of pairs half a row apart, by angles that grow along it. */
function rotate(x: Node, dtype: DType): Node {
  const half = (x.shape.at(-1) ?? 2) / 2
  const parts = [0, half].map((from) => c.cast(c.sliceAxis(x, x.shape.length - 1, from, from + half), 'f32')) as [
    Node,
    Node,
  ]
  const angle = c.mul(c.cast(c.iota(parts[0].shape, x.shape.length - 1), 'f32'), 0.1)
  const [p, q] = parts
  const turned = [
    c.sub(c.mul(p, c.unary('cos', angle)), c.mul(q, c.unary('sin', angle))),
    c.add(c.mul(q, c.unary('cos', angle)), c.mul(p, c.unary('sin', angle))),
  ]
  return c.cast(c.concat(turned, x.shape.length - 1), dtype)
}

const graphOf = ({
  dtype,
  sizes: [heads, keyHeads, queries, keys, width, out],
  options,
  prefix,
  rotated,
}: Case): Graph =>
  trace(
    [
      { shape: [heads, queries, width], dtype },
      { shape: [keyHeads, keys, width], dtype },
      { shape: [keyHeads, keys, out], dtype },
    ],
    ([q, k, v]) => {
      const mask = prefix === undefined ? {} : { mask: prefixMask(queries, keys, prefix) }
      const query = rotated === true ? rotate(q as Node, dtype) : (q as Node)
      return c.attention(query, k as Node, v as Node, { ...options, ...mask })
    },
  )

function dataOf(graph: Graph): HostArray[] {
  let s = 7
  return graph.params.map((p) => {
    const data = hostArray(p.dtype, sizeOf(p.shape))
    for (let i = 0; i < data.length; i++) {
      s = (Math.imul(s, 1664525) + 1013904223) >>> 0
      writeElement(data, p.dtype, i, (4 * s) / 2 ** 32 - 2)
    }
    return data
  })
}

describe.skipIf(!hasCompiler())('chains on tensor cores (skipped where g++ is missing)', () => {
  test.each([true, false])('results, groups of warps %s', { timeout: 180_000 }, async (hasWarpGroupProducts) => {
    const simt = { ...cudaTarget.simt, hasWarpGroupProducts }
    // By day every other case, and without groups of warps those between.
    const own = (x: Case, i: number): boolean =>
      nightly || (i % 2 === Number(hasWarpGroupProducts) && x.sizes[2] * x.sizes[3] < 60_000)
    const [short, long] = [cases.filter(own), longCases.filter(own)]
    const compiled = [...short, ...long].map((x, i) => {
      const graph = graphOf(x)
      const { program, report } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
      const stages = i < short.length ? 0 : 1
      expect([x.name, report.kernels.map((k) => [k.kind, k.stages.length])]).toEqual([x.name, [['chain', stages]]])
      return { ...x, graph, program }
    })
    const kernels = compiled.flatMap(({ program }) =>
      program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : [])),
    )
    for (const k of kernels.filter((x) => !x.name.endsWith('_finish')))
      expect(emitKernel(k, simt).source.match(/dot %\d+ on tensor cores/g)).toHaveLength(2)
    const emulated = new Emulated(kernels, simt)
    for (const { name, dtype, graph, program } of compiled) {
      const inputs = dataOf(graph)
      const want = at(evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray), 0)
      const got = at(await execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers)), 0)
      // Chains skip the rounding of the first product to half precision, which the reference makes: it moves sums by their terms' magnitudes.
      const scale = Math.max(
        ...Array.from({ length: want.length }, (_, i) => Math.abs(Number(readElement(want, dtype, i)))),
      )
      const loose = dtype === 'bf16' ? 2e-2 : 3e-3
      for (let i = 0; i < want.length; i++) {
        const [a, e] = [Number(readElement(got, dtype, i)), Number(readElement(want, dtype, i))]
        if (!(Math.abs(a - e) <= loose * (1 + scale))) expect.fail(`${name}: ${a} at ${i}, not ${e}`)
      }
    }
    emulated.dispose()
  })
})
