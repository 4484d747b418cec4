/** Shapes as functions: views, padding and repetition, as the methods of `Tensor`. */
import type { PadMode } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import type { Scalar } from '../../scalar/ops.ts'
import { extentsOf, type Shape } from '../../types/shape.ts'
import { checkChoice, checkList, checkOptions, kinds, optionNames } from '../calls/options.ts'
import type { Excess } from '../calls/slicing.ts'
import { named, recordMany } from '../tensor/core.ts'
import { self } from '../tensor/self.ts'
import { one, type Tensor, type TensorLike, wrap } from '../tensor/tensor.ts'

/**
 * The same elements, in row-major order, in another shape; one extent may be -1 and is what is left. The dtype of `x`.
 * @throws E_SHAPE for another number of elements, E_ARGUMENT for what is no tensor
 * @example reshape(arange(6), [2, -1]) // [[0, 1, 2], [3, 4, 5]]
 */
export const reshape = (x: Tensor, shape: Shape, ...rest: Excess): Tensor => self('reshape', x).reshape(shape, ...rest)
/**
 * Axes reordered: axis i of the result is axis `axes[i]` of `x`; without a list, reversed (NumPy's `transpose`).
 * @throws E_AXIS for what is no permutation of the axes, E_ARGUMENT for what is no tensor and no list
 * @example
 * transpose(tensor([[1, 2], [3, 4]])) // [[1, 3], [2, 4]]
 * transpose(zeros([2, 3, 4]), [1, 2, 0]) // f32[3, 4, 2]
 */
export const transpose = (x: Tensor, axes?: readonly number[], ...rest: Excess): Tensor =>
  self('transpose', x).transpose(axes, ...rest)
/**
 * Two axes exchanged.
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor
 * @example swapaxes(zeros([2, 3, 4]), 0, 2) // f32[4, 3, 2]
 */
export const swapaxes = (x: Tensor, a: number, b: number): Tensor => self('swapaxes', x).swapaxes(a, b)
/**
 * One axis moved to another place; the others keep their order (NumPy's `moveaxis`).
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor
 * @example moveaxis(zeros([2, 3, 4]), 0, 2) // f32[3, 4, 2]
 */
export const moveaxis = (x: Tensor, from: number, to: number): Tensor => self('moveaxis', x).moveaxis(from, to)
/**
 * Axes of extent 1 repeated, leading axes added, to a shape.
 * @throws E_SHAPE where the shape does not allow it, E_ARGUMENT for what is no tensor or number
 * @example broadcastTo(tensor([[1], [2]]), [2, 2]) // [[1, 1], [2, 2]]
 */
export const broadcastTo = (x: TensorLike, shape: Shape, ...rest: Excess): Tensor =>
  one('broadcastTo', x, (a) => c.broadcastTo(a, extentsOf(shape, ...rest)))
/**
 * Axes of extent 1 added: `axes` are their positions in the result.
 * @throws E_AXIS for a position there is not or one named twice, E_ARGUMENT for what is no tensor
 * @example expandDims(tensor([1, 2]), 1) // [[1], [2]]
 */
export const expandDims = (x: Tensor, axes: number | readonly number[], ...rest: Excess): Tensor =>
  self('expandDims', x).expandDims(axes, ...rest)
/**
 * Axes of extent 1 dropped: those named, or all.
 * @throws E_SHAPE for an axis of another extent, E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor
 * @example squeeze(tensor([[1], [2]])) // [1, 2]
 */
export const squeeze = (x: Tensor, axes?: number | readonly number[], ...rest: Excess): Tensor =>
  self('squeeze', x).squeeze(axes, ...rest)
/**
 * `widths[i]` elements [before, after] added around axis i; negative widths crop. `constant` fills with `value` (0), `edge`
 * repeats the border, `reflect` mirrors without it, `wrap` goes around (NumPy's modes).
 * @throws E_ARGUMENT for what are no pairs or as many as axes, and for a mode there is not; E_OVERFLOW for a value that an
 * integer dtype does not hold
 * @example
 * pad(tensor([1, 2, 3]), [[1, 1]]) // [0, 1, 2, 3, 0]
 * pad(tensor([1, 2, 3]), [[1, 1]], 'reflect') // [2, 1, 2, 3, 2]
 */
export const pad = (
  x: Tensor,
  widths: readonly (readonly [number, number])[],
  mode?: PadMode,
  value?: Scalar,
): Tensor => self('pad', x).pad(widths, mode, value)
/**
 * The order of elements along axes reversed: those named, or all.
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor
 * @example flip(tensor([1, 2, 3])) // [3, 2, 1]
 */
export const flip = (x: Tensor, axes?: number | readonly number[], ...rest: Excess): Tensor =>
  self('flip', x).flip(axes, ...rest)
/**
 * The whole repeated along each axis, leading axes added (NumPy's `tile`).
 * @throws E_SHAPE for negative repetitions, E_OVERFLOW for more than 2^53 elements, E_ARGUMENT for what is no tensor and no
 * list
 * @example tile(tensor([1, 2]), [2]) // [1, 2, 1, 2]
 */
export const tile = (x: Tensor, reps: readonly number[], ...rest: Excess): Tensor => self('tile', x).tile(reps, ...rest)
/**
 * Each element repeated along an axis, or of the flattened tensor (NumPy's `repeat`).
 * @throws E_AXIS for an axis there is not, E_SHAPE for negative repetitions, E_ARGUMENT for what is no tensor and no whole
 * number
 * @example repeat(tensor([1, 2]), 2) // [1, 1, 2, 2]
 */
export const repeat = (x: Tensor, times: number, axis?: number): Tensor => self('repeat', x).repeat(times, axis)
/**
 * Elements shifted along an axis; those beyond the end come in at the start (NumPy's `roll`).
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor and no whole number
 * @example roll(tensor([1, 2, 3]), 1, 0) // [3, 1, 2]
 */
export const roll = (x: Tensor, shift: number, axis: number): Tensor => self('roll', x).roll(shift, axis)
/**
 * Equal parts along an axis, or parts of the given sizes.
 * @throws E_SHAPE for parts that do not add up, E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor and no parts
 * @example
 * split(tensor([1, 2, 3, 4]), 2) // [[1, 2], [3, 4]]
 * split(tensor([1, 2, 3]), [1, 2]) // [[1], [2, 3]]
 */
export const split = (x: Tensor, parts: number | readonly number[], axis = 0): Tensor[] =>
  self('split', x).split(parts, axis)
/**
 * All elements in row-major order as one axis (NumPy's `ravel`). The dtype of `x`.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example ravel(tensor([[1, 2], [3, 4]])) // [1, 2, 3, 4]
 */
export const ravel = (x: TensorLike): Tensor => one('ravel', x, (a) => c.reshape(a, [-1]))

/** Options of `meshgrid`. */
export interface MeshgridOptions {
  /** Whether the first vector runs along the second axis ('xy', unless given) or along the first ('ij'). */
  readonly indexing?: 'xy' | 'ij'
}

const meshgridOptions = optionNames<MeshgridOptions>("{ indexing: 'ij' }", { indexing: kinds.text })

/**
 * The coordinates of a grid: for each of n vectors a tensor of n axes, in which its elements run along an axis of their own
 * (NumPy's `meshgrid`). Dtypes of the vectors.
 * @throws E_SHAPE for what is no vector, E_ARGUMENT for what is no list of tensors and for options that are none
 * @example meshgrid([tensor([1, 2]), tensor([3, 4])]).map((x) => x.tolist()) // [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
 */
export function meshgrid(vectors: readonly TensorLike[], options: MeshgridOptions = {}): Tensor[] {
  const { indexing = 'xy' } = named('meshgrid', () => {
    checkList(vectors, 'the vectors', '[x, y]')
    checkOptions(options, 'meshgrid', meshgridOptions)
    if (options.indexing !== undefined) checkChoice(options.indexing, ['xy', 'ij'], 'indexing')
    return options
  })
  return recordMany('meshgrid', vectors, (xs) => c.meshgrid(xs.map(c.asNode), indexing)).map(wrap)
}
