/** Attention of grouped queries with a cache, sequences of different lengths, windows, rotary embedding; and by blocks of keys. */
import { computeDType } from '../../../types/dtype.ts'
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { packHeads, unpackHeads } from '../heads.ts'
import { attend, perBatch, scaleOf, written } from './attend.ts'
import { turnAt } from './rotary.ts'

interface Heads {
  readonly q: n.Node
  readonly k: n.Node
  readonly v: n.Node
}

/** Query, key and value as heads; one tensor may hold all three. */
function headsOf(c: OpContext): Heads {
  const query = c.need(0)
  const [many, few] = [c.int('num_heads', 1), c.int('kv_num_heads', 1)]
  const key = c.opt(1)
  if (key !== undefined)
    return { q: unpackHeads(query, many), k: unpackHeads(key, few), v: unpackHeads(c.need(2), few) }
  const total = query.shape[2] ?? 0
  const width = total / (many + 2 * few)
  c.requireShape(Number.isInteger(width), query.shape, `the packed query, key and value of ${many} and ${few} heads`)
  const [q = query, k = query, v = query] = n.split(query, [many * width, few * width, few * width], 2)
  return { q: unpackHeads(q, many), k: unpackHeads(k, few), v: unpackHeads(v, few) }
}

/** Each head by its root mean square, times a weight: in f32 for half precision. */
function headNorm(x: n.Node, weight: n.Node | undefined, epsilon: number): n.Node {
  if (weight === undefined) return x
  const work = n.cast(x, computeDType(x.dtype))
  const inverse = n.unary('rsqrt', n.add(n.mean(n.square(work), [3], true), epsilon))
  return n.cast(n.mul(n.mul(work, inverse), n.cast(weight, work.dtype)), x.dtype)
}

/** Where the new tokens of a step stand. */
interface Step {
  readonly batch: number
  readonly queries: number
  /** Tokens of the longest sequence, the new ones among them. */
  readonly total: number
  /** No tokens before these. */
  readonly isPrompt: boolean
  /** Tokens of each sequence [batch], i32. */
  readonly totals: n.Node
  /** Tokens before the new ones [batch], i32. */
  readonly pasts: n.Node
}

function stepOf(q: n.Node, lengths: n.Node, total: number): Step {
  const [batch = 1, , queries = 1] = q.shape
  const isPrompt = queries === total
  const totals = n.reshape(n.cast(lengths, 'i32'), [batch])
  const pasts = isPrompt ? n.full([batch], 0, 'i32') : n.sub(totals, queries)
  return { batch, queries, total, isPrompt, totals, pasts }
}

/** Positions of the new tokens for rotary embedding: [batch or 1, queries]. */
function positionsOf(step: Step, given: n.Node | undefined): n.Node {
  const own = n.iota([1, step.queries], 1, 'i64')
  if (given !== undefined) {
    if (!step.isPrompt) return n.reshape(given, [given.shape[0] ?? 1, step.queries])
    // Of a prompt the first position alone counts.
    return n.add(own, n.cast(n.sliceAxis(n.reshape(given, [1, -1]), 1, 0, 1), 'i64'))
  }
  if (step.isPrompt) return own
  return n.add(own, n.cast(n.expandDims(step.pasts, 1), 'i64'))
}

/** Keys or values after the step, [batch, heads, extent, width]: those of the past, the new ones, then zeros. */
function cached(past: n.Node | undefined, x: n.Node, step: Step, extent: number, kept: n.Node): n.Node {
  const [, heads = 1, count = 0, width = 1] = x.shape
  const before = past?.shape[2] ?? 0
  const zeros = (length: number): n.Node => n.filled(x, [step.batch, heads, length, width], 0)
  if (past === undefined || (step.isPrompt && count > 0))
    return count === extent ? x : n.concat([x, zeros(extent - count)], 2)
  const room = before < extent ? n.concat([past, zeros(extent - before)], 2) : n.sliceAxis(past, 2, 0, extent)
  const valid = n.compare('lt', n.iota([1, 1, extent, 1], 2, 'i32'), perBatch(kept))
  return written(n.where(valid, room, n.scalarAs(room, 0)), x, step.pasts)
}

/** Keys [batch, heads, queries, keys] that each query sees: those before it in its sequence, within the window. */
function seen(step: Step, keys: number, pasts: n.Node, causal: boolean, window: number): n.Node {
  const shape = [1, 1, step.queries, keys]
  const key = n.iota(shape, 3, 'i32')
  const totals = perBatch(step.totals)
  const own = n.add(n.add(n.iota(shape, 2, 'i32'), 1), perBatch(pasts))
  const end = causal ? n.min(own, totals) : totals
  const before = n.compare('lt', key, end)
  return window < 0 ? before : n.logicalAnd(before, n.compare('ge', key, n.sub(end, window)))
}

const groupQueryAttention: Handler = (c) => {
  for (const name of ['k_quant_type', 'v_quant_type'])
    if (c.string(name, 'NONE') !== 'NONE') c.fail(`a quantised cache (${name})`)
  if (c.flag('sliding_window_cache', false)) c.fail('a cache that holds the window alone (sliding_window_cache)')
  const { q: query, k: key, v } = headsOf(c)
  const width = query.shape[3] ?? 1
  const [pastKey, pastValue] = [c.opt(3), c.opt(4)]
  const total = c.intOf(6, 'total_sequence_length')
  const step = stepOf(query, n.add(c.need(5), 1), total)
  const { batch, queries } = step
  const epsilon = c.float('qk_norm_epsilon', 1e-6)
  const turned = (x: n.Node): n.Node => {
    if (!c.flag('do_rotary', false) || x.shape[2] === 0) return x
    const tables = { cos: c.need(7), sin: c.need(8), interleaved: c.flag('rotary_interleaved', false) }
    return turnAt(x, positionsOf(step, c.opt(9)), tables)
  }
  const q = turned(headNorm(query, c.opt(14), epsilon))
  const k = turned(headNorm(key, c.opt(15), epsilon))
  const extent = Math.max(total, pastKey?.shape[2] ?? 0)
  // Without new keys the past is whole.
  const kept = k.shape[2] === 0 ? step.totals : step.pasts
  const keys = cached(pastKey, k, step, extent, kept)
  const values = cached(pastValue, v, step, extent, kept)
  const causal = c.flag('causal', true)
  const pasts = step.isPrompt || pastKey === undefined ? n.full([batch], 0, 'i32') : step.pasts
  const allowed = seen(step, extent, pasts, causal, c.int('local_window_size', -1))
  const bias = c.opt(10)
  const sinks = c.opt(11)
  const sink =
    sinks !== undefined
      ? n.reshape(sinks, [1, sinks.shape[0] ?? 1, 1, 1])
      : c.flag('smooth_softmax', false)
        ? n.full([1, 1, 1, 1], 0, 'f32')
        : undefined
  const r = attend({
    q,
    k: keys,
    v: values,
    scale: scaleOf(c, width),
    softcap: c.float('softcap', 0),
    added: [bias === undefined ? undefined : biasOver(c, bias, queries, extent)],
    allowed,
    sink,
  })
  return [packHeads(r.y), keys, values, c.wants(3) ? shownScores(c, r, allowed, total, q) : undefined]
}

/** A bias of the scores, its last axis filled up to the keys. */
function biasOver(c: OpContext, bias: n.Node, queries: number, keys: number): n.Node {
  const own = bias.shape[3] ?? 0
  c.requireShape(
    bias.shape.length === 4 && (bias.shape[2] === queries || bias.shape[2] === 1),
    bias.shape,
    `the attention_bias of ${queries} queries`,
  )
  if (own >= keys) return n.sliceAxis(bias, 3, 0, keys)
  return n.pad(bias, [
    [0, 0],
    [0, 0],
    [0, 0],
    [0, keys - own],
  ])
}

/** Scores before the softmax (1) or weights after it (2), zeros where a key is not seen. */
function shownScores(
  c: OpContext,
  r: { readonly scores: n.Node; readonly weights: n.Node },
  allowed: n.Node,
  total: number,
  q: n.Node,
): n.Node {
  const which = c.int('qk_output', 0)
  if (which !== 1 && which !== 2) return c.fail(`an output of scores with qk_output ${which}`)
  const shown = which === 2 ? r.weights : n.where(allowed, r.scores, n.scalarAs(r.scores, 0))
  return n.cast(n.sliceAxis(shown, 3, 0, total), q.dtype)
}

/** Blocks of keys that each block of queries sees, [layouts, blocks, blocks], from their rows in compressed form. */
function blockLayout(rows: n.Node, columns: n.Node): n.Node {
  const [layouts = 1, ends = 1] = rows.shape
  const entries = columns.shape[1] ?? 0
  const blocks = ends - 1
  const shape = [layouts, blocks, blocks, entries]
  const entry = n.iota(shape, 3, 'i32')
  const start = n.broadcastInto(n.cast(n.sliceAxis(rows, 1, 0, blocks), 'i32'), shape, [0, 1])
  const end = n.broadcastInto(n.cast(n.sliceAxis(rows, 1, 1, ends), 'i32'), shape, [0, 1])
  const column = n.broadcastInto(n.cast(columns, 'i32'), shape, [0, 3])
  const inRow = n.logicalAnd(n.compare('ge', entry, start), n.compare('lt', entry, end))
  const hit = n.logicalAnd(inRow, n.compare('eq', column, n.iota(shape, 2, 'i32')))
  return n.compare('gt', n.sum(n.cast(hit, 'i32'), [3]), 0)
}

/** Causal attention in which blocks of queries see the blocks of keys that a layout names; heads take layouts in turn. */
const sparseAttention: Handler = (c) => {
  const { q: query, k: key, v } = headsOf(c)
  const [, heads = 1, queries = 1, width = 1] = query.shape
  const [pastKey, pastValue] = [c.need(3), c.need(4)]
  const total = c.intOf(7, 'total_sequence_length')
  const step = stepOf(query, c.need(8), total)
  const size = c.int('sparse_block_size', 64)
  const turned = (x: n.Node): n.Node => {
    if (!c.flag('do_rotary', false)) return x
    const tables = { cos: c.need(9), sin: c.need(10), interleaved: c.flag('rotary_interleaved', false) }
    return turnAt(x, positionsOf(step, undefined), tables)
  }
  const [q, k] = [turned(query), turned(key)]
  const extent = Math.max(total, pastKey.shape[2] ?? 0)
  const keys = cached(pastKey, k, step, extent, step.pasts)
  const values = cached(pastValue, v, step, extent, step.pasts)
  const layout = blockLayout(c.need(5), c.need(6))
  const [layouts = 1, blocks = 1] = layout.shape
  const shape = [step.batch, heads, queries, extent]
  const row = n.add(n.iota(shape, 2, 'i32'), n.broadcastTo(perBatch(step.pasts), shape))
  const block = (x: n.Node): n.Node => n.clip(n.div(x, size), 0, blocks - 1)
  const named = n.gather(
    layout,
    [n.rem(n.iota(shape, 1, 'i32'), layouts), block(row), block(n.iota(shape, 3, 'i32'))],
    shape,
    [{ input: 0 }, { input: 1 }, { input: 2 }],
  )
  const allowed = n.logicalAnd(named, seen(step, extent, step.pasts, true, -1))
  const { y } = attend({ q, k: keys, v: values, scale: scaleOf(c, width), allowed })
  return [packHeads(y), keys, values]
}

export const contribGroupQueryHandlers: HandlerTable = {
  GroupQueryAttention: groupQueryAttention,
  SparseAttention: sparseAttention,
}
