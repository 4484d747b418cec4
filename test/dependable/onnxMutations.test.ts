/**
 * Mutated models: each imports to a graph that verifies, or is an error with a code of the user's; none is an internal error, ends the
 * process or does not come back. SINTER_MUTATIONS says how many (800 unless set, 5,000 at night), SINTER_FIRST_SEED where they start. Mutant N is that of seed N:
 * `test/onnx/mutate` has the mutations (bytes, and names, nodes, attributes, extents, types, data), the models and the watch. Below, what they found. Sites:
 * `context.ts` (whole numbers, shapes, inputs that are required), `ops/loss.ts`, `ops/shape.ts`, `ops/indexing.ts`, `ops/misc.ts`, `ops/regions.ts`,
 * `ops/sample.ts`, `ops/signal.ts`, `ops/linear.ts`, `ops/window.ts` (blocks, transposed convolutions), `compose/window.ts`, `compose/indexing.ts` (batch axes).
 */
import { rmSync } from 'node:fs'
import { afterAll, describe, expect, it } from 'vitest'
import { averagePool } from '../../src/compose/window.ts'
import { param, withContext } from '../../src/graph/build.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { archivesPresent, contribPresent, unpack, unpackContrib } from '../onnx/archives.ts'
import type { AttributeSpec, TensorSpec } from '../onnx/encode.ts'
import { errorOf, load } from '../onnx/models.ts'
import { seedsOf } from '../support/nightly.ts'
import { faultsOf } from '../support/watch.ts'

const count = seedsOf('SINTER_MUTATIONS', 800, 5000)
const first = Number(process.env.SINTER_FIRST_SEED ?? 0)
const imports = new URL('../onnx/mutate/imports.ts', import.meta.url)
const folders = [
  ...(archivesPresent('MUTATIONS OF THE ONNX CASES') ? [unpack(['onnx-node-cases'])] : []),
  ...(contribPresent("MUTATIONS OF ONNXRUNTIME'S CASES") ? [unpackContrib()] : []),
]
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

describe('mutated models', () => {
  it(`${count} of them import, or are errors with codes`, { timeout: 120_000 + 40 * count }, async () => {
    expect(await faultsOf(imports, first, first + count, folders)).toEqual([])
  })
})

const { FLOAT, INT64 } = tensorType
const f32 = (...dims: number[]): Omit<TensorSpec, 'name'> => ({
  type: FLOAT,
  dims,
  floats: new Array<number>(dims.reduce((a, b) => a * b, 1)).fill(1.75),
})
const i64 = (...int64s: number[]): Omit<TensorSpec, 'name'> => ({ type: INT64, dims: [int64s.length], int64s })

/** The error of importing one node on tensors. */
const error = (
  op: string,
  inputs: readonly Omit<TensorSpec, 'name'>[],
  attrs: Readonly<Record<string, AttributeSpec>> = {},
): string =>
  errorOf(() =>
    load({
      nodes: [{ op, in: inputs.map((_, i) => `x${i}`), out: ['y'], attrs }],
      outputs: [{ name: 'y', type: FLOAT, dims: [] }],
      initializers: inputs.map((t, i) => ({ name: `x${i}`, ...t })),
    }),
  ).message

describe('what mutants found', () => {
  it('operands of another rank', () => {
    expect(error('Trilu', [f32(3)])).toContain('E_SHAPE')
    expect(error('EyeLike', [f32(3)])).toContain('E_SHAPE')
    expect(error('GatherElements', [f32(3, 3), i64(0)])).toContain('E_SHAPE')
    expect(error('NegativeLogLikelihoodLoss', [f32(3), i64(0)])).toContain('E_SHAPE')
    expect(error('SoftmaxCrossEntropyLoss', [f32(3, 5), i64(0, 1)])).toContain('E_SHAPE')
    expect(error('TensorScatter', [f32(2, 1, 4, 5), f32(2, 1), i64(0, 0)])).toContain('E_SHAPE')
    const regions = { f: f32(2, 4), i: i64(0, 0) }
    expect(error('RoiAlign', [f32(8, 8), regions.f, regions.i])).toContain('E_SHAPE')
    expect(error('RoiAlign', [f32(1, 1, 8), regions.f, regions.i])).toContain('E_SHAPE')
    expect(error('RoiAlign', [f32(1, 1, 8, 8, 2), regions.f, regions.i])).toContain('E_SHAPE')
    expect(error('RoiAlign', [f32(1, 1, 8, 8), f32(2, 5), regions.i])).toContain('E_SHAPE')
    expect(error('RoiAlign', [f32(1, 1, 8, 8), f32(4), regions.i])).toContain('E_SHAPE')
    expect(error('RoiAlign', [f32(1, 1, 8, 8), regions.f, i64(0)])).toContain('E_SHAPE')
    const pooled = { pooled_shape: { ints: [2, 2] } }
    expect(error('MaxRoiPool', [f32(1, 8, 8), f32(2, 5)], pooled)).toContain('E_SHAPE')
    expect(error('MaxRoiPool', [f32(1, 1, 8, 8), f32(2, 4)], pooled)).toContain('E_SHAPE')
    expect(error('ReverseSequence', [f32(3, 3), i64(1, 1, 1)], { time_axis: { int: 3 } })).toContain('E_AXIS')
  })
  it('labels of an einsum that are not the axes there are', () => {
    const einsum = (equation: string, ...dims: number[]): string =>
      error('Einsum', [f32(...dims)], { equation: { string: equation } })
    expect(einsum('iii->i', 3, 3)).toContain('E_ONNX_MALFORMED')
    expect(einsum('i->i', 3, 3)).toContain('E_ONNX_MALFORMED')
    expect(einsum('ii->i', 3, 4)).toContain('E_SHAPE')
  })
  it('lists of numbers for another number of axes, and batches of another extent', () => {
    const col2im = (
      image: readonly number[],
      block: readonly number[],
      attrs: Readonly<Record<string, AttributeSpec>> = {},
    ) => error('Col2Im', [f32(1, 5, 5), i64(...image), i64(...block)], attrs)
    expect(col2im([5, 5], [1, 5, 1])).toContain('E_ONNX_MALFORMED')
    expect(col2im([5, 5, 1], [1, 5])).toContain('E_ONNX_MALFORMED')
    expect(col2im([5, 5], [1, 5], { strides: { ints: [1] } })).toContain('E_ONNX_MALFORMED')
    expect(col2im([5, 5], [1, 5], { pads: { ints: [0, 0] } })).toContain('E_ONNX_MALFORMED')
    expect(col2im([5, 5], [1, 3])).toContain('E_SHAPE')
    expect(error('Col2Im', [f32(5, 5), i64(5, 5), i64(1, 5)])).toContain('E_SHAPE')
    expect(error('MaxUnpool', [f32(1, 1), i64(1, 1)], { kernel_shape: { ints: [] } })).toContain('E_SHAPE')
    expect(error('MaxUnpool', [f32(1, 1, 2), i64(0)], { kernel_shape: { ints: [2, 2] } })).toContain('E_SHAPE')
    const deform = (
      w: readonly number[],
      offset: readonly number[],
      attrs: Readonly<Record<string, AttributeSpec>> = {},
    ) => error('DeformConv', [f32(1, 2, 3, 3), f32(...w), f32(...offset)], attrs)
    expect(deform([1, 2, 2], [1, 4, 2])).toContain('E_SHAPE')
    expect(deform([1, 2, 2, 2, 2], [1, 24, 2, 2, 2])).toContain('E_SHAPE')
    expect(deform([1, 3, 2, 2], [1, 8, 2, 2])).toContain('E_SHAPE')
    expect(deform([1, 2, 2, 2], [1, 8, 2, 2], { offset_group: { int: 3 } })).toContain('E_SHAPE')
    expect(deform([1, 2, 2, 2], [1, 8, 2, 2], { strides: { ints: [1] } })).toContain('E_ONNX_MALFORMED')
    expect(error('ConvTranspose', [f32(1, 1, 3), f32(1, 1, 2)], { pads: { ints: [0] } })).toContain('E_ONNX_MALFORMED')
    expect(error('GatherND', [f32(2, 3), i64(0)], { batch_dims: { int: -2 } })).toContain('E_ARGUMENT')
    const indices = { type: INT64, dims: [3, 1], int64s: [0, 0, 0] }
    expect(error('GatherND', [f32(2, 3), indices], { batch_dims: { int: 1 } })).toContain('E_SHAPE')
    expect(error('GatherElements', [f32(2, 3), indices], { axis: { int: 1 } })).toContain('E_SHAPE')
  })
  it('no operands, and whole numbers that are none', () => {
    for (const op of ['Sum', 'Max', 'Mean', 'Concat']) expect(error(op, [])).toContain('E_ONNX_MALFORMED')
    expect(error('CenterCropPad', [f32(4, 4), f32(2)])).toContain('holds 1.75, which is not a whole number')
  })
  it('counts beyond all bounds', () => {
    // Whole windows are counted at once, however many; unequal ones are constants.
    const pooled = (padding: 'valid' | 'same'): readonly number[] =>
      withContext(() => averagePool(param(0, [1, 1, 2 ** 33], 'f32'), [3], { stride: 1, padding }).shape)
    expect(pooled('valid')).toEqual([1, 1, 2 ** 33 - 2])
    expect(() => pooled('same')).toThrow(expect.objectContaining({ code: 'E_OVERFLOW' }))
    const counts = { ngram_counts: { ints: [0, 2 ** 40] }, ngram_indexes: { ints: [0] }, pool_int64s: { ints: [1, 2] } }
    expect(error('TfIdfVectorizer', [i64(1, 2)], { ...counts, mode: { string: 'TF' } })).toContain('E_ONNX_MALFORMED')
    expect(error('AffineGrid', [f32(1, 2, 3), i64(1, 1, 40_000, 40_000)])).toContain('E_ONNX_UNSUPPORTED')
    expect(error('HannWindow', [{ type: INT64, dims: [], int64s: [2 ** 30] }])).toContain('E_ONNX_UNSUPPORTED')
  })
})
