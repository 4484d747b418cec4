/** The node builders of the op handlers: `compose`, and the few things only ONNX's operators need. */
import { broadcastTo, reshape } from '../compose/broadcast.ts'
import { labelAt } from '../compose/contract.ts'
import { cast } from '../compose/elementwise.ts'
import { reduce } from '../compose/reduce.ts'
import { constant, full } from '../compose/source.ts'
import { padInterior, sliceAxis } from '../compose/views.ts'
import { makeNode } from '../graph/build.ts'
import type { IndexSource, Node } from '../graph/node.ts'
import type { Scalar } from '../scalar/ops.ts'
import type { DType } from '../types/dtype.ts'
import type { Shape } from '../types/shape.ts'
import type { HostTensor } from './tensors.ts'

export { broadcastTo, expandDims, reshape, squeeze } from '../compose/broadcast.ts'
export { contractLabelled, labelAt, matmul } from '../compose/contract.ts'
export { einsum } from '../compose/einsum.ts'
export {
  add,
  binary,
  bitcast,
  cast,
  clip,
  compare,
  div,
  exp,
  floorMod,
  log,
  logicalAnd,
  logicalNot,
  logicalOr,
  logicalXor,
  max,
  min,
  mul,
  neg,
  pow,
  rem,
  sqrt,
  square,
  sub,
  tanh,
  unary,
  where,
} from '../compose/elementwise.ts'
export { gatherND, scatterElements, scatterND, take } from '../compose/indexing.ts'
export { mean, reduce, reduceMax, reduceMin, scan, sum } from '../compose/reduce.ts'
export { pickAt, resample, type Taps, takeKnown } from '../compose/resampling.ts'
export { topK } from '../compose/sorting.ts'
export { full, iota } from '../compose/source.ts'
export { concat, flip, pad, permute, sliceAxis, slidingWindow, split, stack, swapAxes, tile } from '../compose/views.ts'
export type { Node } from '../graph/node.ts'

/** A host tensor as a node. */
export const literal = (t: HostTensor): Node => constant(t.data, t.shape, t.dtype)

/** Whole numbers as an i64 tensor. */
export const integers = (values: readonly number[], shape: Shape = [values.length]): Node =>
  constant(BigInt64Array.from(values, BigInt), shape, 'i64')

/** Numbers as a tensor of a float dtype. */
export const floats = (values: ArrayLike<number>, shape: Shape, dtype: DType = 'f32'): Node =>
  dtype === 'f64'
    ? constant(Float64Array.from(values), shape, dtype)
    : cast(constant(Float32Array.from(values), shape, 'f32'), dtype)

/** A scalar of another node's dtype. */
export const scalarAs = (x: Node, value: Scalar): Node => full([], value, x.dtype)

/** Axis i of x becomes axis dims[i] of `shape`. */
export const broadcastInto = (x: Node, shape: Shape, dims: readonly number[]): Node =>
  makeNode('broadcast', [x], { shape, dims })

/** A vector along one axis of a rank: [n] -> [1, ..., n, ..., 1]. */
export const alongAxis = (x: Node, axis: number, rank: number): Node =>
  reshape(
    x,
    Array.from({ length: rank }, (_, i) => (i === axis ? (x.shape[0] ?? 1) : 1)),
  )

/** A scalar or one-element tensor as a scalar. */
export const asScalar = (x: Node): Node => reshape(x, [])

/** x[..., at, ...] with the axis dropped. */
export const indexAxis = (x: Node, axis: number, at: number): Node =>
  reshape(
    sliceAxis(x, axis, at, at + 1),
    x.shape.filter((_, i) => i !== axis),
  )

/** `interior` elements of `value` between neighbours of each axis. */
export const dilate = (x: Node, interior: readonly number[], value: Scalar = 0): Node =>
  padInterior(
    x,
    x.shape.map(() => 0),
    x.shape.map(() => 0),
    interior,
    value,
  )

/** Index of the largest or least element along an axis, dropped. */
export const argReduce = (x: Node, which: 'argmax' | 'argmin', axis: number, last = false): Node =>
  makeNode('reduce', [x], { combiner: which, axes: [axis], dtype: 'i64', ...(last ? { last: true } : {}) })

export const gather = (x: Node, indices: readonly Node[], shape: Shape, sources: readonly IndexSource[]): Node =>
  makeNode('gather', [x, ...indices], { shape, sources })

/** `n` distinct labels, from the `from`-th. */
export const labels = (n: number, from = 0): string => Array.from({ length: n }, (_, i) => labelAt(from + i)).join('')

/** All axes from `from` on. */
export const axesFrom = (from: number, rank: number): number[] =>
  Array.from({ length: Math.max(0, rank - from) }, (_, i) => from + i)

/** x with any[axes] reduced, shape kept. */
export const keepReduce = (combiner: 'sum' | 'max' | 'min' | 'prod', x: Node, axes: readonly number[]): Node =>
  reduce(combiner, x, axes, true)

/** An all-zero (or other) tensor of another node's dtype. */
export const filled = (x: Node, shape: Shape, value: Scalar): Node => broadcastTo(scalarAs(x, value), shape)
