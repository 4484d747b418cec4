/** Elementwise functions of one operand: some are methods of `Tensor` too; these take numbers as well. */

import * as c from '../../compose/index.ts'
import { one, type Tensor, type TensorLike } from '../tensor/tensor.ts'

/**
 * Negation; of the least integer that integer itself, of unsigned integers modulo 2^width. Shape and dtype of `x`; bools become
 * i32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example neg(tensor([1, -2.5])) // [-1, 2.5]
 */
export const neg = (x: TensorLike): Tensor => one('neg', x, (a) => c.unary('neg', a))
/**
 * Magnitude; of the least integer that integer itself. Shape and dtype of `x`; bools become i32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example abs(tensor([-3, 4])) // [3, 4]
 */
export const abs = (x: TensorLike): Tensor => one('abs', x, (a) => c.unary('abs', a))
/**
 * -1, 0 or 1 by the sign; NaN and -0 stay (NumPy's `sign`). Shape and dtype of `x`; bools become i32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example sign(tensor([-3, 0, 4])) // [-1, 0, 1]
 */
export const sign = (x: TensorLike): Tensor => one('sign', x, (a) => c.unary('sign', a))
/**
 * Square root, correctly rounded; NaN of negative numbers. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example sqrt(tensor([4, 2])) // [2, 1.414214]
 */
export const sqrt = (x: TensorLike): Tensor => one('sqrt', x, (a) => c.unary('sqrt', a))
/**
 * 1 / sqrt(x); infinite at 0. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example rsqrt(tensor([4, 0])) // [0.5, Infinity]
 */
export const rsqrt = (x: TensorLike): Tensor => one('rsqrt', x, (a) => c.unary('rsqrt', a))
/**
 * e^x. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example exp(tensor([0, 1])) // [1, 2.718282]
 */
export const exp = (x: TensorLike): Tensor => one('exp', x, (a) => c.unary('exp', a))
/**
 * e^x - 1, exact near 0 (C's `expm1`). Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example expm1(tensor([1e-6, 1])) // [1.000001e-6, 1.718282]
 */
export const expm1 = (x: TensorLike): Tensor => one('expm1', x, (a) => c.unary('expm1', a))
/**
 * Natural logarithm; -Infinity at 0, NaN of negative numbers. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example log(tensor([1, 10, 0])) // [0, 2.302585, -Infinity]
 */
export const log = (x: TensorLike): Tensor => one('log', x, (a) => c.unary('log', a))
/**
 * log(1 + x), exact near 0 (C's `log1p`). Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example log1p(tensor([1e-6, 1])) // [9.999995e-7, 0.693147]
 */
export const log1p = (x: TensorLike): Tensor => one('log1p', x, (a) => c.unary('log1p', a))
/**
 * Sine of an angle in radians. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example sin(tensor([0, Math.PI / 2])) // [0, 1]
 */
export const sin = (x: TensorLike): Tensor => one('sin', x, (a) => c.unary('sin', a))
/**
 * Cosine of an angle in radians. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example cos(tensor([0, Math.PI])) // [1, -1]
 */
export const cos = (x: TensorLike): Tensor => one('cos', x, (a) => c.unary('cos', a))
/**
 * Tangent of an angle in radians. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example tan(tensor([0, 1])) // [0, 1.557408]
 */
export const tan = (x: TensorLike): Tensor => one('tan', x, (a) => c.unary('tan', a))
/**
 * Angle in [-pi/2, pi/2] radians with sine x; NaN outside [-1, 1]. Shape of `x`; a float dtype stays, integers and bools become
 * f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example asin(tensor([0, 1])) // [0, 1.570796]
 */
export const asin = (x: TensorLike): Tensor => one('asin', x, (a) => c.unary('asin', a))
/**
 * Angle in [0, pi] radians with cosine x; NaN outside [-1, 1]. Shape of `x`; a float dtype stays, integers and bools become
 * f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example acos(tensor([1, 0])) // [0, 1.570796]
 */
export const acos = (x: TensorLike): Tensor => one('acos', x, (a) => c.unary('acos', a))
/**
 * Angle in [-pi/2, pi/2] radians with tangent x. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example atan(tensor([0, 1])) // [0, 0.785398]
 */
export const atan = (x: TensorLike): Tensor => one('atan', x, (a) => c.unary('atan', a))
/**
 * Hyperbolic sine. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example sinh(tensor([0, 1])) // [0, 1.175201]
 */
export const sinh = (x: TensorLike): Tensor => one('sinh', x, (a) => c.unary('sinh', a))
/**
 * Hyperbolic cosine. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example cosh(tensor([0, 1])) // [1, 1.543081]
 */
export const cosh = (x: TensorLike): Tensor => one('cosh', x, (a) => c.unary('cosh', a))
/**
 * Hyperbolic tangent. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example tanh(tensor([0, 1])) // [0, 0.761594]
 */
export const tanh = (x: TensorLike): Tensor => one('tanh', x, (a) => c.unary('tanh', a))
/**
 * Inverse hyperbolic sine. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example asinh(tensor([0, 1])) // [0, 0.881374]
 */
export const asinh = (x: TensorLike): Tensor => one('asinh', x, (a) => c.unary('asinh', a))
/**
 * Inverse hyperbolic cosine; NaN below 1. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example acosh(tensor([1, 2])) // [0, 1.316958]
 */
export const acosh = (x: TensorLike): Tensor => one('acosh', x, (a) => c.unary('acosh', a))
/**
 * Inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond them. Shape of `x`; a float dtype stays, integers and bools
 * become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example atanh(tensor([0.5, 1])) // [0.549306, Infinity]
 */
export const atanh = (x: TensorLike): Tensor => one('atanh', x, (a) => c.unary('atanh', a))
/**
 * 1 / (1 + e^-x), the logistic function. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example sigmoid(tensor([0, 2])) // [0.5, 0.880797]
 */
export const sigmoid = (x: TensorLike): Tensor => one('sigmoid', x, (a) => c.unary('sigmoid', a))
/**
 * Error function: 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x. Shape of `x`; a float dtype stays, integers and
 * bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example erf(tensor([0, 1])) // [0, 0.842701]
 */
export const erf = (x: TensorLike): Tensor => one('erf', x, (a) => c.unary('erf', a))
/**
 * 1 - erf(x), exact where that is small. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example erfc(tensor([0, 1, 4])) // [1, 0.1572992, 1.541726e-8]
 */
export const erfc = (x: TensorLike): Tensor => one('erfc', x, (a) => c.unary('erfc', a))
/**
 * Inverse of erf: infinite at -1 and 1, NaN beyond them. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example erfinv(tensor([0, 0.5, 1])) // [0, 0.4769363, Infinity]
 */
export const erfinv = (x: TensorLike): Tensor => one('erfinv', x, (a) => c.unary('erfinv', a))
/**
 * Logarithm of the magnitude of the gamma function (C's `lgamma`): infinite at 0, -1, -2, ... Shape of `x`; a float dtype
 * stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example lgamma(tensor([1, 5, 0])) // [0, 3.178054, Infinity]: log 4! for 5
 */
export const lgamma = (x: TensorLike): Tensor => one('lgamma', x, (a) => c.unary('lgamma', a))
/**
 * Derivative of lgamma: NaN at -1, -2, ..., infinite at 0. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example digamma(tensor([1, 2])) // [-0.5772157, 0.4227843]
 */
export const digamma = (x: TensorLike): Tensor => one('digamma', x, (a) => c.unary('digamma', a))
/**
 * Derivative of digamma: infinite at 0, -1, -2, ... It has no derivative: `grad` through it throws E_UNSUPPORTED. Shape of `x`;
 * a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example trigamma(tensor([1, 2])) // [1.644934, 0.6449341]
 */
export const trigamma = (x: TensorLike): Tensor => one('trigamma', x, (a) => c.unary('trigamma', a))
/**
 * Cube root, negative of negative numbers (C's `cbrt`). Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example cbrt(tensor([-8, 27])) // [-2, 3]
 */
export const cbrt = (x: TensorLike): Tensor => one('cbrt', x, (a) => c.unary('cbrt', a))
/**
 * Rounded down. Shape and dtype of `x`; bools become i32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example floor(tensor([1.5, -1.5])) // [1, -2]
 */
export const floor = (x: TensorLike): Tensor => one('floor', x, (a) => c.unary('floor', a))
/**
 * Rounded up. Shape and dtype of `x`; bools become i32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example ceil(tensor([1.5, -1.5])) // [2, -1]
 */
export const ceil = (x: TensorLike): Tensor => one('ceil', x, (a) => c.unary('ceil', a))
/**
 * Rounded to nearest, ties to even (NumPy's `round`). Shape and dtype of `x`; bools become i32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example round(tensor([0.5, 1.5, 2.6])) // [0, 2, 3]
 */
export const round = (x: TensorLike): Tensor => one('round', x, (a) => c.unary('round', a))
/**
 * Rounded towards zero. Shape and dtype of `x`; bools become i32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example trunc(tensor([1.5, -1.5])) // [1, -1]
 */
export const trunc = (x: TensorLike): Tensor => one('trunc', x, (a) => c.unary('trunc', a))
/**
 * Whether NaN; false of integers. Shape of `x`, bool.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example isnan(tensor([0, NaN])) // [false, true]
 */
export const isnan = (x: TensorLike): Tensor => one('isnan', x, (a) => c.unary('isnan', a))
/**
 * Whether infinite; false of integers. Shape of `x`, bool.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example isinf(tensor([0, -Infinity])) // [false, true]
 */
export const isinf = (x: TensorLike): Tensor => one('isinf', x, (a) => c.unary('isinf', a))
/**
 * Whether neither NaN nor infinite; true of integers. Shape of `x`, bool.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example isfinite(tensor([0, NaN, Infinity])) // [true, false, false]
 */
export const isfinite = (x: TensorLike): Tensor => one('isfinite', x, c.isfinite)
/**
 * x * x; integers wrap. Shape and dtype of `x`; bools become i32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example square(tensor([3, -4])) // [9, 16]
 */
export const square = (x: TensorLike): Tensor => one('square', x, c.square)
/**
 * 1 / x; infinite at 0. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example reciprocal(tensor([4, 0])) // [0.25, Infinity]
 */
export const reciprocal = (x: TensorLike): Tensor => one('reciprocal', x, c.reciprocal)
/**
 * 2^x. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example exp2(tensor([3, -1])) // [8, 0.5]
 */
export const exp2 = (x: TensorLike): Tensor => one('exp2', x, c.exp2)
/**
 * Logarithm of base 2; -Infinity at 0, NaN of negative numbers. Shape of `x`; a float dtype stays, integers and bools become
 * f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example log2(tensor([8, 0.5])) // [3, -1]
 */
export const log2 = (x: TensorLike): Tensor => one('log2', x, c.log2)
/**
 * Logarithm of base 10; -Infinity at 0, NaN of negative numbers. Shape of `x`; a float dtype stays, integers and bools become
 * f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example log10(tensor([100, 0.1])) // [2, -1]
 */
export const log10 = (x: TensorLike): Tensor => one('log10', x, c.log10)
/**
 * Whether zero; false of NaN. Shape of `x`, bool.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example logicalNot(tensor([0, 2])) // [true, false]
 */
export const logicalNot = (x: TensorLike): Tensor => one('logicalNot', x, c.logicalNot)
/**
 * Bitwise complement of integers, logical of bool. Shape and dtype of `x`.
 * @throws E_ARGUMENT for what is no tensor or number, E_DTYPE for floats
 * @example bitwiseNot(tensor([0, 5], { dtype: 'i32' })) // [-1, -6]
 */
export const bitwiseNot = (x: TensorLike): Tensor => one('bitwiseNot', x, (a) => c.unary('not', a))
