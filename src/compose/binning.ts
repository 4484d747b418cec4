/** What falls where: positions in sorted values, counts, histograms, sums of segments, interpolation between samples. */
import { UserError } from '../diagnostics/errors.ts'
import { keepsViews, makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { computeDType, isFloat, isInteger, positionDType } from '../types/dtype.ts'
import { sameShape, showShape, sizeOf } from '../types/shape.ts'
import { expandDims, reshape } from './broadcast.ts'
import {
  add,
  cast,
  clip,
  commonDType,
  compare,
  div,
  logicalAnd,
  logicalNot,
  logicalOr,
  mul,
  sub,
  unary,
  where,
} from './elementwise.ts'
import { asIndex, scatterND, take } from './indexing.ts'
import { reduceMax, reduceMin, sum, totalDType } from './reduce.ts'
import { diff } from './series.ts'
import { full, iota, zeros } from './source.ts'
import { sliceAxis } from './views.ts'

/** Throws E_SHAPE for what is no vector. */
function checkVector(x: Node, what: string): number {
  const [n] = x.shape
  if (n !== undefined && x.shape.length === 1) return n
  throw new UserError('E_SHAPE', `${what} of shape ${showShape(x.shape)}`, { help: 'give a vector' })
}

/** As many values are compared with all at once: what that costs is that of a search with its dependent reads, or less. */
const mostCompared = 32

/** The longest vector whose positions, and twice them, a dtype holds. */
const mostPositions = { i32: 2 ** 30 - 1, i64: Number.MAX_SAFE_INTEGER }

/** Whether `element` comes before `value` in the order of floats in which NaN is last; before or beside it for the right side. */
function comesBefore(element: Node, value: Node, side: 'left' | 'right'): Node {
  const plain = compare(side === 'left' ? 'lt' : 'le', element, value)
  if (!isFloat(value.dtype)) return plain
  const isLast = unary('isnan', value)
  return logicalOr(plain, side === 'right' ? isLast : logicalAnd(isLast, logicalNot(unary('isnan', element))))
}

/**
 * How many elements of a sorted vector come before each value (left), or are not beyond it (right): where to insert it (NumPy's
 * searchsorted). NaN is last. Positions are i32, or i64 where that does not hold the length. Throws E_SHAPE.
 */
export function searchSorted(sorted: Node, values: Node, side: 'left' | 'right' = 'left'): Node {
  const n = checkVector(sorted, 'sorted values')
  const dtype = positionDType({ lo: 0, hi: 2 * n })
  if (n === 0) return zeros(values.shape, dtype)
  const isOneOfMany = keepsViews()
  const common = commonDType([sorted, values])
  const [a, v] = [cast(sorted, common), cast(values, common)]
  if (n <= mostCompared && !isOneOfMany) return sum(cast(comesBefore(a, expandDims(v, -1), side), dtype), -1)
  let position = zeros(v.shape, dtype)
  // As many steps at any length where the graph stands for others: rewriting leaves out those beyond the greatest.
  const most = isOneOfMany ? mostPositions[dtype] : n
  for (let step = 2 ** Math.floor(Math.log2(most)); step >= 1; step /= 2) {
    const next = add(position, step)
    // No place is before the first: indices do not wrap.
    const there = makeNode('gather', [a, add(position, step - 1)], { shape: v.shape, sources: [{ input: 0 }] })
    const within = logicalAnd(compare('le', next, n), comesBefore(there, v, side))
    position = where(within, next, position)
  }
  return position
}

/** Throws E_SHAPE where weights are not one an element. */
function checkWeights(weights: Node, x: Node): void {
  if (sameShape(weights.shape, x.shape)) return
  throw new UserError('E_SHAPE', `weights of shape ${showShape(weights.shape)} for ${showShape(x.shape)}`, {
    help: 'give a weight for each element',
  })
}

/**
 * How often each number from 0 to `length` - 1 occurs (i32), or the sum of the weights of its occurrences, in the dtype of sums. Others do
 * not count. Throws E_DTYPE for what are no integers, E_SHAPE.
 */
export function binCount(x: Node, length: number, weights?: Node): Node {
  if (!isInteger(x.dtype))
    throw new UserError('E_DTYPE', `counts of ${x.dtype}`, {
      help: 'count integers: cast with astype, or take a histogram',
    })
  if (weights !== undefined) checkWeights(weights, x)
  const values = weights ?? full(x.shape, 1, 'i32')
  const result = totalDType(values.dtype)
  const amounts = reshape(cast(values, computeDType(result)), [-1])
  const numbers = reshape(x, [-1])
  if (length <= mostCompared) {
    const hit = compare('eq', expandDims(asIndex(numbers, 0), -1), iota([length], 0))
    return cast(sum(where(hit, expandDims(amounts, -1), 0), 0), result)
  }
  const target = zeros([length], amounts.dtype)
  return cast(scatterND(target, expandDims(unwrapped(numbers, length), -1), amounts, 'sum'), result)
}

/** Indices of which negative ones are out of range, instead of counting from the end. */
function unwrapped(indices: Node, extent: number): Node {
  const wide = asIndex(indices, 0)
  return where(compare('lt', wide, 0), extent, wide)
}

/** Sums of the rows that have each number as their segment: [numSegments, ...]. Rows of other numbers are dropped. Throws E_SHAPE, E_DTYPE. */
export function segmentSum(data: Node, segmentIds: Node, numSegments: number): Node {
  const n = checkVector(segmentIds, 'segments')
  if (data.shape[0] !== n)
    throw new UserError('E_SHAPE', `${n} segments for data of shape ${showShape(data.shape)}`, {
      help: 'give a segment for each element of the first axis',
    })
  const result = data.dtype === 'bool' ? 'i32' : data.dtype
  const values = cast(data, computeDType(result))
  const target = zeros([numSegments, ...data.shape.slice(1)], values.dtype)
  return cast(scatterND(target, expandDims(unwrapped(segmentIds, numSegments), -1), values, 'sum'), result)
}

/** Options of `histogram`. */
export interface HistogramNodeOptions {
  /** Least and greatest edge; those of the data unless given. */
  readonly range?: readonly [number, number] | undefined
  readonly weights?: Node | undefined
  /** Counts over their sum and the width of each bin. */
  readonly density?: boolean | undefined
}

/** Equal bins between bounds; bounds that are equal are half a unit away (NumPy). */
function equalBins(low: Node, high: Node, bins: number): Node {
  const isPoint = compare('eq', low, high)
  const [from, to] = [where(isPoint, sub(low, 0.5), low), where(isPoint, add(high, 0.5), high)]
  const position = iota([bins + 1], 0, 'i32')
  const inner = add(mul(div(sub(to, from), bins), cast(position, low.dtype)), from)
  return where(compare('eq', position, bins), to, inner)
}

/**
 * Counts of elements in bins, and the edges of the bins (NumPy's histogram): bin i holds edges[i] <= x < edges[i + 1], the last its right edge
 * too. Elements beyond the edges and NaN do not count. `bins` is a number of equal bins, or a vector of edges that ascend. Throws E_SHAPE.
 */
export function histogram(x: Node, bins: number | Node, options: HistogramNodeOptions = {}): [Node, Node] {
  const work = isFloat(x.dtype) ? computeDType(x.dtype) : 'f32'
  const data = reshape(cast(x, work), [-1])
  const bound = (i: 0 | 1): Node => {
    if (options.range !== undefined) return full([], options.range[i], work)
    if (sizeOf(x.shape) === 0) return full([], i, work)
    return i === 0 ? reduceMin(data) : reduceMax(data)
  }
  const edges = typeof bins === 'number' ? equalBins(bound(0), bound(1), bins) : cast(bins, work)
  const count = checkVector(edges, 'edges') - 1
  if (count < 1) throw new UserError('E_SHAPE', `${count + 1} edges of bins`, { help: 'give at least two edges' })
  const at = clip(sub(searchSorted(edges, data, 'right'), 1), 0, count - 1)
  const inside = logicalAnd(
    compare('ge', data, sliceAxis(edges, 0, 0, 1)),
    compare('le', data, sliceAxis(edges, 0, count, count + 1)),
  )
  const { weights } = options
  if (weights !== undefined) checkWeights(weights, x)
  const counts = binCount(where(inside, at, -1), count, weights === undefined ? undefined : reshape(weights, [-1]))
  if (options.density !== true) return [counts, edges]
  const amounts = cast(counts, work)
  return [div(div(amounts, diff(edges)), sum(amounts)), edges]
}

/** Options of `interp`: values left and right of the samples, those of the first and last sample unless given. */
export interface InterpOptions {
  /** Left of the first sample; its value unless given. */
  readonly left?: number
  /** Right of the last sample; its value unless given. */
  readonly right?: number
}

/** Values at x of the line through the samples (xp, fp), xp ascending (NumPy's interp). NaN at NaN. Integers become f32. Throws E_SHAPE. */
export function interp(x: Node, xp: Node, fp: Node, options: InterpOptions = {}): Node {
  const n = checkVector(xp, 'samples')
  if (checkVector(fp, 'values of samples') !== n || n === 0)
    throw new UserError(
      'E_SHAPE',
      `samples of shape ${showShape(xp.shape)} with values of shape ${showShape(fp.shape)}`,
      {
        help: 'give as many values as samples, at least one',
      },
    )
  const common = commonDType([x, xp, fp])
  const result = isFloat(common) ? common : 'f32'
  const [at, p, f] = [x, xp, fp].map((v) => cast(v, computeDType(result)))
  if (at === undefined || p === undefined || f === undefined) return x
  const right = clip(searchSorted(p, at, 'right'), Math.min(1, n - 1), n - 1)
  const left = clip(sub(right, 1), 0, n - 1)
  const [p0, f0] = [take(p, left), take(f, left)]
  const width = sub(take(p, right), p0)
  const isPoint = compare('eq', width, 0)
  const slope = div(sub(take(f, right), f0), where(isPoint, 1, width))
  const line = where(isPoint, f0, add(f0, mul(sub(at, p0), slope)))
  const first = sliceAxis(f, 0, 0, 1)
  const last = sliceAxis(f, 0, n - 1, n)
  const scalar = (v: Node): Node => reshape(v, [])
  const low = where(compare('lt', at, scalar(sliceAxis(p, 0, 0, 1))), options.left ?? scalar(first), line)
  return cast(where(compare('gt', at, scalar(sliceAxis(p, 0, n - 1, n))), options.right ?? scalar(last), low), result)
}
