/**
 * Reductions and scans with NumPy's axes and keepdims. Half precision accumulates in f32; bool sums count in i32; means
 * of integers are f32. An empty reduction gives the combiner's identity (0, 1, or the least or greatest value).
 */
import { UserError } from '../diagnostics/errors.ts'
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { checkDType, computeDType, type DType, dtypeBits, dtypeClass, isFloat, positionDType } from '../types/dtype.ts'
import { normaliseAxes, normaliseAxis, type Shape } from '../types/shape.ts'
import { reshape } from './broadcast.ts'
import {
  add,
  type ClosenessOptions,
  cast,
  div,
  exp,
  isclose,
  log,
  min,
  mul,
  type Operand,
  scalarLike,
  sqrt,
  square,
  sub,
  truth,
  unary,
  where,
} from './elementwise.ts'
import { checkReached, positionsIn } from './source.ts'
import { stopGradient } from './stopGradient.ts'

/** One axis, several, or all. */
export type Axes = number | readonly number[] | undefined

type Fold = 'sum' | 'prod' | 'max' | 'min'

const kept = (shape: Shape, axes: readonly number[]): number[] => shape.map((d, i) => (axes.includes(i) ? 1 : d))

/** Number of elements folded together. */
const countOf = (shape: Shape, axes: readonly number[]): number => axes.reduce((n, a) => n * (shape[a] ?? 1), 1)

function foldOver(combiner: Fold, x: Node, axes: readonly number[], keepdims: boolean): Node {
  if (axes.length === 0) return x
  const y = makeNode('reduce', [x], { combiner, axes })
  return keepdims ? reshape(y, kept(x.shape, axes)) : y
}

/** What sums, products and running ones give where no dtype is asked for: integers below 32 bits become 32 bits wide, as in JAX. */
export function totalDType(dtype: DType): DType {
  switch (dtypeClass(dtype)) {
    case 'float':
      return dtype
    case 'bool':
      return 'i32'
    case 'signed':
      return dtypeBits(dtype) < 32 ? 'i32' : dtype
    case 'unsigned':
      return dtypeBits(dtype) < 32 ? 'u32' : dtype
  }
}

/**
 * The operand of a sum, product or running one whose result has a dtype (unless given, `totalDType`): it is cast first, so nothing
 * wraps on the way. A half dtype is left to the fold, which accumulates in f32. Throws E_DTYPE for bool.
 */
function widened(x: Node, dtype: DType | undefined): { readonly x: Node; readonly result: DType } {
  const result = dtype ?? totalDType(x.dtype)
  checkDType(result)
  if (result === 'bool')
    throw new UserError('E_DTYPE', 'a sum or product cannot be a bool', {
      help: 'use any or all, or another dtype and then astype',
    })
  return { x: cast(x, computeDType(result)), result }
}

/** Folds axes with a combiner, in the operand's dtype. Sums and products of half precision go through f32, of bool through i32. */
export function reduce(combiner: Fold, x: Node, axes?: Axes, keepdims = false): Node {
  const list = normaliseAxes(axes, x.shape.length)
  const arithmetic = combiner === 'sum' || combiner === 'prod'
  if (!arithmetic) return foldOver(combiner, x, list, keepdims)
  if (x.dtype === 'bool') return foldOver(combiner, cast(x, 'i32'), list, keepdims)
  return cast(foldOver(combiner, cast(x, computeDType(x.dtype)), list, keepdims), x.dtype)
}

/** Options of sums and products in a dtype. */
export interface TotalOptions {
  /** Reduced axes stay, with extent 1. */
  readonly keepdims?: boolean
  /** The dtype of the result, in which it is added up: unless given the operand's, i32 of i8, i16 and bool, u32 of u8 and u16. */
  readonly dtype?: DType
}

function totalOf(combiner: 'sum' | 'prod', x: Node, axes: Axes, options: TotalOptions): Node {
  const to = widened(x, options.dtype)
  return cast(reduce(combiner, to.x, axes, options.keepdims), to.result)
}

/** Sum over axes in a dtype: unless given the operand's, but for integers below 32 bits and bool. */
export const total = (x: Node, axes?: Axes, options: TotalOptions = {}): Node => totalOf('sum', x, axes, options)
/** Product over axes in a dtype, as `total`. */
export const totalProduct = (x: Node, axes?: Axes, options: TotalOptions = {}): Node =>
  totalOf('prod', x, axes, options)

/** Sum over axes. */
export const sum = (x: Node, axes?: Axes, keepdims = false): Node => reduce('sum', x, axes, keepdims)
/** Product over axes. */
export const prod = (x: Node, axes?: Axes, keepdims = false): Node => reduce('prod', x, axes, keepdims)
/** Largest element; NaN if any is NaN. */
export const reduceMax = (x: Node, axes?: Axes, keepdims = false): Node => reduce('max', x, axes, keepdims)
/** Smallest element; NaN if any is NaN. */
export const reduceMin = (x: Node, axes?: Axes, keepdims = false): Node => reduce('min', x, axes, keepdims)

/** How many elements are nonzero: i32. NaN is nonzero. */
export const countNonzero = (x: Node, axes?: Axes, keepdims = false): Node => sum(cast(truth(x), 'i32'), axes, keepdims)

/** Sum over axes in a dtype, NaN counting as 0. */
export const nansum = (x: Node, axes?: Axes, options: TotalOptions = {}): Node =>
  total(isFloat(x.dtype) ? where(unary('isnan', x), 0, x) : x, axes, options)

/** Whether all of a are close to all of b: a bool scalar. */
export const allclose = (a: Operand, b: Operand, options: ClosenessOptions = {}): Node => all(isclose(a, b, options))

/** Whether any element is nonzero: bool. */
export const any = (x: Node, axes?: Axes, keepdims = false): Node => reduce('max', truth(x), axes, keepdims)
/** Whether all elements are nonzero: bool. */
export const all = (x: Node, axes?: Axes, keepdims = false): Node => reduce('min', truth(x), axes, keepdims)

/** The float dtype statistics are computed in, and the one they are given in. */
const statistics = (dtype: DType): { readonly work: DType; readonly result: DType } =>
  isFloat(dtype) ? { work: computeDType(dtype), result: dtype } : { work: 'f32', result: 'f32' }

/** Mean in the working dtype; `x` is already of it. */
const meanOf = (x: Node, axes: readonly number[], keepdims: boolean): Node =>
  div(foldOver('sum', x, axes, keepdims), countOf(x.shape, axes))

/** Arithmetic mean; of integers, f32. NaN over no elements. */
export function mean(x: Node, axes?: Axes, keepdims = false): Node {
  const { work, result } = statistics(x.dtype)
  return cast(meanOf(cast(x, work), normaliseAxes(axes, x.shape.length), keepdims), result)
}

/**
 * Squared deviations from the mean, less what the mean's own error adds: sum d^2 - (sum d)^2 / n, d = x - mean (the corrected two-pass
 * algorithm: T. F. Chan, G. H. Golub, R. J. LeVeque 1983). The correction is zero but for rounding, so it has no derivative, and it is at most
 * what it corrects.
 */
function centredSquares(x: Node, axes: readonly number[], keepdims: boolean, correction: number): Node {
  const n = countOf(x.shape, axes)
  const deviation = sub(x, meanOf(x, axes, true))
  const squares = foldOver('sum', square(deviation), axes, keepdims)
  const rest = foldOver('sum', deviation, axes, keepdims)
  const excess = stopGradient(
    where(unary('isinf', squares), scalarLike(squares, 0), min(div(square(rest), n), squares)),
  )
  return div(sub(squares, excess), Math.max(0, n - correction))
}

/** Mean squared deviation from the mean, divided by n - correction; of integers, f32. */
export function variance(x: Node, axes?: Axes, keepdims = false, correction = 0): Node {
  const { work, result } = statistics(x.dtype)
  return cast(centredSquares(cast(x, work), normaliseAxes(axes, x.shape.length), keepdims, correction), result)
}

/** Square root of the variance. */
export function std(x: Node, axes?: Axes, keepdims = false, correction = 0): Node {
  const { work, result } = statistics(x.dtype)
  return cast(sqrt(centredSquares(cast(x, work), normaliseAxes(axes, x.shape.length), keepdims, correction)), result)
}

function argReduce(
  combiner: 'argmax' | 'argmin',
  x: Node,
  axis: number | undefined,
  keepdims: boolean,
  options: ArgOptions,
): Node {
  const y = axis === undefined ? reshape(x, [-1]) : x
  const a = normaliseAxis(axis ?? 0, y.shape.length)
  const positions = positionsIn(y.shape[a] ?? 0)
  const dtype = options.dtype ?? positionDType(positions)
  checkReached(combiner, [positions.hi], dtype, "leave the dtype out, or give 'i64'")
  const index = makeNode('reduce', [y], {
    combiner,
    axes: [a],
    dtype,
    last: options.last ?? false,
  })
  if (!keepdims) return index
  return reshape(index, axis === undefined ? x.shape.map(() => 1) : kept(x.shape, [a]))
}

/** Options of `argmax` and `argmin`. */
export interface ArgOptions {
  /** i32 unless given, or i64 where that does not hold the positions. */
  readonly dtype?: 'i32' | 'i64'
  /** Ties go to the last index, not the first. */
  readonly last?: boolean
}

/** Index of the largest element (the first NaN, if any), along an axis or in the flattened tensor. Throws E_SHAPE on an empty axis. */
export const argmax = (x: Node, axis?: number, keepdims = false, options: ArgOptions = {}): Node =>
  argReduce('argmax', x, axis, keepdims, options)
/** Index of the smallest element (the first NaN, if any). Throws E_SHAPE on an empty axis. */
export const argmin = (x: Node, axis?: number, keepdims = false, options: ArgOptions = {}): Node =>
  argReduce('argmin', x, axis, keepdims, options)

/** log(sum(exp(x))), anchored at the maximum; all -Infinity gives -Infinity. */
export function logSumExp(x: Node, axes?: Axes, keepdims = false): Node {
  const { work, result } = statistics(x.dtype)
  const list = normaliseAxes(axes, x.shape.length)
  const y = cast(x, work)
  const top = foldOver('max', y, list, true)
  // Whatever is subtracted and added again changes no result: its derivative cancels.
  const anchor = stopGradient(where(unary('isinf', top), scalarLike(top, 0), top))
  const total = add(log(foldOver('sum', exp(sub(y, anchor)), list, true)), anchor)
  return cast(
    keepdims
      ? total
      : reshape(
          total,
          x.shape.filter((_, i) => !list.includes(i)),
        ),
    result,
  )
}

/** Vector norm over axes: 1, 2, Infinity or -Infinity. Throws E_ARGUMENT for other orders. */
export function norm(x: Node, order = 2, axes?: Axes, keepdims = false): Node {
  const { work, result } = statistics(x.dtype)
  const list = normaliseAxes(axes, x.shape.length)
  const y = cast(x, work)
  const magnitude = unary('abs', y)
  switch (order) {
    case 1:
      return cast(foldOver('sum', magnitude, list, keepdims), result)
    case 2:
      return cast(sqrt(foldOver('sum', mul(y, y), list, keepdims)), result)
    case Number.POSITIVE_INFINITY:
      return cast(foldOver('max', magnitude, list, keepdims), result)
    case Number.NEGATIVE_INFINITY:
      return cast(foldOver('min', magnitude, list, keepdims), result)
    default:
      throw new UserError('E_ARGUMENT', `norm of order ${order}`, { help: 'use 1, 2, Infinity or -Infinity' })
  }
}

/** Options of scans. */
export interface ScanOptions {
  /** Run from the last element to the first. */
  readonly reverse?: boolean
  /** Element i leaves itself out: the first is the identity. */
  readonly exclusive?: boolean
}

/** Running fold along an axis. Half precision goes through f32, bool through i32. */
export function scan(combiner: Fold, x: Node, axis: number, options: ScanOptions = {}): Node {
  const attrs = {
    combiner,
    axis: normaliseAxis(axis, x.shape.length),
    reverse: options.reverse ?? false,
    exclusive: options.exclusive ?? false,
  }
  if (x.dtype === 'bool') return makeNode('scan', [cast(x, 'i32')], attrs)
  return cast(makeNode('scan', [cast(x, computeDType(x.dtype))], attrs), x.dtype)
}

/** Options of running sums and products. */
export interface CumulativeOptions extends ScanOptions {
  /** The dtype of the result, as of sums. */
  readonly dtype?: DType
}

function running(combiner: 'sum' | 'prod', x: Node, axis: number, options: CumulativeOptions): Node {
  const to = widened(x, options.dtype)
  return cast(scan(combiner, to.x, axis, options), to.result)
}

/** Running sum in a dtype, as `total`. */
export const cumsum = (x: Node, axis: number, options: CumulativeOptions = {}): Node => running('sum', x, axis, options)
/** Running product in a dtype, as `total`. */
export const cumprod = (x: Node, axis: number, options: CumulativeOptions = {}): Node =>
  running('prod', x, axis, options)

/** Running maximum along an axis; NaN from the first NaN on. */
export const cummax = (x: Node, axis: number, options: ScanOptions = {}): Node => scan('max', x, axis, options)
/** Running minimum along an axis; NaN from the first NaN on. */
export const cummin = (x: Node, axis: number, options: ScanOptions = {}): Node => scan('min', x, axis, options)
