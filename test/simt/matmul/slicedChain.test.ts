/**
 * Chains of products whose operands are staged by slices of the depth, where they do not stand whole in the memory that threads share: CUDA
 * sources on the host, WGSL on a software adapter, and plans for WebGPU's least limits.
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
import { type DType, dtypeBytes } from '../../../src/types/dtype.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { trace } from '../../compile/support.ts'
import { dataOf, expectAlike } from '../../support/alike.ts'
import { some, turn } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { type Adapter, openDevice } from '../dialects/wgsl.ts'
import { execute, executeWgsl } from '../programs/programs.ts'

interface Case {
  readonly name: string
  readonly dtype?: DType
  /** Batch, query heads, key heads, queries, keys, width, width of values. */
  readonly sizes: readonly [number, number, number, number, number, number, number]
  readonly options?: c.AttentionOptions
  /** Keys are computed on their way. */
  readonly shifted?: true
  /** Queries are scaled by a fold over the depth, so that they stand whole. */
  readonly normalised?: true
}

function graphOf({
  sizes: [batch, heads, keyHeads, queries, keys, width, out],
  options = {},
  dtype = 'f32',
  shifted,
  normalised,
}: Case): Graph {
  const shapes = [
    [batch, heads, queries, width],
    [batch, keyHeads, keys, width],
    [batch, keyHeads, keys, out],
  ]
  return trace(
    shapes.map((shape) => ({ shape, dtype })),
    (params) => {
      const [q, k, v] = params as [Node, Node, Node]
      const scaled = normalised === true ? c.div(q, c.add(c.sum(c.mul(q, q), -1, true), 1)) : q
      return c.attention(scaled, shifted === true ? c.sub(k, 8) : k, v, options)
    },
  )
}

const gradientsOf = (x: Case): Graph => vjpGraph(graphOf(x), [0, 1, 2])

const compiledFor = (target: SimtTarget, graph: Graph): Compiled =>
  compileGraph(graph, { mode: 'fast', target, verify: true })

const kernelsOf = ({ program }: Compiled): Kernel[] =>
  program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))

const wanted = (graph: Graph, inputs: readonly HostArray[]): HostArray[] =>
  evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)

/** How many stages a kernel's products fill by slices. */
const slicesIn = (k: Kernel, { simt }: SimtTarget): number =>
  emitKernel(k, simt).source.match(/slice of %\d+/g)?.length ?? 0

const isStage = ({ name }: Kernel): boolean => name.endsWith('_finish')

/** CUDA with tiles that stand nowhere whole, and no value of scores in memory. */
const sliced = (bytes: number): SimtTarget => ({
  ...cudaTarget,
  mostBytes: { ...cudaTarget.mostBytes, value: bytes },
  simt: { ...cudaTarget.simt, vectorTiles: { whole: 0, slice: 8 } },
})

const cases: readonly (Case & { readonly slices: number })[] = [
  { name: 'whole slices, causal', sizes: [1, 1, 1, 128, 128, 32, 64], options: { causal: true }, slices: 3 },
  { name: 'halves', dtype: 'bf16', sizes: [1, 1, 1, 40, 72, 20, 12], slices: 3 },
  { name: 'a depth that ends inside a slice', sizes: [2, 2, 1, 70, 75, 18, 41], slices: 3 },
  { name: 'keys that are computed, a long depth', sizes: [1, 1, 1, 40, 100, 100, 128], shifted: true, slices: 3 },
  { name: 'a depth of one slice', sizes: [1, 1, 1, 66, 70, 8, 16], slices: 1 },
  { name: 'keys that end inside a slice stand whole', sizes: [1, 1, 1, 40, 21, 32, 8], slices: 2 },
  { name: 'queries that follow from a fold', sizes: [1, 1, 1, 70, 64, 24, 16], normalised: true, slices: 2 },
  { name: 'a window', sizes: [1, 1, 1, 40, 64, 20, 12], options: { causal: true, window: 10 }, slices: 3 },
]

describe.skipIf(!hasCompiler())('on CUDA (skipped where g++ is missing)', () => {
  test('results and plans', { timeout: 120_000 }, async () => {
    const target = sliced(2 ** 47)
    const compiled = some(cases, 4).map((x) => {
      const graph = graphOf(x)
      const made = compiledFor(target, graph)
      const [chain] = kernelsOf(made).filter((k) => emitKernel(k, target.simt).source.includes('blocks of 4 x 4'))
      expect([x.name, made.report.kernels.map((k) => k.kind).includes('chain')]).toEqual([x.name, true])
      expect([x.name, chain === undefined ? undefined : slicesIn(chain, target)]).toEqual([x.name, x.slices])
      return { ...x, graph, made }
    })
    const kernels = compiled.flatMap(({ made }) => kernelsOf(made))
    const emulated = new Emulated(kernels, target.simt)
    for (const { name, graph, made } of compiled) {
      const run = (inputs: readonly HostArray[]): Promise<HostArray[]> =>
        execute(made.program, inputs, (k, b) => emulated.run(kernels.indexOf(k), b))
      const inputs = dataOf(graph, 3, 2)
      expectAlike(await run(inputs), wanted(graph, inputs), graph, name)
      // What lies beyond a slice is zero, whatever stands beside it in memory.
      const [first] = inputs
      if (first !== undefined && !('name' in first)) first[0] = Number.NaN
      expectAlike(await run(inputs), wanted(graph, inputs), graph, `${name}, with a NaN`)
    }
    emulated.dispose()
  })

  test('gradients', { timeout: 120_000 }, async () => {
    const graph = gradientsOf({ name: '', sizes: [1, 1, 1, 100, 104, 36, 24], options: { causal: true } })
    const target = sliced(100 * 104 * 2)
    const made = compiledFor(target, graph)
    expect(new Set(made.report.kernels.map((k) => k.kind))).toEqual(new Set(['chain']))
    const kernels = kernelsOf(made)
    for (const k of kernels.filter((x) => !isStage(x))) expect(slicesIn(k, target)).toBeGreaterThanOrEqual(3)
    const emulated = new Emulated(kernels, target.simt)
    const inputs = dataOf(graph, 3, 2)
    const got = await execute(made.program, inputs, (k, b) => emulated.run(kernels.indexOf(k), b))
    expectAlike(got, wanted(graph, inputs), graph, 'gradients')
    emulated.dispose()
  })
})

describe('on WebGPU', () => {
  let machine: Adapter | string
  beforeAll(async () => {
    machine = await openDevice()
  })

  /** WebGPU's least limits: 16 KB of shared memory, 128 MiB a binding, 8 buffers. */
  const least = webgpuTarget({ valueBytes: 2 ** 27 })

  const wide = [
    { name: 'width 128, odd lengths', sizes: [4, 32, 32, 4095, 4095, 128, 128] },
    { name: 'width 128', sizes: [4, 32, 32, 4096, 4096, 128, 128] },
    { name: 'width 256', sizes: [2, 32, 32, 4096, 4096, 256, 256] },
    { name: 'width 96', sizes: [4, 32, 32, 4096, 4096, 96, 96] },
    { name: 'heads that share keys', sizes: [4, 32, 8, 4096, 4096, 128, 128] },
  ] as const satisfies Case[]
  test.for(some(wide, 5))(
    'no value of all queries by all keys, causal, without a mask, and its gradients: $name',
    { timeout: 60_000 },
    (x) => {
      const [batch, heads, , queries, , width] = x.sizes
      const causal = { options: { causal: true } }
      for (const graph of [
        graphOf({ ...x, dtype: 'f16' }),
        graphOf({ ...x, ...causal, dtype: 'f16' }),
        gradientsOf({ ...x, dtype: 'f16' }),
      ]) {
        const made = compiledFor(least, graph)
        expect(new Set(made.report.kernels.map((k) => k.kind))).toEqual(new Set(['chain']))
        for (const k of kernelsOf(made)) {
          const { sharedBytes } = emitKernel(k, least.simt)
          expect(sharedBytes).toBeLessThanOrEqual(16384)
          if (!isStage(k)) expect(slicesIn(k, least)).toBeGreaterThanOrEqual(3)
        }
        // No buffer is larger than a result, in the dtype of sums.
        const most = batch * heads * queries * width * dtypeBytes('f32')
        for (const b of made.program.buffers) expect(b.bytes).toBeLessThanOrEqual(most)
      }
    },
  )

  const narrow = [
    { name: 'half precision', dtype: 'f16', sizes: [1, 1, 1, 160, 160, 64, 66] },
    { name: 'causal', sizes: [1, 1, 1, 159, 163, 72, 64], options: { causal: true } },
  ] as const satisfies Case[]
  // By day the results of the first; the gradients are those of CUDA.
  test.for(some<(typeof narrow)[number]>(narrow, 2))(
    'results, both ways: $name',
    { timeout: 120_000 },
    async (x, { skip }) => {
      skip(typeof machine === 'string', String(machine))
      if (typeof machine === 'string') return
      const target = webgpuTarget({ storageBuffers: 12, valueBytes: 50000 })
      for (const of of turn([graphOf, gradientsOf], 0)) {
        const graph = of(x)
        const made = compiledFor(target, graph)
        expect(new Set(made.report.kernels.map((k) => k.kind))).toEqual(new Set(['chain']))
        expect(kernelsOf(made).some((k) => slicesIn(k, target) >= 3)).toBe(true)
        const inputs = dataOf(graph, 3, 2)
        expectAlike(await executeWgsl(machine, made.program, inputs), wanted(graph, inputs), graph, x.name)
      }
    },
  )
})
