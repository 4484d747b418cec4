/** Attention behind its projections, of many heads: MultiHeadAttention, its one-step form, and the decoder's of sequence-first data. */
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { packHeads, unpackHeads } from '../heads.ts'
import { addedMask, appended, attend, perBatch, scaleOf, written } from './attend.ts'

interface Operands {
  /** Query, key, value, [batch, heads, sequence, width] each. */
  readonly heads: readonly [n.Node, n.Node, n.Node]
  /** Keys and values that stand ready: they take no bias and no past. */
  readonly ready: boolean
}

/** Query, key and value in whatever form they are packed, with the bias of the projections. */
function operands(c: OpContext, bias: n.Node | undefined): Operands {
  const query = c.need(0)
  const count = c.int('num_heads', 1)
  const merged = (x: n.Node, i: number): n.Node => {
    const [batch = 1, sequence = 1, heads = 1, , width = 1] = x.shape
    return n.reshape(n.indexAxis(x, 3, i), [batch, sequence, heads * width])
  }
  const given = c.opt(1)
  const value = c.opt(2)
  let parts: n.Node[]
  if (query.shape.length === 5) parts = [0, 1, 2].map((i) => merged(query, i))
  else if (given === undefined) {
    // All three in one row; the query and the key are of one width, which the bias or an equal share tells.
    const total = query.shape[2] ?? 0
    const third = total / 3
    c.requireShape(Number.isInteger(third), query.shape, 'the packed query, key and value')
    parts = n.split(query, [third, third, third], 2)
  } else if (given.shape.length === 5) parts = [query, merged(given, 0), merged(given, 1)]
  else parts = [query, given, value ?? c.need(2)]
  const [, key] = parts
  const ready = key?.shape.length === 4
  const sizes = parts.map((x) => (x.shape.length === 4 ? (x.shape[1] ?? 0) * (x.shape[3] ?? 0) : (x.shape[2] ?? 0)))
  const shifts = bias === undefined ? [] : n.split(bias, sizes, 0)
  const [q, k, v] = parts.map((x, i) => {
    const shift = x.shape.length === 4 ? undefined : shifts[i]
    return unpackHeads(shift === undefined ? x : n.add(x, shift), count)
  })
  if (q === undefined || k === undefined || v === undefined) return c.fail('it lacks keys or values')
  return { heads: [q, k, v], ready }
}

interface Places {
  readonly bias: number
  readonly mask: number
  readonly added: number
  readonly past: number
  readonly pastLength: number
  readonly beams: number
}

/** A cache whose rows other beams wrote: row t of beam j is that of beam indirection[batch, j, t]. */
function indirect(cache: n.Node, indirection: n.Node): n.Node {
  const [rows = 1, , extent = 1] = cache.shape
  const [groups = 1, beams = 1] = indirection.shape
  const flat = n.reshape(n.sliceAxis(indirection, 2, 0, extent), [groups * beams, 1, extent, 1])
  const first = n.mul(n.div(n.iota([rows, 1, extent, 1], 0, 'i32'), beams), beams)
  const index = n.broadcastTo(n.add(first, n.cast(flat, 'i32')), cache.shape)
  return n.gather(cache, [index], cache.shape, [{ input: 0 }, { axis: 1 }, { axis: 2 }, { axis: 3 }])
}

/** Outputs: the result, keys and values with the past, the scores. */
function multiHead(c: OpContext, at: Places): readonly (n.Node | undefined)[] {
  const { heads, ready } = operands(c, c.opt(at.bias))
  const [q, k, v] = heads
  const [batch = 1, , queries = 1, width = 1] = q.shape
  const [pastKey, pastValue] = ready ? [] : [c.opt(at.past), c.opt(at.past + 1)]
  const length = c.opt(at.pastLength)
  const beams = c.opt(at.beams)
  const causal = c.flag('unidirectional', false)
  const scale = scaleOf(c, width)
  const added = c.opt(at.added)
  if (length !== undefined && pastKey !== undefined && pastValue !== undefined) {
    // The past stands in a buffer with room for what comes.
    const start = n.broadcastTo(n.reshape(n.cast(length, 'i32'), [1]), [batch])
    const extent = pastKey.shape[2] ?? 0
    const moved = (x: n.Node): n.Node => (beams === undefined ? x : indirect(x, beams))
    const [keys, values] = [written(moved(pastKey), k, start), written(moved(pastValue), v, start)]
    const shape = [1, 1, queries, extent]
    const own = causal ? n.add(n.iota(shape, 2, 'i32'), 1) : n.full(shape, k.shape[2] ?? 0, 'i32')
    const allowed = n.compare('lt', n.iota(shape, 3, 'i32'), n.add(own, perBatch(start)))
    const mask = c.opt(at.mask)
    // A mask as long as the buffer, or as the keys that count so far.
    const wide = mask === undefined ? undefined : widened(c, mask, extent)
    const shown = addedMask(c, wide, false, { batch, queries, keys: extent, past: 0 })
    const bias = added === undefined ? undefined : widened(c, added, extent)
    const r = attend({ q, k: keys, v: values, scale, added: [shown, bias], allowed })
    const out = [written(pastKey, k, start), written(pastValue, v, start)]
    return [packHeads(r.y), ...out, c.wants(3) ? c.fail('scores beside a shared buffer') : undefined]
  }
  if (beams !== undefined) c.fail('cache_indirection without past_sequence_length')
  const [keys, values] = [appended(pastKey, k), appended(pastValue, v)]
  const past = pastKey?.shape[2] ?? 0
  const mask = addedMask(c, c.opt(at.mask), causal, { batch, queries, keys: keys.shape[2] ?? 0, past })
  const r = attend({ q, k: keys, v: values, scale, added: [mask, added] })
  return [packHeads(r.y), keys, values, n.cast(r.scores, q.dtype)]
}

/** The last axis filled up to an extent: what is added counts for nothing. */
function widened(c: OpContext, x: n.Node, extent: number): n.Node {
  const last = x.shape.length - 1
  const own = x.shape[last] ?? 0
  if (x.shape.length === 1 || own === extent) return x
  c.requireShape(own <= extent, x.shape, `the mask of ${extent} keys`)
  return n.pad(
    x,
    x.shape.map((_, i): [number, number] => [0, i === last ? extent - own : 0]),
  )
}

const multiHeadAttention: Handler = (c) =>
  multiHead(c, { bias: 3, mask: 4, added: 5, past: 6, pastLength: 8, beams: 9 })

/** One step of decoding; buffers of keys in an order of their own, of one GPU, are refused. */
const decoderMasked: Handler = (c) => {
  const out = multiHead(c, { bias: 10, mask: 3, added: 4, past: 5, pastLength: 7, beams: 9 })
  return c.flag('output_qk', false) || !c.wants(3) ? out : out.slice(0, 3)
}

/** Self or cross attention of sequence-first data, with its projections; which one, values known at import say. */
const decoderAttention: Handler = (c) => {
  const count = c.int('num_heads', 1)
  const flag = (i: number, what: string): boolean => c.intOf(i, what) !== 0
  const [fixed, usePast] = [flag(8, 'static_kv'), flag(9, 'use_past')]
  const [hasState, hasMask] = [flag(10, 'has_layer_state'), flag(11, 'has_key_padding_mask')]
  const x = n.swapAxes(c.need(0), 0, 1)
  const hidden = x.shape[2] ?? 0
  const bias = c.need(4)
  const part = (i: number): n.Node => n.sliceAxis(bias, 0, i * hidden, (i + 1) * hidden)
  const q = unpackHeads(n.add(n.matmul(x, c.need(2)), part(0)), count)
  const project = (source: n.Node): readonly [n.Node, n.Node] => {
    const both = n.matmul(n.swapAxes(source, 0, 1), c.need(3))
    const [k = both, v = both] = n.split(both, [hidden, hidden], 2)
    return [unpackHeads(n.add(k, part(1)), count), unpackHeads(n.add(v, part(2)), count)]
  }
  let pair: readonly [n.Node, n.Node]
  if (hasState && usePast && fixed) pair = [c.need(6), c.need(7)]
  else {
    const [k, v] = project(c.need(fixed ? 1 : 0))
    pair = hasState && usePast ? [n.concat([c.need(6), k], 2), n.concat([c.need(7), v], 2)] : [k, v]
  }
  const [k, v] = pair
  const mask = hasMask ? c.need(5) : undefined
  // Here true marks padding.
  const filter = n.full([], c.float('mask_filter_value', -10000), 'f32')
  const hides =
    mask === undefined
      ? undefined
      : n.where(n.reshape(mask, [mask.shape[0] ?? 1, 1, 1, mask.shape[1] ?? 1]), filter, n.full([], 0, 'f32'))
  const { y } = attend({ q, k, v, scale: 1 / Math.sqrt(q.shape[3] ?? 1), added: [hides] })
  return [n.swapAxes(packHeads(y), 0, 1), k, v]
}

export const contribMultiHeadHandlers: HandlerTable = {
  DecoderAttention: decoderAttention,
  DecoderMaskedMultiHeadAttention: decoderMasked,
  MultiHeadAttention: multiHeadAttention,
}
