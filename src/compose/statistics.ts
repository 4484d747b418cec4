/** Order statistics: medians and quantiles, of sorted rows. */
import { UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { computeDType, type DType, isFloat, positionDType } from '../types/dtype.ts'
import { normaliseAxes, type Shape, sizeOf } from '../types/shape.ts'
import { broadcastTo, expandDims, reshape } from './broadcast.ts'
import { add, cast, clip, compare, mul, sub, unary, where } from './elementwise.ts'
import { take } from './indexing.ts'
import type { Axes } from './reduce.ts'
import { sort } from './sorting.ts'
import { full } from './source.ts'
import { permute } from './views.ts'

/** What stands for a quantile between two elements: NumPy's methods. */
export type QuantileMethod = 'linear' | 'lower' | 'higher' | 'nearest' | 'midpoint'

/** Positions of the two elements that a quantile is between, and its distance from the first, by method. */
interface Between {
  readonly low: Node
  readonly high: Node
  readonly weight: Node
}

function choose(at: Node, method: QuantileMethod): Between {
  const [low, high] = [unary('floor', at), unary('ceil', at)]
  const nearest = unary('round', at)
  switch (method) {
    case 'linear':
      return { low, high, weight: sub(at, low) }
    case 'midpoint':
      return { low, high, weight: full(at.shape, 0.5, at.dtype) }
    case 'lower':
      return { low, high: low, weight: at }
    case 'higher':
      return { low: high, high, weight: at }
    case 'nearest':
      return { low: nearest, high: nearest, weight: at }
  }
}

/** Of a number, what `choose` says in float64, so that positions are right in rows of any length. */
function chooseKnown(q: number, n: number, method: QuantileMethod, work: DType): Between {
  const at = q * (n - 1)
  const whole = Math.round(at)
  const nearest = Math.abs(at % 1) === 0.5 ? 2 * Math.round(at / 2) : whole
  const [low, high] = [Math.floor(at), Math.ceil(at)]
  const weight = method === 'midpoint' ? 0.5 : at - low
  const ends = {
    linear: [low, high],
    midpoint: [low, high],
    lower: [low, low],
    higher: [high, high],
    nearest: [nearest, nearest],
  } as const satisfies Record<QuantileMethod, readonly [number, number]>
  const [a, b] = ends[method]
  const position = (v: number): Node => full([], v, positionDType({ lo: 0, hi: n }))
  const first = position(a)
  return { low: first, high: a === b ? first : position(b), weight: full([], weight, work) }
}

/**
 * Quantiles over axes (NumPy's quantile): the axes of `q`, then those that are left. NaN where there is one, and of no elements. Half precision
 * computes in f32, integers become f32. Throws E_AXIS; E_ARGUMENT for a number outside [0, 1].
 */
export function quantile(
  x: Node,
  q: number | Node,
  axes?: Axes,
  keepdims = false,
  method: QuantileMethod = 'linear',
): Node {
  if (typeof q === 'number' && !(q >= 0 && q <= 1))
    throw new UserError('E_ARGUMENT', `the quantile ${q}`, { help: 'give a number in [0, 1]' })
  const list = normaliseAxes(axes, x.shape.length)
  const rest = x.shape.flatMap((_, i) => (list.includes(i) ? [] : [i]))
  const result = isFloat(x.dtype) ? x.dtype : 'f32'
  const work = computeDType(result)
  const head = rest.map((i) => x.shape[i] ?? 1)
  const n = list.reduce((m, a) => m * (x.shape[a] ?? 1), 1)
  const rows = reshape(permute(cast(x, work), [...rest, ...list]), [...head, n])
  const lead: Shape = typeof q === 'number' ? [] : q.shape
  const shape = [...lead, ...head]
  const kept = keepdims ? [...lead, ...x.shape.map((d, i) => (list.includes(i) ? 1 : d))] : shape
  if (n === 0 || sizeOf(shape) === 0) return full(kept, Number.NaN, result)
  const sorted = permute(sort(rows), [head.length, ...head.map((_, i) => i)])
  const { low, high, weight } =
    typeof q === 'number' ? chooseKnown(q, n, method, work) : choose(mul(clip(cast(q, work), 0, 1), n - 1), method)
  const elements = (at: Node): Node => take(sorted, cast(at, positionDType({ lo: 0, hi: n })), 0)
  const [a, b] = [elements(low), elements(high)]
  const share = broadcastTo(
    expandDims(
      weight,
      head.map((_, i) => lead.length + i),
    ),
    shape,
  )
  const value = low === high ? a : where(compare('eq', a, b), a, add(a, mul(sub(b, a), share)))
  // NaN is last in a sorted row.
  const last = take(sorted, full([], n - 1, 'i64'), 0)
  return reshape(cast(where(unary('isnan', broadcastTo(last, shape)), Number.NaN, value), result), kept)
}

/** The middle element over axes, the mean of two where there are two (NumPy's median). Otherwise as `quantile`. */
export const median = (x: Node, axes?: Axes, keepdims = false): Node => quantile(x, 0.5, axes, keepdims)
