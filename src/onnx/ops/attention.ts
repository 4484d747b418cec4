/** Attention and what belongs to it: rotary embedding; linear attention and the causal convolution beside it are in `state.ts`. */

import { softmax } from '../../compose/nn.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { computeDType, type DType } from '../../types/dtype.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'
import { packHeads, unpackHeads } from './heads.ts'
import { stateHandlers } from './state.ts'

const missing = (what: string): UserError => new UserError('E_ONNX_MALFORMED', `it needs ${what}`)

/** Scores of grouped queries: q [b, hq, s, d], k [b, hk, t, d] -> [b, hq, s, t], query head h beside key head h / group. */
export function scoresOf(q: n.Node, k: n.Node): n.Node {
  const [b = 1, hq = 1, s = 1, d = 1] = q.shape
  const hk = k.shape[1] ?? 1
  if (hq % hk !== 0) throw new UserError('E_SHAPE', `${hq} query heads do not divide into ${hk} key heads`)
  const y = n.contractLabelled(n.reshape(q, [b, hk, hq / hk, s, d]), 'bhgsd', k, 'bhtd', 'bhgst')
  return n.reshape(y, [b, hq, s, k.shape[2] ?? 1])
}

/** Weighted sums of grouped values: p [b, hq, s, t], v [b, hk, t, e] -> [b, hq, s, e]. */
export function weigh(p: n.Node, v: n.Node): n.Node {
  const [b = 1, hq = 1, s = 1, t = 1] = p.shape
  const hk = v.shape[1] ?? 1
  const y = n.contractLabelled(n.reshape(p, [b, hk, hq / hk, s, t]), 'bhgst', v, 'bhte', 'bhgse')
  return n.reshape(y, [b, hq, s, v.shape[3] ?? 1])
}

/** Softmax over the last axis; a row of only -Infinity gives zeros. */
function guardedSoftmax(x: n.Node): n.Node {
  const last = x.shape.length - 1
  const top = n.reduceMax(x, [last], true)
  const empty = n.compare('eq', top, Number.NEGATIVE_INFINITY)
  const anchor = n.where(empty, n.filled(top, top.shape, 0), top)
  const e = n.exp(n.sub(x, anchor))
  const total = n.sum(e, [last], true)
  return n.div(e, n.where(empty, n.filled(total, total.shape, 1), total))
}

interface MaskParts {
  /** Keys each query may see, broadcastable to the scores. */
  readonly allowed: n.Node | undefined
  /** Added to the scores. */
  readonly bias: n.Node | undefined
}

/** Masks by position (causal, windows, padding) and by the caller's mask. Query i stands at position i + offset. */
function masksOf(c: OpContext, scores: n.Node, past: number): MaskParts {
  const [, , queries = 1, keys = 1] = scores.shape
  const conditions: n.Node[] = []
  const key = n.iota([1, 1, queries, keys], 3, 'i64')
  const lengths = c.opt(6)
  const valid = lengths === undefined ? undefined : n.reshape(n.cast(lengths, 'i64'), [lengths.shape[0] ?? 1, 1, 1, 1])
  const offset = valid === undefined ? n.full([1, 1, 1, 1], past, 'i64') : n.sub(valid, queries)
  const position = n.add(n.iota([1, 1, queries, 1], 2, 'i64'), offset)
  if (valid !== undefined) conditions.push(n.compare('lt', key, valid))
  if (c.flag('is_causal', false)) conditions.push(n.compare('le', key, position))
  const left = c.int('left_window_size', -1)
  const right = c.int('right_window_size', -1)
  if (left >= 0) conditions.push(n.compare('ge', key, n.sub(position, left)))
  if (right >= 0) conditions.push(n.compare('le', key, n.add(position, right)))
  const mask = c.opt(3)
  let bias: n.Node | undefined
  if (mask !== undefined) {
    // A mask shorter than the keys hides the rest.
    const short = keys - (mask.shape.at(-1) ?? keys)
    const widths = mask.shape.map((_, i): [number, number] => [0, i === mask.shape.length - 1 ? Math.max(0, short) : 0])
    const padded =
      short > 0 && mask.shape.at(-1) !== 1
        ? n.pad(mask, widths, 'constant', mask.dtype === 'bool' ? false : Number.NEGATIVE_INFINITY)
        : mask
    if (mask.dtype === 'bool') conditions.push(padded)
    else bias = n.cast(padded, scores.dtype)
  }
  return { allowed: conditions.length === 0 ? undefined : conditions.reduce((a, b) => n.logicalAnd(a, b)), bias }
}

const attention: Handler = (c) => {
  const packed = c.need(0).shape.length === 3
  const dtype = c.need(0).dtype
  const q = unpackHeads(c.need(0), c.int('q_num_heads', 0))
  let k = unpackHeads(c.need(1), c.int('kv_num_heads', 0))
  let v = unpackHeads(c.need(2), c.int('kv_num_heads', 0))
  const pastKey = c.opt(4)
  const pastValue = c.opt(5)
  if (pastKey !== undefined && pastValue !== undefined) {
    k = n.concat([pastKey, k], 2)
    v = n.concat([pastValue, v], 2)
  }
  const work: DType = computeDType(dtype)
  const scale = c.float('scale', 0) || 1 / Math.sqrt(q.shape[3] ?? 1)
  const raw = n.mul(scoresOf(n.cast(q, work), n.cast(k, work)), scale)
  const cap = c.float('softcap', 0)
  const capped = cap === 0 ? raw : n.mul(n.tanh(n.div(raw, cap)), cap)
  const { allowed, bias } = masksOf(c, raw, pastKey?.shape[2] ?? 0)
  const biased = bias === undefined ? capped : n.add(capped, bias)
  const masked =
    allowed === undefined ? biased : n.where(allowed, biased, n.filled(biased, [], Number.NEGATIVE_INFINITY))
  const precision = c.int('softmax_precision', 0) === 0 ? work : computeDType(c.dtype('softmax_precision'))
  const scores = n.cast(masked, precision)
  const weights = n.cast(allowed === undefined && bias === undefined ? softmax(scores) : guardedSoftmax(scores), work)
  const y = n.cast(weigh(weights, n.cast(v, work)), dtype)
  const shown = [raw, capped, masked, weights][c.int('qk_matmul_output_mode', 0)] ?? raw
  return [packed ? packHeads(y) : y, k, v, n.cast(shown, dtype)]
}

/** Scores and probabilities pass through the node's own subgraphs. */
const flexAttention: Handler = (c) => {
  const q = c.need(0)
  const k = c.need(1)
  const v = c.need(2)
  const precision =
    c.int('softmax_precision', 0) === 0 ? (q.dtype === 'f64' ? 'f64' : 'f32') : c.dtype('softmax_precision')
  const work = computeDType(precision)
  const through = (name: string, x: n.Node): n.Node => {
    if (!c.has(name)) return x
    const [y] = c.services.subgraph(c.graph(name), [n.cast(x, precision)])
    if (y === undefined) throw missing(`an output of ${name}`)
    return n.cast(y, work)
  }
  const scale = c.optFloat('scale') ?? 1 / Math.sqrt(q.shape[3] ?? 1)
  const scores = through('score_mod', n.mul(scoresOf(n.cast(q, work), n.cast(k, work)), scale))
  const weights = through('prob_mod', softmax(scores))
  return n.cast(weigh(weights, n.cast(v, work)), q.dtype)
}

/** Rotates pairs of features by angles given as cosines and sines, the pairs being halves or neighbours. */
const rotaryEmbedding: Handler = (c) => {
  const x = c.need(0)
  const heads = c.int('num_heads', 0)
  const unpacked = unpackHeads(x, heads)
  const [batch = 1, , sequence = 1, width = 1] = unpacked.shape
  const turned = c.int('rotary_embedding_dim', 0) || width
  const positions = c.opt(3)
  // Angles [batch, 1, sequence, turned / 2].
  const angles = (cache: n.Node): n.Node => {
    const rows = positions === undefined ? cache : n.take(cache, positions, 0)
    return n.reshape(rows, [batch, 1, sequence, turned / 2])
  }
  const cos = angles(c.need(1))
  const sin = angles(c.need(2))
  const head = n.sliceAxis(unpacked, 3, 0, turned)
  const half = turned / 2
  const interleaved = c.flag('interleaved', false)
  const a = interleaved ? n.sliceAxis(head, 3, 0, turned, 2) : n.sliceAxis(head, 3, 0, half)
  const b = interleaved ? n.sliceAxis(head, 3, 1, turned, 2) : n.sliceAxis(head, 3, half, turned)
  const real = n.sub(n.mul(cos, a), n.mul(sin, b))
  const imaginary = n.add(n.mul(sin, a), n.mul(cos, b))
  const rotated = interleaved ? n.reshape(n.stack([real, imaginary], 4), head.shape) : n.concat([real, imaginary], 3)
  const y = turned === width ? rotated : n.concat([rotated, n.sliceAxis(unpacked, 3, turned, width)], 3)
  return x.shape.length === 3 ? packHeads(y) : y
}

/** Steps up to which a recurrence is unrolled. */
export const maxSteps = 2048

export const attentionHandlers: HandlerTable = {
  Attention: attention,
  ...stateHandlers,
  RotaryEmbedding: rotaryEmbedding,
}

export const previewHandlers: HandlerTable = { FlexAttention: flexAttention }
