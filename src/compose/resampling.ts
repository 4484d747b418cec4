/**
 * Resampling along one axis: every result is a weighted sum of a few elements, which are known (taps). By a whole factor taps repeat from phase to
 * phase, so they are views; elsewhere they are gathers with tables of indices, or a contraction where there are many.
 */
import { makeNode } from '../graph/build.ts'
import type { IndexSource, Node } from '../graph/node.ts'
import type { DType } from '../types/dtype.ts'
import { resized } from '../types/shape.ts'
import { reshape } from './broadcast.ts'
import { contractLabelled, labelAt } from './contract.ts'
import { add, cast, mul, sub, where } from './elementwise.ts'
import { constant, ones, zeros } from './source.ts'
import { pad, repeat, sliceAxis } from './views.ts'

/** What one result is made of: indices in order, each once and in range, and weights, none of them zero. */
export type Taps = readonly (readonly [index: number, weight: number])[]

/** A run of phases: results o = `count` of them from `shift` on read about element `step` floor((o + shift) / phases) - `lead`. */
interface Period {
  readonly phases: number
  readonly step: number
  readonly shift: number
  readonly lead: number
  /** Taps of a result, from the element that it reads about. */
  readonly taps: number
}

/** Taps up to which an axis is resampled by views or gathers. */
const mostTerms = 8
/** Phases up to which an axis is taken apart into them, and results of it so that finding the period takes no time. */
const mostPhases = 64
const mostExtent = 2 ** 16

/** x along an axis with tables of indices, which are in range. */
export function takeKnown(x: Node, indices: readonly number[], axis: number): Node {
  const shape = resized(x.shape, axis, indices.length)
  const table = constant(Int32Array.from(indices), [indices.length], 'i32')
  const index = makeNode('broadcast', [table], { shape, dims: [axis] })
  const sources = x.shape.map((_, i): IndexSource => (i === axis ? { input: 0 } : { axis: i }))
  return makeNode('gather', [x, index], { shape, sources })
}

/** The whole factor of a scale by which an axis grows (phases) or shrinks (steps), where it is one. */
function factorOf(scale: number): { readonly phases: number; readonly step: number } | undefined {
  const near = (v: number): number | undefined =>
    Math.abs(v - Math.round(v)) <= 1e-6 * v && v >= 1.5 ? Math.round(v) : undefined
  const phases = near(scale)
  if (phases !== undefined) return phases <= mostPhases ? { phases, step: 1 } : undefined
  const step = near(1 / scale)
  return step === undefined ? undefined : { phases: 1, step }
}

/** The period in which rows of ascending indices are fewest elements apart; none where that is not within `most`. */
function periodOf(rows: readonly (readonly number[])[], scale: number, most: number): Period | undefined {
  const factor = factorOf(scale)
  if (factor === undefined || rows.length === 0 || rows.length > mostExtent) return undefined
  let best: Period | undefined
  for (let shift = 0; shift < factor.phases; shift++) {
    let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
    rows.forEach((row, o) => {
      const about = factor.step * Math.floor((o + shift) / factor.phases)
      low = Math.min(low, (row[0] ?? 0) - about)
      high = Math.max(high, (row.at(-1) ?? 0) - about)
    })
    const taps = high - low + 1
    if (taps <= most && (best === undefined || taps < best.taps)) best = { ...factor, shift, lead: -low, taps }
  }
  return best
}

/** Phases that results take, those before the first and after the last too. */
const periodsOf = ({ shift, phases }: Period, results: number): number => Math.ceil((results + shift) / phases)

/** The element that each result reads at a tap, with zeros (or the nearest element) around x: [.., periods, ..]. */
function elementsAt(x: Node, axis: number, p: Period, results: number, tap: number, mode: 'constant' | 'edge'): Node {
  const n = x.shape[axis] ?? 0
  const count = periodsOf(p, results)
  const first = tap - p.lead
  const last = first + (count - 1) * p.step
  const along = x.shape.map((_, d): readonly [number, number] => (d === axis ? [-first, last + 1 - n] : [0, 0]))
  const seen = pad(x, along, mode)
  return p.step === 1 ? seen : sliceAxis(seen, axis, 0, last + 1 - first, p.step)
}

/** Sums of taps by views: each phase is a weighted sum of the same few neighbours. */
function byPhases(x: Node, axis: number, rows: readonly Taps[], p: Period): Node {
  const periods = periodsOf(p, rows.length)
  const n = x.shape[axis] ?? 0
  const shape = [...x.shape.slice(0, axis), periods, p.phases, ...x.shape.slice(axis + 1)]
  const dims = x.shape.map((_, d) => (d <= axis ? d : d + 1))
  const beside = (w: Node): Node => makeNode('broadcast', [w], { shape, dims: [axis, axis + 1] })
  /** Weights at a tap, and whether one is zero though there is an element: that one's infinity is none of the result's. */
  const weightsAt = (tap: number): { readonly weights: Float64Array; readonly unread: boolean } => {
    const weights = new Float64Array(periods * p.phases)
    let unread = false
    rows.forEach((row, o) => {
      const at = p.step * Math.floor((o + p.shift) / p.phases) - p.lead + tap
      const weight = row.find(([i]) => i === at)?.[1]
      weights[o + p.shift] = weight ?? 0
      unread ||= weight === undefined && at >= 0 && at < n
    })
    return { weights, unread }
  }
  const isComplement = p.taps === 2 && rows.every((row) => Math.abs(row.reduce((s, [, w]) => s + w, 0) - 1) < 1e-12)
  let total: Node | undefined
  let second: Node | undefined
  for (let tap = p.taps - 1; tap >= 0; tap--) {
    const { weights, unread } = weightsAt(tap)
    const table = (values: ArrayLike<number>): Node => beside(floats(values, [periods, p.phases], x.dtype))
    const weight: Node = isComplement && second !== undefined ? sub(ones(shape, x.dtype), second) : table(weights)
    second = weight
    const element = elementsAt(x, axis, p, rows.length, tap, 'constant')
    const term = mul(makeNode('broadcast', [element], { shape, dims }), weight)
    const read = (): Node =>
      beside(
        constant(
          Uint8Array.from(weights, (w) => (w === 0 ? 0 : 1)),
          [periods, p.phases],
          'bool',
        ),
      )
    const seen = unread ? where(read(), term, zeros(shape, x.dtype)) : term
    total = total === undefined ? seen : add(seen, total)
  }
  const joined = reshape(total ?? zeros(shape, x.dtype), resized(x.shape, axis, periods * p.phases))
  return sliceAxis(joined, axis, p.shift, p.shift + rows.length)
}

/** Numbers as literals of a float dtype. */
const floats = (values: ArrayLike<number>, shape: readonly number[], dtype: DType): Node =>
  dtype === 'f64'
    ? constant(Float64Array.from(values), shape, dtype)
    : cast(constant(Float32Array.from(values), shape, 'f32'), dtype)

/** Sums of taps by gathers: tables of indices and weights, one of each a tap. */
function byGathers(x: Node, axis: number, rows: readonly Taps[], count: number): Node {
  // A result of fewer taps than others reads its last element in parts: a weight of zero would make NaN of an infinity there.
  const full = rows.map((row): Taps => {
    const [index, weight] = row.at(-1) ?? [0, 0]
    const parts = count - row.length + 1
    return parts === 1 ? row : [...row.slice(0, -1), ...shares(weight, parts).map((w) => [index, w] as const)]
  })
  let total: Node | undefined
  for (let k = 0; k < count; k++) {
    const at = takeKnown(
      x,
      full.map((row) => row[k]?.[0] ?? 0),
      axis,
    )
    const weights = floats(
      full.map((row) => row[k]?.[1] ?? 0),
      [rows.length],
      x.dtype,
    )
    const term = mul(at, makeNode('broadcast', [weights], { shape: at.shape, dims: [axis] }))
    total = total === undefined ? term : add(total, term)
  }
  return total ?? x
}

/** A weight in parts that are halves of each other, so that none rounds. */
const shares = (weight: number, parts: number): number[] =>
  Array.from({ length: parts }, (_, i) => weight / 2 ** Math.min(i + 1, parts - 1))

/** Sums of taps as a product with the matrix of weights. */
function byProduct(x: Node, axis: number, rows: readonly Taps[]): Node {
  const from = x.shape[axis] ?? 0
  const matrix = new Float64Array(rows.length * from)
  rows.forEach((row, o) => {
    for (const [i, w] of row) matrix[o * from + i] = w
  })
  const axes = x.shape.map((_, i) => labelAt(i))
  const result = labelAt(axes.length)
  const weights = floats(matrix, [rows.length, from], x.dtype)
  const out = axes.map((l, i) => (i === axis ? result : l)).join('')
  return contractLabelled(x, axes.join(''), weights, `${result}${axes[axis] ?? ''}`, out)
}

/** Weighted sums of the elements of an axis of floats, one a row of `rows`; `scale` is how many results there are to an element. */
export function resample(x: Node, axis: number, rows: readonly Taps[], scale: number): Node {
  const count = Math.max(1, ...rows.map((row) => row.length))
  const period = periodOf(
    rows.map((row) => row.map(([i]) => i)),
    scale,
    mostTerms,
  )
  if (period !== undefined) return byPhases(x, axis, rows, period)
  return count > mostTerms ? byProduct(x, axis, rows) : byGathers(x, axis, rows, count)
}

/** x[.., indices[p], ..] along an axis, of indices in range; `scale` is how many results there are to an element. */
export function pickAt(x: Node, axis: number, indices: readonly number[], scale: number): Node {
  const n = x.shape[axis] ?? 0
  const period = nearestPeriod(indices, n, scale)
  if (period === undefined) return takeKnown(x, indices, axis)
  const elements = elementsAt(x, axis, period, indices.length, 0, 'edge')
  const spread = period.phases === 1 ? elements : repeat(elements, period.phases, axis)
  return sliceAxis(spread, axis, period.shift, period.shift + indices.length)
}

/** The period of indices that are held to [0, n) at both ends. */
function nearestPeriod(indices: readonly number[], n: number, scale: number): Period | undefined {
  const factor = factorOf(scale)
  const inner = indices.findIndex((i) => i > 0)
  if (factor === undefined || n === 0 || indices.length === 0 || indices.length > mostExtent) return undefined
  // Where every index is 0 a phase begins with the first result; else where the first one above 0 is read.
  const start = Math.max(0, inner)
  const shift = (factor.phases - (start % factor.phases)) % factor.phases
  const lead = factor.step * Math.floor((start + shift) / factor.phases) - (indices[start] ?? 0)
  const found = { ...factor, shift, lead, taps: 1 }
  const held = (o: number): number =>
    Math.min(n - 1, Math.max(0, factor.step * Math.floor((o + shift) / factor.phases) - lead))
  return indices.every((i, o) => i === held(o)) ? found : undefined
}
