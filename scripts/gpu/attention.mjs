/**
 * Attention in plain operations on a device: forward, gradients from an adjoint alone, and both, over lengths, widths, masks and dtypes. A row's name says all
 * of it: `both 4x32x4096x128 bf16 causal keys8`. `written`: its softmax is written out in operations of its dtype.
 */
import * as api from '../../src/index.ts'
import { measureCalls } from './measure.mjs'
import { makeInputs } from './rows.mjs'

const { arange, jit, nn, vjp, where } = api

/** Batch, heads, positions and width of a head. */
const sizes = [
  [4, 32, 4096, 128],
  [4, 32, 4096, 64],
  [4, 32, 4095, 128],
  [32, 32, 512, 128],
  [1, 8, 16384, 128],
  [4, 16, 2048, 128],
  [2, 16, 2048, 256],
  [8, 16, 1000, 96],
  [4, 8, 4096, 96],
  [8, 12, 777, 80],
  [8, 16, 1024, 72],
  [4, 8, 4096, 40],
  [4, 16, 2048, 112],
  [4, 16, 2048, 160],
  [16, 16, 777, 32],
  [64, 12, 197, 64],
  [8, 16, 512, 64],
]
const kinds = ['forward', 'gradients', 'both']

/** What changes scores, by name; each takes them and their positions. */
const changes = {
  cap: (s) => s.div(20).tanh().mul(20),
  alibi: (s, query, key) => s.add(key.sub(query).astype(s.dtype).mul(0.01)),
  causal: (s, query, key) => where(query.greaterEqual(key), s, Number.NEGATIVE_INFINITY),
  window: (s, query, key) => where(query.sub(key).less(512), s, Number.NEGATIVE_INFINITY),
}

const [largest] = sizes
const text = (kind, size, dtype, ...more) => [kind, size.join('x'), dtype, ...more].join(' ')

/** Rows that are measured unless others are named. */
export const attentionRows = [
  ...['f16', 'bf16'].flatMap((dtype) => kinds.map((kind) => text(kind, largest, dtype, 'causal'))),
  ...kinds.flatMap((kind) =>
    [
      ['causal', 'keys8'],
      ['causal', 'window'],
      ['cap', 'alibi', 'causal'],
    ].map((more) => text(kind, largest, 'bf16', ...more)),
  ),
  ...sizes.flatMap((size) =>
    kinds.flatMap((kind) => [
      text(kind, size, 'bf16'),
      ...(size === largest ? [] : [text(kind, size, 'bf16', 'causal')]),
    ]),
  ),
  ...kinds.map((kind) => text(kind, [8, 16, 1024, 64], 'f32', 'causal')),
]

/** Softmax written out, in the dtype of what it is of. */
function written(s) {
  const e = s.sub(s.max(-1, true)).exp()
  return e.div(e.sum(-1, true))
}

function attention(changed, softmax) {
  return (q, k, v) => {
    const [length, width] = q.shape.slice(-2)
    const order = [...q.shape.keys()]
    order.push(...order.splice(-2).reverse())
    const [query, key] = [arange(length).reshape([length, 1]), arange(length).reshape([1, length])]
    let s = q.matmul(k.transpose(order)).mul(1 / Math.sqrt(width))
    for (const name of changed) s = changes[name](s, query, key)
    return softmax(s).matmul(v)
  }
}

/** Milliseconds of a row: the median and the least of nine batches, with the kernels and what they are modelled to take. */
export async function measureAttention(open, name) {
  api.setDevice(open.device)
  const [kind, size, dtype, ...more] = name.split(' ')
  const [batch, heads, length, width] = size.split('x').map(Number)
  const keys = Number(more.find((x) => x.startsWith('keys'))?.slice(4) ?? 0)
  const f = attention(
    more.filter((x) => x in changes),
    more.includes('written') ? written : nn.softmax,
  )
  const queries = keys === 0 ? [batch, heads, length, width] : [batch, keys, heads / keys, length, width]
  const shared = keys === 0 ? queries : [batch, keys, 1, length, width]
  const shapes = kind === 'forward' ? [queries, shared, shared] : [queries, shared, shared, queries]
  const inputs = makeInputs(
    shapes.map((shape) => [shape, dtype]),
    1,
  ).map((t) => api.evaluate(t))
  const gradients = (q, k, v, w) => {
    const [y, pull] = vjp(f, q, k, v)
    return kind === 'both' ? [y, pull(w)] : pull(w)
  }
  const run = jit(kind === 'forward' ? f : gradients)
  const measured = await measureCalls(open, run, inputs, 9)
  for (const t of inputs) t.dispose()
  return { name, ...measured }
}
