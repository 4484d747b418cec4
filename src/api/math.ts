/** Elementwise functions, comparisons and reductions: as the methods of `Tensor`, and taking numbers too. */

import type { Axes, CumulativeOptions } from '../compose/index.ts'
import * as c from '../compose/index.ts'
import type { DType } from '../types/dtype.ts'
import { record } from './core.ts'
import { real } from './options.ts'
import { type Keepdims, type KeepdimsOrDType, keepdimsOf, scanOptionsOf, totalOptionsOf } from './reductions.ts'
import { one, type Tensor, type TensorLike, two, wrap } from './tensor.ts'

export { clip } from './tensor.ts'

/** Negation. */
export const neg = (x: TensorLike): Tensor => one('neg', x, (a) => c.unary('neg', a))
/** Magnitude. */
export const abs = (x: TensorLike): Tensor => one('abs', x, (a) => c.unary('abs', a))
/** -1, 0 or 1. */
export const sign = (x: TensorLike): Tensor => one('sign', x, (a) => c.unary('sign', a))
/** Square root. */
export const sqrt = (x: TensorLike): Tensor => one('sqrt', x, (a) => c.unary('sqrt', a))
/** 1 / sqrt(x). */
export const rsqrt = (x: TensorLike): Tensor => one('rsqrt', x, (a) => c.unary('rsqrt', a))
/** e^x. */
export const exp = (x: TensorLike): Tensor => one('exp', x, (a) => c.unary('exp', a))
/** e^x - 1, exact near 0. */
export const expm1 = (x: TensorLike): Tensor => one('expm1', x, (a) => c.unary('expm1', a))
/** Natural logarithm. */
export const log = (x: TensorLike): Tensor => one('log', x, (a) => c.unary('log', a))
/** log(1 + x), exact near 0. */
export const log1p = (x: TensorLike): Tensor => one('log1p', x, (a) => c.unary('log1p', a))
/** Sine. */
export const sin = (x: TensorLike): Tensor => one('sin', x, (a) => c.unary('sin', a))
/** Cosine. */
export const cos = (x: TensorLike): Tensor => one('cos', x, (a) => c.unary('cos', a))
/** Tangent. */
export const tan = (x: TensorLike): Tensor => one('tan', x, (a) => c.unary('tan', a))
/** Inverse sine. */
export const asin = (x: TensorLike): Tensor => one('asin', x, (a) => c.unary('asin', a))
/** Inverse cosine. */
export const acos = (x: TensorLike): Tensor => one('acos', x, (a) => c.unary('acos', a))
/** Inverse tangent. */
export const atan = (x: TensorLike): Tensor => one('atan', x, (a) => c.unary('atan', a))
/** Hyperbolic sine. */
export const sinh = (x: TensorLike): Tensor => one('sinh', x, (a) => c.unary('sinh', a))
/** Hyperbolic cosine. */
export const cosh = (x: TensorLike): Tensor => one('cosh', x, (a) => c.unary('cosh', a))
/** Hyperbolic tangent. */
export const tanh = (x: TensorLike): Tensor => one('tanh', x, (a) => c.unary('tanh', a))
/** Inverse hyperbolic sine. */
export const asinh = (x: TensorLike): Tensor => one('asinh', x, (a) => c.unary('asinh', a))
/** Inverse hyperbolic cosine. */
export const acosh = (x: TensorLike): Tensor => one('acosh', x, (a) => c.unary('acosh', a))
/** Inverse hyperbolic tangent. */
export const atanh = (x: TensorLike): Tensor => one('atanh', x, (a) => c.unary('atanh', a))
/** 1 / (1 + e^-x). */
export const sigmoid = (x: TensorLike): Tensor => one('sigmoid', x, (a) => c.unary('sigmoid', a))
/** Error function. */
export const erf = (x: TensorLike): Tensor => one('erf', x, (a) => c.unary('erf', a))
/**
 * 1 - erf(x), exact where that is small. Shape and dtype of a float `x`; f32 of integers and bools.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example erfc(tensor([0, 1, 4])) // 1, 0.1572992, 1.541726e-8
 */
export const erfc = (x: TensorLike): Tensor => one('erfc', x, (a) => c.unary('erfc', a))
/**
 * Inverse of erf: infinite at -1 and 1, NaN beyond them. Shape and dtype of a float `x`; f32 of integers and bools.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example erfinv(tensor([0, 0.5, 1])) // 0, 0.4769363, Infinity
 */
export const erfinv = (x: TensorLike): Tensor => one('erfinv', x, (a) => c.unary('erfinv', a))
/**
 * Logarithm of the magnitude of the gamma function: infinite at 0, -1, -2, ... Shape and dtype of a float `x`; f32 of integers and bools.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example lgamma(tensor([1, 5, 0])) // 0, 3.178054 (log 4!), Infinity
 */
export const lgamma = (x: TensorLike): Tensor => one('lgamma', x, (a) => c.unary('lgamma', a))
/**
 * Derivative of lgamma: NaN at -1, -2, ..., infinite at 0. Shape and dtype of a float `x`; f32 of integers and bools.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example digamma(tensor([1, 2])) // -0.5772157, 0.4227843
 */
export const digamma = (x: TensorLike): Tensor => one('digamma', x, (a) => c.unary('digamma', a))
/**
 * Derivative of digamma: infinite at 0, -1, -2, ... It has no derivative: `grad` through it throws E_UNSUPPORTED. Shape and dtype of a float `x`; f32 of integers and bools.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example trigamma(tensor([1, 2])) // 1.644934, 0.6449341
 */
export const trigamma = (x: TensorLike): Tensor => one('trigamma', x, (a) => c.unary('trigamma', a))
/**
 * Cube root, negative of negative numbers. Shape and dtype of a float `x`; f32 of integers and bools.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example cbrt(tensor([-8, 27])) // -2, 3
 */
export const cbrt = (x: TensorLike): Tensor => one('cbrt', x, (a) => c.unary('cbrt', a))
/** Rounded down. */
export const floor = (x: TensorLike): Tensor => one('floor', x, (a) => c.unary('floor', a))
/** Rounded up. */
export const ceil = (x: TensorLike): Tensor => one('ceil', x, (a) => c.unary('ceil', a))
/** Rounded to nearest, ties to even. */
export const round = (x: TensorLike): Tensor => one('round', x, (a) => c.unary('round', a))
/** Rounded towards zero. */
export const trunc = (x: TensorLike): Tensor => one('trunc', x, (a) => c.unary('trunc', a))
/** Whether NaN: bool. */
export const isnan = (x: TensorLike): Tensor => one('isnan', x, (a) => c.unary('isnan', a))
/** Whether infinite: bool. */
export const isinf = (x: TensorLike): Tensor => one('isinf', x, (a) => c.unary('isinf', a))
/** Whether neither NaN nor infinite: bool. */
export const isfinite = (x: TensorLike): Tensor => one('isfinite', x, c.isfinite)
/** x * x. */
export const square = (x: TensorLike): Tensor => one('square', x, c.square)
/** 1 / x; integers become f32. */
export const reciprocal = (x: TensorLike): Tensor => one('reciprocal', x, c.reciprocal)
/** 2^x. */
export const exp2 = (x: TensorLike): Tensor => one('exp2', x, c.exp2)
/** Logarithm of base 2. */
export const log2 = (x: TensorLike): Tensor => one('log2', x, c.log2)
/** Logarithm of base 10. */
export const log10 = (x: TensorLike): Tensor => one('log10', x, c.log10)
/** Whether zero: bool. */
export const logicalNot = (x: TensorLike): Tensor => one('logicalNot', x, c.logicalNot)
/** Bitwise complement of integers, logical of bool. */
export const bitwiseNot = (x: TensorLike): Tensor => one('bitwiseNot', x, (a) => c.unary('not', a))

/** Sum. */
export const add = (a: TensorLike, b: TensorLike): Tensor => two('add', a, b, c.add)
/** Difference. */
export const sub = (a: TensorLike, b: TensorLike): Tensor => two('sub', a, b, c.sub)
/** Product. */
export const mul = (a: TensorLike, b: TensorLike): Tensor => two('mul', a, b, c.mul)
/** True quotient; integers become f32. */
export const div = (a: TensorLike, b: TensorLike): Tensor => two('div', a, b, c.trueDivide)
/** Quotient rounded down. */
export const floorDivide = (a: TensorLike, b: TensorLike): Tensor => two('floorDivide', a, b, c.floorDivide)
/** Remainder with the sign of the divisor (Python). */
export const mod = (a: TensorLike, b: TensorLike): Tensor => two('mod', a, b, c.floorMod)
/** Remainder with the sign of the dividend (C). */
export const rem = (a: TensorLike, b: TensorLike): Tensor => two('rem', a, b, c.rem)
/** Power. */
export const pow = (a: TensorLike, b: TensorLike): Tensor => two('pow', a, b, c.pow)
/** The larger of each pair; NaN wins. */
export const maximum = (a: TensorLike, b: TensorLike): Tensor => two('maximum', a, b, c.max)
/** The smaller of each pair; NaN wins. */
export const minimum = (a: TensorLike, b: TensorLike): Tensor => two('minimum', a, b, c.min)
/** log(e^a + e^b) without overflow. */
export const logaddexp = (a: TensorLike, b: TensorLike): Tensor => two('logaddexp', a, b, c.logAddExp)
/** Both nonzero: bool. */
export const logicalAnd = (a: TensorLike, b: TensorLike): Tensor => two('logicalAnd', a, b, c.logicalAnd)
/** Either nonzero: bool. */
export const logicalOr = (a: TensorLike, b: TensorLike): Tensor => two('logicalOr', a, b, c.logicalOr)
/** Exactly one nonzero: bool. */
export const logicalXor = (a: TensorLike, b: TensorLike): Tensor => two('logicalXor', a, b, c.logicalXor)
/** Angle of the point (b, a). */
export const atan2 = (a: TensorLike, b: TensorLike): Tensor => two('atan2', a, b, (x, y) => c.binary('atan2', x, y))
/**
 * sqrt(a^2 + b^2) without overflow: infinite where either is, else NaN where either is. Shapes broadcast; the common dtype, f32 of
 * integers and bools.
 * @throws E_SHAPE for shapes that do not broadcast, E_ARGUMENT for what is no tensor or number
 * @example hypot(tensor([3, 5]), tensor([4, 12])) // 5, 13
 */
export const hypot = (a: TensorLike, b: TensorLike): Tensor => two('hypot', a, b, (x, y) => c.binary('hypot', x, y))
/** Bitwise and of integers. */
export const bitwiseAnd = (a: TensorLike, b: TensorLike): Tensor =>
  two('bitwiseAnd', a, b, (x, y) => c.binary('and', x, y))
/** Bitwise or of integers. */
export const bitwiseOr = (a: TensorLike, b: TensorLike): Tensor =>
  two('bitwiseOr', a, b, (x, y) => c.binary('or', x, y))
/** Bitwise exclusive or of integers. */
export const bitwiseXor = (a: TensorLike, b: TensorLike): Tensor =>
  two('bitwiseXor', a, b, (x, y) => c.binary('xor', x, y))
/** Bits shifted left. */
export const leftShift = (a: TensorLike, b: TensorLike): Tensor =>
  two('leftShift', a, b, (x, y) => c.binary('shl', x, y))
/** Bits shifted right; the sign stays on signed dtypes. */
export const rightShift = (a: TensorLike, b: TensorLike): Tensor =>
  two('rightShift', a, b, (x, y) => c.binary('shr', x, y))
/** Equal: bool. */
export const equal = (a: TensorLike, b: TensorLike): Tensor => two('equal', a, b, (x, y) => c.compare('eq', x, y))
/** Not equal (true beside NaN): bool. */
export const notEqual = (a: TensorLike, b: TensorLike): Tensor => two('notEqual', a, b, (x, y) => c.compare('ne', x, y))
/** Less: bool. */
export const less = (a: TensorLike, b: TensorLike): Tensor => two('less', a, b, (x, y) => c.compare('lt', x, y))
/** Less or equal: bool. */
export const lessEqual = (a: TensorLike, b: TensorLike): Tensor =>
  two('lessEqual', a, b, (x, y) => c.compare('le', x, y))
/** Greater: bool. */
export const greater = (a: TensorLike, b: TensorLike): Tensor => two('greater', a, b, (x, y) => c.compare('gt', x, y))
/** Greater or equal: bool. */
export const greaterEqual = (a: TensorLike, b: TensorLike): Tensor =>
  two('greaterEqual', a, b, (x, y) => c.compare('ge', x, y))

/** `a` where the bool condition holds, else `b`; all three broadcast. Throws E_DTYPE for another condition. */
export const where = (condition: TensorLike, a: TensorLike, b: TensorLike): Tensor =>
  wrap(record('where', [condition, a, b], ([p, x, y]) => c.where(p ?? false, x ?? 0, y ?? 0)))
/** Numeric conversion (docs/numerics.md, "Casts"). */
export const astype = (x: TensorLike, dtype: DType): Tensor => one('astype', x, (a) => c.cast(a, dtype))
/** The same bits as another dtype of the same width. Throws E_DTYPE. */
export const bitcast = (x: TensorLike, dtype: DType): Tensor => one('bitcast', x, (a) => c.bitcast(a, dtype))

/** Sum over axes (all, unless given); of bool and small integers 32 bits wide unless `dtype` says otherwise. */
export const sum = (x: TensorLike, axes?: Axes, keepdims: KeepdimsOrDType = false): Tensor =>
  one('sum', x, (a) => c.total(a, axes, totalOptionsOf('sum', keepdims)))
/** Product over axes, in a dtype as sums. */
export const prod = (x: TensorLike, axes?: Axes, keepdims: KeepdimsOrDType = false): Tensor =>
  one('prod', x, (a) => c.totalProduct(a, axes, totalOptionsOf('prod', keepdims)))
/** Largest element over axes; NaN wins. */
export const max = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('max', x, (a) => c.reduceMax(a, axes, keepdimsOf('max', keepdims)))
/** Smallest element over axes; NaN wins. */
export const min = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('min', x, (a) => c.reduceMin(a, axes, keepdimsOf('min', keepdims)))
/** Mean over axes; of integers, f32. */
export const mean = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('mean', x, (a) => c.mean(a, axes, keepdimsOf('mean', keepdims)))
/** Whether any element is nonzero: bool. */
export const any = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('any', x, (a) => c.any(a, axes, keepdimsOf('any', keepdims)))
/** Whether all elements are nonzero: bool. */
export const all = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('all', x, (a) => c.all(a, axes, keepdimsOf('all', keepdims)))
/** log(sum(exp(x))) over axes without overflow. */
export const logsumexp = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('logsumexp', x, (a) => c.logSumExp(a, axes, keepdimsOf('logsumexp', keepdims)))
/** Mean squared deviation over axes, divided by n - correction. */
export const variance = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false, correction = 0): Tensor =>
  one('variance', x, (a) => c.variance(a, axes, keepdimsOf('variance', keepdims), real(correction, 'the correction')))
/** Square root of the variance. */
export const std = (x: TensorLike, axes?: Axes, keepdims: Keepdims = false, correction = 0): Tensor =>
  one('std', x, (a) => c.std(a, axes, keepdimsOf('std', keepdims), real(correction, 'the correction')))
/** Vector norm over axes, of order 1, 2, Infinity or -Infinity. */
export const norm = (x: TensorLike, order = 2, axes?: Axes, keepdims: Keepdims = false): Tensor =>
  one('norm', x, (a) => c.norm(a, real(order, 'the order'), axes, keepdimsOf('norm', keepdims)))
/** Index of the largest element (i32), the first of equals; without an axis, in row-major order. */
export const argmax = (x: TensorLike, axis?: number, keepdims: Keepdims = false): Tensor =>
  one('argmax', x, (a) => c.argmax(a, axis, keepdimsOf('argmax', keepdims)))
/** Index of the smallest element (i32), the first of equals. */
export const argmin = (x: TensorLike, axis?: number, keepdims: Keepdims = false): Tensor =>
  one('argmin', x, (a) => c.argmin(a, axis, keepdimsOf('argmin', keepdims)))
/** Running sum along an axis, in a dtype as sums. */
export const cumsum = (x: TensorLike, axis: number, options?: CumulativeOptions): Tensor =>
  one('cumsum', x, (a) => c.cumsum(a, axis, scanOptionsOf('cumsum', options)))
/** Running product along an axis, in a dtype as sums. */
export const cumprod = (x: TensorLike, axis: number, options?: CumulativeOptions): Tensor =>
  one('cumprod', x, (a) => c.cumprod(a, axis, scanOptionsOf('cumprod', options)))
