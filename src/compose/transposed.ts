/** Transposed convolution: by the phases of its results, or over data with zeros between. */
import { gcd } from '../affine/gcd.ts'
import { UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { reshape } from './broadcast.ts'
import { contractLabelled, labelAt } from './contract.ts'
import { cast, commonDType } from './elementwise.ts'
import { type Pair, transposedPadding } from './padding.ts'
import { type Phases, phasesOf, phaseWeights, phaseWindows, roomFor, type SpreadAxis } from './phases.ts'
import { flip, pad, padInterior, permute } from './views.ts'
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
  const [data, weights] = [cast(x, dtype), cast(w, dtype)]
  const sparse = kernel.map((k, i) => {
    const [s, span, [low, high]] = [stride[i] ?? 1, spans[i] ?? 1, pairs[i] ?? [0, 0]]
    const extent = x.shape[2 + i] ?? 0
    const length = (extent - 1) * s + span - low - high + (extra[i] ?? 0)
    return sparseAxis({ stride: s, dilation: dilation[i] ?? 1, extent, kernel: k, low, length })
  })
  const axes = sparse.map((a) => a.axis)
  const phases = axes.map(phasesOf)
  const taps = (each: readonly number[]): number => each.reduce((n, k) => n * k, 1)
  const isByPhases = taps(phases.map((p) => p.taps)) < taps(kernel)
  const y = isByPhases ? byPhases(data, weights, groups, phases) : byZeros(data, weights, groups, axes)
  return addBias(spreadOut(y, sparse), options.bias)
}

/** An axis every `factor`-th result of which, from the one at `first` on, is an element along a denser axis; all others are zero. */
interface SparseAxis {
  readonly factor: number
  readonly first: number
  readonly length: number
  readonly axis: SpreadAxis
}

/**
 * Where stride and dilation share a factor, results o = i stride + k dilation - low are those alone that are -low modulo the factor: the
 * results of a convolution whose stride and dilation are divided by it.
 */
function sparseAxis(axis: SpreadAxis): SparseAxis {
  const { stride, dilation, low, length } = axis
  // Along one tap nothing is dilated.
  const factor = axis.kernel === 1 ? stride : gcd(stride, dilation)
  const first = ((-low % factor) + factor) % factor
  const count = Math.ceil((length - first) / factor)
  if (factor === 1 || count <= 0) return { factor: 1, first: 0, length, axis }
  const dense = {
    ...axis,
    stride: stride / factor,
    dilation: axis.kernel === 1 ? 1 : dilation / factor,
    low: (first + low) / factor,
    length: count,
  }
  return { factor, first, length, axis: dense }
}

/** Results of denser axes where they belong, zeros between. */
function spreadOut(y: Node, axes: readonly SparseAxis[]): Node {
  if (axes.every((a) => a.factor === 1)) return y
  const along = (value: (a: SparseAxis) => number): number[] => [0, 0, ...axes.map(value)]
  const end = ({ factor, first, length, axis }: SparseAxis): number => length - first - factor * (axis.length - 1) - 1
  return padInterior(
    y,
    along((a) => a.first),
    along(end),
    along((a) => a.factor - 1),
  )
}

/** As a convolution whose results are the phases of the transposed one, which interleave. */
function byPhases(x: Node, w: Node, groups: number, axes: readonly Phases[]): Node {
  const [n = 1, channels = 1] = x.shape
  const [, perGroup = 1] = w.shape
  // Padding comes first, so that what stands outside is known by the coordinates of the data itself.
  const padded = pad(x, leading(axes.map(roomFor), x.shape.length))
  let data = reshape(padded, [n, groups, channels / groups, ...padded.shape.slice(2)])
  axes.forEach((a, i) => {
    data = phaseWindows(data, 3 + 2 * i + axes.slice(0, i).filter((b) => b.apart).length, a)
  })
  // Weights as [group, channels, out, taps, phases, ...]: padding comes first here too.
  const phased = phaseWeights(
    w,
    axes.map((_, i) => 2 + i),
    axes,
  )
  const weights = reshape(phased, [groups, channels / groups, perGroup, ...phased.shape.slice(2)])
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
  const whole = reshape(y, [n, groups * perGroup, ...axes.map((a) => a.count * a.stride)])
  const cut = axes.map((a): Pair => [0, a.length - a.count * a.stride])
  return cut.every(([, end]) => end === 0) ? whole : pad(whole, leading(cut, whole.shape.length))
}

/** As a convolution over the data with zeros between. */
function byZeros(x: Node, w: Node, groups: number, axes: readonly SpreadAxis[]): Node {
  const [channels = 1, perGroup = 1, ...kernel] = w.shape
  const zero = (n: number): number[] => new Array<number>(n).fill(0)
  const low = axes.map((a) => (a.kernel - 1) * a.dilation - a.low)
  const high = axes.map((a) => a.length - (a.extent - 1) * a.stride - 1 + a.low)
  const positive = (v: readonly number[]): number[] => v.map((d) => Math.max(0, d))
  const spread = padInterior(
    x,
    [...zero(2), ...positive(low)],
    [...zero(2), ...positive(high)],
    [...zero(2), ...axes.map((a) => a.stride - 1)],
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
  return contractWindows(
    windows(
      cropped,
      kernel,
      ones,
      axes.map((a) => a.dilation),
    ),
    mirrored,
    groups,
  )
}
