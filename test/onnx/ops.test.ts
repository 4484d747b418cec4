/** Single operators against values worked out by hand from their definitions. */
import { describe, expect, it } from 'vitest'
import { importOnnx } from '../../src/onnx/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { evaluateConstant, evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { type AttributeSpec, encodeModel, type TensorSpec } from './encode.ts'

const { FLOAT, INT64, UINT8 } = tensorType

const f32 = (dims: readonly number[], ...floats: number[]): Omit<TensorSpec, 'name'> => ({ type: FLOAT, dims, floats })
const i64 = (dims: readonly number[], ...int64s: number[]): Omit<TensorSpec, 'name'> => ({ type: INT64, dims, int64s })
const u8 = (dims: readonly number[], ...int32s: number[]): Omit<TensorSpec, 'name'> => ({ type: UINT8, dims, int32s })

/** Runs one node on constants; undefined inputs are absent. */
function node(
  op: string,
  inputs: readonly (Omit<TensorSpec, 'name'> | undefined)[],
  attrs: Readonly<Record<string, AttributeSpec>> = {},
  outputs = 1,
): { shape: readonly number[]; data: number[] }[] {
  const out = Array.from({ length: outputs }, (_, i) => `y${i}`)
  const bytes = encodeModel({
    nodes: [{ op, in: inputs.map((t, i) => (t === undefined ? '' : `x${i}`)), out, attrs }],
    outputs: out.map((name) => ({ name, type: FLOAT, dims: [] })),
    initializers: inputs.flatMap((t, i) => (t === undefined ? [] : [{ name: `x${i}`, ...t }])),
  })
  const { graph } = importOnnx(bytes, { evaluate: evaluateConstant })
  return evaluateGraph(graph, [], { rounding: 'dtype' }).map((t) => ({
    shape: t.shape,
    data: Array.from(toHostArray(t) as ArrayLike<number | bigint>, Number),
  }))
}

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const only = (r: { shape: readonly number[]; data: number[] }[]): { shape: readonly number[]; data: number[] } => {
  const [first] = r
  if (first === undefined) throw new Error('no output')
  return first
}

describe('windows', () => {
  it('MaxPool gives values and flat indices of the unpadded input', () => {
    const attrs = { kernel_shape: { ints: [2, 2] }, strides: { ints: [2, 2] }, pads: { ints: [1, 1, 0, 0] } }
    const [y, indices] = node('MaxPool', [f32([1, 1, 3, 3], ...range(9))], attrs, 2)
    expect(y).toEqual({ shape: [1, 1, 2, 2], data: [0, 2, 6, 8] })
    expect(indices?.data).toEqual([0, 2, 6, 8])
  })

  it('Conv takes groups and one-sided padding', () => {
    const x = f32([1, 2, 1, 3], 1, 2, 3, 4, 5, 6)
    const w = f32([2, 1, 1, 2], 1, 10, 1, -1)
    const y = node('Conv', [x, w], { group: { int: 2 }, pads: { ints: [0, 1, 0, 0] } })
    expect(only(y)).toEqual({ shape: [1, 2, 1, 3], data: [10, 21, 32, -4, -1, -1] })
  })

  it('ConvTranspose inverts the shape of a strided convolution', () => {
    const y = node('ConvTranspose', [f32([1, 1, 2], 1, 2), f32([1, 1, 3], 1, 2, 3)], { strides: { ints: [2] } })
    expect(only(y)).toEqual({ shape: [1, 1, 5], data: [1, 2, 5, 4, 6] })
  })
})

describe('rearrangement', () => {
  it('Slice goes backwards', () => {
    const y = node('Slice', [f32([5], ...range(5)), i64([1], -1), i64([1], -100), i64([1], 0), i64([1], -2)])
    expect(only(y)).toEqual({ shape: [3], data: [4, 2, 0] })
  })

  it('Pad mirrors', () => {
    const y = node('Pad', [f32([3], 1, 2, 3), i64([2], 2, 1)], { mode: { string: 'reflect' } })
    expect(only(y).data).toEqual([3, 2, 1, 2, 3, 2])
  })

  it('DepthToSpace keeps depth outermost in DCR and innermost in CRD', () => {
    const x = f32([1, 8, 1, 1], ...range(8))
    expect(only(node('DepthToSpace', [x], { blocksize: { int: 2 } })).data).toEqual([0, 2, 4, 6, 1, 3, 5, 7])
    const crd = node('DepthToSpace', [x], { blocksize: { int: 2 }, mode: { string: 'CRD' } })
    expect(only(crd).data).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  })
})

describe('indexing', () => {
  it('TopK orders by value, then by index', () => {
    const [values, indices] = node('TopK', [f32([5], 3, 1, 3, 5, 2), i64([1], 3)], {}, 2)
    expect(values?.data).toEqual([5, 3, 3])
    expect(indices?.data).toEqual([3, 0, 2])
    const [least] = node('TopK', [f32([5], 3, 1, 3, 5, 2), i64([1], 2)], { largest: { int: 0 } }, 2)
    expect(least?.data).toEqual([1, 2])
  })

  it('OneHot leaves out-of-range classes cold', () => {
    const y = node('OneHot', [i64([3], 1, -1, 7), i64([], 3), f32([2], -1, 1)])
    expect(only(y)).toEqual({ shape: [3, 3], data: [-1, 1, -1, -1, -1, 1, -1, -1, -1] })
  })

  it('ScatterND adds duplicates', () => {
    const y = node('ScatterND', [f32([3], 1, 1, 1), i64([3, 1], 0, 2, 0), f32([3], 5, 6, 7)], {
      reduction: { string: 'add' },
    })
    expect(only(y).data).toEqual([13, 1, 7])
  })
})

describe('linear algebra', () => {
  it('Einsum takes diagonals and ellipses', () => {
    const x = f32([2, 2, 2], ...range(8))
    expect(only(node('Einsum', [x], { equation: { string: '...ii->...i' } }))).toEqual({
      shape: [2, 2],
      data: [0, 3, 4, 7],
    })
    expect(only(node('Einsum', [x], { equation: { string: 'bii' } }))).toEqual({ shape: [2], data: [3, 11] })
  })

  it('Gemm transposes, scales and adds', () => {
    const attrs = { transB: { int: 1 }, alpha: { float: 2 }, beta: { float: 10 } }
    const y = node('Gemm', [f32([1, 2], 1, 2), f32([2, 2], 1, 2, 3, 4), f32([2], 1, 2)], attrs)
    expect(only(y)).toEqual({ shape: [1, 2], data: [20, 42] })
  })

  it('Det expands', () => {
    expect(only(node('Det', [f32([3, 3], 2, 0, 1, 1, 3, 2, 1, 1, 4)])).data).toEqual([18])
  })
})

describe('interpolation', () => {
  it('Resize interpolates between pixel centres', () => {
    const y = node('Resize', [f32([1, 1, 2], 0, 4), undefined, f32([3], 1, 1, 2)], { mode: { string: 'linear' } })
    expect(only(y)).toEqual({ shape: [1, 1, 4], data: [0, 1, 3, 4] })
  })

  it('Resize of whole numbers rounds, by 3 and back', () => {
    const up = node('Resize', [u8([1, 1, 2], 0, 9), undefined, f32([3], 1, 1, 3)], { mode: { string: 'linear' } })
    expect(only(up)).toEqual({ shape: [1, 1, 6], data: [0, 0, 3, 6, 9, 9] })
    const down = node('Resize', [u8([1, 1, 6], 0, 1, 3, 6, 9, 8), undefined, undefined, i64([3], 1, 1, 2)], {
      mode: { string: 'linear' },
    })
    expect(only(down)).toEqual({ shape: [1, 1, 2], data: [1, 9] })
  })

  it('Resize takes the nearest element, half a position further on and held at the end', () => {
    const attrs = { coordinate_transformation_mode: { string: 'asymmetric' } }
    const y = node('Resize', [u8([1, 1, 2], 4, 7), undefined, f32([3], 1, 1, 3)], attrs)
    expect(only(y)).toEqual({ shape: [1, 1, 6], data: [4, 4, 7, 7, 7, 7] })
  })

  it('GridSample reads zeros outside', () => {
    const x = f32([1, 1, 2, 2], 1, 2, 3, 4)
    const grid = f32([1, 1, 2, 2], 0, 0, -3, -3)
    expect(only(node('GridSample', [x, grid], { align_corners: { int: 1 } })).data).toEqual([2.5, 0])
  })
})

describe('quantisation', () => {
  it('rounds half to even and saturates', () => {
    const y = node('QuantizeLinear', [f32([5], 1, 3, 5, 1000, -1000), f32([], 2), u8([], 10)])
    expect(only(y).data).toEqual([10, 12, 12, 255, 0])
  })

  it('dequantises by blocks', () => {
    const attrs = { axis: { int: 0 }, block_size: { int: 2 } }
    const y = node('DequantizeLinear', [u8([3], 2, 4, 6), f32([2], 1, 10), u8([2], 1, 2)], attrs)
    expect(only(y).data).toEqual([1, 3, 40])
  })
})

describe('attention', () => {
  it('gives zeros for a query that may see no key', () => {
    const q = f32([1, 1, 2, 1], 1, 1)
    const kv = f32([1, 1, 2, 1], 3, 5)
    const mask: Omit<TensorSpec, 'name'> = { type: tensorType.BOOL, dims: [2, 2], int32s: [0, 0, 1, 0] }
    expect(only(node('Attention', [q, kv, kv, mask])).data).toEqual([0, 3])
  })
})

describe('recurrence', () => {
  it('RNN runs backwards and stops at each sequence length', () => {
    const x = f32([3, 2, 1], 1, 1, 2, 2, 3, 3)
    const one = f32([1, 1, 1], 1)
    const lengths: Omit<TensorSpec, 'name'> = { type: tensorType.INT32, dims: [2], int32s: [3, 2] }
    const attrs = { direction: { string: 'reverse' }, hidden_size: { int: 1 }, activations: { strings: ['Relu'] } }
    const [y, last] = node('RNN', [x, one, one, undefined, lengths], attrs, 2)
    expect(y).toEqual({ shape: [3, 1, 2, 1], data: [6, 3, 5, 2, 3, 0] })
    expect(last?.data).toEqual([6, 3])
  })
})

describe('random numbers', () => {
  it('depend on the seed alone', () => {
    const draw = (seed: number): number[] =>
      only(node('RandomUniform', [], { shape: { ints: [64] }, seed: { float: seed } })).data
    expect(draw(3)).toEqual(draw(3))
    expect(draw(3)).not.toEqual(draw(4))
    for (const v of draw(5)) expect(v >= 0 && v < 1).toBe(true)
  })
})
