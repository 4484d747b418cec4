/** Rows of a table that stands quantised in blocks: gathered first, dequantised where they are read. */
import { isInteger } from '../../../types/dtype.ts'
import { normaliseAxis } from '../../../types/shape.ts'
import { decodeCodes } from '../../codec.ts'
import { isCoded, type Value } from '../../codes.ts'
import type { Handler } from '../../context.ts'
import * as n from '../../nodes.ts'
import { scaled, unpackBits } from './blocks.ts'

/** Elements of an axis, each `size` times, cut to `length`. */
function repeatAxis(x: n.Node, axis: number, size: number, length: number): n.Node {
  const at = axis + 1
  const wide = x.shape.flatMap((d, i) => (i === axis ? [d, size] : [d]))
  const spread = n.broadcastTo(n.expandDims(x, at), wide)
  const flat = x.shape.map((d, i) => (i === axis ? d * size : d))
  return n.sliceAxis(n.reshape(spread, flat), axis, 0, length)
}

/**
 * data (integers or small floats) with a scale for each block of the quantised axis, gathered along another axis or the same one. Bytes hold
 * 8 / bits numbers along the last axis. Indices out of range give zeros.
 */
export const gatherBlockQuantized: Handler = (c) => {
  const data = c.value(0)
  const indices = c.need(1)
  const scales = c.need(2)
  const zeros: Value | undefined = c.inputs[3]
  const isFloat8 = isCoded(data) && data.coded.startsWith('FLOAT')
  const bits = isCoded(data) ? 8 : c.int('bits', 4)
  if (bits !== 2 && bits !== 4 && bits !== 8) c.fail(`data of ${bits} bits`)
  const stored = isCoded(data) ? data.node : data
  const rank = stored.shape.length
  const shape = stored.shape.map((d, i) => (i === rank - 1 ? (d * 8) / bits : d))
  const gatherAxis = normaliseAxis(c.int('gather_axis', 0), rank)
  const quantAxis = normaliseAxis(c.int('quantize_axis', 1), rank)
  if (bits !== 8 && gatherAxis === rank - 1) c.fail('a gather along the axis that bytes pack')
  const block = c.int('block_size', 128) || (shape[quantAxis] ?? 1)
  if (!isInteger(indices.dtype)) c.fail(`indices of ${indices.dtype}`)
  const extent = shape[gatherAxis] ?? 0
  const to = scales.dtype
  // What is gathered has the axes of the indices in the place of one.
  const shift = indices.shape.length - 1
  const at = (axis: number): number => (axis > gatherAxis ? axis + shift : axis)
  const rows = (x: n.Node): n.Node =>
    x.shape[gatherAxis] === 1 && extent !== 1
      ? n.take(x, n.filled(indices, indices.shape, 0), gatherAxis)
      : n.take(x, indices, gatherAxis)
  /** One value a block, beside the elements; the gathered axis may be the quantised one. */
  const beside = (v: n.Node): n.Node =>
    quantAxis === gatherAxis
      ? rows(repeatAxis(v, quantAxis, block, extent))
      : repeatAxis(rows(v), at(quantAxis), block, shape[quantAxis] ?? 1)
  const taken = rows(stored)
  const scale = beside(scales)
  let values: n.Node
  if (isFloat8) values = n.mul(decodeCodes({ coded: data.coded, node: taken }, 'f32'), n.cast(scale, 'f32'))
  else {
    const codes = isCoded(data) ? n.cast(taken, 'i32') : unpackBits(taken, bits)
    const points =
      zeros === undefined ? undefined : isCoded(zeros) ? n.cast(zeros.node, 'i32') : unpackZeros(zeros, bits, scales)
    const zero = points === undefined ? (isCoded(data) ? 0 : 2 ** (bits - 1)) : beside(points)
    values = scaled(codes, zero, scale, 'f32')
  }
  const axes = indices.shape.map((_, i) => gatherAxis + i)
  const place = n.cast(indices, 'i64')
  const inside = n.logicalAnd(n.compare('ge', place, -extent), n.compare('lt', place, extent))
  const known = n.broadcastInto(inside, values.shape, axes)
  return n.cast(n.where(known, values, n.filled(values, values.shape, 0)), to)
}

/** Zero points packed like the data along the last axis, as many as there are scales. */
function unpackZeros(zeros: n.Node, bits: number, scales: n.Node): n.Node {
  const last = zeros.shape.length - 1
  return n.sliceAxis(unpackBits(zeros, bits), last, 0, scales.shape[last] ?? 1)
}
