/** Regions of images: crops resized, pooled and aligned, at coordinates that are data. */

import { whileNodes } from '../../compose/control.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { graphBetween } from '../../graph/subgraph.ts'
import { extreme } from '../../scalar/ops.ts'
import { computeDType } from '../../types/dtype.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'
import { stepParams } from '../stepBody.ts'

/** Column i of rows [regions, columns] as [regions, 1, ...] of a rank. */
const columnOf = (rows: n.Node, i: number, rank: number): n.Node =>
  n.reshape(n.sliceAxis(rows, 1, i, i + 1), [rows.shape[0] ?? 0, ...new Array<number>(rank - 1).fill(1)])

/** A number for each region beside a shape of the same rank. */
const perRegion = (v: n.Node, rank: number): n.Node =>
  n.reshape(v, [v.shape[0] ?? 0, ...new Array<number>(rank - 1).fill(1)])

/** x [batch, channels, height, width] at whole rows and columns of an image for each region: [regions, channels, ...places]. */
function pick(x: n.Node, image: n.Node, row: n.Node, column: n.Node, places: readonly number[]): n.Node {
  const shape = [image.shape[0] ?? 0, x.shape[1] ?? 1, ...places]
  const wide = (v: n.Node): n.Node => n.broadcastTo(v, shape)
  // The only image is every region's.
  if (x.shape[0] === 1)
    return n.gather(n.squeeze(x, 0), [wide(row), wide(column)], shape, [{ axis: 1 }, { input: 0 }, { input: 1 }])
  const spread = wide(perRegion(n.cast(image, 'i32'), shape.length))
  return n.gather(x, [spread, wide(row), wide(column)], shape, [{ input: 0 }, { axis: 1 }, { input: 1 }, { input: 2 }])
}

const mismatch = (message: string): UserError => new UserError('E_SHAPE', message)

/** Images [batch, channels, height, width] and regions of so many numbers each; E_SHAPE where they are none. */
function operandsOf(c: OpContext, numbers: number): readonly [images: n.Node, regions: n.Node] {
  const [x, regions] = [c.need(0), c.need(1)]
  if (x.shape.length !== 4) throw mismatch(`images of shape [${x.shape}], not [batch, channels, height, width]`)
  if (regions.shape.length !== 2 || regions.shape[1] !== numbers)
    throw mismatch(`regions of shape [${regions.shape}], not [regions, ${numbers}]`)
  return [x, regions]
}

/** The number of the image of each region; E_SHAPE where there are not as many. */
function imagesOf(c: OpContext, regions: n.Node): n.Node {
  const image = c.need(2)
  const [count] = regions.shape
  if (image.shape.length !== 1 || image.shape[0] !== count)
    throw mismatch(`numbers of images of shape [${image.shape}] for ${count} regions`)
  return image
}

/** Crops at [y1, x1, y2, x2] in [0, 1], resized so that corners meet corners; what lies outside has one value. */
const cropAndResize: Handler = (c) => {
  const [x, regions] = operandsOf(c, 4)
  const image = imagesOf(c, regions)
  const rois = n.cast(regions, computeDType(x.dtype))
  const [rows = 1, columns = 1] = c.intsOf(3, 'crop_size')
  const [, , height = 1, width = 1] = x.shape
  const mode = c.string('mode', 'bilinear')
  if (mode !== 'bilinear' && mode !== 'nearest') c.fail(`the mode "${mode}"`)
  const places = [rows, columns]
  /** Coordinates along an axis: [regions, 1, rows, 1] or [regions, 1, 1, columns]. */
  const along = (axis: 0 | 1, count: number, extent: number): n.Node => {
    const [low, high] = [columnOf(rois, axis, 4), columnOf(rois, axis + 2, 4)]
    if (count === 1) return n.mul(n.add(low, high), (extent - 1) / 2)
    const i = n.iota([1, 1, axis === 0 ? rows : 1, axis === 0 ? 1 : columns], axis + 2, rois.dtype)
    return n.add(n.mul(low, extent - 1), n.mul(i, n.mul(n.sub(high, low), (extent - 1) / (count - 1))))
  }
  const [y, z] = [along(0, rows, height), along(1, columns, width)]
  const inside = (v: n.Node, extent: number): n.Node =>
    n.logicalAnd(n.compare('ge', v, 0), n.compare('le', v, extent - 1))
  const at = (v: n.Node, extent: number): n.Node => n.cast(n.clip(v, 0, extent - 1), 'i32')
  const data = n.cast(x, rois.dtype)
  const value = (row: n.Node, column: n.Node): n.Node => pick(data, image, at(row, height), at(column, width), places)
  let made: n.Node
  if (mode === 'nearest') made = value(n.unary('floor', n.add(y, 0.5)), n.unary('floor', n.add(z, 0.5)))
  else {
    const [top, left] = [n.unary('floor', y), n.unary('floor', z)]
    const [down, right] = [n.unary('ceil', y), n.unary('ceil', z)]
    const mix = (a: n.Node, b: n.Node, t: n.Node): n.Node => n.add(a, n.mul(n.sub(b, a), t))
    const [fy, fx] = [n.sub(y, top), n.sub(z, left)]
    made = mix(mix(value(top, left), value(top, right), fx), mix(value(down, left), value(down, right), fx), fy)
  }
  const known = n.logicalAnd(inside(y, height), inside(z, width))
  return n.cast(n.where(known, made, n.scalarAs(made, c.float('extrapolation_value', 0))), x.dtype)
}

/** The greatest element of each cell of regions [image, x1, y1, x2, y2]: over columns first, then over rows. */
const maxRoiPool: Handler = (c) => {
  const [x, rois] = operandsOf(c, 5)
  const [rows = 1, columns = 1] = c.ints('pooled_shape') ?? c.fail('it has no pooled_shape')
  const [, channels = 1, height = 1, width = 1] = x.shape
  const regions = rois.shape[0] ?? 0
  const work = computeDType(x.dtype)
  const scale = c.float('spatial_scale', 1)
  // Halves go away from zero.
  const edge = (i: number): n.Node => {
    const v = n.mul(columnOf(n.cast(rois, work), i, 1), scale)
    return n.mul(n.unary('sign', v), n.unary('floor', n.add(n.unary('abs', v), 0.5)))
  }
  /** Which elements of an axis cells hold: [regions, cells, elements]. */
  const cells = (first: n.Node, last: n.Node, count: number, extent: number): n.Node => {
    const shape = [regions, count, extent]
    const size = n.div(n.max(n.add(n.sub(last, first), 1), 1), count)
    const cell = n.iota(shape, 1, work)
    const start = perRegion(first, 3)
    const step = perRegion(size, 3)
    const limit = (v: n.Node): n.Node => n.clip(n.add(v, start), 0, extent)
    const from = limit(n.unary('floor', n.mul(cell, step)))
    const to = limit(n.unary('ceil', n.mul(n.add(cell, 1), step)))
    const place = n.iota(shape, 2, work)
    return n.logicalAnd(n.compare('ge', place, from), n.compare('lt', place, to))
  }
  const least = n.scalarAs(x, extreme(x.dtype, 'least'))
  const inColumns = cells(edge(1), edge(3), columns, width)
  const inRows = cells(edge(2), edge(4), rows, height)
  const image = n.take(x, n.cast(n.indexAxis(rois, 1, 0), 'i32'), 0)
  const byColumn = n.reduceMax(
    n.where(n.reshape(inColumns, [regions, 1, 1, columns, width]), n.expandDims(image, 3), least),
    [4],
  )
  const cut = n.where(n.reshape(inRows, [regions, 1, rows, height, 1]), n.expandDims(byColumn, 2), least)
  const y = n.reduceMax(cut, [3])
  // Cells without elements are 0.
  const some = n.logicalAnd(
    n.reshape(n.reduceMax(inRows, [2]), [regions, 1, rows, 1]),
    n.reshape(n.reduceMax(inColumns, [2]), [regions, 1, 1, columns]),
  )
  return n.where(n.broadcastTo(some, [regions, channels, rows, columns]), y, n.scalarAs(x, 0))
}

interface Aligned {
  readonly x: n.Node
  readonly image: n.Node
  /** Where cells begin and how large they are, [regions, 1, cells or 1, 1 or cells]. */
  readonly top: n.Node
  readonly left: n.Node
  readonly cellHeight: n.Node
  readonly cellWidth: n.Node
  /** Samples of a cell along rows and columns, of each region. */
  readonly rows: n.Node
  readonly columns: n.Node
  readonly places: readonly number[]
  readonly mode: string
}

/** Sample (i, j) of every cell, weighed by its four neighbours: their sum, or the greatest of the four. */
function sampleOf(a: Aligned, i: n.Node, j: n.Node): n.Node {
  const [, , height = 1, width = 1] = a.x.shape
  const y = n.add(a.top, n.div(n.mul(n.add(i, 0.5), a.cellHeight), a.rows))
  const z = n.add(a.left, n.div(n.mul(n.add(j, 0.5), a.cellWidth), a.columns))
  const outside = (v: n.Node, extent: number): n.Node => n.logicalOr(n.compare('lt', v, -1), n.compare('gt', v, extent))
  const none = n.logicalOr(outside(y, height), outside(z, width))
  const near = (v: n.Node, extent: number): readonly [low: n.Node, high: n.Node, share: n.Node] => {
    const held = n.max(v, 0)
    const low = n.min(n.unary('floor', held), extent - 1)
    return [low, n.min(n.add(low, 1), extent - 1), n.sub(n.min(held, extent - 1), low)]
  }
  const [top, bottom, fy] = near(y, height)
  const [left, right, fx] = near(z, width)
  const at = (v: n.Node): n.Node => n.cast(v, 'i32')
  const term = (row: n.Node, column: n.Node, wy: n.Node, wx: n.Node): n.Node =>
    n.mul(pick(a.x, a.image, at(row), at(column), a.places), n.mul(wy, wx))
  const terms = [
    term(top, left, n.sub(1, fy), n.sub(1, fx)),
    term(top, right, n.sub(1, fy), fx),
    term(bottom, left, fy, n.sub(1, fx)),
    term(bottom, right, fy, fx),
  ]
  const made = terms.reduce((p, q) => (a.mode === 'avg' ? n.add(p, q) : n.max(p, q)))
  return n.where(none, n.scalarAs(made, 0), made)
}

/** Samples of a cell written out. */
const unrolledSamples = 16

/**
 * Regions [x1, y1, x2, y2] averaged over cells by samples between elements (He et al. 2017). With sampling_ratio 0 a region has as many
 * samples a cell as its own size asks for: the loop over them runs as long as the largest region needs.
 */
const roiAlign: Handler = (c) => {
  const [given, regions] = operandsOf(c, 4)
  const work = computeDType(given.dtype)
  const rois = n.cast(regions, work)
  const image = imagesOf(c, regions)
  const [rows, columns] = [c.int('output_height', 1), c.int('output_width', 1)]
  const mode = c.string('mode', 'avg')
  if (mode !== 'avg' && mode !== 'max') c.fail(`the mode "${mode}"`)
  const half =
    c.string('coordinate_transformation_mode', c.opset < 16 ? 'output_half_pixel' : 'half_pixel') === 'half_pixel'
  const scale = c.float('spatial_scale', 1)
  const edge = (i: number): n.Node => n.sub(n.mul(columnOf(rois, i, 4), scale), half ? 0.5 : 0)
  const [left, top, right, bottom] = [edge(0), edge(1), edge(2), edge(3)]
  const length = (low: n.Node, high: n.Node): n.Node => (half ? n.sub(high, low) : n.max(n.sub(high, low), 1))
  const [tall, wide] = [n.div(length(top, bottom), rows), n.div(length(left, right), columns)]
  const ratio = c.int('sampling_ratio', 0)
  const count = (size: n.Node): n.Node =>
    ratio > 0 ? n.filled(size, size.shape, ratio) : n.max(n.unary('ceil', size), half ? 0 : 1)
  const aligned: Aligned = {
    x: n.cast(given, work),
    image,
    top: n.add(top, n.mul(n.iota([1, 1, rows, 1], 2, work), tall)),
    left: n.add(left, n.mul(n.iota([1, 1, 1, columns], 3, work), wide)),
    cellHeight: tall,
    cellWidth: wide,
    rows: n.max(count(tall), 1),
    columns: n.max(count(wide), 1),
    places: [rows, columns],
    mode,
  }
  const combine = (p: n.Node, q: n.Node): n.Node => (mode === 'avg' ? n.add(p, q) : n.max(p, q))
  const number = (v: number): n.Node => n.full([], v, work)
  const total =
    ratio > 0 && ratio * ratio <= unrolledSamples
      ? Array.from({ length: ratio * ratio }, (_, s) =>
          sampleOf(aligned, number(Math.floor(s / ratio)), number(s % ratio)),
        ).reduce(combine)
      : allSamples(aligned, combine)
  const samples = n.mul(count(tall), count(wide))
  const y = mode === 'avg' ? n.div(total, n.max(samples, 1)) : total
  const some = n.compare('gt', samples, 0)
  return n.cast(n.where(some, y, n.scalarAs(y, 0)), given.dtype)
}

/** A parameter of a loop's body in the place of a value. */
const inBody = (x: n.Node): n.Node => stepParams([x])[0] ?? x

/** A loop over the samples of a cell, as long as the region with the most of them needs. */
function allSamples(a: Aligned, combine: (p: n.Node, q: n.Node) => n.Node): n.Node {
  const regions = a.image.shape[0] ?? 0
  const shape = [regions, a.x.shape[1] ?? 1, ...a.places]
  const start = n.filled(a.x, shape, a.mode === 'avg' ? 0 : Number.NEGATIVE_INFINITY)
  if (regions === 0) return start
  const most = (v: n.Node): n.Node => n.reduceMax(n.reshape(v, [regions]), [0])
  const fieldsOf = (v: Aligned): n.Node[] => [v.x, v.image, v.top, v.left, v.cellHeight, v.cellWidth, v.rows, v.columns]
  const inner: Aligned = {
    ...a,
    x: inBody(a.x),
    image: inBody(a.image),
    top: inBody(a.top),
    left: inBody(a.left),
    cellHeight: inBody(a.cellHeight),
    cellWidth: inBody(a.cellWidth),
    rows: inBody(a.rows),
    columns: inBody(a.columns),
  }
  const [mostRows, mostColumns] = [most(a.rows), most(a.columns)]
  const [rowLimit, columnLimit] = [inBody(mostRows), inBody(mostColumns)]
  const zero = n.full([], 0, a.x.dtype)
  const [i, j, total] = [inBody(zero), inBody(zero), inBody(start)]
  const params = [...fieldsOf(inner), rowLimit, columnLimit, i, j, total]
  const counts = n.logicalAnd(n.compare('lt', i, inner.rows), n.compare('lt', j, inner.columns))
  const next = n.where(counts, combine(total, sampleOf(inner, i, j)), total)
  const ends = n.compare('ge', n.add(j, 1), columnLimit)
  const body = [n.where(ends, n.add(i, 1), i), n.where(ends, n.scalarAs(j, 0), n.add(j, 1)), next]
  const results = whileNodes(
    graphBetween(params, [n.compare('lt', i, rowLimit)]),
    graphBetween(params, body),
    [...fieldsOf(a), mostRows, mostColumns],
    [zero, zero, start],
  )
  return results[2] ?? start
}

export const regionHandlers: HandlerTable = { MaxRoiPool: maxRoiPool, RoiAlign: roiAlign }
export const contribRegionHandlers: HandlerTable = { CropAndResize: cropAndResize }
