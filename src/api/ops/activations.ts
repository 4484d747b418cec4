/** Activation functions: plain compositions of primitives, elementwise but for softmax. */
import type { Axes } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import { checkChoice, positive, real } from '../calls/options.ts'
import { one, type Tensor, type TensorLike } from '../tensor/tensor.ts'

/**
 * max(x, 0). Shape and dtype of `x`.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example relu(tensor([-1, 2])) // [0, 2]
 */
export const relu = (x: TensorLike): Tensor => one('relu', x, c.relu)
/**
 * x for x >= 0, else slope * x (Maas et al. 2013). Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example leakyRelu(tensor([-1, 2]), 0.1) // [-0.1, 2]
 */
export const leakyRelu = (x: TensorLike, slope = 0.01): Tensor =>
  one('leakyRelu', x, (a) => c.leakyRelu(a, real(slope, 'the slope')))
/**
 * x for x > 0, else alpha (e^x - 1) (Clevert et al. 2016). Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example elu(tensor([-1, 2])) // [-0.632121, 2]
 */
export const elu = (x: TensorLike, alpha = 1): Tensor => one('elu', x, (a) => c.elu(a, real(alpha, 'alpha')))
/**
 * Scaled elu with self-normalising constants (Klambauer et al. 2017). Shape of `x`; a float dtype stays, integers and bools
 * become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example selu(tensor([-1, 2])) // [-1.111331, 2.101402]
 */
export const selu = (x: TensorLike): Tensor => one('selu', x, (a) => c.selu(a))
/**
 * x times the normal distribution function, exact or by the tanh approximation (Hendrycks and Gimpel 2016). Half precision
 * computes in f32. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for an approximation there is not and what is no tensor or number
 * @example
 * gelu(tensor([-1, 2])) // [-0.158655, 1.9545]
 * gelu(tensor([-1, 2]), 'tanh') // [-0.158808, 1.954598]
 */
export const gelu = (x: TensorLike, approximate: 'none' | 'tanh' = 'none'): Tensor =>
  one('gelu', x, (a) => {
    checkChoice(approximate, ['none', 'tanh'], 'approximation')
    return c.gelu(a, approximate)
  })
/**
 * x * sigmoid(x), also called swish (Elfwing et al. 2018). Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example silu(tensor([0, 2])) // [0, 1.761594]
 */
export const silu = (x: TensorLike): Tensor => one('silu', x, c.silu)
/**
 * log(1 + e^x) without overflow. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example softplus(tensor([0, 2])) // [0.693147, 2.126928]
 */
export const softplus = (x: TensorLike): Tensor => one('softplus', x, c.softplus)
/**
 * x / (1 + |x|). Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example softsign(tensor([-1, 3])) // [-0.5, 0.75]
 */
export const softsign = (x: TensorLike): Tensor => one('softsign', x, c.softsign)
/**
 * x / 6 + 1/2, limited to [0, 1]. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example hardSigmoid(tensor([0, 3])) // [0.5, 1]
 */
export const hardSigmoid = (x: TensorLike): Tensor => one('hardSigmoid', x, (a) => c.hardSigmoid(a))
/**
 * x * hardSigmoid(x) (Howard et al. 2019). Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example hardSwish(tensor([1, 3])) // [0.666667, 3]
 */
export const hardSwish = (x: TensorLike): Tensor => one('hardSwish', x, c.hardSwish)
/**
 * x * tanh(softplus(x)) (Misra 2019). Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example mish(tensor([0, 1])) // [0, 0.865098]
 */
export const mish = (x: TensorLike): Tensor => one('mish', x, c.mish)
/**
 * exp(x) over its sum along axes (the last, unless given), without overflow; a row of only -Infinity gives NaN. Half precision
 * computes in f32. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor or number
 * @example softmax(tensor([[0, 0], [1000, 0]])) // [[0.5, 0.5], [1, 0]]
 */
export const softmax = (x: TensorLike, axes: Axes = -1): Tensor => one('softmax', x, (a) => c.softmax(a, axes))
/**
 * log(softmax(x)) along axes (the last, unless given), without overflow. Shape of `x`; a float dtype stays, integers and bools
 * become f32.
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor or number
 * @example logSoftmax(tensor([0, 0])) // [-0.693147, -0.693147]
 */
export const logSoftmax = (x: TensorLike, axes: Axes = -1): Tensor => one('logSoftmax', x, (a) => c.logSoftmax(a, axes))
/**
 * log(sigmoid(x)) without overflow. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example logSigmoid(tensor([0, -1000])) // [-0.693147, -1000]
 */
export const logSigmoid = (x: TensorLike): Tensor => one('logSigmoid', x, c.logSigmoid)
/**
 * min(max(x, 0), 6) (Krizhevsky 2010). Shape and dtype of `x`.
 * @throws E_ARGUMENT for what is no tensor or number
 * @example relu6(tensor([-1, 2, 8])) // [0, 2, 6]
 */
export const relu6 = (x: TensorLike): Tensor => one('relu6', x, c.relu6)
/**
 * x for x > 0, else alpha (e^(x / alpha) - 1), smooth for every alpha (Barron 2017). Shape of `x`; a float dtype stays, integers
 * and bools become f32.
 * @throws E_ARGUMENT for an alpha that is no number above 0 and what is no tensor or number
 * @example celu(tensor([-1, 2]), 2) // [-0.786939, 2]
 */
export const celu = (x: TensorLike, alpha = 1): Tensor => one('celu', x, (a) => c.celu(a, positive(alpha, 'alpha')))
/**
 * The first half of an axis times the sigmoid of the second (Dauphin et al. 2017). The axis has half the extent; a float dtype
 * stays, integers and bools become f32.
 * @throws E_SHAPE for an axis of an odd extent, E_AXIS for an axis there is not, E_ARGUMENT for what is no tensor
 * @example glu(tensor([2, 4, 0, 0])) // [1, 2]
 */
export const glu = (x: Tensor, axis = -1): Tensor => one('glu', x, (a) => c.glu(a, axis))
