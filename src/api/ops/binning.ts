/** What falls where: positions in sorted values, counts, histograms, sums of segments, interpolation between samples. */
import type { InterpOptions } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { Node } from '../../graph/node.ts'
import { checkChoice, checkList, checkOptions, kinds, optionNames, real, show, whole } from '../calls/options.ts'
import { named, recordMany } from '../tensor/core.ts'
import { self } from '../tensor/self.ts'
import { many, Tensor, type TensorLike, two, wrap } from '../tensor/tensor.ts'

/** A number of things. Throws E_ARGUMENT for what is no whole number of at least `least`. */
function countOf(x: number, what: string, least: number): number {
  if (Number.isSafeInteger(x) && x >= least) return x
  throw new UserError('E_ARGUMENT', `${what} is ${show(x)}`, { help: `give a whole number of at least ${least}` })
}

/** Options of `searchsorted`. */
export interface SearchSortedOptions {
  /** Before elements that are equal ('left', unless given), or behind them ('right'). */
  readonly side?: 'left' | 'right'
}

const searchSortedOptions = optionNames<SearchSortedOptions>("{ side: 'right' }", { side: kinds.text })

/**
 * Where to insert each value in a sorted vector so that it stays sorted (NumPy's `searchsorted`); NaN is last. Shape of `values`; i32
 * (i64 where that does not hold the length).
 * @throws E_SHAPE for what is no vector, E_ARGUMENT for what is no tensor or number and for options that are none
 * @example
 * searchsorted(tensor([1, 2, 2, 4]), tensor([2, 5])) // [1, 4]
 * searchsorted(tensor([1, 2, 2, 4]), 2, { side: 'right' }) // 3
 */
export const searchsorted = (sorted: Tensor, values: TensorLike, options: SearchSortedOptions = {}): Tensor =>
  two('searchsorted', sorted, values, (a, v) => {
    checkOptions(options, 'searchsorted', searchSortedOptions)
    if (options.side !== undefined) checkChoice(options.side, ['left', 'right'], 'side')
    return c.searchSorted(c.asNode(a), c.asNode(v), options.side)
  })

/** Options of `bincount`. */
export interface BinCountOptions {
  /** How many numbers are counted: 0 to length - 1. */
  readonly length: number
  /** What each element counts; 1 unless given. */
  readonly weights?: Tensor
}

const binCountOptions = optionNames<BinCountOptions>('{ length: 10 }', {
  length: kinds.anything,
  weights: kinds.anything,
})

const givenTensors = (name: string, x: Tensor | undefined): Tensor[] => (x === undefined ? [] : [self(name, x)])

/**
 * How often each number from 0 to `length` - 1 occurs among integers (NumPy's `bincount`; shapes do not depend on data, so that the
 * length is given), or the sum of the weights of its occurrences. Numbers out of range do not count. i32, with weights a dtype as sums have.
 * @throws E_DTYPE for what are no integers, E_SHAPE for weights of another shape, E_ARGUMENT for what is no tensor and for options that
 * are none
 * @example bincount(tensor([0, 2, 2, 9], { dtype: 'i32' }), { length: 3 }) // [1, 0, 2]
 */
export function bincount(x: Tensor, options: BinCountOptions): Tensor {
  const given = named('bincount', () => {
    checkOptions(options, 'bincount', binCountOptions)
    return { length: countOf(options.length, 'length', 0), weights: givenTensors('weights', options.weights) }
  })
  return many('bincount', [x, ...given.weights], ([a = c.asNode(0), w]) => c.binCount(a, given.length, w))
}

/** Options of `histogram`. */
export interface HistogramOptions {
  /** A number of equal bins (10 unless given), or their edges, which ascend. */
  readonly bins?: number | Tensor
  /** Least and greatest edge of equal bins; least and greatest element unless given. */
  readonly range?: readonly [number, number]
  /** What each element counts; 1 unless given. */
  readonly weights?: Tensor
  /** Divides counts by their sum and the width of each bin. */
  readonly density?: boolean
}

const histogramOptions = optionNames<HistogramOptions>('{ bins: 20, range: [0, 1] }', {
  bins: kinds.anything,
  range: kinds.anything,
  weights: kinds.anything,
  density: kinds.flag,
})

/** The bounds of equal bins. Throws E_ARGUMENT for what are no numbers that ascend. */
function rangeOf(range: readonly [number, number] | undefined): readonly [number, number] | undefined {
  if (range === undefined) return undefined
  checkList(range, 'the range', '[0, 1]')
  const [low, high] = [real(range[0], 'the least edge'), real(range[1], 'the greatest edge')]
  if (low <= high && Number.isFinite(high - low)) return [low, high]
  throw new UserError('E_ARGUMENT', `bins from ${low} to ${high}`, {
    help: 'give two finite numbers, the lesser first',
  })
}

/**
 * Counts of elements in bins, and the edges of the bins, one more (NumPy's `histogram`). Bin i holds edges[i] <= x < edges[i + 1], the
 * last its right edge too; elements beyond and NaN do not count. Counts are i32, with weights a dtype as sums have, as densities that of the edges:
 * the dtype of `x`, but f32 of half precision, integers and bools.
 * @throws E_SHAPE for edges that are no vector of at least two and weights of another shape, E_ARGUMENT for what is no tensor and for options that
 * are none
 * @example
 * const [counts, edges] = histogram(tensor([1, 2, 2, 3]), { bins: 2 })
 * counts // [1, 3]
 * edges // [1, 2, 3]
 */
export function histogram(x: Tensor, options: HistogramOptions = {}): [counts: Tensor, edges: Tensor] {
  const given = named('histogram', () => {
    checkOptions(options, 'histogram', histogramOptions)
    const { bins = 10, weights, range, density } = options
    return {
      bins: bins instanceof Tensor ? bins : countOf(bins, 'bins', 1),
      weights: givenTensors('weights', weights),
      range: rangeOf(range),
      density,
    }
  })
  const { bins, weights, range, density } = given
  const edges = typeof bins === 'number' ? [] : [bins]
  const states = recordMany('histogram', [self('histogram', x), ...edges, ...weights], (operands) => {
    const [a = c.asNode(0), ...rest] = operands.map(c.asNode)
    const own: number | Node = typeof bins === 'number' ? bins : (rest[0] ?? a)
    return c.histogram(a, own, { range, density, weights: rest[edges.length] })
  })
  const [counts, bounds] = states.map(wrap)
  if (counts === undefined || bounds === undefined) throw new RangeError('a histogram without counts')
  return [counts, bounds]
}

/**
 * Sums of the elements of the first axis that have each number from 0 to `numSegments` - 1 as their segment (JAX's `segment_sum`):
 * [numSegments, ...]. Elements of other segments are dropped. The dtype of `data` (i32 of bools); half precision accumulates in f32.
 * @throws E_SHAPE for segments that are not one an element, E_DTYPE for segments that are no integers, E_ARGUMENT for what is no tensor and a
 * number of segments that is no whole number of at least 0
 * @example segmentSum(tensor([1, 2, 3]), tensor([0, 1, 0], { dtype: 'i32' }), 2) // [4, 2]
 */
export const segmentSum = (data: Tensor, segmentIds: Tensor, numSegments: number): Tensor =>
  two('segmentSum', data, segmentIds, (x, i) =>
    c.segmentSum(
      c.asNode(x),
      c.asNode(i),
      countOf(whole(numSegments, 'the number of segments'), 'the number of segments', 0),
    ),
  )

const interpOptions = optionNames<InterpOptions>('{ left: 0, right: 0 }', { left: kinds.number, right: kinds.number })

/**
 * Values of the line through samples (xp, fp), xp ascending, at each x (NumPy's `interp`); beyond the samples `left` and `right`, the first and
 * the last value unless given. Shape of `x`; the common dtype, f32 of integers; half precision computes in f32.
 * @throws E_SHAPE for samples that are no vectors of one length, E_ARGUMENT for what is no tensor or number and for options that are none
 * @example interp(tensor([0, 1.5, 9]), tensor([1, 2, 3]), tensor([10, 20, 40])) // [10, 15, 40]
 */
export const interp = (x: TensorLike, xp: Tensor, fp: Tensor, options: InterpOptions = {}): Tensor =>
  many('interp', [x, xp, fp], ([a = c.asNode(0), p = a, f = a]) => {
    checkOptions(options, 'interp', interpOptions)
    return c.interp(a, p, f, options)
  })
