/** What the attention operators of onnxruntime share: scores, masks that are added or hide, softmax with a sink, caches of keys and values. */
import { softmax } from '../../../compose/nn.ts'
import { computeDType } from '../../../types/dtype.ts'
import type { OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { scoresOf, weigh } from '../attention.ts'

export interface Attending {
  /** [batch, heads, queries, width]. */
  readonly q: n.Node
  /** [batch, key heads, keys, width]. */
  readonly k: n.Node
  readonly v: n.Node
  readonly scale: number
  /** Scores become cap tanh(scores / cap), before anything is added. */
  readonly softcap?: number | undefined
  /** Added to the scores. */
  readonly added?: readonly (n.Node | undefined)[]
  /** Keys that each query sees; the others weigh nothing. */
  readonly allowed?: n.Node | undefined
  /** Another score in the sum of exponentials, of no value; broadcast to the scores with one key. */
  readonly sink?: n.Node | undefined
}

export interface Attended {
  /** [batch, heads, queries, value width]. */
  readonly y: n.Node
  /** What the softmax took, in the working dtype; hidden keys are not marked. */
  readonly scores: n.Node
  readonly weights: n.Node
}

/** exp(x) over the sum of exp over the last axis and exp(sink). */
function softmaxWithSink(x: n.Node, sink: n.Node): n.Node {
  const last = x.shape.length - 1
  const other = n.cast(sink, x.dtype)
  const top = n.max(n.reduceMax(x, [last], true), other)
  const e = n.exp(n.sub(x, top))
  return n.div(e, n.add(n.sum(e, [last], true), n.exp(n.sub(other, top))))
}

/** softmax(scale q k' + ...) v; scores are in f32 for half precision. */
export function attend(a: Attending): Attended {
  const { dtype } = a.q
  const work = computeDType(dtype)
  const raw = n.mul(n.cast(scoresOf(a.q, a.k), work), a.scale)
  const capped = a.softcap === undefined || a.softcap === 0 ? raw : n.mul(n.tanh(n.div(raw, a.softcap)), a.softcap)
  const scores = (a.added ?? []).reduce<n.Node>((x, y) => (y === undefined ? x : n.add(x, n.cast(y, work))), capped)
  const seen =
    a.allowed === undefined ? scores : n.where(a.allowed, scores, n.scalarAs(scores, Number.NEGATIVE_INFINITY))
  const weights = a.sink === undefined ? softmax(seen) : softmaxWithSink(seen, a.sink)
  return { y: n.cast(weigh(n.cast(weights, dtype), a.v), dtype), scores, weights }
}

/** Factor of scores: what the node says, else 1 / sqrt(width). */
export const scaleOf = (c: OpContext, width: number): number => c.float('scale', 0) || 1 / Math.sqrt(width)

/** Lengths or other numbers of batches [batch] beside scores [batch, heads, queries, keys]. */
export const perBatch = (v: n.Node): n.Node => n.reshape(v, [v.shape[0] ?? 1, 1, 1, 1])

interface MaskShape {
  readonly batch: number
  readonly queries: number
  readonly keys: number
  /** Keys before the first query's own. */
  readonly past: number
}

/** Where the mask of keys is 0, in the forms that Attention and MultiHeadAttention take; true where a key counts. */
function shownKeys(c: OpContext, mask: n.Node, m: MaskShape): n.Node {
  const { batch, queries, keys, past } = m
  const { shape } = mask
  const what = `the mask of ${queries} queries and ${keys} keys`
  if (shape.length === 1) {
    const count = shape[0] ?? 0
    c.requireShape([batch, 2 * batch, 3 * batch + 2].includes(count), shape, what)
    const key = n.iota([1, 1, 1, keys], 3, 'i32')
    const of = (from: number): n.Node => perBatch(n.sliceAxis(n.cast(mask, 'i32'), 0, from, from + batch))
    const before = n.compare('lt', key, of(0))
    return count === 2 * batch && batch !== 2 * batch ? n.logicalAnd(before, n.compare('ge', key, of(batch))) : before
  }
  if (shape.length === 2) {
    c.requireShape(shape[1] === keys && (shape[0] === batch || shape[0] === 1), shape, what)
    return n.compare('gt', n.reshape(mask, [shape[0] ?? 1, 1, 1, keys]), 0)
  }
  if (shape.length === 3) {
    c.requireShape(shape[2] === keys && (shape[1] === queries || shape[1] === 1), shape, what)
    return n.compare('gt', n.expandDims(mask, 1), 0)
  }
  // [batch, 1, longest, longest]: the rows of the queries, the columns of the keys.
  c.requireShape(shape.length === 4 && (shape[2] ?? 0) >= past + queries && (shape[3] ?? 0) >= keys, shape, what)
  return n.compare('gt', n.sliceAxis(n.sliceAxis(mask, 2, past, past + queries), 3, 0, keys), 0)
}

/** The least f32: what causal masks add. */
const lowest = -3.4028234663852886e38

/**
 * What a mask of keys and the order of time add to the scores: `mask_filter_value` where the mask is 0, the least number where a
 * key comes later than the query; nothing without either.
 */
export function addedMask(c: OpContext, mask: n.Node | undefined, causal: boolean, m: MaskShape): n.Node | undefined {
  const number = (v: number): n.Node => n.full([], v, 'f32')
  const filter = c.float('mask_filter_value', -10000)
  const padding = mask === undefined ? undefined : n.where(shownKeys(c, mask, m), number(0), number(filter))
  if (!causal || m.queries === 1) return padding
  const shape = [1, 1, m.queries, m.keys]
  const inTime = n.compare('le', n.iota(shape, 3, 'i32'), n.add(n.iota(shape, 2, 'i32'), m.past))
  return n.where(inTime, padding ?? number(0), number(lowest))
}

/** Keys or values [batch, heads, more, width] behind those of a cache, which need not be there. */
export const appended = (past: n.Node | undefined, x: n.Node): n.Node =>
  past === undefined ? x : n.concat([past, x], 2)

/**
 * A cache [batch, heads, extent, width] with new keys or values written from a place for each batch on: `start` [batch]. What stood behind
 * them stays.
 */
export function written(cache: n.Node, x: n.Node, start: n.Node): n.Node {
  const [batch = 1, heads = 1, extent = 0, width = 0] = cache.shape
  const count = x.shape[2] ?? 0
  if (count === 0) return cache
  const shape = [batch, heads, extent, width]
  const at = n.sub(n.iota([batch, 1, extent, 1], 2, 'i32'), perBatch(n.cast(start, 'i32')))
  const isNew = n.logicalAnd(n.compare('ge', at, 0), n.compare('lt', at, count))
  const index = n.broadcastTo(n.clip(at, 0, count - 1), shape)
  const found = n.gather(x, [index], shape, [{ axis: 0 }, { axis: 1 }, { input: 0 }, { axis: 3 }])
  return n.where(isNew, found, cache)
}
