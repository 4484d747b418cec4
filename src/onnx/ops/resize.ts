/** Resize and Upsample: separable interpolation. Each axis has a table of taps (indices and weights, known at import; `compose/resampling.ts`). */
import { UserError } from '../../diagnostics/errors.ts'
import { computeDType, isFloat } from '../../types/dtype.ts'
import { normaliseAxis } from '../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'

/** How one axis is resized. */
interface AxisPlan {
  readonly axis: number
  readonly from: number
  readonly to: number
  readonly scale: number
  readonly roi: readonly [number, number]
}

/** The input coordinate of output index x (the definitions of coordinate_transformation_mode). */
function originalCoordinate(mode: string, x: number, p: AxisPlan): number {
  const { from, to, scale } = p
  switch (mode) {
    case 'half_pixel':
      return (x + 0.5) / scale - 0.5
    case 'half_pixel_symmetric': {
      const adjustment = to / (scale * from)
      return (from / 2) * (1 - adjustment) + (x + 0.5) / scale - 0.5
    }
    case 'pytorch_half_pixel':
      return to > 1 ? (x + 0.5) / scale - 0.5 : 0
    case 'align_corners':
      return scale * from > 1 ? (x * (from - 1)) / (scale * from - 1) : 0
    case 'asymmetric':
      return x / scale
    case 'tf_half_pixel_for_nn':
      return (x + 0.5) / scale
    case 'tf_crop_and_resize': {
      const [start, end] = p.roi
      return to > 1
        ? start * (from - 1) + (x * (end - start) * (from - 1)) / (to - 1)
        : 0.5 * (start + end) * (from - 1)
    }
    default:
      throw new UserError('E_ONNX_MALFORMED', `Resize has coordinate_transformation_mode "${mode}"`)
  }
}

function nearestOf(mode: string, x: number): number {
  switch (mode) {
    case 'round_prefer_floor':
      return Math.ceil(x - 0.5)
    case 'round_prefer_ceil':
      return Math.floor(x + 0.5)
    case 'floor':
      return Math.floor(x)
    case 'ceil':
      return Math.ceil(x)
    default:
      throw new UserError('E_ONNX_MALFORMED', `Resize has nearest_mode "${mode}"`)
  }
}

/** The piecewise cubic of Keys 1981. */
function cubicKernel(x: number, a: number): number {
  const t = Math.abs(x)
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1
  if (t < 2) return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
  return 0
}

interface FilterOptions {
  readonly mode: string
  readonly coefficient: number
  readonly antialias: boolean
  readonly excludeOutside: boolean
}

/** Taps around a coordinate: the kernel, stretched by 1 / scale when shrinking with antialias; indices clamp to the edge. */
function filterTaps(x: number, p: AxisPlan, o: FilterOptions): { indices: number[]; weights: number[] } {
  const stretch = o.antialias ? Math.min(1, p.scale) : 1
  const radius = (o.mode === 'cubic' ? 2 : 1) / stretch
  const first = Math.ceil(x - radius)
  const last = Math.floor(x + radius)
  const indices: number[] = []
  const weights: number[] = []
  for (let i = first; i <= last; i++) {
    const d = (i - x) * stretch
    const w = o.mode === 'cubic' ? cubicKernel(d, o.coefficient) : Math.max(0, 1 - Math.abs(d))
    const outside = i < 0 || i >= p.from
    indices.push(Math.min(p.from - 1, Math.max(0, i)))
    weights.push(o.excludeOutside && outside ? 0 : w)
  }
  const total = weights.reduce((a, b) => a + b, 0)
  const normalise = o.antialias || o.excludeOutside
  return { indices, weights: normalise ? weights.map((w) => w / total) : weights }
}

/** What rounding of a coordinate leaves of a weight that is zero. */
const noWeight = 1e-12

/** Taps merged by index, so that each input is read once. */
function mergedTaps({ indices, weights }: { indices: number[]; weights: number[] }): n.Taps {
  const by = new Map<number, number>()
  indices.forEach((i, k) => {
    const w = weights[k] ?? 0
    if (Math.abs(w) > noWeight) by.set(i, (by.get(i) ?? 0) + w)
  })
  return [...by.entries()].sort((a, b) => a[0] - b[0])
}

/** Scales or sizes, whichever is given, as one plan an axis that changes. */
function plansOf(
  c: OpContext,
  x: n.Node,
  roi: number[] | undefined,
  scales: number[] | undefined,
  sizes: number[] | undefined,
): AxisPlan[] {
  const rank = x.shape.length
  const axes = (c.ints('axes') ?? x.shape.map((_, i) => i)).map((a) => normaliseAxis(a, rank))
  const crop = c.string('coordinate_transformation_mode', 'half_pixel') === 'tf_crop_and_resize'
  const policy = c.string('keep_aspect_ratio_policy', 'stretch')
  const ratios = sizes === undefined ? [] : axes.map((a, i) => (sizes[i] ?? 1) / (x.shape[a] ?? 1))
  const common =
    policy === 'not_larger' ? Math.min(...ratios) : policy === 'not_smaller' ? Math.max(...ratios) : undefined
  return axes.map((axis, i) => {
    const from = x.shape[axis] ?? 1
    const range: [number, number] = crop && roi !== undefined ? [roi[i] ?? 0, roi[i + axes.length] ?? 1] : [0, 1]
    if (sizes !== undefined) {
      const to = common === undefined ? (sizes[i] ?? from) : Math.floor(common * from + 0.5)
      return { axis, from, to, scale: common ?? to / from, roi: range }
    }
    const scale = scales?.[i] ?? 1
    // f32 scales such as 0.6 are a little off: an extent within an f32 rounding error of a whole number is that number.
    const exact = from * (range[1] - range[0]) * scale
    const near = Math.round(exact)
    const to = Math.abs(exact - near) < 1e-6 * Math.max(1, near) ? near : Math.floor(exact)
    return { axis, from, to, scale, roi: range }
  })
}

/** Extent up to which an axis is resized: its taps are tabulated. */
const maxExtent = 2 ** 22

const given = (c: OpContext, i: number): boolean => (c.opt(i)?.shape[0] ?? 0) > 0

const resize: Handler = (c) => {
  const x = c.need(0)
  const old = c.opset < 11
  const roi = !old && given(c, 1) ? c.numbersOf(1, 'roi') : undefined
  const scaleInput = old ? 1 : 2
  const scales = given(c, scaleInput) ? c.numbersOf(scaleInput, 'scales') : undefined
  const sizes = given(c, 3) ? c.intsOf(3, 'sizes') : undefined
  const plans = plansOf(c, x, roi, scales, sizes)
  for (const p of plans) if (!(p.to >= 0 && p.to <= maxExtent)) c.fail(`an axis resized to ${p.to}`)
  return resample(
    c,
    x,
    plans,
    old ? 'asymmetric' : c.string('coordinate_transformation_mode', 'half_pixel'),
    old ? 'floor' : c.string('nearest_mode', 'round_prefer_floor'),
  )
}

function resample(
  c: OpContext,
  x: n.Node,
  plans: readonly AxisPlan[],
  coordinates: string,
  nearestMode: string,
): n.Node {
  const mode = c.string('mode', 'nearest')
  const crop = coordinates === 'tf_crop_and_resize'
  const changing = plans.filter((p) => p.to !== p.from || p.scale !== 1 || crop)
  const at = (p: AxisPlan): number[] => Array.from({ length: p.to }, (_, i) => originalCoordinate(coordinates, i, p))
  let y = x
  if (mode === 'nearest') {
    for (const p of changing)
      y = n.pickAt(
        y,
        p.axis,
        at(p).map((v) => Math.min(p.from - 1, Math.max(0, nearestOf(nearestMode, v)))),
        p.scale,
      )
  } else {
    const options: FilterOptions = {
      mode,
      coefficient: c.float('cubic_coeff_a', -0.75),
      antialias: c.flag('antialias', false),
      excludeOutside: c.flag('exclude_outside', false),
    }
    const work = isFloat(x.dtype) ? computeDType(x.dtype) : 'f32'
    y = n.cast(x, work)
    for (const p of changing) {
      const taps = at(p).map((v) => mergedTaps(filterTaps(v, p, options)))
      y = n.resample(y, p.axis, taps, p.scale)
    }
    y = isFloat(x.dtype) ? n.cast(y, x.dtype) : n.cast(n.unary('round', y), x.dtype)
  }
  if (!crop) return y
  // Coordinates outside the input take the extrapolation value.
  const value = n.scalarAs(y, c.float('extrapolation_value', 0))
  for (const p of changing) {
    const inside = at(p).map((v) => (v >= 0 && v <= p.from - 1 ? 1 : 0))
    if (inside.every((v) => v === 1)) continue
    const mask = n.cast(n.alongAxis(n.integers(inside), p.axis, y.shape.length), 'bool')
    y = n.where(mask, y, value)
  }
  return y
}

/** The older operator: nearest or linear with asymmetric coordinates. */
const upsample: Handler = (c) => {
  const x = c.need(0)
  const scales = c.floats('scales') ?? c.numbersOf(1, 'scales')
  return resample(c, x, plansOf(c, x, undefined, scales, undefined), 'asymmetric', 'floor')
}

export const resizeHandlers: HandlerTable = { Resize: resize, Upsample: upsample }
