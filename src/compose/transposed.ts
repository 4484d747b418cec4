/** Transposed convolution: by the phases of its results, or over data with zeros between. */
import { UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { reshape } from './broadcast.ts'
import { contractLabelled, labelAt } from './contract.ts'
import { cast, commonDType } from './elementwise.ts'
import { type Pair, transposedPadding } from './padding.ts'
import { type Phases, phasesOf, phaseWeights, phaseWindows, roomFor } from './phases.ts'
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
  const placed: Transposed = { x: cast(x, dtype), w: cast(w, dtype), groups, stride, dilation, pairs, extra }
  const phases = kernel.map((k, i) => {
    const [s, span, [low, high]] = [stride[i] ?? 1, spans[i] ?? 1, pairs[i] ?? [0, 0]]
    const extent = x.shape[2 + i] ?? 0
    const length = (extent - 1) * s + span - low - high + (extra[i] ?? 0)
    return phasesOf({ stride: s, dilation: dilation[i] ?? 1, extent, kernel: k, low, length })
  })
  const taps = (each: readonly number[]): number => each.reduce((n, k) => n * k, 1)
  const y =
    taps(phases.map((p) => p.taps)) < taps(kernel) ? byPhases(placed.x, placed.w, groups, phases) : byZeros(placed)
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
