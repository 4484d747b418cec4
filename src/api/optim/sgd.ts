/** Stochastic gradient descent. */

import { UserError } from '../../diagnostics/errors.ts'
import { checkOptions, kinds, optionNames } from '../calls/options.ts'
import { named } from '../tensor/core.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { check, fraction, nonNegative } from './check.ts'
import { type DecayMask, type LearningRate, type Optimizer, optimizer } from './optimizer.ts'

/** Options of `sgd`. */
export interface SgdOptions {
  /** The rate of a step, or a schedule of it. */
  readonly learningRate: LearningRate
  /** Share of the velocity that stays at each step; without it there is none, and no state but the step. */
  readonly momentum?: number
  /** Looks one step ahead along the velocity. */
  readonly nesterov?: boolean
  /** Adds this share of each parameter to its gradient (an L2 penalty of half of it). */
  readonly weightDecay?: number
  /** Which tensors decay; all unless given. */
  readonly decays?: DecayMask
}

const sgdOptions = optionNames<SgdOptions>('{ learningRate: 0.1 }', {
  learningRate: kinds.anything,
  momentum: kinds.anything,
  nesterov: kinds.flag,
  weightDecay: kinds.anything,
  decays: kinds.call,
})

/**
 * Gradient descent: v = momentum v + g, p = p - rate v; with `nesterov` p = p - rate (g + momentum v) (Sutskever et al. 2013,
 * with the rate outside the velocity); without momentum p = p - rate g.
 * @throws E_ARGUMENT for a hyperparameter out of range and options that are none, `nesterov` without momentum among them
 * @example
 * const { init, update } = optim.sgd({ learningRate: 0.1 })
 * const w = tensor([1, 2])
 * update(tensor([10, 20]), init(w), w).params // [0, 0]
 */
export function sgd(options: SgdOptions & { readonly momentum: number }): Optimizer<'velocity'>
export function sgd(options: SgdOptions & { readonly momentum?: never }): Optimizer<never>
export function sgd(options: SgdOptions): Optimizer<'velocity'> | Optimizer<never> {
  named('optim.sgd', () => checkOptions(options, 'sgd', sgdOptions))
  const { learningRate, momentum, nesterov = false, weightDecay = 0, decays } = options
  return named('optim.sgd', () => {
    check({ momentum: momentum ?? 0, weightDecay }, { momentum: fraction, weightDecay: nonNegative })
    if (nesterov && momentum === undefined)
      throw new UserError('E_ARGUMENT', 'nesterov without momentum', { help: 'give momentum, such as 0.9' })
    const penalised = (g: Tensor, p: Tensor, decay: boolean): Tensor =>
      decay && weightDecay > 0 ? g.add(p.mul(weightDecay)) : g
    if (momentum === undefined)
      return optimizer<never>({
        name: 'sgd',
        slots: [],
        learningRate,
        decays,
        at:
          ({ rate }) =>
          ({ param, gradient, slots, decays }) => ({
            param: param.sub(penalised(gradient, param, decays).mul(rate)),
            slots,
          }),
      })
    return optimizer<'velocity'>({
      name: 'sgd',
      slots: ['velocity'],
      learningRate,
      decays,
      at:
        ({ rate }) =>
        ({ param, gradient, slots, decays }) => {
          const g = penalised(gradient, param, decays)
          const velocity = slots.velocity.mul(momentum).add(g)
          const along = nesterov ? g.add(velocity.mul(momentum)) : velocity
          return { param: param.sub(along.mul(rate)), slots: { velocity } }
        },
    })
  })
}
