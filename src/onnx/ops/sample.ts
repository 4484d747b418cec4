/** Sampling at computed coordinates: GridSample, AffineGrid, deformable convolution. */
import { UserError } from '../../diagnostics/errors.ts'
import type { IndexSource } from '../../graph/node.ts'
import { computeDType, isFloat } from '../../types/dtype.ts'
import { rowMajorStrides, type Shape, showShape, sizeOf } from '../../types/shape.ts'
import type { Handler, HandlerTable } from '../context.ts'
import * as n from '../nodes.ts'
import { pairsOf } from './window.ts'

type PaddingMode = 'zeros' | 'border' | 'reflection'

/** Taps of one axis at computed coordinates: integer positions (as floats) and weights. */
interface Tap {
  readonly index: n.Node
  readonly weight: n.Node | undefined
}

/** Mirrors a coordinate at two borders until it lies between them. */
function reflect(x: n.Node, low: number, high: number): n.Node {
  const span = high - low
  if (span <= 0) return n.filled(x, x.shape, 0)
  const folded = n.rem(n.unary('abs', n.sub(x, low)), 2 * span)
  return n.add(n.where(n.compare('gt', folded, span), n.sub(2 * span, folded), folded), low)
}

/** Weights of the four neighbours of a point at fraction t (Keys 1981 with a = -0.75). */
function cubicWeights(t: n.Node): n.Node[] {
  const a = -0.75
  const near = (x: n.Node): n.Node => n.add(n.mul(n.mul(n.sub(n.mul(x, a + 2), a + 3), x), x), 1)
  const far = (x: n.Node): n.Node => n.sub(n.mul(n.add(n.mul(n.sub(n.mul(x, a), 5 * a), x), 8 * a), x), 4 * a)
  const rest = n.sub(1, t)
  return [far(n.add(t, 1)), near(t), near(rest), far(n.add(rest, 1))]
}

function tapsOf(coordinate: n.Node, mode: string): Tap[] {
  if (mode === 'nearest') return [{ index: n.unary('round', coordinate), weight: undefined }]
  const base = n.unary('floor', coordinate)
  const t = n.sub(coordinate, base)
  if (mode === 'cubic' || mode === 'bicubic')
    return cubicWeights(t).map((weight, k) => ({ index: n.add(base, k - 1), weight }))
  return [
    { index: base, weight: n.sub(1, t) },
    { index: n.add(base, 1), weight: t },
  ]
}

interface Sampler {
  readonly mode: string
  readonly padding: PaddingMode
  /** Borders reflection mirrors at, for an extent. */
  readonly borders: (extent: number) => readonly [number, number]
}

/**
 * Interpolates x at coordinates along `axes`; `shape` is the result's, `sources` tells how the other axes of x are found.
 * Coordinates have the result's shape (or broadcast to it).
 */
export function sampleAt(
  x: n.Node,
  axes: readonly number[],
  coordinates: readonly n.Node[],
  shape: Shape,
  sources: (axis: number) => number,
  s: Sampler,
): n.Node {
  const perAxis = coordinates.map((c, i) => {
    const extent = x.shape[axes[i] ?? 0] ?? 1
    const [low, high] = s.borders(extent)
    const rounded = s.mode === 'nearest' ? n.unary('round', c) : c
    const placed =
      s.padding === 'border'
        ? n.clip(rounded, 0, extent - 1)
        : s.padding === 'reflection'
          ? reflect(rounded, low, high)
          : rounded
    return tapsOf(placed, s.mode).map((tap) => {
      const index = s.padding === 'reflection' ? reflect(tap.index, low, high) : tap.index
      const inside = n.logicalAnd(n.compare('ge', index, 0), n.compare('le', index, extent - 1))
      const weight =
        s.padding === 'zeros'
          ? n.where(inside, tap.weight ?? n.filled(index, index.shape, 1), n.filled(index, index.shape, 0))
          : tap.weight
      return { index: n.broadcastTo(n.cast(n.clip(index, 0, extent - 1), 'i32'), shape), weight }
    })
  })
  const from = x.shape.map((_, i): IndexSource => {
    const at = axes.indexOf(i)
    return at >= 0 ? { input: at } : { axis: sources(i) }
  })
  // Every combination of one tap an axis.
  let combinations: { indices: n.Node[]; weight: n.Node | undefined }[] = [{ indices: [], weight: undefined }]
  for (const taps of perAxis)
    combinations = combinations.flatMap((c) =>
      taps.map((t) => ({
        indices: [...c.indices, t.index],
        weight: c.weight === undefined ? t.weight : t.weight === undefined ? c.weight : n.mul(c.weight, t.weight),
      })),
    )
  let total: n.Node | undefined
  for (const c of combinations) {
    const value = n.gather(x, c.indices, shape, from)
    const term = c.weight === undefined ? value : n.mul(value, c.weight)
    total = total === undefined ? term : n.add(total, term)
  }
  return total ?? x
}

const paddingModes: readonly string[] = ['zeros', 'border', 'reflection'] satisfies PaddingMode[]
const isPaddingMode = (s: string): s is PaddingMode => paddingModes.includes(s)

/** x [n, c, ...d] at grid [n, ...o, r] of positions in [-1, 1], innermost axis first. */
export const gridSample: Handler = (c) => {
  const x = c.need(0)
  const grid = c.need(1)
  const rank = x.shape.length - 2
  const align = c.flag('align_corners', false)
  const padding = c.string('padding_mode', 'zeros')
  if (!isPaddingMode(padding)) throw new UserError('E_ONNX_MALFORMED', `GridSample has padding_mode "${padding}"`)
  const work = isFloat(x.dtype) ? computeDType(x.dtype) : 'f32'
  const [batch = 1, channels = 1] = x.shape
  const out = grid.shape.slice(1, -1)
  const shape = [batch, channels, ...out]
  const coordinates = Array.from({ length: rank }, (_, i) => {
    const g = n.cast(n.indexAxis(grid, grid.shape.length - 1, rank - 1 - i), work)
    const extent = x.shape[i + 2] ?? 1
    const position = align ? n.mul(n.add(g, 1), (extent - 1) / 2) : n.div(n.sub(n.mul(n.add(g, 1), extent), 1), 2)
    return n.expandDims(position, 1)
  })
  const y = sampleAt(
    n.cast(x, work),
    Array.from({ length: rank }, (_, i) => i + 2),
    coordinates,
    shape,
    (axis) => axis,
    { mode: c.string('mode', 'linear'), padding, borders: (d) => (align ? [0, d - 1] : [-0.5, d - 0.5]) },
  )
  return n.cast(y, x.dtype)
}

/** Coordinates up to which a regular grid is tabulated. */
const maxGrid = 2 ** 22

/** Positions of a regular grid in [-1, 1] under affine maps theta [n, r, r + 1]. */
const affineGrid: Handler = (c) => {
  const theta = c.need(0)
  const size = c.intsOf(1, 'size')
  const align = c.flag('align_corners', false)
  const spatial = size.slice(2)
  const rank = spatial.length
  const points = sizeOf(spatial)
  const strides = rowMajorStrides(spatial)
  const at = (i: number, d: number): number => (align ? (d > 1 ? (2 * i) / (d - 1) - 1 : 0) : (2 * i + 1) / d - 1)
  if (points * (rank + 1) > maxGrid) c.fail(`a grid of ${points} points`)
  const data = new Float64Array(points * (rank + 1))
  for (let p = 0; p < points; p++) {
    spatial.forEach((d, a) => {
      // The innermost axis comes first.
      data[p * (rank + 1) + rank - 1 - a] = at(Math.floor(p / (strides[a] ?? 1)) % d, d)
    })
    data[p * (rank + 1) + rank] = 1
  }
  const base = n.floats(data, [points, rank + 1], theta.dtype)
  return n.reshape(n.contractLabelled(theta, 'nij', base, 'pj', 'npi'), [theta.shape[0] ?? 1, ...spatial, rank])
}

/** A convolution whose samples are displaced by computed offsets (and weighted by a mask). */
const deformConv: Handler = (c) => {
  const x = c.need(0)
  const w = c.need(1)
  const offset = c.need(2)
  const kernel = w.shape.slice(2)
  const rank = kernel.length
  const cells = sizeOf(kernel)
  const steps = rowMajorStrides(kernel)
  const groups = c.int('group', 1)
  const offsetGroups = c.int('offset_group', 1)
  const stride = c.ints('strides') ?? kernel.map(() => 1)
  const dilation = c.ints('dilations') ?? kernel.map(() => 1)
  const pads = pairsOf(c.ints('pads') ?? [...kernel, ...kernel].map(() => 0))
  const [batch = 1, channels = 1] = x.shape
  const out = offset.shape.slice(2)
  const each = channels / offsetGroups
  const weightsOf = `the tensor of weights of an input ${showShape(x.shape)}, in ${groups} groups`
  c.requireShape(rank > 0 && x.shape.length === w.shape.length, w.shape, weightsOf)
  c.requireShape(w.shape[1] === channels / groups && Number.isInteger((w.shape[0] ?? 0) / groups), w.shape, weightsOf)
  c.requireShape(
    offset.shape.length === x.shape.length && Number.isInteger(each),
    offset.shape,
    `the tensor of offsets of an input ${showShape(x.shape)}, in ${offsetGroups} groups`,
  )
  c.requireLength('strides', stride, rank)
  c.requireLength('dilations', dilation, rank)
  c.requireLength('pads', pads.flat(), 2 * rank)
  // Per offset group [n, og, cells, axis, ...out], spread over the channels of the group.
  const offsets = n.reshape(offset, [batch, offsetGroups, cells, rank, ...out])
  const shape = [batch, channels, cells, ...out]
  const spread = (v: n.Node): n.Node =>
    n.reshape(n.broadcastTo(n.expandDims(v, 2), [batch, offsetGroups, each, cells, ...out]), shape)
  const coordinates = kernel.map((k, a) => {
    const cell = Float64Array.from(
      { length: cells },
      (_, i) => (Math.floor(i / (steps[a] ?? 1)) % k) * (dilation[a] ?? 1),
    )
    const start = n.floats(cell, [cells, ...out.map(() => 1)], x.dtype)
    const position = n.mul(n.iota([cells, ...out], a + 1, x.dtype), stride[a] ?? 1)
    const regular = n.sub(n.add(position, start), pads[a]?.[0] ?? 0)
    return spread(n.add(n.indexAxis(offsets, 3, a), regular))
  })
  const sampled = sampleAt(
    x,
    kernel.map((_, a) => a + 2),
    coordinates,
    shape,
    (axis) => axis,
    { mode: 'linear', padding: 'zeros', borders: (d) => [0, d - 1] },
  )
  const mask = c.opt(4)
  const weighted =
    mask === undefined ? sampled : n.mul(sampled, spread(n.reshape(mask, [batch, offsetGroups, cells, ...out])))
  const outChannels = w.shape[0] ?? 1
  const positions = sizeOf(out)
  const data = n.reshape(weighted, [batch, groups, channels / groups, cells, positions])
  const weights = n.reshape(w, [groups, outChannels / groups, channels / groups, cells])
  const y = n.reshape(n.contractLabelled(data, 'ngckp', weights, 'gmck', 'ngmp'), [batch, outChannels, ...out])
  const bias = c.opt(3)
  return bias === undefined ? y : n.add(y, n.alongAxis(bias, 1, y.shape.length))
}

export const sampleHandlers: HandlerTable = { AffineGrid: affineGrid, DeformConv: deformConv, GridSample: gridSample }
