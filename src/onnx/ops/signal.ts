/** Signal processing: Fourier transforms as contractions with constant matrices, window functions, mel filter banks. */
import type { DType } from '../../types/dtype.ts'
import { normaliseAxis } from '../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'

/** Elements of a transform matrix up to which it is built. */
const maxMatrix = 2 ** 24

export interface Transform {
  /** Length of the transform. */
  readonly length: number
  readonly inverse: boolean
  readonly onesided: boolean
}

/** Extent, parts (1 real, 2 complex) of the transform's input and output along the axis. */
function extents(t: Transform, parts: number): { taken: number; bins: number; outParts: number } {
  const half = Math.floor(t.length / 2) + 1
  if (!t.onesided) return { taken: t.length, bins: t.length, outParts: 2 }
  return t.inverse
    ? { taken: half, bins: t.length, outParts: 1 }
    : { taken: t.length, bins: half, outParts: parts === 0 ? 0 : 2 }
}

/**
 * The linear map of a transform as [taken, parts, bins, outParts]: multiplication by exp(-+2 pi i n k / N), over N for the
 * inverse. A one-sided inverse counts the bins that stand for their conjugates twice.
 */
function transformTensor(t: Transform, parts: number): { data: Float64Array; shape: number[] } {
  const { taken, bins, outParts } = extents(t, parts)
  const data = new Float64Array(taken * parts * bins * outParts)
  const sign = t.inverse ? 1 : -1
  let at = 0
  for (let i = 0; i < taken; i++) {
    const mirrored = t.onesided && t.inverse && i > 0 && 2 * i !== t.length
    const factor = (t.inverse ? 1 / t.length : 1) * (mirrored ? 2 : 1)
    for (let p = 0; p < parts; p++) {
      for (let k = 0; k < bins; k++) {
        const angle = (2 * Math.PI * ((i * k) % t.length)) / t.length
        const re = Math.cos(angle) * factor
        const im = sign * Math.sin(angle) * factor
        // (re + i im) times 1 for the real part, times i for the imaginary one.
        data[at++] = p === 0 ? re : -im
        if (outParts === 2) data[at++] = p === 0 ? im : re
      }
    }
  }
  return { data, shape: [taken, parts, bins, outParts] }
}

/** Transforms one axis of x, whose last axis holds the parts of complex numbers. */
export function transform(c: OpContext, x: n.Node, axis: number, t: Transform): n.Node {
  const last = x.shape.length - 1
  const parts = x.shape[last] ?? 1
  const { taken, bins, outParts } = extents(t, parts)
  if (taken * parts * bins * outParts > maxMatrix) c.fail(`a Fourier transform of length ${t.length} is too long`)
  const have = x.shape[axis] ?? 0
  const cut = have > taken ? n.sliceAxis(x, axis, 0, taken) : x
  const fitted = n.pad(
    cut,
    x.shape.map((_, i) => [0, i === axis ? Math.max(0, taken - have) : 0]),
  )
  const { data, shape } = transformTensor(t, parts)
  const labels = [...n.labels(x.shape.length)]
  const [a = '', p = ''] = [labels[axis], labels[last]]
  const out = labels.map((l) => (l === a ? 'Y' : l === p ? 'Z' : l)).join('')
  return n.contractLabelled(fitted, labels.join(''), n.floats(data, shape, x.dtype), `${a}${p}YZ`, out)
}

/** The axis is an attribute (default 1) in operator set 17 and an input (default the last signal axis) since. */
const dft: Handler = (c) => {
  const x = c.need(0)
  const rank = x.shape.length
  const given = c.opset < 20 ? c.int('axis', 1) : c.opt(2) === undefined ? -2 : c.intOf(2, 'axis')
  const axis = normaliseAxis(given, rank)
  const inverse = c.flag('inverse', false)
  const onesided = c.flag('onesided', false)
  const extent = x.shape[axis] ?? 1
  const fallback = inverse && onesided ? 2 * (extent - 1) : extent
  const length = c.opt(1) === undefined ? fallback : c.intOf(1, 'dft_length')
  return transform(c, x, axis, { length, inverse, onesided })
}

/** Frames of the signal, each under the window, transformed. */
const stft: Handler = (c) => {
  const x = c.need(0)
  const signal = x.shape.length === 2 ? n.expandDims(x, 2) : x
  const step = c.intOf(1, 'frame_step')
  const shape = c.opt(2)
  const length = c.opt(3) === undefined ? (shape?.shape[0] ?? signal.shape[1] ?? 1) : c.intOf(3, 'frame_length')
  const frames = n.slidingWindow(signal, 1, length, step)
  const windowed = shape === undefined ? frames : n.mul(frames, n.alongAxis(shape, 2, 4))
  const onesided = c.flag('onesided', true) && signal.shape[2] === 1
  return transform(c, windowed, 2, { length, inverse: false, onesided })
}

/** Elements up to which a window is tabulated. */
const maxWindow = 2 ** 22

/** A sum of cosines: terms[j] * cos(2 pi j i / period) with alternating signs folded into the terms. */
const cosineWindow =
  (terms: readonly number[]): Handler =>
  (c) => {
    const size = c.intOf(0, 'size')
    if (size < 0 || size > maxWindow) c.fail(`a window of ${size} elements`)
    const dtype: DType = c.dtype('output_datatype', 1)
    const period = c.flag('periodic', true) ? size : size - 1
    const values = Float64Array.from({ length: size }, (_, i) =>
      terms.reduce((sum, a, j) => sum + a * Math.cos((2 * Math.PI * j * i) / period), 0),
    )
    return n.floats(values, [size], dtype)
  }

/** Triangular filters with peaks equally spaced on the mel scale, 2595 log10(1 + f / 700). */
const melWeightMatrix: Handler = (c) => {
  const bands = c.intOf(0, 'num_mel_bins')
  const length = c.intOf(1, 'dft_length')
  const rate = c.intOf(2, 'sample_rate')
  const [low = 0] = c.numbersOf(3, 'lower_edge_hertz')
  const [high = 0] = c.numbersOf(4, 'upper_edge_hertz')
  const mel = (f: number): number => 2595 * Math.log10(1 + f / 700)
  const step = (mel(high) - mel(low)) / (bands + 2)
  if (bands < 0 || bands > maxMatrix) c.fail(`a filter bank of ${bands} bands`)
  const edges = Array.from({ length: bands + 2 }, (_, i) => {
    const hertz = 700 * (10 ** ((mel(low) + i * step) / 2595) - 1)
    return Math.floor(((length + 1) * hertz) / rate)
  })
  const bins = Math.floor(length / 2) + 1
  if (!(bins >= 0 && bins * bands <= maxMatrix)) c.fail(`a filter bank of ${bands} bands over ${bins} bins`)
  const data = new Float64Array(bins * bands)
  for (let b = 0; b < bands; b++) {
    const [left = 0, peak = 0, right = 0] = edges.slice(b, b + 3)
    for (let j = Math.max(0, left); j < Math.min(bins, Math.max(right, peak + 1)); j++) {
      const rising = peak === left ? 1 : (j - left) / (peak - left)
      data[j * bands + b] = j <= peak ? rising : (right - j) / (right - peak)
    }
  }
  return n.floats(data, [bins, bands], c.dtype('output_datatype', 1))
}

export const signalHandlers: HandlerTable = {
  BlackmanWindow: cosineWindow([0.42, -0.5, 0.08]),
  DFT: dft,
  HammingWindow: cosineWindow([25 / 46, -21 / 46]),
  HannWindow: cosineWindow([0.5, -0.5]),
  MelWeightMatrix: melWeightMatrix,
  STFT: stft,
}
