/**
 * Chains of products that vectors of registers multiply: CUDA sources on the host for dtypes and widths that no matrix unit takes, WGSL on
 * a software adapter. No value of all queries by all keys is stored.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { type Compiled, compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { SimtTarget } from '../../../src/target/machine.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import { vjpGraph } from '../../../src/transforms/vjp.ts'
import type { DType } from '../../../src/types/dtype.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { trace } from '../../compile/support.ts'
import { dataOf, expectAlike } from '../../support/alike.ts'
import { some } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { type Adapter, openDevice } from '../dialects/wgsl.ts'
import { execute, executeWgsl } from '../programs/programs.ts'

interface Case {
  readonly name: string
  readonly dtype?: DType
  /** Query heads, key heads, queries, keys, width, width of values. */
  readonly sizes: readonly [number, number, number, number, number, number]
  readonly options?: c.AttentionOptions
  /** Finishing stages: parts of the keys are programs of their own. */
  readonly stages?: number
  /** A tensor is added to scores. */
  readonly masked?: true
  /** What is multiplied is computed on its way, with a number that nothing else needs. */
  readonly shifted?: true
}

const graphOf = ({
  sizes: [heads, keyHeads, queries, keys, width, out],
  options = {},
  dtype = 'f32',
  masked,
  shifted,
}: Case) => {
  const shapes = [
    [heads, queries, width],
    [keyHeads, keys, width],
    [keyHeads, keys, out],
    ...(masked === true ? [[queries, keys]] : []),
  ]
  return trace(
    shapes.map((shape) => ({ shape, dtype })),
    ([q, k, v, mask]) =>
      c.attention(q as Node, shifted === true ? c.sub(k as Node, 8) : (k as Node), v as Node, { ...options, mask }),
  )
}

const compiledFor = (target: SimtTarget, graph: Graph): Compiled =>
  compileGraph(graph, { mode: 'fast', target, verify: true })

const kernelsOf = ({ program }: Compiled): Kernel[] =>
  program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))

const wanted = (graph: Graph): HostArray[] =>
  evaluateGraph(graph, dataOf(graph, 3, 2), { rounding: 'dtype' }).map(toHostArray)

const cases: readonly Case[] = [
  { name: 'whole blocks, causal', sizes: [1, 1, 128, 128, 32, 32], options: { causal: true } },
  { name: 'tails and odd widths', sizes: [2, 1, 70, 75, 18, 41] },
  { name: 'uneven parts', sizes: [1, 1, 133, 197, 72, 64], stages: 1 },
  { name: 'a window', sizes: [1, 1, 40, 21, 16, 8], options: { causal: true, window: 10 } },
  { name: 'keys that are computed', sizes: [1, 1, 20, 70, 16, 16], shifted: true },
  { name: 'a mask of numbers', sizes: [1, 1, 30, 50, 16, 16], masked: true },
  { name: 'halves of a width that matrix units do not take', dtype: 'bf16', sizes: [1, 1, 40, 44, 20, 12] },
]

describe.skipIf(!hasCompiler())('on CUDA (skipped where g++ is missing)', () => {
  test('results and plans', { timeout: 120_000 }, async () => {
    const compiled = some(cases, 2).map((x) => {
      const graph = graphOf(x)
      const made = compiledFor(cudaTarget, graph)
      const plan = made.report.kernels.map((k) => [k.kind, k.stages.length])
      expect([x.name, plan]).toEqual([x.name, [['chain', x.stages ?? 0]]])
      return { ...x, graph, made }
    })
    const kernels = compiled.flatMap(({ made }) => kernelsOf(made))
    for (const k of kernels.filter((x) => !x.name.endsWith('_finish')))
      expect(emitKernel(k, cudaTarget.simt).source.match(/dot %\d+: \d x \d blocks of 4 x 4/g)).toHaveLength(2)
    const emulated = new Emulated(kernels)
    for (const { name, graph, made } of compiled)
      expectAlike(
        await execute(made.program, dataOf(graph, 3, 2), (k, b) => emulated.run(kernels.indexOf(k), b)),
        wanted(graph),
        graph,
        name,
      )
    emulated.dispose()
  })

  test('gradients', { timeout: 120_000 }, async () => {
    const graph = vjpGraph(
      graphOf({ name: 'gradients', sizes: [1, 1, 100, 100, 24, 16], options: { causal: true } }),
      [0, 1, 2],
    )
    const made = compiledFor(cudaTarget, graph)
    // The forward kernel, and one of each gradient or of several: no value of all queries by all keys is stored.
    expect(new Set(made.report.kernels.map((k) => k.kind))).toEqual(new Set(['chain']))
    const kernels = kernelsOf(made)
    const emulated = new Emulated(kernels)
    expectAlike(
      await execute(made.program, dataOf(graph, 3, 2), (k, b) => emulated.run(kernels.indexOf(k), b)),
      wanted(graph),
      graph,
      'gradients',
    )
    emulated.dispose()
  })
})

describe('on WebGPU', () => {
  let machine: Adapter | string
  beforeAll(async () => {
    machine = await openDevice()
  })

  test('chains have the blocks that fit the memory of a block of threads, and none are refused for products that are stored', () => {
    const long: Case = { name: 'long', sizes: [32, 32, 1000, 1000, 64, 64], options: { causal: true } }
    const plan = (x: Case, sharedBytes: number) => {
      const made = compiledFor(webgpuTarget({ sharedBytes, laneBits: 5, storageBuffers: 12 }), graphOf(x))
      const bytes = kernelsOf(made).map(
        (k) => emitKernel(k, webgpuTarget({ sharedBytes, laneBits: 5 }).simt).sharedBytes,
      )
      expect(bytes.every((b) => b <= sharedBytes)).toBe(true)
      return made.report.kernels.map((k) => k.kind)
    }
    expect(plan(long, 49152)).toEqual(['chain'])
    for (const width of some([32, 64, 96, 128, 36], 2))
      for (const sharedBytes of some([16384, 32768, 49152], 2))
        plan({ name: 'widths', sizes: [16, 16, 130, 400, width, width] }, sharedBytes)
    // Scores are more than a value may have.
    expect(plan({ name: 'longer', sizes: [128, 128, 4096, 4096, 64, 64] }, 49152)).toEqual(['chain'])
  })

  const small = [
    { name: 'causal', sizes: [1, 1, 36, 40, 16, 20], options: { causal: true } },
    { name: 'half precision', dtype: 'f16', sizes: [1, 1, 20, 70, 12, 16] },
  ] as const satisfies Case[]
  test.for(some<(typeof small)[number]>(small, 2))('results: $name', { timeout: 60_000 }, async (x, { skip }) => {
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const graph = graphOf(x)
    const made = compiledFor(webgpuTarget({ storageBuffers: 12 }), graph)
    expect(made.report.kernels.map((k) => k.kind)).toEqual(['chain'])
    expectAlike(await executeWgsl(machine, made.program, dataOf(graph, 3, 2)), wanted(graph), graph, x.name)
  })
})
