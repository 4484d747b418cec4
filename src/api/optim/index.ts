/** The namespace `optim`: optimisers, learning-rate schedules and clipping, as pure functions of trees of tensors. */
export { type AdamOptions, type AdamWOptions, adam, adamw } from './adam.ts'
export { clipByGlobalNorm, globalNorm } from './clip.ts'
export type { DecayMask, LearningRate, Optimizer, OptimizerState } from './optimizer.ts'
export {
  type CosineOptions,
  constant,
  cosineDecay,
  type ExponentialOptions,
  exponentialDecay,
  linear,
  linearWarmup,
  piecewise,
  type RampOptions,
  type Schedule,
  type StepOptions,
  stepDecay,
} from './schedules.ts'
export { type SgdOptions, sgd } from './sgd.ts'
