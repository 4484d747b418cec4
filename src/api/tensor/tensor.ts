/** Tensors: values (elements.ts) with operations as methods. Functions of the same names take tensors and numbers alike. */

import type { Axes, CumulativeOptions, Operand, PadMode } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import type { Node } from '../../graph/node.ts'
import type { Scalar } from '../../scalar/ops.ts'
import type { DType } from '../../types/dtype.ts'
import { extentsOf, type Shape } from '../../types/shape.ts'
import { real, scalarValue, whole } from '../calls/options.ts'
import { type Keepdims, type KeepdimsOrDType, keepdimsOf, scanOptionsOf, totalOptionsOf } from '../calls/reductions.ts'
import {
  axesList,
  axesOnce,
  checkedWidths,
  type Excess,
  partsOf,
  repetitions,
  type SliceArgument,
  sliceNode,
} from '../calls/slicing.ts'
import { checkState, type LiveState, record, recordMany, typeOfState } from './core.ts'
import { TensorElements } from './elements.ts'
import { partOf, type TensorPart } from './parts.ts'

/** A tensor, or a host value that takes the dtype of the tensor beside it. */
export type TensorLike = Tensor | Scalar

/**
 * A value: shape, dtype and elements. Outside `jit` operations are lazy: they record, and reading a value compiles and runs
 * what it needs as one fused program. Inside `jit` they trace. Methods are the functions of the same names, which say shapes, dtypes and
 * errors; both throw E_DISPOSED for a tensor that is gone, and E_LEAKED_TRACER for one kept from a finished trace.
 * @example
 * const x = tensor([[1, 2], [3, 4]])
 * x.sub(x.mean()).square().sum() // 5
 */
export class Tensor extends TensorElements {
  /**
   * Tensors are made by functions (`tensor`, `zeros`, ...), not by hand.
   * @internal
   */
  constructor(state: LiveState) {
    checkState(state)
    const { shape, dtype } = typeOfState(state)
    super(shape, dtype, state)
  }

  // Arithmetic: NumPy broadcasting and promotion; E_SHAPE where shapes do not broadcast.
  /** Sum. */
  add(other: TensorLike): Tensor {
    return two('add', this, other, c.add)
  }
  /** Difference. */
  sub(other: TensorLike): Tensor {
    return two('sub', this, other, c.sub)
  }
  /** Product. */
  mul(other: TensorLike): Tensor {
    return two('mul', this, other, c.mul)
  }
  /** True quotient; integers become f32. */
  div(other: TensorLike): Tensor {
    return two('div', this, other, c.trueDivide)
  }
  /** Quotient rounded down. */
  floorDivide(other: TensorLike): Tensor {
    return two('floorDivide', this, other, c.floorDivide)
  }
  /** Remainder with the sign of the divisor (Python). */
  mod(other: TensorLike): Tensor {
    return two('mod', this, other, c.floorMod)
  }
  /** Remainder with the sign of the dividend (C). */
  rem(other: TensorLike): Tensor {
    return two('rem', this, other, c.rem)
  }
  /** Power. */
  pow(other: TensorLike): Tensor {
    return two('pow', this, other, c.pow)
  }
  /** The larger of each pair; NaN wins. */
  maximum(other: TensorLike): Tensor {
    return two('maximum', this, other, c.max)
  }
  /** The smaller of each pair; NaN wins. */
  minimum(other: TensorLike): Tensor {
    return two('minimum', this, other, c.min)
  }
  /** Limits values to [low, high]. */
  clip(low?: TensorLike, high?: TensorLike): Tensor {
    return clip(this, low, high)
  }
  /** Negation. */
  neg(): Tensor {
    return one('neg', this, (a) => c.unary('neg', a))
  }
  /** Magnitude. */
  abs(): Tensor {
    return one('abs', this, (a) => c.unary('abs', a))
  }
  /** -1, 0 or 1. */
  sign(): Tensor {
    return one('sign', this, (a) => c.unary('sign', a))
  }
  /** Square root. */
  sqrt(): Tensor {
    return one('sqrt', this, (a) => c.unary('sqrt', a))
  }
  /** 1 / sqrt(x). */
  rsqrt(): Tensor {
    return one('rsqrt', this, (a) => c.unary('rsqrt', a))
  }
  /** e^x. */
  exp(): Tensor {
    return one('exp', this, (a) => c.unary('exp', a))
  }
  /** e^x - 1. */
  expm1(): Tensor {
    return one('expm1', this, (a) => c.unary('expm1', a))
  }
  /** Natural logarithm. */
  log(): Tensor {
    return one('log', this, (a) => c.unary('log', a))
  }
  /** log(1 + x). */
  log1p(): Tensor {
    return one('log1p', this, (a) => c.unary('log1p', a))
  }
  /** Sine. */
  sin(): Tensor {
    return one('sin', this, (a) => c.unary('sin', a))
  }
  /** Cosine. */
  cos(): Tensor {
    return one('cos', this, (a) => c.unary('cos', a))
  }
  /** Tangent. */
  tan(): Tensor {
    return one('tan', this, (a) => c.unary('tan', a))
  }
  /** Hyperbolic tangent. */
  tanh(): Tensor {
    return one('tanh', this, (a) => c.unary('tanh', a))
  }
  /** 1 / (1 + e^-x). */
  sigmoid(): Tensor {
    return one('sigmoid', this, (a) => c.unary('sigmoid', a))
  }
  /** Error function. */
  erf(): Tensor {
    return one('erf', this, (a) => c.unary('erf', a))
  }
  /** Rounded down. */
  floor(): Tensor {
    return one('floor', this, (a) => c.unary('floor', a))
  }
  /** Rounded up. */
  ceil(): Tensor {
    return one('ceil', this, (a) => c.unary('ceil', a))
  }
  /** Rounded to nearest, ties to even. */
  round(): Tensor {
    return one('round', this, (a) => c.unary('round', a))
  }
  /** Rounded towards zero. */
  trunc(): Tensor {
    return one('trunc', this, (a) => c.unary('trunc', a))
  }
  /** x * x. */
  square(): Tensor {
    return one('square', this, (a) => c.square(a))
  }
  /** 1 / x. */
  reciprocal(): Tensor {
    return one('reciprocal', this, (a) => c.reciprocal(a))
  }

  // Comparisons and logic: bool tensors.
  /** Equal. */
  equal(other: TensorLike): Tensor {
    return two('equal', this, other, (a, b) => c.compare('eq', a, b))
  }
  /** Not equal; true beside NaN. */
  notEqual(other: TensorLike): Tensor {
    return two('notEqual', this, other, (a, b) => c.compare('ne', a, b))
  }
  /** Less. */
  less(other: TensorLike): Tensor {
    return two('less', this, other, (a, b) => c.compare('lt', a, b))
  }
  /** Less or equal. */
  lessEqual(other: TensorLike): Tensor {
    return two('lessEqual', this, other, (a, b) => c.compare('le', a, b))
  }
  /** Greater. */
  greater(other: TensorLike): Tensor {
    return two('greater', this, other, (a, b) => c.compare('gt', a, b))
  }
  /** Greater or equal. */
  greaterEqual(other: TensorLike): Tensor {
    return two('greaterEqual', this, other, (a, b) => c.compare('ge', a, b))
  }
  /** Both nonzero. */
  logicalAnd(other: TensorLike): Tensor {
    return two('logicalAnd', this, other, c.logicalAnd)
  }
  /** Either nonzero. */
  logicalOr(other: TensorLike): Tensor {
    return two('logicalOr', this, other, c.logicalOr)
  }
  /** Zero. */
  logicalNot(): Tensor {
    return one('logicalNot', this, (a) => c.logicalNot(a))
  }
  /** NaN. */
  isnan(): Tensor {
    return one('isnan', this, (a) => c.unary('isnan', a))
  }
  /** Infinite. */
  isinf(): Tensor {
    return one('isinf', this, (a) => c.unary('isinf', a))
  }
  /** Neither. */
  isfinite(): Tensor {
    return one('isfinite', this, (a) => c.isfinite(a))
  }
  /** Numeric conversion (docs/numerics.md, "Casts"). */
  astype(dtype: DType): Tensor {
    return one('astype', this, (a) => c.cast(a, dtype))
  }
  /** The same bits as another dtype of the same width. Throws E_DTYPE. */
  bitcast(dtype: DType): Tensor {
    return one('bitcast', this, (a) => c.bitcast(a, dtype))
  }

  // Reductions: `axes` is an axis, a list, or all; half precision accumulates in f32.
  /** Sum; of bool and small integers 32 bits wide unless `dtype` says otherwise. */
  sum(axes?: Axes, keepdims: KeepdimsOrDType = false): Tensor {
    return one('sum', this, (a) => c.total(a, axes, totalOptionsOf('sum', keepdims)))
  }
  /** Product, in a dtype as sums. */
  prod(axes?: Axes, keepdims: KeepdimsOrDType = false): Tensor {
    return one('prod', this, (a) => c.totalProduct(a, axes, totalOptionsOf('prod', keepdims)))
  }
  /** Largest element; NaN wins. */
  max(axes?: Axes, keepdims: Keepdims = false): Tensor {
    return one('max', this, (a) => c.reduceMax(a, axes, keepdimsOf('max', keepdims)))
  }
  /** Smallest element; NaN wins. */
  min(axes?: Axes, keepdims: Keepdims = false): Tensor {
    return one('min', this, (a) => c.reduceMin(a, axes, keepdimsOf('min', keepdims)))
  }
  /** Mean; of integers, f32. */
  mean(axes?: Axes, keepdims: Keepdims = false): Tensor {
    return one('mean', this, (a) => c.mean(a, axes, keepdimsOf('mean', keepdims)))
  }
  /** Whether any is nonzero. */
  any(axes?: Axes, keepdims: Keepdims = false): Tensor {
    return one('any', this, (a) => c.any(a, axes, keepdimsOf('any', keepdims)))
  }
  /** Whether all are nonzero. */
  all(axes?: Axes, keepdims: Keepdims = false): Tensor {
    return one('all', this, (a) => c.all(a, axes, keepdimsOf('all', keepdims)))
  }
  /** log(sum(exp(x))) without overflow. */
  logsumexp(axes?: Axes, keepdims: Keepdims = false): Tensor {
    return one('logsumexp', this, (a) => c.logSumExp(a, axes, keepdimsOf('logsumexp', keepdims)))
  }
  /**
   * Mean squared deviation over axes, divided by n - correction: the function `variance`.
   * @throws E_AXIS for an axis there is not or one named twice, E_ARGUMENT for other options
   * @example tensor([1, 2, 3, 4]).var() // 1.25
   */
  var(axes?: Axes, keepdims: Keepdims = false, correction = 0): Tensor {
    return one('var', this, (a) => c.variance(a, axes, keepdimsOf('var', keepdims), real(correction, 'the correction')))
  }
  /** Square root of the variance. */
  std(axes?: Axes, keepdims: Keepdims = false, correction = 0): Tensor {
    return one('std', this, (a) => c.std(a, axes, keepdimsOf('std', keepdims), real(correction, 'the correction')))
  }
  /** Vector norm of order 1, 2, Infinity or -Infinity. */
  norm(order = 2, axes?: Axes, keepdims: Keepdims = false): Tensor {
    return one('norm', this, (a) => c.norm(a, real(order, 'the order'), axes, keepdimsOf('norm', keepdims)))
  }
  /** Index of the largest element (i32), the first of equals; without an axis, in row-major order. */
  argmax(axis?: number, keepdims: Keepdims = false): Tensor {
    return one('argmax', this, (a) => c.argmax(a, axis, keepdimsOf('argmax', keepdims)))
  }
  /** Index of the smallest element (i32), the first of equals. */
  argmin(axis?: number, keepdims: Keepdims = false): Tensor {
    return one('argmin', this, (a) => c.argmin(a, axis, keepdimsOf('argmin', keepdims)))
  }
  /** Running sum along an axis, in a dtype as sums. */
  cumsum(axis: number, options?: CumulativeOptions): Tensor {
    return one('cumsum', this, (a) => c.cumsum(a, axis, scanOptionsOf('cumsum', options)))
  }
  /** Running product along an axis. */
  cumprod(axis: number, options?: CumulativeOptions): Tensor {
    return one('cumprod', this, (a) => c.cumprod(a, axis, scanOptionsOf('cumprod', options)))
  }

  // Shape: views cost nothing inside a program.
  /** The same elements in another shape; one extent may be -1. Throws E_SHAPE. */
  reshape(shape: Shape, ...rest: Excess): Tensor {
    return one('reshape', this, (a) => c.reshape(a, extentsOf(shape, ...rest)))
  }
  /** Axes reordered: output axis i is axis axes[i]; without a list, reversed. */
  transpose(axes?: readonly number[], ...rest: Excess): Tensor {
    return one('transpose', this, (a) => c.transpose(a, axesList(axes, rest)))
  }
  /** Axes reversed. */
  get T(): Tensor {
    return this.transpose()
  }
  /** Two axes exchanged. */
  swapaxes(a: number, b: number): Tensor {
    return one('swapaxes', this, (x) => c.swapAxes(x, a, b))
  }
  /** One axis moved to another place. */
  moveaxis(from: number, to: number): Tensor {
    return one('moveaxis', this, (x) => c.moveAxis(x, from, to))
  }
  /** Axes of extent 1 repeated, leading axes added. */
  broadcastTo(shape: Shape, ...rest: Excess): Tensor {
    return one('broadcastTo', this, (a) => c.broadcastTo(a, extentsOf(shape, ...rest)))
  }
  /** Axes of extent 1 added at positions of the result. */
  expandDims(axes: number | readonly number[], ...rest: Excess): Tensor {
    return one('expandDims', this, (a) => c.expandDims(a, axesOnce(axes, rest)))
  }
  /** Axes of extent 1 dropped: those named, or all. */
  squeeze(axes?: number | readonly number[], ...rest: Excess): Tensor {
    return one('squeeze', this, (a) => c.squeeze(a, axesOnce(axes, rest)))
  }
  /**
   * Axes from `start` to `end`, both included, as one; all unless given.
   * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no whole number
   * @example tensor([[1, 2], [3, 4]]).flatten() // [1, 2, 3, 4]
   */
  flatten(start = 0, end = -1): Tensor {
    return one('flatten', this, (a) => c.flatten(a, whole(start, 'the first axis'), whole(end, 'the last axis')))
  }
  /**
   * Python's slicing of the leading axes, each by a [start, stop, step] triple, an index (whose axis goes) or null (the whole). Negative
   * bounds count from the end, those beyond it stop there; a negative step runs backwards.
   * @throws E_INDEX for an index out of range, E_ARGUMENT for bounds that are not whole, a step of 0 and more slices than axes
   * @example
   * tensor([[1, 2, 3], [4, 5, 6]]).slice(1, [0, 2]) // [4, 5]
   * tensor([1, 2, 3]).slice([null, null, -1]) // [3, 2, 1]
   */
  slice(...specs: readonly SliceArgument[]): Tensor {
    return one('slice', this, (a) => sliceNode(a, specs))
  }
  /** Elements added around each axis (negative: cropped). */
  pad(widths: readonly (readonly [number, number])[], mode: PadMode = 'constant', value: Scalar = 0): Tensor {
    return one('pad', this, (a) => c.pad(a, checkedWidths(widths, mode), mode, scalarValue(value)))
  }
  /** Axes reversed in direction: those named, or all. */
  flip(axes?: number | readonly number[], ...rest: Excess): Tensor {
    return one('flip', this, (a) => c.flip(a, axesOnce(axes, rest)))
  }
  /** The whole repeated along each axis. */
  tile(reps: readonly number[], ...rest: Excess): Tensor {
    return one('tile', this, (a) => c.tile(a, repetitions(reps, rest)))
  }
  /** Each element repeated along an axis, or of the flattened tensor. */
  repeat(times: number, axis?: number): Tensor {
    return one('repeat', this, (a) => c.repeat(a, whole(times, 'how often'), axis))
  }
  /** Elements shifted along an axis, around the end. */
  roll(shift: number, axis: number): Tensor {
    return one('roll', this, (a) => c.roll(a, whole(shift, 'the shift'), axis))
  }
  /** Equal parts along an axis, or parts of the given sizes. */
  split(parts: number | readonly number[], axis = 0): Tensor[] {
    return recordMany('split', [this], ([a]) => c.split(c.asNode(a ?? 0), partsOf(parts), axis)).map(wrap)
  }
  /** Elements at integer indices along an axis; negatives count from the end, out of range clamps. */
  take(indices: Tensor, axis = 0): Tensor {
    return two('take', this, indices, (a, i) => c.take(c.asNode(a), c.asNode(i), axis))
  }
  /**
   * A part of the tensor, to read or to update: one argument an axis, each a number, a tensor of integers (which broadcast with each
   * other), a [start, stop, step] triple or null (the whole), as JAX's `x.at[...]`. Negatives count from the end; beyond it, `get` clamps and
   * updates drop.
   * @throws E_ARGUMENT for what is no index and more of them than axes
   * @example
   * zeros([2, 3]).at(null, [0, 2]).set(1) // [[1, 1, 0], [1, 1, 0]]
   * zeros([3]).at(9).set(1) // [0, 0, 0]: out of range drops
   */
  at(...index: readonly (SliceArgument | Tensor)[]): TensorPart<Tensor> {
    return partOf(this, index, many)
  }
  /** Elements at indices of the same rank along an axis. */
  takeAlongAxis(indices: Tensor, axis: number): Tensor {
    return two('takeAlongAxis', this, indices, (a, i) => c.takeAlongAxis(c.asNode(a), c.asNode(i), axis))
  }

  // Products and the commonest neural-network functions.
  /** Matrix product (NumPy's matmul). Throws E_SHAPE. */
  matmul(other: Tensor): Tensor {
    return two('matmul', this, other, (a, b) => c.matmul(c.asNode(a), c.asNode(b)))
  }
  /** NumPy's dot: matmul; scalars multiply. */
  dot(other: Tensor): Tensor {
    return two('dot', this, other, (a, b) => c.dot(c.asNode(a), c.asNode(b)))
  }
  /** max(x, 0). */
  relu(): Tensor {
    return one('relu', this, (a) => c.relu(a))
  }
  /** exp(x) over its sum along axes. */
  softmax(axes: Axes = -1): Tensor {
    return one('softmax', this, (a) => c.softmax(a, axes))
  }
}

/** A tensor in a state. */
export const wrap = (state: LiveState): Tensor => new Tensor(state)

/** An operation on one tensor. */
export const one = (name: string, x: TensorLike, f: (a: Node) => Node): Tensor =>
  wrap(record(name, [x], ([a]) => f(c.asNode(a ?? 0))))

/** An operation on two operands. */
export const two = (name: string, x: TensorLike, y: TensorLike, f: (a: Operand, b: Operand) => Node): Tensor =>
  wrap(record(name, [x, y], ([a, b]) => f(a ?? 0, b ?? 0)))

/** An operation on any number of operands. */
export const many = (name: string, operands: readonly TensorLike[], f: (nodes: Node[]) => Node): Tensor =>
  wrap(record(name, operands, (xs) => f(xs.map(c.asNode))))

/** An operation without operands. */
export const none = (name: string, f: () => Node): Tensor => wrap(record(name, [], f))

/**
 * Values limited to [low, high]; either bound may be left out (NumPy's `clip`). Shapes broadcast; the common dtype.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT for what is
 * no tensor or number
 * @example clip(tensor([-1, 0.5, 3]), 0, 1) // [0, 0.5, 1]
 */
export function clip(x: TensorLike, low?: TensorLike, high?: TensorLike): Tensor {
  const operands = [x, low, high].filter((v): v is TensorLike => v !== undefined)
  return wrap(
    record('clip', operands, ([a, b, d]) =>
      low === undefined ? c.clip(c.asNode(a ?? 0), undefined, b) : c.clip(c.asNode(a ?? 0), b, d),
    ),
  )
}
