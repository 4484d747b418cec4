/** Adam and its variant with decoupled weight decay. */

import { checkOptions, kinds, optionNames } from '../calls/options.ts'
import { expm1 } from '../ops/math.ts'
import { named } from '../tensor/core.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { check, fraction, nonNegative, positive } from './check.ts'
import { type DecayMask, type LearningRate, type Optimizer, optimizer } from './optimizer.ts'

/** Options of `adam`. */
export interface AdamOptions {
  /** The rate of a step, or a schedule of it. */
  readonly learningRate: LearningRate
  /** Decay of the mean of the gradients; 0.9 unless given. */
  readonly beta1?: number
  /** Decay of the mean of their squares; 0.999 unless given. */
  readonly beta2?: number
  /** Added to the root of the mean square; 1e-8 unless given. */
  readonly epsilon?: number
}

/** Options of `adamw`. */
export interface AdamWOptions extends AdamOptions {
  /** Share of each parameter that a step of rate 1 takes away; 0.01 unless given. */
  readonly weightDecay?: number
  /** Which tensors decay; all unless given. Often `(leaf) => leaf.rank > 1`: matrices, not biases and scales. */
  readonly decays?: DecayMask
}

const adamNames = {
  learningRate: kinds.anything,
  beta1: kinds.anything,
  beta2: kinds.anything,
  epsilon: kinds.anything,
} as const

const adamOptions = optionNames<AdamOptions>('{ learningRate: 0.001 }', adamNames)

const adamwOptions = optionNames<AdamWOptions>('{ learningRate: 0.001 }', {
  ...adamNames,
  weightDecay: kinds.anything,
  decays: kinds.call,
})

/** 1 - beta^count, without the cancellation: 1 - 0.999 in f32 has five digits. */
const correction = (beta: number, count: Tensor): Tensor => expm1(count.mul(Math.log(beta))).neg()

function makeAdam(name: string, options: AdamWOptions): Optimizer<'first' | 'second'> {
  const { learningRate, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0, decays } = options
  return named(`optim.${name}`, () => {
    check(
      { beta1, beta2, epsilon, weightDecay },
      { beta1: fraction, beta2: fraction, epsilon: positive, weightDecay: nonNegative },
    )
    return optimizer<'first' | 'second'>({
      name,
      slots: ['first', 'second'],
      learningRate,
      decays,
      at: ({ count, rate }) => {
        const size = correction(beta1, count).reciprocal().mul(rate)
        const spread = correction(beta2, count).rsqrt()
        return ({ param, gradient, slots, decays }) => {
          const first = slots.first.mul(beta1).add(gradient.mul(1 - beta1))
          const second = slots.second.mul(beta2).add(gradient.square().mul(1 - beta2))
          const step = first.mul(size).div(second.sqrt().mul(spread).add(epsilon))
          const moved = param.sub(step)
          return {
            param: decays && weightDecay > 0 ? moved.sub(param.mul(rate).mul(weightDecay)) : moved,
            slots: { first, second },
          }
        }
      },
    })
  })
}

/**
 * Adam: steps of m / (sqrt(v) + epsilon) times the rate, with m and v the running means of the gradients (slot `first`) and of
 * their squares (slot `second`), each over 1 - beta^t (Kingma and Ba 2015).
 * @throws E_ARGUMENT for a hyperparameter out of range and options that are none
 * @example
 * const { init, update } = optim.adam({ learningRate: 0.1 })
 * const params = { w: tensor([1, -1]) }
 * const next = update({ w: tensor([3, -5]) }, init(params), params)
 * next.params // { w: [0.9, -0.9] }
 * next.state.step // 1
 */
export function adam(options: AdamOptions): Optimizer<'first' | 'second'> {
  named('optim.adam', () => checkOptions(options, 'adam', adamOptions))
  return makeAdam('adam', { ...options, weightDecay: 0 })
}

/**
 * Adam with decoupled weight decay: besides Adam's step each parameter loses rate * weightDecay of itself, which the running
 * means do not see (Loshchilov and Hutter 2019).
 * @throws E_ARGUMENT for a hyperparameter out of range and options that are none
 * @example
 * const { init, update } = optim.adamw({ learningRate: 0.1, weightDecay: 0.5 })
 * const w = tensor([1])
 * update(tensor([3]), init(w), w).params // [0.85]: 1 - 0.1 - 0.1 * 0.5
 */
export function adamw(options: AdamWOptions): Optimizer<'first' | 'second'> {
  named('optim.adamw', () => checkOptions(options, 'adamw', adamwOptions))
  return makeAdam('adamw', { ...options, weightDecay: options.weightDecay ?? 0.01 })
}
