/**
 * Schedules: learning rates as functions of the number of updates done, 0 at the first. They are plain functions of a scalar
 * tensor, so inside `jit` they are part of the program; any function of the kind is one.
 */
import { UserError } from '../../diagnostics/errors.ts'
import { kindOf } from '../../diagnostics/shown.ts'
import { isFloat } from '../../types/dtype.ts'
import { checkList, checkOptions, kinds, optionNames } from '../calls/options.ts'
import { asUser } from '../calls/place.ts'
import { floorDivide, minimum, where } from '../ops/arithmetic.ts'
import { full } from '../ops/creation.ts'
import { cos, exp } from '../ops/math.ts'
import { named } from '../tensor/core.ts'
import { Tensor, type TensorLike } from '../tensor/tensor.ts'
import { check, count, finite, nonNegative, positive } from './check.ts'

/** A value at a step: from a scalar of any number dtype to a scalar (f32 from those of this library, f64 for f64 steps). */
export type Schedule = (step: Tensor) => Tensor

const number = (step: Tensor): Tensor => (isFloat(step.dtype) ? step : step.astype('f32'))

/** A schedule whose operations have its name. */
const schedule =
  (name: string, at: (step: Tensor) => Tensor): Schedule =>
  (step) =>
    named(name, () => at(number(step)))

/** A schedule that was given to another. */
function given(inner: Schedule, step: Tensor): Tensor {
  const value: unknown = asUser(() => inner(step))
  if (value instanceof Tensor) return value
  throw new UserError('E_ARGUMENT', `the schedule gives ${kindOf(value)}`, { help: 'return a float scalar' })
}

function checked(name: string, values: object, ranges: Parameters<typeof check>[1]): void {
  named(name, () => check({ ...values }, ranges))
}

/**
 * Always the same value.
 * @throws E_ARGUMENT for a value out of range
 * @example
 * const rate = optim.constant(0.1)
 * rate(tensor(7)) // 0.1
 */
export function constant(value: number): Schedule {
  checked('optim.constant', { value }, { value: finite })
  return schedule('constant', (step) => full([], value, step.dtype))
}

/** A way from one value to another. */
export interface RampOptions {
  /** The value at step 0. */
  readonly from: number
  /** The value at the end. */
  readonly to: number
  /** Steps until `to`, which stays. */
  readonly steps: number
}

const rampNames = { from: kinds.anything, to: kinds.anything, steps: kinds.anything } as const
const rampOptions = optionNames<RampOptions>('{ from: 1, to: 0, steps: 100 }', rampNames)

/**
 * from + (to - from) min(step, steps) / steps.
 * @throws E_ARGUMENT for a value out of range and options that are none
 * @example
 * const rate = optim.linear({ from: 1, to: 0, steps: 4 })
 * rate(tensor(1)) // 0.75
 * rate(tensor(9)) // 0
 */
export function linear(options: RampOptions): Schedule {
  named('optim.linear', () => checkOptions(options, 'linear', rampOptions))
  const { from, to, steps } = options
  checked('optim.linear', options, { from: finite, to: finite, steps: count })
  return schedule('linear', (step) =>
    minimum(step, steps)
      .mul((to - from) / steps)
      .add(from),
  )
}

/** Options of `cosineDecay`. */
export interface CosineOptions extends Omit<RampOptions, 'to'> {
  /** The value at the end; 0 unless given. */
  readonly to?: number
}

const decayOptions = optionNames<CosineOptions>('{ from: 1, steps: 100 }', rampNames)

/**
 * to + (from - to) (1 + cos(pi min(step, steps) / steps)) / 2, with `to` 0 unless given (Loshchilov and Hutter 2017).
 * @throws E_ARGUMENT for a value out of range and options that are none
 * @example
 * const rate = optim.cosineDecay({ from: 1, steps: 4 })
 * rate(tensor(1)) // 0.853553
 * rate(tensor(2)) // 0.5
 */
export function cosineDecay(options: CosineOptions): Schedule {
  named('optim.cosineDecay', () => checkOptions(options, 'cosineDecay', decayOptions))
  const { from, to = 0, steps } = options
  checked('optim.cosineDecay', { from, to, steps }, { from: finite, to: finite, steps: count })
  return schedule('cosineDecay', (step) =>
    cos(minimum(step, steps).mul(Math.PI / steps))
      .add(1)
      .mul((from - to) / 2)
      .add(to),
  )
}

/** Options of `exponentialDecay`. */
export interface ExponentialOptions {
  /** The value at step 0. */
  readonly from: number
  /** The factor of `steps` steps, above 0. */
  readonly rate: number
  /** Steps for which `rate` is the factor. */
  readonly steps: number
}

const exponentialOptions = optionNames<ExponentialOptions>('{ from: 1, rate: 0.5, steps: 100 }', {
  from: kinds.anything,
  rate: kinds.anything,
  steps: kinds.anything,
})

/**
 * from * rate^(step / steps).
 * @throws E_ARGUMENT for a value out of range and options that are none
 * @example
 * const rate = optim.exponentialDecay({ from: 1, rate: 0.25, steps: 2 })
 * rate(tensor(1)) // 0.5
 * rate(tensor(2)) // 0.25
 */
export function exponentialDecay(options: ExponentialOptions): Schedule {
  named('optim.exponentialDecay', () => checkOptions(options, 'exponentialDecay', exponentialOptions))
  const { from, rate, steps } = options
  checked('optim.exponentialDecay', options, { from: finite, rate: positive, steps: count })
  return schedule('exponentialDecay', (step) => exp(step.mul(Math.log(rate) / steps)).mul(from))
}

/** Options of `stepDecay`. */
export interface StepOptions {
  /** The value at step 0. */
  readonly from: number
  /** The factor of each fall, above 0. */
  readonly rate: number
  /** Steps between falls. */
  readonly every: number
}

const stepOptions = optionNames<StepOptions>('{ from: 1, rate: 0.5, every: 100 }', {
  from: kinds.anything,
  rate: kinds.anything,
  every: kinds.anything,
})

/**
 * from * rate^floor(step / every).
 * @throws E_ARGUMENT for a value out of range and options that are none
 * @example
 * const rate = optim.stepDecay({ from: 1, rate: 0.5, every: 10 })
 * rate(tensor(9)) // 1
 * rate(tensor(10)) // 0.5
 */
export function stepDecay(options: StepOptions): Schedule {
  named('optim.stepDecay', () => checkOptions(options, 'stepDecay', stepOptions))
  const { from, rate, every } = options
  checked('optim.stepDecay', options, { from: finite, rate: positive, every: count })
  return schedule('stepDecay', (step) => exp(floorDivide(step, every).mul(Math.log(rate))).mul(from))
}

/**
 * One schedule after another: pieces[i] holds from boundaries[i - 1] on, up to boundaries[i]; a piece that is a schedule counts
 * from its own beginning.
 * @throws E_ARGUMENT unless boundaries rise and there is one piece more
 * @example
 * const rate = optim.piecewise([10], [0.1, 0.01])
 * rate(tensor(9)) // 0.1
 * rate(tensor(10)) // 0.01
 */
export function piecewise(boundaries: readonly number[], pieces: readonly (number | Schedule)[]): Schedule {
  named('optim.piecewise', () => {
    checkList(boundaries, 'the boundaries', '[100]')
    checkList(pieces, 'the pieces', '[0.1, 0.01]')
    boundaries.forEach((b, i) => {
      check({ [`boundary ${i}`]: b }, { [`boundary ${i}`]: count })
      if (b <= (boundaries[i - 1] ?? 0))
        throw new UserError('E_ARGUMENT', `boundary ${i} is ${b}, the one before ${boundaries[i - 1]}`, {
          help: 'give boundaries in rising order',
        })
    })
    pieces.forEach((p, i) => {
      if (typeof p !== 'function') check({ [`piece ${i}`]: p }, { [`piece ${i}`]: finite })
    })
    if (pieces.length !== boundaries.length + 1)
      throw new UserError('E_ARGUMENT', `${pieces.length} pieces for ${boundaries.length} boundaries`, {
        help: 'give one piece more than boundaries',
      })
  })
  return schedule('piecewise', (step) => {
    const pieceAt = (i: number): TensorLike => {
      const piece = pieces[i] ?? 0
      const start = boundaries[i - 1]
      return typeof piece === 'number' ? piece : given(piece, start === undefined ? step : step.sub(start))
    }
    const last = pieceAt(boundaries.length)
    const whole = last instanceof Tensor ? last : full([], last, step.dtype)
    return boundaries.reduceRight((later, b, i) => where(step.less(b), pieceAt(i), later), whole)
  })
}

/**
 * A rise in equal parts to the first value of what follows: (step + 1) / steps of it at the first steps, so none is lost to a
 * rate of 0; then the schedule, counting from 0.
 * @throws E_ARGUMENT for a value out of range
 * @example
 * const rate = optim.linearWarmup(4, 0.8)
 * rate(tensor(0)) // 0.2
 * rate(tensor(3)) // 0.8
 */
export function linearWarmup(steps: number, after: number | Schedule): Schedule {
  checked('optim.linearWarmup', { steps }, { steps: count })
  if (typeof after !== 'function') checked('optim.linearWarmup', { after }, { after: nonNegative })
  return schedule('linearWarmup', (step) => {
    const target = typeof after === 'number' ? full([], after, step.dtype) : given(after, step.sub(steps).maximum(0))
    return target.mul(minimum(step.add(1), steps).div(steps))
  })
}
