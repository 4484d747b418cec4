/** Layers of random models over sequences [..., length, width]: attention, convolutions, recurrences, sorting. */

import type { Tensor } from '../../../src/index.ts'
import * as s from '../../../src/index.ts'
import { activate, dense, type Layer, normalise, widthOf } from './layers.ts'
import type { Model } from './model.ts'

const lengthOf = (x: Tensor): number => x.shape.at(-2) ?? 1

/** [..., length, heads * width] as [..., heads, length, width]. */
function heads(x: Tensor, count: number): Tensor {
  const [length, n] = x.shape.slice(-2) as [number, number]
  return x.reshape([...x.shape.slice(0, -2), length, count, n / count]).swapaxes(-2, -3)
}

const joined = (x: Tensor): Tensor => {
  const y = x.swapaxes(-2, -3)
  return y.reshape([...y.shape.slice(0, -2), (y.shape.at(-1) ?? 1) * (y.shape.at(-2) ?? 1)])
}

/** Queries, keys and values, packed or apart; of another sequence in part. */
function projected(m: Model, x: Tensor, count: number, grouped: number, width: number): [Tensor, Tensor, Tensor] {
  if (count === grouped && m.chance(0.4)) {
    m.note('packed')
    const all = dense(m, x, 3 * count * width)
    if (m.chance(0.5)) {
      const [q, k, v] = s.split(all, 3, -1) as [Tensor, Tensor, Tensor]
      return [heads(q, count), heads(k, count), heads(v, count)]
    }
    const parts = all.reshape([...x.shape.slice(0, -1), 3, count, width])
    const part = (i: number): Tensor => parts.take(s.tensor(i, { dtype: 'i32' }), -3).swapaxes(-2, -3)
    return [part(0), part(1), part(2)]
  }
  const from = m.chance(0.25) ? m.data([...x.shape.slice(0, -2), m.extent(33), m.extent(33)]) : x
  return [
    heads(dense(m, x, count * width), count),
    heads(dense(m, from, grouped * width), grouped),
    heads(dense(m, from, grouped * width), grouped),
  ]
}

const attention: Layer = (m, x) => {
  const grouped = m.pick([1, 1, 2, 3])
  const count = grouped * m.pick([1, 1, 2, 3])
  const width = m.pick([1, 2, 4, 6, 8, 16])
  m.note(`attention ${count}/${grouped} x ${width}`)
  let [q, k, v] = projected(m, x, count, grouped, width)
  if (width % 2 === 0 && m.chance(0.3)) {
    m.note('rotary')
    const options = { interleaved: m.chance(0.3) }
    q = s.rotary(q, options)
    k = s.rotary(k, options)
  }
  if (m.chance(0.2)) [q, k] = [normalise(m, q), normalise(m, k)]
  const [queries, keys] = [lengthOf(q), lengthOf(k)]
  const kind = m.rng.int(0, 9)
  m.note(`form ${kind}`)
  const masks = [
    {},
    { causal: true },
    { causal: true, window: m.pick([1, 3, 8]) },
    { mask: m.conditions([queries, keys]) },
    { mask: m.weight([count, queries, keys], 1) },
    { softcap: 5 },
  ]
  if (kind <= 4) {
    const y = s.attention(q, k, v, m.pick(masks))
    return m.chance(0.8) ? joined(y) : y.square().mean(-3)
  }
  if (grouped !== count) {
    const times = count / grouped
    k = k.repeat(times, -3)
    v = v.repeat(times, -3)
  }
  let scores = q.matmul(k.swapaxes(-1, -2)).mul(1 / Math.sqrt(width))
  if (m.chance(0.4))
    scores = scores.add(
      m.weight(
        m.pick([
          [count, queries, keys],
          [count, 1, keys],
          [count, 1, 1],
        ]),
        1,
      ),
    )
  if (kind === 5) return joined(s.sigmoid(scores).matmul(v))
  if (kind === 6) {
    const [a, b] = [s.elu(q).add(1.1), s.elu(k).add(1.1)]
    const sums = a.matmul(b.sum(-2, true).swapaxes(-1, -2))
    return joined(a.matmul(b.swapaxes(-1, -2).matmul(v)).div(sums))
  }
  if (kind === 7)
    return s
      .softmax(scores)
      .mean(-3)
      .matmul(dense(m, v.mean(-3), widthOf(x)))
  if (kind === 8) {
    const p = s.softmax(scores)
    return joined(p.matmul(p.swapaxes(-1, -2).matmul(q)).add(q))
  }
  const e = s.exp(scores.sub(s.stopGradient(scores.max(-1, true))))
  return joined(e.matmul(v).div(e.sum(-1, true)))
}

const transformer: Layer = (m, x) => {
  const y = attention(m, m.chance(0.7) ? normalise(m, x) : x)
  const z = dense(m, y, widthOf(x))
  return m.chance(0.8) && z.shape.join() === x.shape.join() ? x.add(z) : z
}

/** A convolution along the sequence. */
const convolution: Layer = (m, x) => {
  const n = widthOf(x)
  const batched = x.rank === 2 ? x.expandDims(0) : x
  if (batched.rank !== 3) return x
  const size = Math.min(m.pick([1, 2, 3, 5]), lengthOf(x))
  const deep = m.chance(0.35)
  const columns = deep ? n : m.extent(33)
  m.note(`convolution ${size}${deep ? ' by channel' : ''}`)
  const w = m.weight([columns, deep ? 1 : n, size], 1.5 / Math.sqrt(size * (deep ? 1 : n)))
  const options = { padding: m.pick(['same', 'same', 'valid'] as const), stride: m.pick([1, 1, 2]) }
  const bias = m.chance(0.5) ? { bias: m.weight([columns], 0.5) } : {}
  const y = s.conv(batched.swapaxes(1, 2), w, { ...options, ...bias, groups: deep ? n : 1 })
  const z = activate(m, y).swapaxes(1, 2)
  return x.rank === 2 ? z.squeeze(0) : z
}

/** A step along the sequence after another. */
const recurrence: Layer = (m, x) => {
  const n = m.extent(17)
  m.note(`recurrence ${n}`)
  const xs = s.moveaxis(dense(m, x, 2 * n), -2, 0)
  const u = m.matrix(n, n)
  const start = s.zeros([...x.shape.slice(0, -2), n], xs.dtype)
  const [, all] = s.scan(
    (h: Tensor, a: Tensor): [Tensor, Tensor] => {
      const [g, c] = s.split(a, 2, -1) as [Tensor, Tensor]
      const z = s.sigmoid(g)
      const next = h.mul(z).add(s.tanh(c.add(h.matmul(u))).mul(s.sub(1, z)))
      return [next, next]
    },
    start,
    xs,
  )
  return s.moveaxis(all, 0, -2)
}

const running: Layer = (m, x) => {
  const kind = m.rng.int(0, 4)
  m.note(`running ${kind}`)
  if (kind === 0)
    return x.cumsum(-2).div(
      s
        .arange(1, lengthOf(x) + 1)
        .astype(x.dtype)
        .expandDims(-1),
    )
  if (kind === 1) return s.cummax(x, -2)
  if (kind === 2) return s.logcumsumexp(x, -2)
  if (kind === 3) return x.sub(s.roll(x, 1, -2))
  const a = s.sigmoid(dense(m, x, widthOf(x)))
  const [, y] = s.associativeScan(
    ([a0, b0]: [Tensor, Tensor], [a1, b1]: [Tensor, Tensor]): [Tensor, Tensor] => [a0.mul(a1), b0.mul(a1).add(b1)],
    [a, x] as [Tensor, Tensor],
    { axis: x.rank - 2 },
  )
  return y
}

const ordering: Layer = (m, x) => {
  const kind = m.rng.int(0, 3)
  m.note(`ordering ${kind}`)
  const length = lengthOf(x)
  if (kind === 0) return s.sort(x, m.pick([-1, -2]))
  if (kind === 1) {
    const [values] = s.topK(x, Math.min(m.pick([1, 2, 5]), length), { axis: -2 })
    return values
  }
  if (kind === 2) return x.take(m.indices([m.extent(9)], length), -2)
  const segments = m.extent(9)
  const at = m.indices([length, 1], segments)
  const rows = s.moveaxis(x, -2, 0)
  return s.moveaxis(s.scatterND(s.zeros([segments, ...rows.shape.slice(1)], x.dtype), at, rows, 'sum'), 0, -2)
}

/** Rows mixed along the sequence by a matrix. */
const mixing: Layer = (m, x) => {
  m.note('mixing')
  const y = activate(m, dense(m, x.swapaxes(-1, -2), m.extent(33)))
  return (m.chance(0.5) ? dense(m, y, lengthOf(x)) : y).swapaxes(-1, -2)
}

/** Every row beside every other: similarities, distances, their softmax. */
const pairs: Layer = (m, x) => {
  const kind = m.rng.int(0, 3)
  m.note(`pairs ${kind}`)
  const unit = x.div(x.square().sum(-1, true).add(0.1).sqrt())
  if (kind === 0) return unit.matmul(unit.swapaxes(-1, -2))
  if (kind === 1) return s.softmax(unit.matmul(unit.swapaxes(-1, -2)).mul(3)).matmul(x)
  const apart = x.expandDims(-2).sub(x.expandDims(-3)).square().sum(-1)
  if (kind === 2) return s.exp(apart.mul(-0.1)).matmul(x)
  return s.softmax(apart.neg().add(dense(m, x, 1)))
}

export const sequenceLayers: readonly (readonly [number, Layer])[] = [
  [5, transformer],
  [2, attention],
  [2, convolution],
  [1, recurrence],
  [1, running],
  [1.5, ordering],
  [1, mixing],
  [1.5, pairs],
]

/** [..., length, width] as [..., width]. */
export const pooled: Layer = (m, x) => {
  const kind = m.rng.int(0, 5)
  m.note(`pooled ${kind}`)
  if (kind === 0) return x.mean(-2)
  if (kind === 1) return x.max(-2)
  if (kind === 2) return x.logsumexp(-2)
  if (kind === 3) return x.slice(...x.shape.slice(0, -2).map(() => null), -1)
  if (kind === 4)
    return s
      .softmax(dense(m, x, 1), -2)
      .mul(x)
      .sum(-2)
  return x.flatten(-2)
}

/** Images [batch, channels, height, width] through convolutions to rows. */
export function images(m: Model): Tensor {
  const [batch, channels] = [m.pick([1, 2, 3]), m.pick([1, 3, 4])]
  let x = m.data([batch, channels, m.pick([5, 8, 9, 12]), m.pick([5, 7, 8, 12])])
  for (let i = m.rng.int(1, 3); i > 0; i--) {
    const [size, from] = [m.pick([1, 2, 3]), x.shape[1] ?? 1]
    const deep = m.chance(0.3)
    const columns = deep ? from * m.pick([1, 1, 2]) : m.pick([1, 2, 3, 4, 8, 16, 17])
    m.note(`image ${size} x ${columns}${deep ? ' by channel' : ''}`)
    const w = m.weight([columns, deep ? 1 : from, size, size], 1.5 / Math.sqrt(size * size * (deep ? 1 : from)))
    const y = s.conv2d(x, w, { padding: 'same', stride: m.pick([1, 1, 2]), groups: deep ? from : 1 })
    const kind = m.rng.int(0, 4)
    const z =
      kind === 0
        ? s.groupNorm(y, 1, { epsilon: 0.1 })
        : kind === 1
          ? s.batchNormTraining(y, { scale: m.weight([columns], 1.5), epsilon: 0.1 }).output
          : y.add(m.weight([columns, 1, 1], 0.5))
    x = activate(m, z)
    const [h = 1, v = 1] = x.shape.slice(-2)
    if (h >= 2 && v >= 2 && m.chance(0.3)) x = m.chance(0.5) ? s.maxPool(x, [2, 2]) : s.averagePool(x, [2, 2])
  }
  return m.chance(0.5) ? x.mean([-1, -2]) : x.flatten(1)
}
