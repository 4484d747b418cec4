/** Operators that index by data: gathers, scatters, one-hot, top-k, sequence reversal. */

import type { ScatterCombiner } from '../../compose/indexing.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { IndexSource } from '../../graph/node.ts'
import { isFloat } from '../../types/dtype.ts'
import { normaliseAxis, rowMajorStrides, showShape, sizeOf } from '../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'

const gather: Handler = (c) => n.take(c.need(0), c.need(1), c.axis(0, c.need(0).shape.length))

/** Indices below 0 count from the end of an axis of extent n. */
export function wrapped(indices: n.Node, extent: number): n.Node {
  const i = indices.dtype === 'i32' || indices.dtype === 'i64' ? indices : n.cast(indices, 'i64')
  return n.where(n.compare('lt', i, 0), n.add(i, extent), i)
}

const gatherElements: Handler = (c) => {
  const x = c.need(0)
  const axis = c.axis(0, x.shape.length)
  const indices = wrapped(c.need(1), x.shape[axis] ?? 0)
  c.requireShape(
    indices.shape.length === x.shape.length,
    indices.shape,
    `the tensor of indices into ${showShape(x.shape)}`,
  )
  c.requireShape(
    indices.shape.every((d, i) => i === axis || d <= (x.shape[i] ?? 0)),
    indices.shape,
    `the tensor of indices into ${showShape(x.shape)} along axis ${axis}`,
  )
  const sources = x.shape.map((_, i): IndexSource => (i === axis ? { input: 0 } : { axis: i }))
  return n.gather(x, [indices], indices.shape, sources)
}

const combiners: Readonly<Record<string, ScatterCombiner>> = {
  none: 'set',
  add: 'sum',
  mul: 'prod',
  max: 'max',
  min: 'min',
}

function combinerOf(c: OpContext): ScatterCombiner {
  const name = c.string('reduction', 'none')
  const combiner = combiners[name]
  if (combiner === undefined) throw new UserError('E_ONNX_MALFORMED', `a scatter with reduction "${name}"`)
  return combiner
}

const scatterElements: Handler = (c) => {
  const x = c.need(0)
  return n.scatterElements(x, c.need(1), c.need(2), c.axis(0, x.shape.length), combinerOf(c))
}

/** 1 or `on` where the class index equals the position; indices out of [-depth, depth) give no hit. */
const oneHot: Handler = (c) => {
  const indices = c.need(0)
  const depth = c.intOf(1, 'depth')
  const values = c.need(2)
  const axis = normaliseAxis(c.int('axis', -1), indices.shape.length + 1)
  const work = isFloat(indices.dtype) ? indices : n.cast(indices, 'i64')
  const at = n.expandDims(work, axis)
  const positive = n.where(n.compare('lt', at, 0), n.add(at, depth), at)
  const shape = [...indices.shape.slice(0, axis), depth, ...indices.shape.slice(axis)]
  const hit = n.compare('eq', n.broadcastTo(positive, shape), n.iota(shape, axis, positive.dtype))
  return n.where(hit, n.indexAxis(values, 0, 1), n.indexAxis(values, 0, 0))
}

/** Reverses the first sequence_lens[b] elements along time, for each b. */
const reverseSequence: Handler = (c) => {
  const x = c.need(0)
  const lens = n.cast(c.need(1), 'i64')
  const time = c.axis(0, x.shape.length, 'time_axis')
  const batch = c.axis(1, x.shape.length, 'batch_axis')
  const t = n.iota(x.shape, time, 'i64')
  const len = n.broadcastInto(lens, x.shape, [batch])
  const at = n.where(n.compare('lt', t, len), n.sub(n.sub(len, t), 1), t)
  const sources = x.shape.map((_, i): IndexSource => (i === time ? { input: 0 } : { axis: i }))
  return n.gather(x, [at], x.shape, sources)
}

/** The k largest (or least) along an axis, in order; ties go to the lower index. */
const topK: Handler = (c) => {
  const x = c.need(0)
  const axis = c.axis(-1, x.shape.length)
  const k = c.int('k', -1) >= 0 ? c.int('k', -1) : c.intOf(1, 'k')
  const [values, indices] = n.topK(x, k, { axis, largest: c.flag('largest', true) })
  return [values, n.cast(indices, 'i64')]
}

/** Writes `update` into a cache along the sequence axis from a start given for each batch; circular mode wraps. */
const tensorScatter: Handler = (c) => {
  const past = c.need(0)
  const update = c.need(1)
  const start = c.opt(2)
  const axis = c.axis(-2, past.shape.length)
  const extent = past.shape[axis] ?? 0
  const step = n.iota(update.shape, axis, 'i64')
  const first =
    start === undefined ? n.full(update.shape, 0, 'i64') : n.broadcastInto(n.cast(start, 'i64'), update.shape, [0])
  const at = n.add(step, first)
  const index = c.string('mode', 'linear') === 'circular' ? n.rem(at, extent) : at
  return n.scatterElements(past, index, update, axis)
}

/** Puts each value back where MaxPool took it from, by flat indices into the unpooled tensor. */
const maxUnpool: Handler = (c) => {
  const x = c.need(0)
  const indices = c.need(1)
  const kernel = c.ints('kernel_shape') ?? []
  const strides = c.ints('strides') ?? kernel.map(() => 1)
  const pads = c.ints('pads') ?? kernel.flatMap(() => [0, 0])
  const { length } = kernel
  c.requireShape(length > 0 && x.shape.length === length + 2, x.shape, `the input of windows [${kernel.join(', ')}]`)
  c.requireLength('strides', strides, length)
  c.requireLength('pads', pads, 2 * length)
  const inferred = [
    ...x.shape.slice(0, 2),
    ...kernel.map(
      (k, i) => ((x.shape[i + 2] ?? 1) - 1) * (strides[i] ?? 1) + k - (pads[i] ?? 0) - (pads[i + kernel.length] ?? 0),
    ),
  ]
  const shape = c.opt(2) === undefined ? inferred : c.intsOf(2, 'output_shape')
  // Indices count in the tensor MaxPool saw; a larger output shape keeps coordinates, not flat positions.
  let flat: n.Node = n.cast(indices, 'i64')
  if (c.opt(2) !== undefined) {
    const from = rowMajorStrides(inferred)
    const to = rowMajorStrides(shape)
    flat = inferred.map((d, a) => n.mul(n.rem(n.div(flat, from[a] ?? 1), d), to[a] ?? 1)).reduce((a, b) => n.add(a, b))
  }
  const count = sizeOf(x.shape)
  const zeros = n.filled(x, [sizeOf(shape)], 0)
  return n.reshape(n.scatterElements(zeros, n.reshape(flat, [count]), n.reshape(x, [count]), 0), shape)
}

export const indexingHandlers: HandlerTable = {
  Gather: gather,
  GatherElements: gatherElements,
  GatherND: (c) => n.gatherND(c.need(0), c.need(1), c.int('batch_dims', 0)),
  MaxUnpool: maxUnpool,
  OneHot: oneHot,
  ReverseSequence: reverseSequence,
  Scatter: scatterElements,
  ScatterElements: scatterElements,
  ScatterND: (c) => n.scatterND(c.need(0), c.need(1), c.need(2), combinerOf(c)),
  TensorScatter: tensorScatter,
  TopK: topK,
}
