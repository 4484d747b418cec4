/**
 * Phases of one axis of a transposed convolution, or of a convolution's data gradient: results o = s q + r of the r-th phase read data q + u and
 * weights r + low - s u, so no product is with a zero that stands between the data (sub-pixel convolution, Shi et al. 2016, arXiv:1609.07009).
 */
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { reshape } from './broadcast.ts'
import type { Pair } from './padding.ts'
import { flip, pad, padInterior, slidingWindow } from './views.ts'

/** An axis of data x and weights w, whose results are y[o] = sum of x[i] w[k] over o = i stride + k dilation - low, 0 <= o < length. */
export interface SpreadAxis {
  readonly stride: number
  readonly dilation: number
  /** Extent of the data. */
  readonly extent: number
  /** Extent of the weights. */
  readonly kernel: number
  readonly low: number
  readonly length: number
}

/**
 * How such an axis is taken apart: the results o = s q + r of a phase r, `count` of them, read x[q + u], `from` <= u < `from` + `taps`. `apart`:
 * every phase has a window of its own, x[q + floor((r + low) / s) + u], where a window that serves all of them were longer.
 */
export interface Phases extends SpreadAxis {
  readonly span: number
  readonly count: number
  readonly from: number
  readonly taps: number
  readonly apart: boolean
}

/** The phases of an axis. */
export function phasesOf(axis: SpreadAxis): Phases {
  const { stride, dilation, kernel, low, length } = axis
  const span = (kernel - 1) * dilation + 1
  const count = Math.ceil(length / stride)
  const from = Math.ceil((low - span + 1) / stride)
  const shared = Math.floor((stride - 1 + low) / stride) - from + 1
  const own = Math.ceil(span / stride)
  const way = own < shared ? { from: 1 - own, taps: own, apart: true } : { from, taps: shared, apart: false }
  return { ...axis, span, count, ...way }
}

/** What is added around the data, so that all that the windows of all phases read is there. */
export function roomFor({ from, taps, apart, stride, low, extent, count }: Phases): Pair {
  const reach = apart ? count + Math.floor((stride - 1 + low) / stride) : count + from + taps - 1
  return [-from, reach - extent]
}

/** Data with room along an axis, as windows of the phases there: (positions q, phases r where those are apart, taps u). */
export function phaseWindows(x: Node, axis: number, phases: Phases): Node {
  const { taps, stride, low, count } = phases
  if (!phases.apart) return slidingWindow(x, axis, taps, 1, 1)
  const length = count * stride + stride * (taps - 1)
  const seen = slidingWindow(cutAxis(repeatEach(x, axis, stride), axis, low, length), axis, taps, 1, stride)
  return reshape(seen, [...seen.shape.slice(0, axis), count, stride, ...seen.shape.slice(axis + 1)])
}

/** Weights whose axes `at` become (taps u, phases r) each. */
export function phaseWeights(w: Node, at: readonly number[], axes: readonly Phases[]): Node {
  const along = (value: (p: Phases) => number): number[] =>
    w.shape.map((_, d) => {
      const p = axes[at.indexOf(d)]
      return p === undefined ? 0 : value(p)
    })
  const before = (p: Phases): number => (p.apart ? 0 : p.stride * (p.from + p.taps - 1) - p.low)
  const dilated = padInterior(
    w,
    along(before),
    along((p) => p.taps * p.stride - p.span - before(p)),
    along((p) => p.dilation - 1),
  )
  let weights = reshape(
    dilated,
    w.shape.flatMap((e, d) => {
      const p = axes[at.indexOf(d)]
      return p === undefined ? [e] : [p.taps, p.stride]
    }),
  )
  axes.forEach((p, i) => {
    const roll = p.apart ? p.low % p.stride : 0
    if (roll > 0) weights = rotate(weights, (at[i] ?? 0) + i + 1, roll)
  })
  return flip(
    weights,
    at.map((d, i) => d + i),
  )
}

/** Part of one axis. */
const cutAxis = (x: Node, axis: number, start: number, length: number): Node =>
  pad(
    x,
    x.shape.map((e, d): Pair => (d === axis ? [-start, start + length - e] : [0, 0])),
  )

/** Every element of an axis so many times in a row. */
function repeatEach(x: Node, axis: number, times: number): Node {
  const { shape } = x
  const wide = [...shape.slice(0, axis + 1), times, ...shape.slice(axis + 1)]
  const spread = makeNode('broadcast', [x], { shape: wide, dims: shape.map((_, d) => (d <= axis ? d : d + 1)) })
  return reshape(
    spread,
    shape.map((e, d) => (d === axis ? e * times : e)),
  )
}

/** Element i of an axis is element (i + by) mod n. */
function rotate(x: Node, axis: number, by: number): Node {
  const { shape } = x
  const n = shape[axis] ?? 1
  const twice = [...shape.slice(0, axis), 2, ...shape.slice(axis)]
  const spread = makeNode('broadcast', [x], { shape: twice, dims: shape.map((_, d) => (d < axis ? d : d + 1)) })
  const joined = reshape(
    spread,
    shape.map((e, d) => (d === axis ? 2 * e : e)),
  )
  return cutAxis(joined, axis, by, n)
}
