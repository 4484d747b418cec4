/**
 * Attention in the forms that people write, 64 heads of 2048 positions x 128 in bf16, on a device: results alone, and results with the gradients of all float operands. A row's
 * name says which: `both forget`. Beside cuDNN's own, which knows few of them: `plain` and `causal`.
 */
import * as api from '../../src/index.ts'
import { measureCalls } from './measure.mjs'
import { makeInputs } from './rows.mjs'

const { arange, concat, jit, matmul, maximum, nn, random, vjp, where } = api

const [batch, heads, length, width] = [4, 16, 2048, 128]
const whole = [batch, heads, length, width]
const hidden = Number.NEGATIVE_INFINITY

const turned = (x) => x.swapaxes(-1, -2)
const query = () => arange(length).reshape([length, 1])
const key = () => arange(length).reshape([1, length])
const seen = () => query().greaterEqual(key())
const causal = (s) => where(seen(), s, hidden)
const scores = (q, k) => matmul(q, turned(k)).mul(1 / Math.sqrt(q.shape.at(-1)))
const weigh = (s, v) => matmul(nn.softmax(s), v)
const biased = (q, k, v, b) => weigh(scores(q, k).add(b), v)
const distance = (s) => key().sub(query()).astype(s.dtype)
const squares = (x) => x.square().sum(-1, true)

/** Attention whose scores other operands change, causal. */
const changed =
  (change) =>
  (q, k, v, ...more) =>
    weigh(causal(change(scores(q, k), ...more)), v)

/** Operands beside queries, keys and values, as shapes of bf16 or with a dtype, and what is made of all; queries, keys and values of another shape. */
const forms = {
  plain: [[], (q, k, v) => weigh(scores(q, k), v)],
  causal: [[], changed((s) => s)],
  documents: [
    [
      [[batch, 1, length, 1], 'i32'],
      [[batch, 1, 1, length], 'i32'],
    ],
    (q, k, v, a, b) => weigh(where(a.equal(b), scores(q, k), hidden), v),
  ],
  lengths: [[[[batch, 1, 1, 1], 'i32']], (q, k, v, n) => weigh(where(key().less(n), scores(q, k), hidden), v)],
  written: [
    [],
    (q, k, v) => {
      const s = scores(q, k)
      const e = s.sub(s.max(-1, true)).exp()
      return matmul(e.div(e.sum(-1, true)), v)
    },
  ],
  'no-maximum': [
    [],
    (q, k, v) => {
      const e = scores(q, k).exp()
      return matmul(e.div(e.sum(-1, true)), v)
    },
  ],
  reciprocal: [
    [],
    (q, k, v) => {
      const s = scores(q, k)
      const e = s.sub(s.max(-1, true)).exp()
      return matmul(e.mul(e.sum(-1, true).reciprocal()), v)
    },
  ],
  'joined-sink': [
    [[heads, 1, 1]],
    (q, k, v, z) => {
      const w = nn.softmax(concat([causal(scores(q, k)), z.broadcastTo([batch, heads, length, 1])], -1))
      return matmul(w.slice([], [], [], [0, length]), v)
    },
  ],
  sink: [
    [[heads, 1, 1]],
    (q, k, v, z) => {
      const s = causal(scores(q, k))
      const m = maximum(s.max(-1, true), z)
      const e = s.sub(m).exp()
      return matmul(e.div(e.sum(-1, true).add(z.sub(m).exp())), v)
    },
  ],
  'weights-by-key': [[[batch, heads, 1, length]], (q, k, v, g) => matmul(nn.softmax(scores(q, k)).mul(g), v)],
  'masked-weights': [[], (q, k, v) => matmul(where(seen(), nn.softmax(causal(scores(q, k))), 0), v)],
  dropout: [
    [],
    (q, k, v) => {
      const kept = random.uniform(random.key(3), [batch, heads, length, length]).less(0.9)
      return matmul(where(kept, nn.softmax(causal(scores(q, k))), 0).div(0.9), v)
    },
  ],
  differences: [
    [whole, whole],
    (q, k, v, p, l) => matmul(nn.softmax(causal(scores(q, k))).sub(nn.softmax(causal(scores(p, l))).mul(0.5)), v),
  ],
  widened: [
    [],
    (q, k, v) => {
      const s = matmul(q.astype('f32'), turned(k.astype('f32'))).mul(1 / Math.sqrt(width))
      return matmul(nn.softmax(causal(s)).astype(v.dtype), v)
    },
  ],
  distances: [
    [],
    (q, k, v) =>
      weigh(
        squares(q)
          .add(turned(squares(k)))
          .sub(matmul(q, turned(k)).mul(2))
          .mul(-0.09),
        v,
      ),
  ],
  slopes: [[[heads, 1, 1]], changed((s, m) => s.add(distance(s).mul(m)))],
  temperatures: [[[heads, 1, 1]], changed((s, t) => s.mul(t))],
  temperature: [[[1]], changed((s, t) => s.div(t))],
  caps: [[[heads, 1, 1]], changed((s, c) => s.div(c).tanh().mul(c))],
  forget: [
    [
      [batch, heads, length, 1],
      [batch, heads, 1, length],
    ],
    changed((s, a, b) => s.add(a.sub(b))),
  ],
  shared: [
    [
      [batch, 1, length, 1],
      [batch, 1, 1, length],
    ],
    changed((s, a, b) => s.add(a).add(b)),
  ],
  bias: [[[1, heads, length, length]], biased],
  'bias-by-head': [[[batch, heads, length, length]], biased],
  'bias-of-heads': [[[batch, 1, length, length]], biased],
  'bias-causal': [[[1, heads, length, length]], changed((s, b) => s.add(b))],
  // Pairs of 256 residues, and windows of 7 x 7 pixels: many short rows with one bias.
  pairs: [[[1, 8, 256, 256]], biased, [256, 8, 256, 32]],
  windows: [[[1, 4, 49, 49]], biased, [1024, 4, 49, 32]],
  decay: [
    [[heads, 1, 1]],
    (q, k, v, g) => {
      const s = matmul(q, turned(k))
      return matmul(where(seen(), s.mul(distance(s).mul(g).exp()), 0), v)
    },
  ],
  sigmoid: [[], (q, k, v) => matmul(scores(q, k).sigmoid(), v)],
  'cosine-norms': [
    [],
    (q, k, v) => {
      const unit = (x) => x.mul(x.square().mean(-1, true).add(1e-6).rsqrt())
      return weigh(causal(scores(unit(q), unit(k))), v)
    },
  ],
}

/** Rows that are measured unless others are named. */
export const formRows = Object.keys(forms).flatMap((name) => [`forward ${name}`, `both ${name}`])

/** Documents of 64 to 660 positions, and lengths of what is there. */
function positions(shape) {
  if (shape.length === 4 && shape.every((d, i) => i === 0 || d === 1))
    return api.tensor([300, length, 1100, 700], { dtype: 'i32' }).reshape(shape)
  const rows = Array.from({ length: batch }, (_, b) => {
    const row = []
    for (let d = 0, x = 7 * b + 1; row.length < length; d++) {
      x = (x * 1103515245 + 12345) % 2 ** 31
      for (let left = 64 + (x % 597); left > 0 && row.length < length; left--) row.push(d)
    }
    return row
  })
  return api.tensor(rows, { dtype: 'i32' }).reshape(shape)
}

/** Milliseconds of a row: the median and the least of seven batches, with the kernels and what they are modelled to take. */
export async function measureForm(open, row) {
  api.setDevice(open.device)
  const [kind, name] = row.split(' ')
  const [more, f, shape = whole] = forms[name]
  const specs = [shape, shape, shape, ...more].map((s) => (Array.isArray(s[0]) ? s : [s, 'bf16']))
  const isInteger = ([, dtype]) => dtype === 'i32'
  const floats = specs.filter((s) => !isInteger(s))
  const made = makeInputs(floats, 1)
  // Slopes and decays fall, as those of models do.
  const operands = made.map((x, i) => (i > 2 && name === 'decay' ? x.abs().mul(-0.02) : x))
  const inputs = [...operands, ...specs.filter(isInteger).map(([shape]) => positions(shape))].map((t) =>
    api.evaluate(t),
  )
  const n = floats.length
  const both = (...all) => {
    const [y, pull] = vjp((...x) => f(...x, ...all.slice(n)), ...all.slice(0, n))
    return [y, pull(y)]
  }
  const run = jit(kind === 'forward' ? f : both)
  const measured = await measureCalls(open, run, inputs, 7)
  for (const t of inputs) t.dispose()
  return { name: row, ...measured }
}
