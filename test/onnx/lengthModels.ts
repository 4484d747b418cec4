/** Models whose extents vary, as exporters write them: an encoder with stored positions, a step of a decoder with its cache. */
import { tensorType } from '../../src/onnx/proto.ts'
import type { ModelSpec, NodeSpec } from './encode.ts'

const { FLOAT, INT64 } = tensorType

/** Numbers in [-0.5, 0.5). */
export const numbers = (seed: number, count: number): number[] => {
  let s = seed + 1
  return Array.from({ length: count }, () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return s / 2 ** 32 - 0.5
  })
}
const weights = (name: string, dims: readonly number[]) => ({
  name,
  type: FLOAT,
  dims,
  floats: numbers(
    name.length + dims.length,
    dims.reduce((n, d) => n * d, 1),
  ),
})
const integers = (name: string, values: readonly number[], dims: readonly number[] = [values.length]) => ({
  name,
  type: INT64,
  dims,
  int64s: values,
})
const ints = (...values: number[]) => ({ ints: values })

export const [width, heads, words, places] = [16, 2, 20, 512]

/**
 * An encoder as exporters write it: the length is read from the shape of the ids, positions are a slice of a stored row of 512, heads are split by a
 * shape that is put together of what `Shape` gives.
 */
export const encoder = (): ModelSpec => {
  const split = (from: string, to: string, perm: readonly number[]): NodeSpec[] => [
    { op: 'MatMul', in: ['x', `w_${to}`], out: [`${to}_flat`] },
    { op: 'Add', in: [`${to}_flat`, `b_${to}`], out: [`${to}_biased`] },
    { op: 'Reshape', in: [`${to}_biased`, from], out: [`${to}_heads`] },
    { op: 'Transpose', in: [`${to}_heads`], out: [to], attrs: { perm: ints(...perm) } },
  ]
  return {
    nodes: [
      { op: 'Shape', in: ['ids'], out: ['shape'] },
      { op: 'Gather', in: ['shape', 'zero'], out: ['batch'] },
      { op: 'Gather', in: ['shape', 'one'], out: ['length'] },
      { op: 'Slice', in: ['positions', 'zero', 'length', 'one'], out: ['here'] },
      { op: 'Gather', in: ['table', 'ids'], out: ['words'] },
      { op: 'Gather', in: ['places', 'here'], out: ['placed'] },
      { op: 'Add', in: ['words', 'placed'], out: ['sum'] },
      { op: 'LayerNormalization', in: ['sum', 'scale', 'shift'], out: ['x'], attrs: { axis: { int: -1 } } },
      { op: 'Unsqueeze', in: ['mask', 'middle'], out: ['spread'] },
      { op: 'Cast', in: ['spread'], out: ['seen'], attrs: { to: { int: FLOAT } } },
      { op: 'Sub', in: ['seen', 'unit'], out: ['hidden'] },
      { op: 'Mul', in: ['hidden', 'great'], out: ['penalty'] },
      { op: 'Concat', in: ['batch', 'length', 'heads'], out: ['by_head'], attrs: { axis: { int: 0 } } },
      ...split('by_head', 'q', [0, 2, 1, 3]),
      ...split('by_head', 'k', [0, 2, 3, 1]),
      ...split('by_head', 'v', [0, 2, 1, 3]),
      { op: 'MatMul', in: ['q', 'k'], out: ['scores'] },
      { op: 'Add', in: ['scores', 'penalty'], out: ['masked'] },
      { op: 'Softmax', in: ['masked'], out: ['shares'], attrs: { axis: { int: -1 } } },
      { op: 'MatMul', in: ['shares', 'v'], out: ['mixed'] },
      { op: 'Transpose', in: ['mixed'], out: ['turned'], attrs: { perm: ints(0, 2, 1, 3) } },
      { op: 'Concat', in: ['batch', 'length', 'width'], out: ['joined'], attrs: { axis: { int: 0 } } },
      { op: 'Reshape', in: ['turned', 'joined'], out: ['context'] },
      { op: 'Add', in: ['context', 'x'], out: ['both'] },
      { op: 'LayerNormalization', in: ['both', 'scale', 'shift'], out: ['y'], attrs: { axis: { int: -1 } } },
    ],
    inputs: [
      { name: 'ids', type: INT64, dims: ['batch', 'sequence'] },
      { name: 'mask', type: INT64, dims: ['batch', 'sequence'] },
    ],
    outputs: [{ name: 'y', type: FLOAT, dims: ['batch', 'sequence', width] }],
    initializers: [
      integers('zero', [0]),
      integers('one', [1]),
      integers('middle', [1, 2]),
      integers('heads', [heads, width / heads]),
      integers('width', [width]),
      integers(
        'positions',
        Array.from({ length: places }, (_, i) => i),
        [1, places],
      ),
      weights('table', [words, width]),
      weights('places', [places, width]),
      ...['q', 'k', 'v'].flatMap((n) => [weights(`w_${n}`, [width, width]), weights(`b_${n}`, [width])]),
      { name: 'scale', type: FLOAT, dims: [width], floats: new Array<number>(width).fill(1) },
      { name: 'shift', type: FLOAT, dims: [width], floats: new Array<number>(width).fill(0) },
      { name: 'unit', type: FLOAT, dims: [], floats: [1] },
      { name: 'great', type: FLOAT, dims: [], floats: [1e9] },
    ],
    opset: 17,
  }
}

/** One head of a decoder whose mask is as long as past and new tokens together, by the name that exporters give that. */
export const masked: ModelSpec = {
  nodes: [
    { op: 'Concat', in: ['past', 'x'], out: ['present'], attrs: { axis: { int: 1 } } },
    { op: 'Transpose', in: ['present'], out: ['turned'], attrs: { perm: ints(0, 2, 1) } },
    { op: 'MatMul', in: ['x', 'turned'], out: ['scores'] },
    { op: 'Unsqueeze', in: ['mask', 'middle'], out: ['spread'] },
    { op: 'Add', in: ['scores', 'spread'], out: ['masked'] },
    { op: 'Softmax', in: ['masked'], out: ['shares'], attrs: { axis: { int: -1 } } },
    { op: 'MatMul', in: ['shares', 'present'], out: ['y'] },
  ],
  inputs: [
    { name: 'x', type: FLOAT, dims: ['batch', 'new', 4] },
    { name: 'past', type: FLOAT, dims: ['batch', 'past', 4] },
    { name: 'mask', type: FLOAT, dims: ['batch', 'past + new'] },
  ],
  outputs: [
    { name: 'y', type: FLOAT, dims: ['batch', 'new', 4] },
    { name: 'present', type: FLOAT, dims: ['batch', 'past + new', 4] },
  ],
  initializers: [integers('middle', [1])],
  opset: 17,
}
