/** Results whose number depends on data, in room for a given number of them (JAX's `size` and `fill_value`). */
import * as c from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { Scalar } from '../../scalar/ops.ts'
import { normaliseAxis } from '../../types/shape.ts'
import { checkOptions, isScalar, kinds, optionNames, show } from '../calls/options.ts'
import { named, recordMany } from '../tensor/core.ts'
import { type Tensor, wrap } from '../tensor/tensor.ts'

/** Options of `nonzero`. */
export interface NonzeroOptions {
  /** Results that there is room for. */
  readonly size: number
  /** What stands behind them; 0 unless given. */
  readonly fillValue?: number
}

const nonzeroOptions = optionNames<NonzeroOptions>('{ size: 10 }', { size: kinds.anything, fillValue: kinds.whole })

/** Coordinates of elements that are not zero. */
export interface NonzeroResult {
  /** For each axis [size], in row-major order of the elements: i32, or i64 where that does not hold the last position. */
  readonly indices: readonly Tensor[]
  /** How many there are, a scalar: more than `size` where the room is too small for all. */
  readonly count: Tensor
}

/** Room for results. Throws E_ARGUMENT for what is none. */
function checkSize(size: number, what: string): void {
  if (Number.isSafeInteger(size) && size >= 0) return
  throw new UserError('E_ARGUMENT', `the size of ${what} is ${show(size)}`, {
    help: 'shapes do not depend on data: say how many results there is room for, { size: 100 }',
  })
}

/** Results of one operation as tensors. */
function taken(states: ReturnType<typeof recordMany>): () => Tensor {
  const tensors = states.map(wrap)
  return () => {
    const t = tensors.shift()
    if (t === undefined) throw new RangeError('an operation without its results')
    return t
  }
}

/**
 * Where elements are not zero, in room for `size` of them (NumPy's `nonzero`, JAX's with `size`): shapes do not depend on data, so the first
 * `size` are given, and how many there are. NaN is not zero; a scalar counts as one of shape [1].
 * @throws E_ARGUMENT for a size that is no whole number of at least 0, what is no tensor and options that are none
 * @example
 * const { indices, count } = nonzero(tensor([[0, 7], [5, 0]]), { size: 3 })
 * indices[0] // [0, 1, 0]
 * indices[1] // [1, 0, 0]
 * count // 2
 */
export function nonzero(x: Tensor, options: NonzeroOptions): NonzeroResult {
  named('nonzero', () => {
    checkOptions(options, 'nonzero', nonzeroOptions)
    checkSize(options.size, 'nonzero')
  })
  const states = recordMany('nonzero', [x], ([a]) => {
    const { indices, count } = c.nonzero(c.asNode(a ?? 0), options.size, options.fillValue)
    return [count, ...indices]
  })
  const next = taken(states)
  const count = next()
  return { indices: states.slice(1).map(next), count }
}

/** Options of `unique`. */
export interface UniqueOptions {
  /** Results that there is room for. */
  readonly size: number
  /** What stands behind them; the first of them unless given. */
  readonly fillValue?: Scalar
  /** Slices along this axis are compared, instead of elements. */
  readonly axis?: number
  /** In order, unless false: then as they come first. */
  readonly sorted?: boolean
}

const uniqueOptions = optionNames<UniqueOptions>('{ size: 10 }', {
  size: kinds.anything,
  fillValue: { what: 'a number', holds: isScalar },
  axis: kinds.whole,
  sorted: kinds.flag,
})

/** Values that differ. */
export interface UniqueResult {
  /** [size], or `x` with that extent along the axis: NaN, which counts once, is last. */
  readonly values: Tensor
  /** Where each comes first, [size]; 0 behind them. */
  readonly indices: Tensor
  /** The place in `values` of each element, [elements], or of each slice. */
  readonly inverse: Tensor
  /** How often each comes, [size]; 0 behind them. */
  readonly counts: Tensor
  /** How many there are, a scalar: more than `size` where the room is too small for all. */
  readonly count: Tensor
}

/**
 * The values that differ among the elements of a tensor, or among its slices along an axis, in room for `size` of them (NumPy's `unique`, JAX's with
 * `size`), with where each comes first, how often, and which one each element is. Positions and counts are i32 (i64 where that does not hold them).
 * @throws E_AXIS for an axis there is not, E_ARGUMENT for a size that is no whole number of at least 0, what is no tensor and options that are none
 * @example
 * const { values, counts, inverse, count } = unique(tensor([3, 1, 3, 2]), { size: 4, fillValue: 0 })
 * values // [1, 2, 3, 0]
 * counts // [1, 1, 2, 0]
 * inverse // [2, 0, 2, 1]
 * count // 3
 */
export function unique(x: Tensor, options: UniqueOptions): UniqueResult {
  named('unique', () => {
    checkOptions(options, 'unique', uniqueOptions)
    checkSize(options.size, 'unique')
  })
  const next = taken(
    recordMany('unique', [x], ([a]) => {
      const node = c.asNode(a ?? 0)
      const { size, fillValue: fill, axis, sorted = true } = options
      const along = axis === undefined ? undefined : normaliseAxis(axis, node.shape.length)
      const found = c.unique(node, size, { sorted, fill, axis: along })
      return [found.values, found.indices, found.inverse, found.counts, found.count]
    }),
  )
  return { values: next(), indices: next(), inverse: next(), counts: next(), count: next() }
}
