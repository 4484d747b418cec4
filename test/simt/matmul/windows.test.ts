/** Products of windows on matrix units: a convolution's axes are joined, its operands gathered; odd sizes, strides, groups. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import { contractLabelled } from '../../../src/compose/contract.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph } from '../../../src/graph/node.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { cudaTarget, cudaTargetOf } from '../../../src/target/cuda.ts'
import { vjpGraph } from '../../../src/transforms/vjp.ts'
import type { DType } from '../../../src/types/dtype.ts'
import type { Precision } from '../../../src/types/product.ts'
import { at, inputsOf, trace } from '../../compile/support.ts'
import { nightly, some, turn } from '../../support/nightly.ts'
import { hasCompiler } from '../dialects/emulator/emulator.ts'
import { expectEmulated } from './emulated.ts'

const cases: readonly {
  readonly title: string
  readonly dtype: DType
  readonly x: readonly number[]
  readonly w: readonly number[]
  readonly options: c.ConvOptions
}[] = [
  { title: 'padded 3 x 3', dtype: 'bf16', x: [2, 32, 9, 11], w: [64, 32, 3, 3], options: { padding: 1 } },
  { title: 'odd everywhere', dtype: 'bf16', x: [2, 13, 7, 9], w: [37, 13, 3, 3], options: { padding: 1 } },
  {
    title: 'strided 7 x 7 of 3 channels',
    dtype: 'bf16',
    x: [2, 3, 9, 9],
    w: [64, 3, 7, 7],
    options: { padding: 3, stride: 2 },
  },
  { title: 'in groups', dtype: 'f16', x: [2, 32, 9, 9], w: [64, 8, 3, 3], options: { groups: 4, dilation: 2 } },
  // More than a dozen steps along the depth.
  { title: 'many channels', dtype: 'bf16', x: [2, 96, 7, 6], w: [40, 96, 3, 3], options: { padding: 1 } },
  {
    title: 'many channels, dilated',
    dtype: 'f16',
    x: [1, 70, 6, 5],
    w: [33, 70, 3, 3],
    options: { dilation: 2, padding: 2 },
  },
  { title: 'one axis', dtype: 'bf16', x: [3, 16, 50], w: [24, 16, 5], options: { stride: 3 } },
  { title: 'three axes', dtype: 'f16', x: [1, 8, 5, 6, 7], w: [32, 8, 2, 3, 3], options: { padding: 1 } },
]

/** A graph's program on the emulator, against the reference. */
async function compare(graph: Graph, precision: Precision, kernels: number, target = cudaTarget): Promise<Kernel[]> {
  const { program } = compileGraph(graph, { mode: 'fast', target, precision, verify: true })
  const launched = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  expect(launched.length).toBeLessThanOrEqual(kernels)
  // Quarters, which tf32 holds.
  const inputs = inputsOf(graph).map((x) => (x instanceof Float32Array ? x.map((v) => Math.round(4 * v) / 4) : x))
  await expectEmulated(graph, program, inputs)
  return launched
}

const convolution = ({ dtype, x, w, options }: (typeof cases)[number]): Graph =>
  trace(
    [
      { shape: x, dtype },
      { shape: w, dtype },
      { shape: [w[0] ?? 1], dtype },
    ],
    (p) => c.relu(c.conv(at(p, 0), at(p, 1), { ...options, bias: at(p, 2) })),
  )

const onUnits = (kernels: readonly Kernel[]): boolean =>
  kernels.some((k) => emitKernel(k, cudaTarget.simt).source.includes('multiply_'))

/** A step of training: gradients in the data and the weights. */
const trained = ({ dtype, x, w, options }: (typeof cases)[number]): Graph =>
  vjpGraph(
    trace(
      [
        { shape: x, dtype },
        { shape: w, dtype },
      ],
      (p) => c.mean(c.tanh(c.conv(c.tanh(at(p, 0)), at(p, 1), options))),
    ),
    [0, 1],
  )

const trainings: typeof cases = [
  { title: 'one image', dtype: 'bf16', x: [1, 24, 6, 7], w: [40, 24, 3, 3], options: { padding: 1 } },
  { title: 'three channels', dtype: 'bf16', x: [2, 3, 11, 9], w: [16, 3, 5, 5], options: { padding: 2, stride: 2 } },
  { title: 'channels of no whole copies', dtype: 'f16', x: [3, 20, 7, 7], w: [12, 20, 3, 3], options: {} },
  { title: 'images of 7 x 7', dtype: 'bf16', x: [2, 32, 7, 7], w: [24, 32, 1, 1], options: {} },
  { title: 'eight images', dtype: 'f16', x: [8, 16, 5, 5], w: [16, 16, 3, 3], options: { padding: 1 } },
]

test.skipIf(!hasCompiler()).each(some(trainings, 3))('gradients: $title', { timeout: 60_000 }, async (given) => {
  expect(onUnits(await compare(trained(given), 'ieee', 12))).toBe(true)
})

// By day two in half precision and two in tf32.
const [inTf32, inHalves] = [some(cases, 4), cases.filter((_, i) => nightly || i % 4 === 3)]

test.skipIf(!hasCompiler()).each(inHalves)('$title', { timeout: 60_000 }, async (given) => {
  expect(onUnits(await compare(convolution(given), 'ieee', 3))).toBe(true)
})

test.skipIf(!hasCompiler()).each(inTf32)('$title, in tf32', { timeout: 60_000 }, async (given) => {
  const graph = convolution({ ...given, dtype: 'f32' })
  expect(onUnits(await compare(graph, 'tf32', 3))).toBe(true)
})

const orders = [
  ['ab', 'bc', 'ac'],
  ['ba', 'bc', 'ac'],
  ['ab', 'cb', 'ac'],
  ['ba', 'cb', 'ca'],
] as const

test.skipIf(!hasCompiler()).each(some(orders, 4))(
  '%s, %s to %s in tf32, odd extents',
  { timeout: 60_000 },
  async (lhs, rhs, out) => {
    const extents: Readonly<Record<string, number>> = { a: 70, b: 45, c: 66 }
    const shape = (labels: string): number[] => [...labels].map((l) => extents[l] ?? 1)
    const graph = trace([{ shape: shape(lhs) }, { shape: shape(rhs) }], (p) =>
      c.tanh(contractLabelled(at(p, 0), lhs, at(p, 1), rhs, out)),
    )
    expect(onUnits(await compare(graph, 'tf32', 1))).toBe(true)
  },
)

interface Phases {
  readonly title: string
  readonly x: readonly number[]
  readonly w: readonly number[]
  readonly options: c.ConvTransposeOptions
}

const oddPhases: readonly Phases[] = [
  { title: 'one axis', x: [2, 24, 37], w: [24, 20, 4], options: { stride: 2, padding: 1, outputPadding: 1 } },
  { title: 'two axes', x: [1, 16, 9, 8], w: [16, 33, 3, 4], options: { stride: [2, 3], padding: 1 } },
  { title: 'three axes', x: [1, 8, 5, 4, 3], w: [8, 16, 3, 3, 3], options: { stride: 2, padding: 1 } },
]

test.skipIf(!hasCompiler()).each(some(oddPhases, 3))(
  'phases of odd extent are stored apart: $title',
  {
    timeout: 60_000,
  },
  async (given) => {
    const { x, w, options } = given
    for (const dtype of turn(['f32', 'bf16'] as const, oddPhases.indexOf(given))) {
      const graph = trace(
        [
          { shape: x, dtype },
          { shape: w, dtype },
          { shape: [w[1] ?? 1], dtype },
        ],
        (p) => c.relu(c.convTranspose(at(p, 0), at(p, 1), { ...options, bias: at(p, 2) })),
      )
      const kernels = await compare(graph, 'tf32', 2)
      expect(onUnits(kernels)).toBe(true)
      const masked = kernels.flatMap((k) =>
        k.parts.flatMap((p) => p.body.filter((s) => s.kind === 'store' && s.mask.length > 0)),
      )
      expect(masked).toHaveLength(1)
    }
  },
)

const hopper = cudaTargetOf({ capability: 90, multiprocessors: 132, sharedBytes: 232448, hasLibrary: false })

/** A machine on which gathering costs so much that data in another order pays at any size. */
const { dotBlock } = hopper
const gathersSlowly = { ...hopper, dotBlock: { ...dotBlock, gatherSeconds: { 2: 1e-8, 4: 1e-8, far: 1e-8 } } }

const phasesOverData: readonly Phases[] = [
  { title: 'one window for all', x: [1, 32, 5, 6], w: [32, 24, 4, 4], options: { stride: 2 } },
  { title: 'a window each', x: [1, 32, 6, 5], w: [32, 20, 4, 4], options: { stride: 2, padding: 1 } },
  {
    title: 'a window each, of odd extent',
    x: [2, 16, 5, 7],
    w: [16, 9, 4, 4],
    options: { stride: 2, padding: 1, outputPadding: 1 },
  },
  {
    title: 'in groups, strides apart',
    x: [1, 32, 4, 5],
    w: [32, 8, 3, 5],
    options: { stride: [2, 3], groups: 2, padding: 1 },
  },
  { title: 'three axes', x: [1, 16, 3, 4, 3], w: [16, 8, 3, 4, 2], options: { stride: 2, padding: 1 } },
  { title: 'many channels', x: [1, 224, 4, 5], w: [224, 8, 4, 4], options: { stride: 2, padding: 1 } },
  {
    title: 'zeros between results',
    x: [1, 16, 4, 5, 3],
    w: [16, 8, 3, 2, 3],
    options: { stride: [2, 4, 1], dilation: [2, 2, 1], padding: 1 },
  },
]

test.skipIf(!hasCompiler()).each(some(phasesOverData, 4))(
  'phases over data with channels last: $title',
  {
    timeout: 60_000,
  },
  async (given) => {
    const { x, w, options } = given
    for (const dtype of turn(['f32', 'bf16'] as const, phasesOverData.indexOf(given))) {
      const graph = trace(
        [
          { shape: x, dtype },
          { shape: w, dtype },
        ],
        (p) => c.convTranspose(at(p, 0), at(p, 1), options),
      )
      const kernels = await compare(graph, 'tf32', 4, gathersSlowly)
      // A kernel before the product stores data and weights in the order of its depth.
      expect(kernels.findIndex((k) => emitKernel(k, hopper.simt).source.includes('multiply_'))).toBeGreaterThan(0)
    }
  },
)

test('what overlapping windows share is read through the nearest cache, weights are not', () => {
  const shapes = [
    [8, 64, 130, 130],
    [64, 64, 3, 3],
  ]
  const graph = trace(
    shapes.map((shape) => ({ shape })),
    (p) => c.conv(at(p, 0), at(p, 1)),
  )
  const { program } = compileGraph(graph, { mode: 'fast', target: hopper, precision: 'tf32', verify: true })
  const sources = program.steps.flatMap((s) => (s.kind === 'kernel' ? [emitKernel(s.kernel, hopper.simt).source] : []))
  const product = sources
    .find((s) => s.includes('multiply_'))
    ?.split('__global__')
    .at(-1)
  expect(product).toContain('copy_async_near(')
  expect(product).toContain('copy_async(')
})
