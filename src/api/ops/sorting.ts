/** Sorting and order statistics. */
import type { Axes, QuantileMethod, TopKOptions } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { checkChoice, checkOptions, isScalar, kinds, optionNames, real, show } from '../calls/options.ts'
import { type Keepdims, keepdimsOf } from '../calls/reductions.ts'
import { named, recordMany } from '../tensor/core.ts'
import { many, one, type Tensor, type TensorLike, wrap } from '../tensor/tensor.ts'

/** Options of `sort` and `argsort`. */
export interface SortOptions {
  /** From the greatest to the least; NaN is first. Equal elements keep their order all the same. */
  readonly descending?: boolean
}

const sortOptions = optionNames<SortOptions>('{ descending: true }', { descending: kinds.flag })

/**
 * The elements of an axis (the last unless given) in order, NaN last; zeros of either sign are equal (NumPy's `sort`). Shape and dtype of
 * `x`. Derivatives go where the elements go.
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor and for options that are none
 * @example
 * sort(tensor([3, NaN, 1, 2])) // [1, 2, 3, NaN]
 * sort(tensor([[3, 1], [2, 4]]), 0, { descending: true }) // [[3, 4], [2, 1]]
 */
export const sort = (x: Tensor, axis = -1, options: SortOptions = {}): Tensor =>
  one('sort', x, (a) => {
    checkOptions(options, 'sort', sortOptions)
    return c.sort(a, { ...options, axis })
  })
/**
 * The positions of an axis (the last unless given) in the order of its elements; equal elements keep their order, in descending order too
 * (NumPy's `argsort` with `stable`). Shape of `x`; i32 (i64 where that does not hold the last position).
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor and for options that are none
 * @example argsort(tensor([3, 1, 2, 1])) // [1, 3, 2, 0]
 */
export const argsort = (x: Tensor, axis = -1, options: SortOptions = {}): Tensor =>
  one('argsort', x, (a) => {
    checkOptions(options, 'argsort', sortOptions)
    return c.argsort(a, { ...options, axis })
  })

const topKOptions = optionNames<TopKOptions>('{ axis: 0 }', { axis: kinds.whole, largest: kinds.flag })

/** Two results of one operation. */
function pair([a, b]: readonly Tensor[]): [Tensor, Tensor] {
  if (a === undefined || b === undefined) throw new RangeError('an operation without its results')
  return [a, b]
}

/**
 * The k greatest elements of an axis (the last unless given), from the greatest on, and their positions; or the least, from the least on, for
 * `largest: false`. Of equal elements the first comes first; NaN is greater than all numbers (JAX's `top_k`). The axis has extent k; the dtype of `x`
 * and i32 (i64 where that does not hold the last position).
 * @throws E_SHAPE for a k beyond the axis, E_AXIS for an axis there is not, E_ARGUMENT for a k that is no whole number, what is no tensor and options
 * that are none
 * @example
 * const [values, indices] = topK(tensor([3, 1, 4, 1, 5]), 2)
 * values // [5, 4]
 * indices // [4, 2]
 */
export function topK(x: Tensor, k: number, options: TopKOptions = {}): [values: Tensor, indices: Tensor] {
  const states = recordMany('topK', [x], ([a]) => {
    checkOptions(options, 'topK', topKOptions)
    if (!Number.isSafeInteger(k))
      throw new UserError('E_ARGUMENT', `k is ${show(k)}`, { help: 'give a whole number of elements' })
    return c.topK(c.asNode(a ?? 0), k, options)
  })
  return pair(states.map(wrap))
}
/**
 * The middle element over `axes`, the mean of two where there are two: an axis or a list, all unless given; NaN where there is one, and of none
 * (NumPy's `median`). Reduced axes go, or stay with extent 1 for `keepdims`. The dtype of `x`, f32 of integers and bools.
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for what is no tensor or number and for other options
 * @example median(tensor([[3, 1], [2, 4]])) // 2.5
 */
export const median = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('median', x, (a) => c.median(a, axes, keepdimsOf('median', keepdims)))

/** Options of `quantile`. */
export interface QuantileOptions {
  /** Reduced axes stay, with extent 1. */
  readonly keepdims?: boolean
  /** Of a quantile between two elements: on the line between them ('linear', unless given), one of them, the nearest, or their mean. */
  readonly method?: QuantileMethod
}

const quantileOptions = optionNames<QuantileOptions>("{ method: 'nearest' }", {
  keepdims: kinds.flag,
  method: kinds.text,
})

/**
 * The element below which a share `q` of the elements is, over `axes`: an axis or a list, all unless given; NaN where there is one, and of none
 * (NumPy's `quantile`). `q` is a number in [0, 1], or a tensor, whose elements are clamped to it and whose axes come first. Half precision
 * computes in f32. The dtype of `x`, f32 of integers and bools.
 * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for a number outside [0, 1], what is no tensor or number and for other
 * options
 * @example
 * quantile(tensor([1, 2, 3, 4]), 0.5) // 2.5
 * quantile(tensor([1, 2, 3, 4]), tensor([0, 0.9]), 0, { method: 'lower' }) // [1, 3]
 */
export function quantile(x: TensorLike, q: TensorLike, axes?: Axes, options: QuantileOptions = {}): Tensor {
  named('quantile', () => {
    checkOptions(options, 'quantile', quantileOptions)
    if (options.method !== undefined)
      checkChoice(options.method, ['linear', 'lower', 'higher', 'nearest', 'midpoint'], 'method')
    if (isScalar(q)) real(Number(q), 'the quantile')
  })
  const { keepdims, method } = options
  if (isScalar(q)) return one('quantile', x, (a) => c.quantile(a, Number(q), axes, keepdims, method))
  return many('quantile', [x, q], ([a = c.asNode(0), p = a]) => c.quantile(a, p, axes, keepdims, method))
}
