/** Transposed convolution: by the phases of its results, or over data with zeros between. */
import { UserError } from '../diagnostics/errors.ts'
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { reshape } from './broadcast.ts'
import { contractLabelled, labelAt } from './contract.ts'
import { cast, commonDType } from './elementwise.ts'
import { type Pair, transposedPadding } from './padding.ts'
import { flip, pad, padInterior, permute, slidingWindow } from './views.ts'
import { addBias, type ConvOptions, checkConv, contractWindows, leading, perAxis, spansOf, windows } from './window.ts'

/** Options of `convTranspose`. */
export interface ConvTransposeOptions extends ConvOptions {
  /** Extra elements after each spatial axis of the result. */
  readonly outputPadding?: number | readonly number[]
}

/**
 * The transpose of a convolution (its gradient in the data): x [batch, channels, ...spatial], weights
 * [channels, out / groups, ...spatial]. Extent: (n - 1) stride + span - before - after + outputPadding; `same` makes it
 * n * stride. Throws E_SHAPE.
 */
export function convTranspose(x: Node, w: Node, options: ConvTransposeOptions = {}): Node {
  const groups = options.groups ?? 1
  checkConv(x, w.shape[0] ?? 0, w, groups, 'transposed convolution')
  const [channels = 1, , ...kernel] = w.shape
  if (channels % groups !== 0)
    throw new UserError('E_SHAPE', `${channels} channels do not divide into ${groups} groups`, {
      help: 'the number of channels is a multiple of the number of groups',
    })
  const count = kernel.length
  const stride = perAxis(options.stride, count, 1, 'stride')
  const dilation = perAxis(options.dilation, count, 1, 'dilation')
  const extra = perAxis(options.outputPadding, count, 0, 'outputPadding')
  const spans = spansOf(kernel, dilation)
  const pairs = transposedPadding(options.padding, spans, stride, extra, count)
  const dtype = commonDType([x, w])
  const placed: Transposed = { x: cast(x, dtype), w: cast(w, dtype), groups, stride, dilation, pairs, extra }
  const phases = stride.map((s, i) => phaseOf(s, spans[i] ?? 1, pairs[i]?.[0] ?? 0))
  const taps = (each: readonly number[]): number => each.reduce((n, k) => n * k, 1)
  const y = taps(phases.map((p) => p.taps)) < taps(kernel) ? byPhases(placed, phases) : byZeros(placed)
  return addBias(y, options.bias)
}

/** A transposed convolution, its options one value a spatial axis. */
interface Transposed {
  readonly x: Node
  readonly w: Node
  readonly groups: number
  readonly stride: readonly number[]
  readonly dilation: readonly number[]
  readonly pairs: readonly Pair[]
  readonly extra: readonly number[]
}

/**
 * How one axis is taken apart: the results o = s q + r of a phase r read x[q + u], `from` <= u < `from` + `taps`. `apart`: every phase has
 * a window of its own, x[q + floor((r + low) / s) + u], where a window that serves all of them were longer.
 */
interface Phase {
  readonly from: number
  readonly taps: number
  readonly apart: boolean
}

function phaseOf(stride: number, span: number, low: number): Phase {
  const from = Math.ceil((low - span + 1) / stride)
  const shared = Math.floor((stride - 1 + low) / stride) - from + 1
  const own = Math.ceil(span / stride)
  return own < shared ? { from: 1 - own, taps: own, apart: true } : { from, taps: shared, apart: false }
}

/**
 * As a convolution whose results are the phases of the transposed one, which interleave (sub-pixel convolution, Shi et al. 2016,
 * arXiv:1609.07009): o = s q + r gets x[q + u] w[r + low - s u], so no product is with a zero that stands between the data.
 */
function byPhases({ x, w, groups, stride, dilation, pairs, extra }: Transposed, phases: readonly Phase[]): Node {
  const [n = 1, channels = 1, ...extents] = x.shape
  const [, perGroup = 1, ...kernel] = w.shape
  const at = (list: readonly number[], i: number): number => list[i] ?? 0
  const axes = phases.map((phase, i) => ({
    ...phase,
    stride: at(stride, i),
    extent: at(extents, i),
    span: at(spansOf(kernel, dilation), i),
    low: pairs[i]?.[0] ?? 0,
    high: pairs[i]?.[1] ?? 0,
    extra: at(extra, i),
  }))
  const lengths = axes.map((a) => (a.extent - 1) * a.stride + a.span - a.low - a.high + a.extra)
  const counts = axes.map((a, i) => Math.ceil(at(lengths, i) / a.stride))
  // Padding comes first, so that what stands outside is known by the coordinates of the data itself.
  const around = axes.map((a, i): Pair => [-a.from, reach(a, at(counts, i)) - a.extent])
  const padded = pad(x, leading(around, x.shape.length))
  let data = reshape(padded, [n, groups, channels / groups, ...padded.shape.slice(2)])
  axes.forEach((a, i) => {
    const first = 3 + 2 * i + axes.slice(0, i).filter((b) => b.apart).length
    data = a.apart ? ownWindows(data, first, a, at(counts, i)) : slidingWindow(data, first, a.taps, 1, 1)
  })
  // Weights as [group, channels, out, taps, phases, ...].
  const before = axes.map((a) => (a.apart ? 0 : a.stride * (a.from + a.taps - 1) - a.low))
  const after = axes.map((a, i) => a.taps * a.stride - a.span - at(before, i))
  const between = dilation.map((d) => d - 1)
  const dilated = padInterior(w, [0, 0, ...before], [0, 0, ...after], [0, 0, ...between])
  let weights = reshape(dilated, [
    groups,
    channels / groups,
    perGroup,
    ...axes.flatMap(({ taps, stride: phases }) => [taps, phases]),
  ])
  axes.forEach((a, i) => {
    const roll = a.apart ? a.low % a.stride : 0
    if (roll > 0) weights = rotate(weights, 4 + 2 * i, roll)
  })
  weights = flip(
    weights,
    axes.map((_, i) => 3 + 2 * i),
  )
  // Labels: a batch, b output channel, c input channel, d group; q positions, u taps, r phases.
  const label = (i: number, of: number): string => labelAt(4 + 3 * i + of)
  const [q, u, r] = [0, 1, 2].map((of) => (i: number) => label(i, of))
  const each = (...of: readonly ((i: number) => string)[]): string =>
    axes.map((_, i) => of.map((f) => f(i)).join('')).join('')
  const ofData = axes.map((a, i) => label(i, 0) + (a.apart ? label(i, 2) : '') + label(i, 1)).join('')
  const none = (): string => ''
  const y = contractLabelled(
    data,
    `adc${ofData}`,
    weights,
    `dcb${each(u ?? none, r ?? none)}`,
    `adb${each(q ?? none, r ?? none)}`,
  )
  const whole = reshape(y, [n, groups * perGroup, ...counts.map((c, i) => c * at(stride, i))])
  const cut = lengths.map((e, i): Pair => [0, e - at(counts, i) * at(stride, i)])
  return cut.every(([, end]) => end === 0) ? whole : pad(whole, leading(cut, whole.shape.length))
}

type PhasedAxis = Phase & {
  readonly stride: number
  readonly extent: number
  readonly span: number
  readonly low: number
}

/** One past the last element of the data, counted without padding, that the windows of so many positions read. */
const reach = ({ from, taps, apart, stride, low }: PhasedAxis, count: number): number =>
  apart ? count + Math.floor((stride - 1 + low) / stride) : count + from + taps - 1

/** Part of one axis. */
const cutAxis = (x: Node, axis: number, start: number, length: number): Node =>
  pad(
    x,
    x.shape.map((e, d): Pair => (d === axis ? [-start, start + length - e] : [0, 0])),
  )

/** One axis as (positions, phases, taps): x[q + floor((r + low) / s) + u], from data of which every element stands s times. */
function ownWindows(x: Node, axis: number, { taps, stride, low }: PhasedAxis, count: number): Node {
  const length = count * stride + stride * (taps - 1)
  const seen = slidingWindow(cutAxis(repeatEach(x, axis, stride), axis, low, length), axis, taps, 1, stride)
  return reshape(seen, [...seen.shape.slice(0, axis), count, stride, ...seen.shape.slice(axis + 1)])
}

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

/** As a convolution over the data with zeros between. */
function byZeros({ x, w, groups, stride, dilation, pairs, extra }: Transposed): Node {
  const [channels = 1, perGroup = 1, ...kernel] = w.shape
  const spans = spansOf(kernel, dilation)
  const zero = (n: number): number[] => new Array<number>(n).fill(0)
  const low = spans.map((s, i) => s - 1 - (pairs[i]?.[0] ?? 0))
  const high = spans.map((s, i) => s - 1 - (pairs[i]?.[1] ?? 0) + (extra[i] ?? 0))
  const positive = (v: readonly number[]): number[] => v.map((d) => Math.max(0, d))
  const spread = padInterior(
    x,
    [...zero(2), ...positive(low)],
    [...zero(2), ...positive(high)],
    [...zero(2), ...stride.map((s) => s - 1)],
  )
  const cropped = pad(
    spread,
    leading(
      low.map((l, i): Pair => [Math.min(0, l), Math.min(0, high[i] ?? 0)]),
      x.shape.length,
    ),
  )
  // [g, c/g, m/g, k] -> [g, m/g, c/g, k], offsets mirrored.
  const grouped = reshape(w, [groups, channels / groups, perGroup, ...kernel])
  const swapped = permute(grouped, [0, 2, 1, ...kernel.map((_, i) => 3 + i)])
  const weights = reshape(swapped, [groups * perGroup, channels / groups, ...kernel])
  const mirrored = flip(
    weights,
    kernel.map((_, i) => 2 + i),
  )
  const ones = kernel.map(() => 1)
  return contractWindows(windows(cropped, kernel, ones, dilation), mirrored, groups)
}
