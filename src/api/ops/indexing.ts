/** Elements at indices: gathers, scatters, one-hot rows, and the parts of matrices beside a diagonal. */
import type { ScatterCombiner } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { kindOf } from '../../diagnostics/shown.ts'
import type { Node } from '../../graph/node.ts'
import type { DType } from '../../types/dtype.ts'
import { extentsOf, type Shape, showShape } from '../../types/shape.ts'
import { checkList, checkOptions, kinds, optionNames, whole } from '../calls/options.ts'
import { named } from '../tensor/core.ts'
import { self } from '../tensor/self.ts'
import { many, one, Tensor, two } from '../tensor/tensor.ts'

/**
 * Elements at integer indices along an axis: the axis gives way to the axes of `indices` (NumPy's `take`). Negative indices
 * count from the end; those out of range clamp.
 * @throws E_DTYPE for indices that are no integers, E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor
 * @example take(tensor([10, 20, 30]), tensor([2, -1, 9], { dtype: 'i32' })) // [30, 30, 30]
 */
export const take = (x: Tensor, indices: Tensor, axis = 0): Tensor => self('take', x).take(indices, axis)
/**
 * Elements at indices of the same rank along an axis (NumPy's `take_along_axis`): element [i, j] is x[i, indices[i, j]] for
 * axis 1. Out of range clamps.
 * @throws E_DTYPE for indices that are no integers, E_SHAPE for indices of another rank or shapes that do not broadcast, E_AXIS
 * for an axis there is not, E_ARGUMENT for what is no tensor
 * @example takeAlongAxis(tensor([[1, 2], [3, 4]]), tensor([[1], [0]], { dtype: 'i32' }), 1) // [[2], [3]]
 */
export const takeAlongAxis = (x: Tensor, indices: Tensor, axis: number): Tensor =>
  self('takeAlongAxis', x).takeAlongAxis(indices, axis)
/**
 * Elements (or slices) at the coordinates in the last axis of `indices`, within the first `batchDims` axes that both share
 * (ONNX's GatherND). Out of range clamps.
 * @throws E_DTYPE for indices that are no integers, E_SHAPE for coordinates that do not fit, E_ARGUMENT for what is no tensor
 * @example gatherND(tensor([[1, 2], [3, 4]]), tensor([[1, 0], [0, 1]], { dtype: 'i32' })) // [3, 2]
 */
export const gatherND = (x: Tensor, indices: Tensor, batchDims = 0): Tensor =>
  two('gatherND', x, indices, (a, i) =>
    c.gatherND(c.asNode(a), c.asNode(i), whole(batchDims, 'the number of batch axes')),
  )

function combinerOf(combiner: ScatterCombiner): ScatterCombiner {
  if (typeof combiner === 'string') return combiner
  throw new UserError('E_ARGUMENT', `the combiner is ${kindOf(combiner)}`, {
    help: "give a name, such as 'set' or 'sum'",
  })
}

/**
 * `x` with `updates` combined in at the coordinates in the last axis of `indices`, in row-major order of the updates (ONNX's
 * ScatterND); `set` keeps the last. Out of range drops.
 * @throws E_DTYPE for indices that are no integers, E_SHAPE for updates that do not fit, E_ARGUMENT for what is no tensor and a
 * combiner there is not
 * @example scatterND(zeros([3]), tensor([[0], [2], [2]], { dtype: 'i32' }), tensor([5, 7, 8]), 'sum') // [5, 0, 15]
 */
export const scatterND = (x: Tensor, indices: Tensor, updates: Tensor, combiner: ScatterCombiner = 'set'): Tensor =>
  many('scatterND', [x, indices, updates], ([a = c.asNode(0), i = a, u = a]) =>
    c.scatterND(a, i, u, combinerOf(combiner)),
  )

/**
 * `x` with `updates` combined in at indices of the updates' shape along an axis (ONNX's ScatterElements). Out of range drops.
 * @throws E_DTYPE for indices that are no integers, E_SHAPE for indices and updates that differ, E_AXIS for an axis there is
 * not, E_ARGUMENT for what is no tensor and a combiner there is not
 * @example scatterAlongAxis(zeros([2, 2]), tensor([[1], [0]], { dtype: 'i32' }), tensor([[5], [6]]), 1) // [[0, 5], [6, 0]]
 */
export const scatterAlongAxis = (
  x: Tensor,
  indices: Tensor,
  updates: Tensor,
  axis: number,
  combiner: ScatterCombiner = 'set',
): Tensor =>
  many('scatterAlongAxis', [x, indices, updates], ([a = c.asNode(0), i = a, u = a]) =>
    c.scatterElements(a, i, u, axis, combinerOf(combiner)),
  )

/** Options of `oneHot`. */
export interface OneHotOptions {
  /** Where the new axis is; the last unless given. */
  readonly axis?: number
  /** The dtype of the result; f32 unless given. */
  readonly dtype?: DType
}

const oneHotOptions = optionNames<OneHotOptions>("{ axis: 0, dtype: 'bf16' }", {
  axis: kinds.whole,
  dtype: kinds.anything,
})

/**
 * 1 where the position along a new axis (the last unless given) equals the index, else 0; an index out of [0, depth) gives
 * zeros. Shape of `indices` with `depth` more; f32 unless given.
 * @throws E_AXIS for an axis there is not, E_SHAPE for a negative depth, E_DTYPE for a dtype there is not, E_ARGUMENT for what
 * is no tensor and for options that are none
 * @example oneHot(tensor([1, 0], { dtype: 'i32' }), 3) // [[0, 1, 0], [1, 0, 0]]
 */
export const oneHot = (indices: Tensor, depth: number, options: OneHotOptions = {}): Tensor =>
  one('oneHot', indices, (a) => {
    checkOptions(options, 'oneHot', oneHotOptions)
    return c.oneHot(a, whole(depth, 'the depth'), options)
  })
/**
 * The last two axes, zero above a diagonal (1 is the one above the main). Shape and dtype of `x`.
 * @throws E_SHAPE for fewer than two axes, E_ARGUMENT for what is no tensor and no whole number
 * @example tril(ones([2, 2])) // [[1, 0], [1, 1]]
 */
export const tril = (x: Tensor, diagonal = 0): Tensor =>
  one('tril', x, (a) => c.tril(a, whole(diagonal, 'the diagonal')))
/**
 * The last two axes, zero below a diagonal (1 is the one above the main). Shape and dtype of `x`.
 * @throws E_SHAPE for fewer than two axes, E_ARGUMENT for what is no tensor and no whole number
 * @example triu(ones([2, 2])) // [[1, 1], [0, 1]]
 */
export const triu = (x: Tensor, diagonal = 0): Tensor =>
  one('triu', x, (a) => c.triu(a, whole(diagonal, 'the diagonal')))
/**
 * A diagonal of the last two axes as one axis; offset 1 is the one above the main (NumPy's `diagonal` of the last axes).
 * @throws E_SHAPE for fewer than two axes, E_ARGUMENT for what is no tensor and no whole number
 * @example diagonal(tensor([[1, 2], [3, 4]])) // [1, 4]
 */
export const diagonal = (x: Tensor, offset = 0): Tensor =>
  one('diagonal', x, (a) => c.diagonal(a, whole(offset, 'the offset')))
/**
 * The sum of a diagonal of the last two axes; offset 1 is the diagonal above the main (NumPy's `trace` of the last axes). A dtype as
 * sums have.
 * @throws E_SHAPE for fewer than two axes, E_ARGUMENT for what is no tensor and no whole number
 * @example trace(tensor([[1, 2], [3, 4]])) // 5
 */
export const trace = (x: Tensor, offset = 0): Tensor => one('trace', x, (a) => c.trace(a, whole(offset, 'the offset')))
/**
 * A square matrix with a vector on a diagonal and zeros elsewhere, or the diagonal of a matrix; offset 1 is the one above the main
 * (NumPy's `diag`). The dtype of `x`.
 * @throws E_SHAPE for what is no vector and no matrix, E_ARGUMENT for what is no tensor and no whole number
 * @example
 * diag(tensor([1, 2])) // [[1, 0], [0, 2]]
 * diag(tensor([[1, 2], [3, 4]]), 1) // [2]
 */
export const diag = (x: Tensor, offset = 0): Tensor => one('diag', x, (a) => c.diag(a, whole(offset, 'the offset')))

/** Starts of a dynamic slice: numbers, or scalar tensors of integers. Gives the tensors, and starts with nodes in their place. */
function startsOf(starts: readonly (number | Tensor)[]): {
  readonly tensors: readonly Tensor[]
  readonly filled: (nodes: readonly Node[]) => (number | Node)[]
} {
  checkList(starts, 'the starts', '[0, step]')
  const list = Array.from(starts, (s) => (s instanceof Tensor ? s : whole(s, 'a start')))
  const tensors = list.filter((s) => typeof s !== 'number')
  for (const t of tensors)
    if (t.rank > 0)
      throw new UserError('E_SHAPE', `a start of shape ${showShape(t.shape)}`, {
        help: 'each start is a number or a scalar tensor',
      })
  let next = 0
  return { tensors, filled: (nodes) => list.map((s) => (typeof s === 'number' ? s : (nodes[next++] ?? 0))) }
}

/**
 * `sizes` elements along each axis from starts that may be known on the device alone: numbers, or scalar tensors of integers. Starts are clamped
 * so that the slice lies within `x`, after negative ones counted from the end (JAX's `dynamic_slice`). The dtype of `x`.
 * @throws E_SHAPE for sizes beyond the tensor and starts that are no scalars, E_DTYPE for starts that are no integers, E_ARGUMENT for what is no
 * tensor and lists of another length
 * @example dynamicSlice(arange(6), [tensor(3, { dtype: 'i32' })], [2]) // [3, 4]
 */
export function dynamicSlice(x: Tensor, starts: readonly (number | Tensor)[], sizes: Shape): Tensor {
  const { tensors, filled } = named('dynamicSlice', () => startsOf(starts))
  return many('dynamicSlice', [x, ...tensors], ([a = c.asNode(0), ...at]) =>
    c.dynamicSlice(a, filled(at), extentsOf(sizes)),
  )
}
/**
 * `x` with `update` written over it from starts that may be known on the device alone; they are clamped as those of `dynamicSlice` (JAX's
 * `dynamic_update_slice`). A donated `x` is written in place, so that a step moves what it writes. Shape and dtype of `x`.
 * @throws E_SHAPE for an update beyond the tensor and starts that are no scalars, E_DTYPE for starts that are no integers, E_ARGUMENT for what is
 * no tensor and a list of another length
 * @example dynamicUpdateSlice(zeros([4]), ones([2]), [tensor(3, { dtype: 'i32' })]) // [0, 0, 1, 1]
 */
export function dynamicUpdateSlice(x: Tensor, update: Tensor, starts: readonly (number | Tensor)[]): Tensor {
  const { tensors, filled } = named('dynamicUpdateSlice', () => startsOf(starts))
  return many('dynamicUpdateSlice', [x, update, ...tensors], ([a = c.asNode(0), u = a, ...at]) =>
    c.dynamicUpdateSlice(a, u, filled(at)),
  )
}
