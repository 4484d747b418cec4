/** Operators whose number of results depends on the data: in room for a bound, or as many as there are where the data are known at import. */
import { nonzero, positionsWhere, unique } from '../../compose/sized.ts'
import { normaliseAxis, sizeOf } from '../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'
import { nonMaxSuppression } from './suppression.ts'

/** Results along an axis. */
interface Sized {
  readonly node: n.Node
  readonly axis: number
}

/**
 * The outputs of a node: those with an axis have `count` results along it. Values of constants are cut at once; of others the importer is told, which
 * cuts outputs of the model.
 */
function sizedBy(c: OpContext, count: n.Node, outputs: readonly (n.Node | Sized)[]): n.Node[] {
  const isKnown = outputs.every((o) => c.services.isFixed('axis' in o ? o.node : o))
  const wide = n.cast(count, 'i64')
  const found = isKnown ? Number(c.services.hostValue(wide, 'the number of its results').data[0]) : 0
  return outputs.map((o) => {
    if (!('axis' in o)) return o
    if (isKnown) return n.sliceAxis(o.node, o.axis, 0, Math.min(found, o.node.shape[o.axis] ?? 0))
    return c.services.counted(o.node, o.axis, wide)
  })
}

const inRoom = (c: OpContext, most: number): number => Math.min(most, c.services.bound() ?? most)

/** Coordinates of what is not zero: [rank, count]. */
const nonZero: Handler = (c) => {
  const x = c.need(0)
  const size = inRoom(c, sizeOf(x.shape))
  const { indices, count } = nonzero(x, size)
  const rows = indices.map((i) => n.cast(i, 'i64'))
  const node = x.shape.length === 0 ? n.reshape(n.stack(rows, 0), [1, size]) : n.stack(rows, 0)
  return sizedBy(c, count, [{ node, axis: 1 }])
}

/** Elements (or slices) where a condition holds; what is beyond it is left out. */
const compress: Handler = (c) => {
  const x = c.need(0)
  const condition = c.need(1)
  const chosen = c.optInt('axis')
  const data = chosen === undefined ? n.reshape(x, [sizeOf(x.shape)]) : x
  const axis = chosen === undefined ? 0 : normaliseAxis(chosen, x.shape.length)
  const extent = data.shape[axis] ?? 0
  const told = n.reshape(condition, [sizeOf(condition.shape)])
  const within = Math.min(extent, told.shape[0] ?? 0)
  const mask = n.sliceAxis(told, 0, 0, within)
  if (c.services.isFixed(mask)) {
    const kept = c.intsOf(1, 'condition').slice(0, extent)
    return n.takeKnown(
      data,
      kept.flatMap((v, i) => (v === 0 ? [] : [i])),
      axis,
    )
  }
  const { positions, count } = positionsWhere(mask, inRoom(c, within))
  return sizedBy(c, count, [{ node: n.take(data, n.min(positions, Math.max(0, extent - 1)), axis), axis }])
}

/** Values that differ, or slices along an axis: y, where each comes first, the place of each element or slice, counts. */
function uniqueOf(c: OpContext, sorted: boolean, axis?: number) {
  const x = c.need(0)
  const most = axis === undefined ? sizeOf(x.shape) : (x.shape[axis] ?? 0)
  const { values, indices, inverse, counts, count } = unique(x, inRoom(c, most), { sorted, axis })
  const wide = (y: n.Node): n.Node => n.cast(y, 'i64')
  return { count, y: values, indices: wide(indices), inverse: wide(inverse), counts: wide(counts) }
}

/** Slices are sorted by each of their elements in turn. */
const mostColumns = 64

const uniqueHandler: Handler = (c) => {
  const { shape } = c.need(0)
  const given = c.optInt('axis')
  const axis = given === undefined ? undefined : normaliseAxis(given, shape.length)
  const elements = axis === undefined ? 1 : sizeOf(shape.filter((_, i) => i !== axis))
  if (elements > mostColumns) return c.fail(`slices of ${elements} elements are sorted (at most ${mostColumns})`)
  const { count, y, indices, inverse, counts } = uniqueOf(c, c.flag('sorted', true), axis)
  return sizedBy(c, count, [
    { node: y, axis: axis ?? 0 },
    { node: indices, axis: 0 },
    inverse,
    { node: counts, axis: 0 },
  ])
}

/** onnxruntime's: values in the order in which they come, the place of each element, counts. */
const contribUnique: Handler = (c) => {
  const { count, y, inverse, counts } = uniqueOf(c, false)
  return sizedBy(c, count, [{ node: y, axis: 0 }, inverse, { node: counts, axis: 0 }])
}

const suppression: Handler = (c) => {
  const most = c.opt(2) === undefined ? 0 : Math.max(0, c.intOf(2, 'max_output_boxes_per_class'))
  const { rows, count } = nonMaxSuppression(c.need(0), c.need(1), {
    most,
    overlap: c.opt(3),
    threshold: c.opt(4),
    isCentred: c.flag('center_point_box', false),
    bound: c.services.bound(),
  })
  return sizedBy(c, count, [{ node: rows, axis: 0 }])
}

export const sizedHandlers: HandlerTable = {
  Compress: compress,
  NonMaxSuppression: suppression,
  NonZero: nonZero,
  Unique: uniqueHandler,
}

export const contribSizedHandlers: HandlerTable = {
  Unique: contribUnique,
}
