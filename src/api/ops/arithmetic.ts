/** Arithmetic, comparisons and choices of several operands: as the methods of `Tensor`, and taking numbers too. */

import type { ClosenessOptions, NanToNumOptions } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import type { DType } from '../../types/dtype.ts'
import { checkOptions, kinds, optionNames } from '../calls/options.ts'
import { record } from '../tensor/core.ts'
import { one, type Tensor, type TensorLike, two, wrap } from '../tensor/tensor.ts'

export { clip } from '../tensor/tensor.ts'

/**
 * Sum; integers wrap. Shapes broadcast; the common dtype (NumPy's promotion; bools become i32).
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example add(tensor([1, 2]), 10) // [11, 12]
 */
export const add = (a: TensorLike, b: TensorLike): Tensor => two('add', a, b, c.add)
/**
 * Difference; integers wrap. Shapes broadcast; the common dtype (NumPy's promotion; bools become i32).
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example sub(tensor([1, 2]), tensor([[1], [2]])) // [[0, 1], [-1, 0]]
 */
export const sub = (a: TensorLike, b: TensorLike): Tensor => two('sub', a, b, c.sub)
/**
 * Product; integers wrap. Shapes broadcast; the common dtype (NumPy's promotion; bools become i32).
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example mul(tensor([1, 2]), 10) // [10, 20]
 */
export const mul = (a: TensorLike, b: TensorLike): Tensor => two('mul', a, b, c.mul)
/**
 * True quotient (NumPy's `true_divide`): infinite or NaN where the divisor is 0. Shapes broadcast; the common dtype, f32 of
 * integers and bools.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example div(tensor([1, 2], { dtype: 'i32' }), 4) // [0.25, 0.5]
 */
export const div = (a: TensorLike, b: TensorLike): Tensor => two('div', a, b, c.trueDivide)
/**
 * Quotient rounded down; of integers by 0: 0. Shapes broadcast; the common dtype (NumPy's promotion; bools become i32).
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example floorDivide(tensor([7, -7]), 2) // [3, -4]
 */
export const floorDivide = (a: TensorLike, b: TensorLike): Tensor => two('floorDivide', a, b, c.floorDivide)
/**
 * Remainder with the sign of the divisor (Python's `%`). Shapes broadcast; the common dtype (NumPy's promotion; bools become
 * i32).
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example mod(tensor([7, -7]), 3) // [1, 2]
 */
export const mod = (a: TensorLike, b: TensorLike): Tensor => two('mod', a, b, c.floorMod)
/**
 * Remainder with the sign of the dividend (C's `fmod`, JavaScript's `%`). Shapes broadcast; the common dtype (NumPy's
 * promotion; bools become i32).
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example rem(tensor([7, -7]), 3) // [1, -1]
 */
export const rem = (a: TensorLike, b: TensorLike): Tensor => two('rem', a, b, c.rem)
/**
 * a^b as in C99: 1 for b = 0, NaN included; an integer to a negative power is 0, of 1 and -1 a unit. Shapes broadcast; the
 * common dtype (NumPy's promotion; bools become i32).
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example pow(tensor([2, 3]), 2) // [4, 9]
 */
export const pow = (a: TensorLike, b: TensorLike): Tensor => two('pow', a, b, c.pow)
/**
 * The larger of each pair; NaN wins, -0 is below 0. Shapes broadcast; the common dtype.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example maximum(tensor([1, 5]), 3) // [3, 5]
 */
export const maximum = (a: TensorLike, b: TensorLike): Tensor => two('maximum', a, b, c.max)
/**
 * The smaller of each pair; NaN wins, -0 is below 0. Shapes broadcast; the common dtype.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example minimum(tensor([1, 5]), 3) // [1, 3]
 */
export const minimum = (a: TensorLike, b: TensorLike): Tensor => two('minimum', a, b, c.min)
/**
 * log(e^a + e^b) without overflow. Shapes broadcast; the common dtype, f32 of integers and bools.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example logaddexp(tensor([0, 1000]), tensor([0, 1000])) // [0.693147, 1000.693]
 */
export const logaddexp = (a: TensorLike, b: TensorLike): Tensor => two('logaddexp', a, b, c.logAddExp)
/**
 * Angle in [-pi, pi] radians of the point (b, a), by the signs of both (C's `atan2`). Shapes broadcast; the common dtype, f32
 * of integers and bools.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example atan2(tensor([1, -1]), tensor([1, -1])) // [0.785398, -2.356194]
 */
export const atan2 = (a: TensorLike, b: TensorLike): Tensor => two('atan2', a, b, (x, y) => c.binary('atan2', x, y))
/**
 * sqrt(a^2 + b^2) without overflow: infinite where either is, else NaN where either is (IEEE 754). Shapes broadcast; the common
 * dtype, f32 of integers and bools.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example hypot(tensor([3, 5]), tensor([4, 12])) // [5, 13]
 */
export const hypot = (a: TensorLike, b: TensorLike): Tensor => two('hypot', a, b, (x, y) => c.binary('hypot', x, y))
/**
 * Whether both are nonzero. Shapes broadcast; bool.
 * @throws E_SHAPE for shapes that do not broadcast, E_ARGUMENT for what is no tensor or number
 * @example logicalAnd(tensor([0, 2]), tensor([1, 3])) // [false, true]
 */
export const logicalAnd = (a: TensorLike, b: TensorLike): Tensor => two('logicalAnd', a, b, c.logicalAnd)
/**
 * Whether either is nonzero. Shapes broadcast; bool.
 * @throws E_SHAPE for shapes that do not broadcast, E_ARGUMENT for what is no tensor or number
 * @example logicalOr(tensor([0, 2]), 0) // [false, true]
 */
export const logicalOr = (a: TensorLike, b: TensorLike): Tensor => two('logicalOr', a, b, c.logicalOr)
/**
 * Whether exactly one is nonzero. Shapes broadcast; bool.
 * @throws E_SHAPE for shapes that do not broadcast, E_ARGUMENT for what is no tensor or number
 * @example logicalXor(tensor([0, 2]), 1) // [true, false]
 */
export const logicalXor = (a: TensorLike, b: TensorLike): Tensor => two('logicalXor', a, b, c.logicalXor)
/**
 * Bitwise and; logical of bools. Shapes broadcast; the common dtype of integers and bools.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_DTYPE
 * for floats, E_ARGUMENT for what is no tensor or number
 * @example bitwiseAnd(tensor([12, 6], { dtype: 'i32' }), 10) // [8, 2]
 */
export const bitwiseAnd = (a: TensorLike, b: TensorLike): Tensor =>
  two('bitwiseAnd', a, b, (x, y) => c.binary('and', x, y))
/**
 * Bitwise or; logical of bools. Shapes broadcast; the common dtype of integers and bools.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_DTYPE
 * for floats, E_ARGUMENT for what is no tensor or number
 * @example bitwiseOr(tensor([12, 6], { dtype: 'i32' }), 1) // [13, 7]
 */
export const bitwiseOr = (a: TensorLike, b: TensorLike): Tensor =>
  two('bitwiseOr', a, b, (x, y) => c.binary('or', x, y))
/**
 * Bitwise exclusive or; logical of bools. Shapes broadcast; the common dtype of integers and bools.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_DTYPE
 * for floats, E_ARGUMENT for what is no tensor or number
 * @example bitwiseXor(tensor([12, 6], { dtype: 'i32' }), 10) // [6, 12]
 */
export const bitwiseXor = (a: TensorLike, b: TensorLike): Tensor =>
  two('bitwiseXor', a, b, (x, y) => c.binary('xor', x, y))
/**
 * Bits of `a` shifted left by `b`; 0 for shifts of the width or more. Shapes broadcast; the common dtype of integers; bools
 * become i32.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_DTYPE
 * for floats, E_ARGUMENT for what is no tensor or number
 * @example leftShift(tensor([1, 3], { dtype: 'i32' }), 2) // [4, 12]
 */
export const leftShift = (a: TensorLike, b: TensorLike): Tensor =>
  two('leftShift', a, b, (x, y) => c.binary('shl', x, y))
/**
 * Bits of `a` shifted right by `b`: the sign fills signed dtypes, 0 unsigned ones. Shapes broadcast; the common dtype of
 * integers; bools become i32.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_DTYPE
 * for floats, E_ARGUMENT for what is no tensor or number
 * @example rightShift(tensor([12, -12], { dtype: 'i32' }), 2) // [3, -3]
 */
export const rightShift = (a: TensorLike, b: TensorLike): Tensor =>
  two('rightShift', a, b, (x, y) => c.binary('shr', x, y))
/**
 * Whether equal: -0 equals 0, NaN nothing. Shapes broadcast; bool.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example equal(tensor([1, 2]), 2) // [false, true]
 */
export const equal = (a: TensorLike, b: TensorLike): Tensor => two('equal', a, b, (x, y) => c.compare('eq', x, y))
/**
 * Whether not equal: true beside NaN. Shapes broadcast; bool.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example notEqual(tensor([1, NaN]), tensor([1, NaN])) // [false, true]
 */
export const notEqual = (a: TensorLike, b: TensorLike): Tensor => two('notEqual', a, b, (x, y) => c.compare('ne', x, y))
/**
 * Whether a < b: false beside NaN. Shapes broadcast; bool.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example less(tensor([1, 2]), 2) // [true, false]
 */
export const less = (a: TensorLike, b: TensorLike): Tensor => two('less', a, b, (x, y) => c.compare('lt', x, y))
/**
 * Whether a <= b: false beside NaN. Shapes broadcast; bool.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example lessEqual(tensor([1, 2, 3]), 2) // [true, true, false]
 */
export const lessEqual = (a: TensorLike, b: TensorLike): Tensor =>
  two('lessEqual', a, b, (x, y) => c.compare('le', x, y))
/**
 * Whether a > b: false beside NaN. Shapes broadcast; bool.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example greater(tensor([2, 3]), 2) // [false, true]
 */
export const greater = (a: TensorLike, b: TensorLike): Tensor => two('greater', a, b, (x, y) => c.compare('gt', x, y))
/**
 * Whether a >= b: false beside NaN. Shapes broadcast; bool.
 * @throws E_SHAPE for shapes that do not broadcast, E_OVERFLOW for a number that the integers beside it cannot hold, E_ARGUMENT
 * for what is no tensor or number
 * @example greaterEqual(tensor([1, 2, 3]), 2) // [false, true, true]
 */
export const greaterEqual = (a: TensorLike, b: TensorLike): Tensor =>
  two('greaterEqual', a, b, (x, y) => c.compare('ge', x, y))

/**
 * `a` where the condition holds, else `b` (NumPy's `where`). The three shapes broadcast; the common dtype of `a` and `b`. The
 * one that is not chosen may be NaN, and gets no derivative.
 * @throws E_DTYPE for a condition that is not bool, E_SHAPE for shapes that do not broadcast, E_ARGUMENT for what is no tensor
 * or number
 * @example where(tensor([true, false]), 1, tensor([5, 6])) // [1, 6]
 */
export const where = (condition: TensorLike, a: TensorLike, b: TensorLike): Tensor =>
  wrap(record('where', [condition, a, b], ([p, x, y]) => c.where(p ?? false, x ?? 0, y ?? 0)))
/**
 * Numeric conversion (docs/numerics.md, "Casts"): floats to integers truncate and saturate, NaN gives 0, integers wrap,
 * anything to bool is whether it is not 0. Shape of `x`.
 * @throws E_DTYPE for a dtype there is not, E_ARGUMENT for what is no tensor or number
 * @example astype(tensor([1.9, -1.9, 300]), 'u8') // [1, 0, 255]
 */
export const astype = (x: TensorLike, dtype: DType): Tensor => one('astype', x, (a) => c.cast(a, dtype))
/**
 * The same bits as another dtype of the same width. Shape of `x`.
 * @throws E_DTYPE for a dtype of another width or one there is not, E_ARGUMENT for what is no tensor or number
 * @example bitcast(tensor([1]), 'u32') // [1065353216]: 0x3f800000
 */
export const bitcast = (x: TensorLike, dtype: DType): Tensor => one('bitcast', x, (a) => c.bitcast(a, dtype))

const closenessOptions = optionNames<ClosenessOptions>('{ rtol: 1e-3, atol: 0 }', {
  rtol: kinds.number,
  atol: kinds.number,
  equalNan: kinds.flag,
})

/**
 * Whether |a - b| <= atol + rtol |b| (1e-8 and 1e-5 unless given); infinities are close to themselves, NaN to nothing, or to NaN
 * for `equalNan` (NumPy's `isclose`). Half precision, integers and bools compute in f32. Shapes broadcast; bool.
 * @throws E_SHAPE for shapes that do not broadcast, E_ARGUMENT for what is no tensor or number and for options that are none
 * @example isclose(tensor([1, 2]), tensor([1.000001, 2.1])) // [true, false]
 */
export const isclose = (a: TensorLike, b: TensorLike, options: ClosenessOptions = {}): Tensor =>
  two('isclose', a, b, (x, y) => {
    checkOptions(options, 'isclose', closenessOptions)
    return c.isclose(x, y, options)
  })
/**
 * Whether all pairs of elements are close, as `isclose` says: a bool scalar (NumPy's `allclose`).
 * @throws E_SHAPE for shapes that do not broadcast, E_ARGUMENT for what is no tensor or number and for options that are none
 * @example allclose(tensor([1, 2]), tensor([1.1, 2]), { rtol: 0.2 }) // true
 */
export const allclose = (a: TensorLike, b: TensorLike, options: ClosenessOptions = {}): Tensor =>
  two('allclose', a, b, (x, y) => {
    checkOptions(options, 'allclose', closenessOptions)
    return c.allclose(x, y, options)
  })

const nanToNumOptions = optionNames<NanToNumOptions>('{ nan: 0, posinf: 1e6 }', {
  nan: kinds.number,
  posinf: kinds.number,
  neginf: kinds.number,
})

/**
 * NaN replaced by `nan` (0 unless given), infinities by `posinf` and `neginf` (the greatest and the least finite number of the dtype
 * unless given; NumPy's `nan_to_num`). Shape and dtype of `x`; integers and bools stay as they are.
 * @throws E_ARGUMENT for what is no tensor or number and for options that are none
 * @example nanToNum(tensor([NaN, Infinity, 1]), { posinf: 9 }) // [0, 9, 1]
 */
export const nanToNum = (x: TensorLike, options: NanToNumOptions = {}): Tensor =>
  one('nanToNum', x, (a) => {
    checkOptions(options, 'nanToNum', nanToNumOptions)
    return c.nanToNum(a, options)
  })
