/** Attention with its input projection (BERT, GPT-2), of floats and of quantised numbers, and of batches without padding. */
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { packHeads, unpackHeads } from '../heads.ts'
import { centred } from '../quantize.ts'
import { addedMask, appended, attend, perBatch, scaleOf, written } from './attend.ts'

interface Projected {
  readonly q: n.Node
  readonly k: n.Node
  readonly v: n.Node
}

/** A projection [..., q + k + v] cut into heads [batch, heads, sequence, width]. */
function cut(c: OpContext, projected: n.Node): Projected {
  const total = projected.shape.at(-1) ?? 0
  const sizes = c.ints('qkv_hidden_sizes') ?? [total / 3, total / 3, total / 3]
  const last = projected.shape.length - 1
  c.requireShape(sizes.length === 3 && sizes.reduce((a, b) => a + b, 0) === total, projected.shape, 'the projection')
  const [q, k, v] = n.split(projected, sizes, last).map((x) => unpackHeads(x, c.int('num_heads', 1)))
  return { q: q ?? projected, k: k ?? projected, v: v ?? projected }
}

interface Rest {
  readonly mask: n.Node | undefined
  /** [2, batch, heads, past, width]. */
  readonly past: n.Node | undefined
  readonly bias: n.Node | undefined
  /** How much of the past is valid, where its buffer has room for what comes. */
  readonly pastLength: n.Node | undefined
}

/** Attention over heads, with past keys and values in one tensor. */
function selfAttention(c: OpContext, { q, k, v }: Projected, r: Rest): readonly n.Node[] {
  if (c.flag('do_rotary', false)) c.fail('rotary embedding within the operator (do_rotary)')
  const [batch = 1, , queries = 1, width = 1] = q.shape
  const causal = c.flag('unidirectional', false)
  const half = (i: number): n.Node | undefined => (r.past === undefined ? undefined : n.indexAxis(r.past, 0, i))
  const shared = c.flag('past_present_share_buffer', false)
  const [pastKeys, pastValues] = [half(0), half(1)]
  if (shared && pastKeys !== undefined && pastValues !== undefined) {
    if (r.mask !== undefined) c.fail('a mask beside a shared buffer (past_present_share_buffer)')
    const length = r.pastLength ?? c.fail('a shared buffer without past_sequence_length')
    const start = n.broadcastTo(n.reshape(n.cast(length, 'i32'), [1]), [batch])
    const [keys, values] = [written(pastKeys, k, start), written(pastValues, v, start)]
    const shape = [1, 1, queries, keys.shape[2] ?? 0]
    const end = n.add(n.add(n.iota(shape, 2, 'i32'), causal ? 1 : queries), perBatch(start))
    const seen = n.compare('lt', n.iota(shape, 3, 'i32'), causal ? end : n.sub(end, n.iota(shape, 2, 'i32')))
    const { y } = attend({ q, k: keys, v: values, scale: scaleOf(c, width), added: [r.bias], allowed: seen })
    return [packHeads(y), n.stack([keys, values], 0)]
  }
  const [keys, values] = [appended(pastKeys, k), appended(pastValues, v)]
  const past = pastKeys?.shape[2] ?? 0
  const mask = addedMask(c, r.mask, causal, { batch, queries, keys: keys.shape[2] ?? 0, past })
  const { y } = attend({ q, k: keys, v: values, scale: scaleOf(c, width), added: [mask, r.bias] })
  return c.wants(1) ? [packHeads(y), n.stack([keys, values], 0)] : [packHeads(y)]
}

const attention: Handler = (c) => {
  const product = n.matmul(c.need(0), c.need(1))
  const bias = c.opt(2)
  const projected = cut(c, bias === undefined ? product : n.add(product, bias))
  return selfAttention(c, projected, { mask: c.opt(3), past: c.opt(4), bias: c.opt(5), pastLength: c.opt(6) })
}

/** The projection of quantised numbers: sums of i32, scaled once. */
const qAttention: Handler = (c) => {
  const zero = c.opt(6)
  const x = centred(c.need(0), zero === undefined ? undefined : n.asScalar(zero))
  const bias = c.need(2)
  const vector = (v: n.Node): n.Node => (v.shape.length === 1 && v.shape[0] === 1 ? n.asScalar(v) : v)
  const wZero = c.opt(7)
  const sum = n.matmul(x, centred(c.need(1), wZero === undefined ? undefined : vector(wZero)))
  const factor = n.mul(n.cast(n.asScalar(c.need(3)), 'f32'), n.cast(vector(c.need(4)), 'f32'))
  const projected = n.add(n.cast(n.mul(n.cast(sum, 'f32'), factor), bias.dtype), bias)
  return selfAttention(c, cut(c, projected), {
    mask: c.opt(5),
    past: c.opt(8),
    bias: undefined,
    pastLength: undefined,
  })
}

interface Packed {
  readonly batch: number
  readonly sequence: number
  /** Tokens before each batch: [batch + 1]. */
  readonly ends: n.Node
  /** Where each token stands with padding: [tokens]. */
  readonly places: n.Node
}

function packing(c: OpContext, tokens: number, offsets: number, ends: number): Packed {
  const offset = c.need(offsets)
  const [batch = 1, sequence = 1] = offset.shape
  const places = n.sliceAxis(n.reshape(offset, [batch * sequence]), 0, 0, tokens)
  return { batch, sequence, ends: n.cast(c.need(ends), 'i32'), places }
}

/** Tokens [tokens, width] with padding: [batch, sequence, width]; what stands in the padding does not matter. */
function padded(x: n.Node, p: Packed): n.Node {
  const first = n.sliceAxis(p.ends, 0, 0, p.batch)
  const row = n.add(n.iota([p.batch, p.sequence], 1, 'i32'), n.expandDims(first, 1))
  return n.take(x, n.clip(row, 0, (x.shape[0] ?? 1) - 1), 0)
}

/** Attention of tokens [tokens, ...] without padding. */
function packedAttention(c: OpContext, heads: Projected, p: Packed, bias: n.Node | undefined): n.Node {
  const { q, k, v } = heads
  const length = n.sub(n.sliceAxis(p.ends, 0, 1, p.batch + 1), n.sliceAxis(p.ends, 0, 0, p.batch))
  const allowed = n.compare('lt', n.iota([1, 1, 1, p.sequence], 3, 'i32'), perBatch(length))
  const { y } = attend({ q, k, v, scale: scaleOf(c, q.shape[3] ?? 1), added: [bias], allowed })
  const rows = packHeads(y)
  return n.take(n.reshape(rows, [p.batch * p.sequence, rows.shape[2] ?? 1]), p.places, 0)
}

const packedSelfAttention: Handler = (c) => {
  const x = c.need(0)
  const p = packing(c, x.shape[0] ?? 0, 3, 4)
  const projected = n.add(n.matmul(x, c.need(1)), c.need(2))
  return packedAttention(c, cut(c, padded(projected, p)), p, c.opt(5))
}

const packedMultiHeadAttention: Handler = (c) => {
  const query = c.need(0)
  const tokens = query.shape[0] ?? 0
  const heads = c.int('num_heads', 1)
  const p = packing(c, tokens, 4, 5)
  const bias = c.opt(3)
  const whole = query.shape.length === 4
  const parts = [0, 1, 2].map((i) =>
    whole ? n.reshape(n.indexAxis(query, 2, i), [tokens, heads * (query.shape[3] ?? 1)]) : c.need(i),
  )
  const sizes = parts.map((x) => x.shape[1] ?? 0)
  const shifts = bias === undefined ? [] : n.split(bias, sizes, 0)
  const [q, k, v] = parts.map((x, i) => {
    const shift = shifts[i]
    return unpackHeads(padded(shift === undefined ? x : n.add(x, shift), p), heads)
  })
  if (q === undefined || k === undefined || v === undefined) return c.fail('it lacks keys or values')
  return packedAttention(c, { q, k, v }, p, c.opt(6))
}

/** Tokens [tokens, width] at their places among padding: [batch, sequence, width], zeros elsewhere. */
const restorePadding: Handler = (c) => {
  const x = c.need(0)
  const offset = c.need(1)
  const [batch = 1, sequence = 1] = offset.shape
  const [tokens = 0, width = 0] = x.shape
  const places = n.sliceAxis(n.reshape(offset, [batch * sequence]), 0, 0, tokens)
  const flat = n.scatterND(n.filled(x, [batch * sequence, width], 0), n.expandDims(places, -1), x)
  return n.reshape(flat, [batch, sequence, width])
}

export const contribAttentionHandlers: HandlerTable = {
  Attention: attention,
  PackedAttention: packedSelfAttention,
  PackedMultiHeadAttention: packedMultiHeadAttention,
  QAttention: qAttention,
  RestorePadding: restorePadding,
}
