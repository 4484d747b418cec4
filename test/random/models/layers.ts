/** Layers of random models: functions of rows [..., width]. */

import type { Tensor } from '../../../src/index.ts'
import * as s from '../../../src/index.ts'
import type { Model } from './model.ts'

export type Layer = (m: Model, x: Tensor) => Tensor

/** The last extent. */
export const widthOf = (x: Tensor): number => x.shape.at(-1) ?? 1

const activations: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  relu: s.relu,
  gelu: (x) => s.gelu(x),
  silu: s.silu,
  tanh: s.tanh,
  sigmoid: s.sigmoid,
  softplus: s.softplus,
  elu: (x) => s.elu(x),
  leakyRelu: (x) => s.leakyRelu(x),
  sin: s.sin,
  bump: (x) => s.exp(x.square().neg()),
  squaredRelu: (x) => s.relu(x).square(),
  mish: (x) => x.mul(s.tanh(s.softplus(x))),
  none: (x) => x,
  none2: (x) => x.mul(0.5),
}

export function activate(m: Model, x: Tensor): Tensor {
  const name = m.pick(Object.keys(activations))
  m.note(name)
  return activations[name]?.(x) ?? x
}

/** x @ w + b for a width of the result. */
export function dense(m: Model, x: Tensor, columns: number): Tensor {
  m.note(`dense ${columns}`)
  const how = m.rng.int(0, 9)
  const rows = widthOf(x)
  let y = x.matmul(m.matrix(rows, columns))
  if (how === 0) {
    const rank = m.pick([1, 2, 3, 4, 8])
    m.note(`adapter ${rank}`)
    y = y.add(x.matmul(m.matrix(rows, rank)).matmul(m.matrix(rank, columns)).mul(0.5))
  }
  return how < 7 ? y.add(m.weight([columns], 0.5)) : y
}

export function normalise(m: Model, x: Tensor): Tensor {
  const n = widthOf(x)
  const kind = m.rng.int(0, 7)
  m.note(`norm ${kind}`)
  const scale = m.chance(0.7) ? { scale: m.weight([n], 1.5) } : {}
  const bias = m.chance(0.5) ? { bias: m.weight([n], 0.5) } : {}
  // A variance of one element is zero: rows of few elements have a large epsilon.
  const epsilon = { epsilon: n < 4 ? 0.1 : 1e-3 }
  if (kind <= 1) return s.layerNorm(x, { ...scale, ...bias, ...epsilon })
  if (kind <= 3) return s.rmsNorm(x, { ...scale, ...epsilon })
  if (kind === 4) return s.softmax(x)
  if (kind === 5) return x.div(x.square().sum(-1, true).add(0.1).sqrt())
  if (kind === 6) return s.logSoftmax(x)
  const centred = x.sub(x.mean(-1, true))
  return centred.div(centred.square().mean(-1, true).add(0.1).sqrt()).mul(m.weight([n], 1.5))
}

const mlp: Layer = (m, x) => {
  let y = x
  for (let i = m.rng.int(1, 3); i > 0; i--) y = activate(m, dense(m, y, m.extent()))
  return y
}

const block: Layer = (m, x) => {
  m.note('residual')
  const n = widthOf(x)
  const inner = dense(m, activate(m, dense(m, m.chance(0.6) ? normalise(m, x) : x, m.extent())), n)
  const y = m.chance(0.3) ? inner.mul(m.weight([n], 1)) : inner
  return m.chance(0.8) ? x.add(y) : normalise(m, x.add(y))
}

const gated: Layer = (m, x) => {
  const columns = m.extent()
  m.note('gated')
  if (m.chance(0.4)) {
    const [a, b] = s.split(dense(m, x, 2 * columns), 2, -1) as [Tensor, Tensor]
    return activate(m, a).mul(m.chance(0.5) ? s.sigmoid(b) : b)
  }
  const product = activate(m, dense(m, x, columns)).mul(dense(m, x, columns))
  return m.chance(0.5) ? dense(m, product, widthOf(x)) : product
}

/** Weighted experts: a softmax over few chooses how much of each. */
const experts: Layer = (m, x) => {
  const [count, columns] = [m.pick([1, 2, 3, 4]), m.extent(33)]
  m.note(`experts ${count}`)
  const gate = s.softmax(dense(m, x, count))
  const w = m.weight([count, widthOf(x), columns], 1.5 / Math.sqrt(widthOf(x)))
  if (m.chance(0.5)) return s.einsum('...e,...d,edh->...h', gate, x, w)
  const each = activate(m, s.einsum('...d,edh->...eh', x, w))
  return s.einsum('...e,...eh->...h', gate, each)
}

const bilinear: Layer = (m, x) => {
  const [columns, n] = [m.extent(17), widthOf(x)]
  m.note('bilinear')
  const w = m.weight([columns, n, n], 1.5 / n)
  return s.einsum('...i,kij,...j->...k', x, w, m.chance(0.5) ? x : activate(m, x))
}

/** Distances to centres, as softmax, bumps or the least. */
const centres: Layer = (m, x) => {
  const count = m.extent(33)
  m.note(`centres ${count}`)
  const c = m.weight([count, widthOf(x)], 1)
  const squares = m.chance(0.5)
    ? x.expandDims(-2).sub(c).square().sum(-1)
    : x.square().sum(-1, true).sub(x.matmul(c.transpose()).mul(2)).add(c.square().sum(-1))
  const kind = m.rng.int(0, 4)
  if (kind === 0) return s.softmax(squares.neg())
  if (kind === 1) return s.exp(squares.mul(-0.1))
  if (kind === 2) return s.softmax(squares.neg()).matmul(c)
  if (kind === 3) return squares.min(-1, true).add(x)
  return s.reciprocal(squares.add(1))
}

const lookup: Layer = (m, x) => {
  m.note('codebook')
  const count = m.extent(33)
  const table = m.weight([count, m.extent(33)], 1)
  const at = s.argmax(dense(m, x, count), -1)
  return s.concat([s.take(table, at), x], -1)
}

export const layers: readonly (readonly [number, Layer])[] = [
  [5, mlp],
  [4, block],
  [3, gated],
  [2, normalise],
  [1, experts],
  [1, bilinear],
  [2, centres],
  [1, lookup],
]

/** One layer by weight. */
export function someLayer(m: Model, list: readonly (readonly [number, Layer])[]): Layer {
  const total = list.reduce((sum, [w]) => sum + w, 0)
  let at = m.rng.real(0, total)
  for (const [w, f] of list) {
    at -= w
    if (at < 0) return f
  }
  return list[0]?.[1] ?? ((_, x) => x)
}
