/** Reductions and running folds: as the methods of `Tensor`, and taking numbers too. */

import type { Axes, CumulativeOptions, ScanOptions } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import { checkOptions, kinds, optionNames, real, whole } from '../calls/options.ts'
import {
  foldOptionsOf,
  type Keepdims,
  type KeepdimsOrDType,
  keepdimsOf,
  scanOptionsOf,
  totalOptionsOf,
} from '../calls/reductions.ts'
import { one, type Tensor, type TensorLike } from '../tensor/tensor.ts'

/**
 * Sum over `axes`: an axis or a list (negative ones count from the end), all unless given; 0 of none. Reduced axes go, or stay
 * with extent 1 for `keepdims`. The dtype of `x`; i32 of bool, i8 and i16, u32 of u8 and u16, as `dtype` says where it is
 * given. Half precision accumulates in f32; integers wrap.
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options,
 * E_DTYPE for a dtype there is not
 * @example
 * sum(tensor([[1, 2], [3, 4]]), 0) // [4, 6]
 * sum(tensor([[1, 2], [3, 4]]), 1, { keepdims: true }) // [[3], [7]]
 */
export const sum = (x: TensorLike, axes?: Axes, keepdims: KeepdimsOrDType = false): Tensor =>
  one('sum', x, (a) => c.total(a, axes, totalOptionsOf('sum', keepdims)))
/**
 * Product over `axes`: an axis or a list (negative ones count from the end), all unless given; 1 of none. Reduced axes go, or
 * stay with extent 1 for `keepdims`. The dtype of `x`; i32 of bool, i8 and i16, u32 of u8 and u16, as `dtype` says where it is
 * given. Half precision accumulates in f32; integers wrap.
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options,
 * E_DTYPE for a dtype there is not
 * @example prod(tensor([[1, 2], [3, 4]])) // 24
 */
export const prod = (x: TensorLike, axes?: Axes, keepdims: KeepdimsOrDType = false): Tensor =>
  one('prod', x, (a) => c.totalProduct(a, axes, totalOptionsOf('prod', keepdims)))
/**
 * Largest element over `axes`: an axis or a list (negative ones count from the end), all unless given; NaN wins, of none the
 * least value of the dtype. Reduced axes go, or stay with extent 1 for `keepdims`. The dtype of `x`.
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options
 * @example max(tensor([[1, 2], [3, 4]]), 1) // [2, 4]
 */
export const max = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('max', x, (a) => c.reduceMax(a, axes, keepdimsOf('max', keepdims)))
/**
 * Smallest element over `axes`: an axis or a list (negative ones count from the end), all unless given; NaN wins, of none the
 * greatest value of the dtype. Reduced axes go, or stay with extent 1 for `keepdims`. The dtype of `x`.
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options
 * @example min(tensor([[1, 2], [3, 4]]), 1) // [1, 3]
 */
export const min = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('min', x, (a) => c.reduceMin(a, axes, keepdimsOf('min', keepdims)))
/**
 * Mean over `axes`: an axis or a list (negative ones count from the end), all unless given; NaN of none. Reduced axes go, or
 * stay with extent 1 for `keepdims`. The dtype of `x`, f32 of integers and bools.
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options
 * @example mean(tensor([[1, 2], [3, 4]])) // 2.5
 */
export const mean = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('mean', x, (a) => c.mean(a, axes, keepdimsOf('mean', keepdims)))
/**
 * Whether any element is nonzero, over `axes`: an axis or a list (negative ones count from the end), all unless given; false of
 * none. Reduced axes go, or stay with extent 1 for `keepdims`. Bool.
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options
 * @example any(tensor([[0, 2], [0, 0]]), 1) // [true, false]
 */
export const any = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('any', x, (a) => c.any(a, axes, keepdimsOf('any', keepdims)))
/**
 * Whether all elements are nonzero, over `axes`: an axis or a list (negative ones count from the end), all unless given; true
 * of none. Reduced axes go, or stay with extent 1 for `keepdims`. Bool.
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options
 * @example all(tensor([[1, 2], [0, 3]]), 1) // [true, false]
 */
export const all = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('all', x, (a) => c.all(a, axes, keepdimsOf('all', keepdims)))
/**
 * log(sum(exp(x))) over `axes`: an axis or a list (negative ones count from the end), all unless given, without overflow.
 * Reduced axes go, or stay with extent 1 for `keepdims`. The dtype of `x`, f32 of integers and bools.
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options
 * @example logsumexp(tensor([1000, 1000])) // 1000.693
 */
export const logsumexp = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('logsumexp', x, (a) => c.logSumExp(a, axes, keepdimsOf('logsumexp', keepdims)))
/**
 * Mean squared deviation over `axes`: an axis or a list (negative ones count from the end), all unless given, divided by n -
 * `correction` (NumPy's `var`, whose `ddof` that is). Reduced axes go, or stay with extent 1 for `keepdims`. The dtype of `x`,
 * f32 of integers and bools.
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options
 * @example
 * variance(tensor([1, 2, 3, 4])) // 1.25
 * variance(tensor([1, 2, 3, 4]), undefined, false, 1) // 1.666667: the estimate from a sample
 */
export const variance = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false, correction = 0): Tensor =>
  one('variance', x, (a) => c.variance(a, axes, keepdimsOf('variance', keepdims), real(correction, 'the correction')))
/**
 * Square root of the variance over `axes`: an axis or a list (negative ones count from the end), all unless given. Reduced axes
 * go, or stay with extent 1 for `keepdims`. The dtype of `x`, f32 of integers and bools.
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options
 * @example std(tensor([[1, 3], [2, 6]]), 1) // [1, 2]
 */
export const std = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false, correction = 0): Tensor =>
  one('std', x, (a) => c.std(a, axes, keepdimsOf('std', keepdims), real(correction, 'the correction')))
/**
 * Vector norm of order 1, 2, Infinity or -Infinity, over `axes`: an axis or a list (negative ones count from the end), all
 * unless given. Reduced axes go, or stay with extent 1 for `keepdims`. The dtype of `x`, f32 of integers and bools.
 * @throws E_ARGUMENT for another order, what is no tensor or number and other options, E_AXIS for an axis there is not or one named
 * twice
 * @example
 * norm(tensor([3, 4])) // 5
 * norm(tensor([3, -4]), 1) // 7
 */
export const norm = (x: TensorLike, order = 2, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('norm', x, (a) => c.norm(a, real(order, 'the order'), axes, keepdimsOf('norm', keepdims)))
/**
 * Index of the largest element along an axis, the first of equals and of NaNs; without an axis, in row-major order. The axis
 * goes, or stays with extent 1 for `keepdims`. i32 (i64 where i32 does not hold the last index).
 * @throws E_AXIS for an axis there is not, E_SHAPE for an empty one, E_ARGUMENT for what is no tensor or number and for other
 * options
 * @example
 * argmax(tensor([[1, 5], [7, 3]]), 1) // [1, 0]
 * argmax(tensor([[1, 5], [7, 3]])) // 2
 */
export const argmax = (x: TensorLike, axis?: number, keepdims: Keepdims = false): Tensor =>
  one('argmax', x, (a) => c.argmax(a, axis, keepdimsOf('argmax', keepdims)))
/**
 * Index of the smallest element along an axis, the first of equals and of NaNs. Otherwise as `argmax`.
 * @throws E_AXIS for an axis there is not, E_SHAPE for an empty one, E_ARGUMENT for what is no tensor or number and for other
 * options
 * @example argmin(tensor([[1, 5], [7, 3]]), 1) // [0, 1]
 */
export const argmin = (x: TensorLike, axis?: number, keepdims: Keepdims = false): Tensor =>
  one('argmin', x, (a) => c.argmin(a, axis, keepdimsOf('argmin', keepdims)))
/**
 * Running sum along an axis. Shape of `x`; a dtype as sums have. `reverse` runs from the end, `exclusive` leaves each element
 * out of its own sum.
 * @throws E_AXIS for an axis there is not, E_DTYPE for a dtype there is not, E_ARGUMENT for what is no tensor or number and for
 * other options
 * @example
 * cumsum(tensor([1, 2, 3]), 0) // [1, 3, 6]
 * cumsum(tensor([1, 2, 3]), 0, { exclusive: true }) // [0, 1, 3]
 */
export const cumsum = (x: TensorLike, axis: number, options?: CumulativeOptions): Tensor =>
  one('cumsum', x, (a) => c.cumsum(a, axis, scanOptionsOf('cumsum', options)))
/**
 * Running product along an axis. Otherwise as `cumsum`; an exclusive one starts with 1.
 * @throws E_AXIS for an axis there is not, E_DTYPE for a dtype there is not, E_ARGUMENT for what is no tensor or number and for
 * other options
 * @example cumprod(tensor([1, 2, 3]), 0) // [1, 2, 6]
 */
export const cumprod = (x: TensorLike, axis: number, options?: CumulativeOptions): Tensor =>
  one('cumprod', x, (a) => c.cumprod(a, axis, scanOptionsOf('cumprod', options)))
/**
 * Running maximum along an axis; NaN from the first NaN on. Shape and dtype of `x` (i32 of bools). `reverse` runs from the end,
 * `exclusive` leaves each element out of its own maximum, and starts with the least value of the dtype.
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor or number and for other options
 * @example cummax(tensor([1, 3, 2]), 0) // [1, 3, 3]
 */
export const cummax = (x: TensorLike, axis: number, options?: ScanOptions): Tensor =>
  one('cummax', x, (a) => c.cummax(a, axis, foldOptionsOf('cummax', options)))
/**
 * Running minimum along an axis; NaN from the first NaN on. Otherwise as `cummax`.
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor or number and for other options
 * @example cummin(tensor([3, 1, 2]), 0) // [3, 1, 1]
 */
export const cummin = (x: TensorLike, axis: number, options?: ScanOptions): Tensor =>
  one('cummin', x, (a) => c.cummin(a, axis, foldOptionsOf('cummin', options)))

/** Options of `logcumsumexp`. */
export interface LogCumSumExpOptions {
  /** Run from the last element to the first. */
  readonly reverse?: boolean
}

const logCumSumExpOptions = optionNames<LogCumSumExpOptions>('{ reverse: true }', { reverse: kinds.flag })

/**
 * log(cumsum(exp(x))) along an axis, without overflow, in twice log2(n) steps over the axis. Half precision computes in f32. Shape
 * of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor or number and for other options
 * @example logcumsumexp(tensor([1000, 1000]), 0) // [1000, 1000.693]
 */
export const logcumsumexp = (x: TensorLike, axis: number, options: LogCumSumExpOptions = {}): Tensor =>
  one('logcumsumexp', x, (a) => {
    checkOptions(options, 'logcumsumexp', logCumSumExpOptions)
    return c.logCumSumExp(a, axis, options)
  })
/**
 * How many elements are nonzero (NaN is), over `axes`: an axis or a list, all unless given. Reduced axes go, or stay with extent 1
 * for `keepdims`. i32 (NumPy's `count_nonzero`).
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options
 * @example countNonzero(tensor([[0, 2], [3, 4]]), 1) // [1, 2]
 */
export const countNonzero = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('countNonzero', x, (a) => c.countNonzero(a, axes, keepdimsOf('countNonzero', keepdims)))
/**
 * Sum over `axes` in which NaN counts as 0, otherwise as `sum` (NumPy's `nansum`).
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options,
 * E_DTYPE for a dtype there is not
 * @example nansum(tensor([1, NaN, 2])) // 3
 */
export const nansum = (x: TensorLike, axes?: Axes, keepdims: KeepdimsOrDType = false): Tensor =>
  one('nansum', x, (a) => c.nansum(a, axes, totalOptionsOf('nansum', keepdims)))
/**
 * Differences of neighbours along an axis, `n` times over; of bools, whether they differ (NumPy's `diff`). The axis is n shorter.
 * The dtype of `x`; unsigned integers wrap.
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor or number and an n that is no whole number of at least 0
 * @example
 * diff(tensor([1, 4, 9, 16])) // [3, 5, 7]
 * diff(tensor([1, 4, 9, 16]), 2) // [2, 2]
 */
export const diff = (x: TensorLike, n = 1, axis = -1): Tensor =>
  one('diff', x, (a) => c.diff(a, whole(n, 'how often'), axis))
