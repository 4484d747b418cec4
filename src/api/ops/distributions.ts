/** Random values of distributions, choices and permutations: the part of `random` that is made of uniform bits in several steps. */
import * as c from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { FloatDType } from '../../types/dtype.ts'
import { extentsOf, type Shape } from '../../types/shape.ts'
import { checkOptions, kinds, optionNames, show } from '../calls/options.ts'
import type { Excess } from '../calls/slicing.ts'
import { named } from '../tensor/core.ts'
import { self } from '../tensor/self.ts'
import { many, one, type Tensor, type TensorLike, two } from '../tensor/tensor.ts'

/**
 * Exponential with mean 1, of 32 random bits: from 0 to 22.9; f32 unless given.
 * @throws E_ARGUMENT for a key that is none, E_SHAPE for a shape that is none, E_DTYPE for what is no float
 * @example random.exponential(random.key(0), [2]) // f32[2]
 */
export const exponential = (k: Tensor, shape: Shape, dtype: FloatDType = 'f32', ...rest: Excess): Tensor =>
  one('random.exponential', k, (a) => c.randomExponential(a, extentsOf(shape, dtype, ...rest), dtype))

/**
 * Standard Gumbel (mean 0.5772, variance pi^2 / 6), of 32 random bits: from -2.9 to 22.9; f32 unless given.
 * @throws E_ARGUMENT for a key that is none, E_SHAPE for a shape that is none, E_DTYPE for what is no float
 * @example random.gumbel(random.key(0), [2]) // f32[2]
 */
export const gumbel = (k: Tensor, shape: Shape, dtype: FloatDType = 'f32', ...rest: Excess): Tensor =>
  one('random.gumbel', k, (a) => c.randomGumbel(a, extentsOf(shape, dtype, ...rest), dtype))

/** Options of `random.categorical`. */
export interface CategoricalOptions {
  /** The axis of the classes; the last unless given. */
  readonly axis?: number
  /** The shape of what is drawn, which ends with the other axes of the logits; these alone unless given. */
  readonly shape?: Shape
}

const categoricalOptions = optionNames<CategoricalOptions>('{ axis: 0 }', { axis: kinds.whole, shape: kinds.anything })

/**
 * Classes drawn with probabilities in proportion to e^logits, by the greatest of logits plus Gumbel values (JAX's `categorical`). i32.
 * @throws E_SHAPE for a shape that does not end with the other axes of the logits, E_AXIS for an axis there is not, E_ARGUMENT for a key that is
 * none and options that are none
 * @example random.categorical(random.key(0), tensor([0, 100, 0]), { shape: [3] }) // [1, 1, 1]
 */
export const categorical = (k: Tensor, logits: TensorLike, options: CategoricalOptions = {}): Tensor =>
  two('random.categorical', k, logits, (a, x) => {
    checkOptions(options, 'random.categorical', categoricalOptions)
    const shape = options.shape === undefined ? undefined : extentsOf(options.shape)
    return c.categorical(c.asNode(a), c.asNode(x), options.axis, shape)
  })

/** A number of things to choose from. Throws E_ARGUMENT for what is no whole number of at least 0. */
function countOf(n: number): number {
  if (Number.isSafeInteger(n) && n >= 0) return n
  throw new UserError('E_ARGUMENT', `there are ${show(n)} to choose from`, {
    help: 'give a whole number of at least 0, or a tensor',
  })
}

/**
 * A random order of 0 to n - 1 (i32), or a tensor with an axis in random order, one for all the other axes (JAX's `permutation`).
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for a key that is none and what is no tensor and no whole number of at least 0
 * @example sort(random.permutation(random.key(0), 4)) // [0, 1, 2, 3]
 */
export function permutation(k: Tensor, x: number | Tensor, axis = 0): Tensor {
  const name = 'random.permutation'
  if (typeof x !== 'number') return two(name, k, self(name, x), (a, v) => c.permutation(c.asNode(a), c.asNode(v), axis))
  return one(name, k, (a) => c.permutationOf(a, countOf(x)))
}

/** Options of `random.choice`. */
export interface ChoiceOptions {
  /** Whether an element may be chosen again; so unless false. */
  readonly replace?: boolean
  /** The probability of each element, or what is in proportion to it; all alike unless given. */
  readonly p?: Tensor
  /** The axis whose elements are chosen; 0 unless given. */
  readonly axis?: number
}

const choiceOptions = optionNames<ChoiceOptions>('{ replace: false }', {
  replace: kinds.flag,
  p: kinds.anything,
  axis: kinds.whole,
})

/**
 * Elements of an axis of a tensor at random, over a shape that stands in place of the axis, or numbers from 0 to n - 1 (i32; JAX's `choice`).
 * @throws E_SHAPE for a shape that is none, more elements without replacement than there are and probabilities that are not one for each, E_AXIS for an
 * axis there is not, E_ARGUMENT for a key that is none, what is no tensor and no whole number, and for options that are none
 * @example
 * random.choice(random.key(0), tensor([5, 7, 9]), [2], { p: tensor([0, 1, 0]) }) // [7, 7]
 * sort(random.choice(random.key(0), 3, [3], { replace: false })) // [0, 1, 2]
 */
export function choice(k: Tensor, x: number | Tensor, shape: Shape, options: ChoiceOptions = {}): Tensor {
  const name = 'random.choice'
  const given = named(name, () => {
    checkOptions(options, name, choiceOptions)
    return options.p === undefined ? [] : [self('p', options.p)]
  })
  const { replace, axis = 0 } = options
  if (typeof x === 'number')
    return many(name, [k, ...given], ([a = c.asNode(0), p]) =>
      c.choicePositions(a, countOf(x), extentsOf(shape), { replace, p }),
    )
  return many(name, [k, self(name, x), ...given], ([a = c.asNode(0), v = a, p]) =>
    c.choice(a, v, extentsOf(shape), { replace, p, axis }),
  )
}

const shapeOf = (shape: Shape | undefined): Shape | undefined => (shape === undefined ? undefined : extentsOf(shape))

/**
 * Gamma values of a shape parameter above 0 (a number or a tensor, which broadcasts) and scale 1, by the method of Marsaglia and Tsang (2000) in 8
 * rounds: with a probability below 4e-11 none accepts, and the value is near the mode. The shape of `alpha` unless given; f32 unless given. They have no
 * derivative in the parameter (E_UNSUPPORTED): `stopGradient(alpha)` makes it a constant.
 * @throws E_ARGUMENT for a key that is none, E_SHAPE for a shape that is none or that the parameter does not broadcast to, E_DTYPE for what is no float
 * @example random.gamma(random.key(0), tensor([0.5, 3])) // f32[2]
 */
export const gamma = (k: Tensor, alpha: TensorLike, shape?: Shape, dtype: FloatDType = 'f32'): Tensor =>
  two('random.gamma', k, alpha, (a, p) => c.randomGamma(c.asNode(a), p, shapeOf(shape), dtype))

/**
 * Beta values of two parameters above 0 (numbers or tensors, which broadcast), from two gamma values; also where these underflow. The common shape of the
 * parameters unless given; f32 unless given. No derivative in the parameters, as `gamma`.
 * @throws E_ARGUMENT for a key that is none, E_SHAPE for a shape that is none or that the parameters do not broadcast to, E_DTYPE for what is no float
 * @example random.beta(random.key(0), 2, tensor([1, 5])) // f32[2]
 */
export const beta = (k: Tensor, a: TensorLike, b: TensorLike, shape?: Shape, dtype: FloatDType = 'f32'): Tensor =>
  many('random.beta', [k, a, b], ([key = c.asNode(0), p = key, q = key]) =>
    c.randomBeta(key, p, q, shapeOf(shape), dtype),
  )

/**
 * Standard normal values within bounds (numbers or tensors, which broadcast; infinite ones too), by inversion, with derivatives in the bounds. Bounds that
 * are both beyond 5 on one side leave f32 no digits. The common shape of the bounds unless given; f32 unless given.
 * @throws E_ARGUMENT for a key that is none, E_SHAPE for a shape that is none or that the bounds do not broadcast to, E_DTYPE for what is no float
 * @example random.truncatedNormal(random.key(0), -2, 2, [3]).abs().lessEqual(2) // [true, true, true]
 */
export const truncatedNormal = (
  k: Tensor,
  lower: TensorLike,
  upper: TensorLike,
  shape?: Shape,
  dtype: FloatDType = 'f32',
): Tensor =>
  many('random.truncatedNormal', [k, lower, upper], ([key = c.asNode(0), p = key, q = key]) =>
    c.truncatedNormal(key, p, q, shapeOf(shape), dtype),
  )
