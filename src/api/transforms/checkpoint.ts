/** `checkpoint`: functions whose intermediate values are computed again for a derivative instead of being kept. */
import { inCheckpoint } from '../../diagnostics/origin.ts'
import { checkFunction } from '../calls/options.ts'
import { placed } from '../calls/place.ts'
import { currentTrace } from '../tensor/core.ts'

/**
 * f, whose intermediate values are not kept between the forward and the backward pass of a derivative: the backward pass
 * computes them again from f's arguments and what f closes over (JAX's `checkpoint`). Values and derivatives are those of f;
 * less memory is held meanwhile, and f is computed once more. Inside another checkpointed function it is part of that one.
 * @throws E_ARGUMENT for what is no function
 * @example
 * const layer = checkpoint((x: Tensor) => tanh(x.mul(2)))
 * grad((x: Tensor) => layer(x).sum())(tensor([0, 1])) // [2, 0.141302]
 */
export function checkpoint<A extends readonly unknown[], R>(f: (...args: A) => R): (...args: A) => R {
  placed(() => checkFunction(f, 'checkpoint'))
  // Outside a trace there is no derivative to keep values for.
  return (...args) => (currentTrace() === undefined ? f(...args) : inCheckpoint(() => f(...args)))
}
