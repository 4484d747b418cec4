/** Recipes around matrix products: every orientation, batches, few rows, chains, attention written out. */
import type { DType } from '../../src/types/dtype.ts'
import { apply, pointwise, tame } from './pointwise.ts'
import { extentNear, logUniform } from './shapes.ts'
import { shown, type Var, type Writer } from './writer.ts'

/** Extents of a product whose operands and result are not too large, and which takes at most so many multiply-adds. */
function extents(w: Writer, batch: number, mostFlops: number): [number, number, number] {
  const { most } = w.options
  const draw = (): number => extentNear(w.rng, logUniform(w.rng, w.rng.chance(0.8) ? 16 : 1, 4096))
  const dims: [number, number, number] = [draw(), draw(), draw()]
  for (;;) {
    const [m, n, k] = dims
    const largest = Math.max(m * k, k * n, m * n) * batch
    if (largest <= most && 2 * m * n * k * batch <= mostFlops) return dims
    const i = dims.indexOf(Math.max(...dims))
    dims[i] = Math.max(1, (dims[i] ?? 2) >> 1)
  }
}

/** An operand [rows, columns] of a product: as it is, or the transpose of an input, in its last two axes. */
function matrix(w: Writer, lead: readonly number[], rows: number, columns: number, dtype: DType): Var {
  const turned = w.rng.chance(0.4)
  const bounds: readonly [number, number] = w.rng.pick([
    [-0.5, 1],
    [-1, 1.5],
  ] as const)
  if (!turned) return w.parameter([...lead, rows, columns], dtype, ...bounds)
  const x = w.parameter([...lead, columns, rows], dtype, ...bounds)
  return w.emit(`${x.name}.swapaxes(-1, -2)`, ...bounds)
}

/** A product scaled so that its elements are of the size of its operands'. */
function multiply(w: Writer, a: Var, b: Var): Var {
  const k = a.t.shape.at(-1) ?? 1
  const reach = Math.max(-a.lo, a.hi) * Math.max(-b.lo, b.hi)
  const y = w.emit(`${a.name}.matmul(${b.name})`, -k * reach, k * reach)
  return w.emit(`${y.name}.mul(${(1 / k).toPrecision(3)})`, -reach, reach)
}

/** Bias, activation, residual. */
function epilogue(w: Writer, y: Var): Var {
  let z = y
  if (w.rng.chance(0.5)) {
    const bias = w.parameter([y.t.shape.at(-1) ?? 1], y.t.dtype, -0.5, 1)
    z = w.emit(`${z.name}.add(${bias.name})`, z.lo - 0.5, z.hi + 1)
  }
  return pointwise(w, tame(w, z), w.rng.pick([0, 0, 1, 1, 2, 3]))
}

export function product(w: Writer): Var[] {
  const dtype = w.float()
  const batch = w.rng.chance(0.3) ? extentNear(w.rng, logUniform(w.rng, 1, 64)) : 1
  const lead = batch === 1 ? [] : [batch]
  const [m, n, k] = extents(w, batch, 4e9)
  const left = matrix(w, lead, m, k, dtype)
  const a = w.rng.chance(0.25) ? pointwise(w, left, w.rng.int(1, 2)) : left
  // A batch may share its right operand.
  const b = matrix(w, w.rng.chance(0.5) ? lead : [], k, n, a.t.dtype)
  const y = epilogue(w, multiply(w, tame(w, a), b))
  if (!w.rng.chance(0.25) || 2 * batch * m * n * 64 > 2e9) return [y]
  const c = matrix(w, [], n, w.rng.pick([16, 33, 64]), y.t.dtype)
  return [epilogue(w, multiply(w, y, c))]
}

/** One or a few rows times a matrix, from either side; weights may be narrower than what they are multiplied with. */
export function fewRows(w: Writer): Var[] {
  const { most } = w.options
  const rows = w.rng.pick([1, 1, 1, 2, 3, 4, 8, 16])
  const dtype = w.float()
  const about = logUniform(w.rng, 256, Math.min(most, 1 << 23))
  const k = extentNear(w.rng, Math.sqrt(about) * w.rng.pick([0.5, 1, 2]))
  const n = extentNear(w.rng, Math.min(most / k, about / k))
  const x = w.input([rows, k], dtype)
  const narrow = w.rng.chance(0.2)
  const turned = w.rng.chance(0.5)
  const stored = narrow
    ? w.parameter(turned ? [n, k] : [k, n], 'i8', -90, 127)
    : w.parameter(turned ? [n, k] : [k, n], x.t.dtype, -0.5, 1)
  const wide = narrow ? w.emit(`${stored.name}.astype('${x.t.dtype}').mul(0.01)`, -0.9, 1.27) : stored
  const b = turned ? w.emit(`${wide.name}.swapaxes(-1, -2)`, wide.lo, wide.hi) : wide
  if (rows === 1 && w.rng.chance(0.4)) {
    const v = w.emit(`${x.name}.reshape([${k}])`, x.lo, x.hi)
    const y = w.rng.chance(0.5) ? `${v.name}.matmul(${b.name})` : `${b.name}.swapaxes(-1, -2).matmul(${v.name})`
    const z = w.emit(`${y}.mul(${(1 / k).toPrecision(3)})`, -2, 2)
    return [w.rng.chance(0.5) ? apply(w, z) : z]
  }
  return [epilogue(w, multiply(w, x, b))]
}

/** softmax(q k^T) v, written out; with a mask of what comes later, a soft cap, several heads. */
export function attention(w: Writer): Var[] {
  const dtype = w.float()
  const heads = w.rng.pick([1, 1, 4, 8, 12])
  const depth = w.rng.pick([16, 32, 64, 64, 80, 128])
  const rows = extentNear(w.rng, logUniform(w.rng, 1, Math.min(2048, Math.sqrt(w.options.most / heads))))
  const columns = w.rng.chance(0.6)
    ? rows
    : extentNear(w.rng, logUniform(w.rng, 8, Math.min(2048, w.options.most / (heads * rows))))
  const lead = heads === 1 ? [] : [heads]
  // Heads as they come from a projection: [rows, heads, depth].
  const projected = heads > 1 && w.rng.chance(0.5)
  const operand = (n: number): Var => {
    if (!projected) return w.parameter([...lead, n, depth], dtype, -1, 1.5)
    const x = w.parameter([n, heads, depth], dtype, -1, 1.5)
    return w.emit(`${x.name}.swapaxes(0, 1)`, -1, 1.5)
  }
  const [q, k, v] = [operand(rows), operand(columns), operand(columns)]
  let scores = w.emit(
    `${q.name}.matmul(${k.name}.swapaxes(-1, -2)).mul(${(1 / Math.sqrt(depth)).toPrecision(4)})`,
    -9,
    20,
  )
  if (w.rng.chance(0.15)) scores = w.emit(`s.tanh(${scores.name}.mul(0.1)).mul(10)`, -10, 10)
  if (w.rng.chance(0.4)) {
    const size = shown([rows, columns])
    const seen = `s.iota(${size}, 0).greaterEqual(s.iota(${size}, 1))`
    scores = w.emit(`s.where(${seen}, ${scores.name}, -1e4)`, -1e4, 20)
  }
  const e = w.emit(`${scores.name}.sub(${scores.name}.max(-1, true)).exp()`, 0, 1)
  const p = w.emit(`${e.name}.div(${e.name}.sum(-1, true))`, 0, 1)
  const y = w.emit(`${p.name}.matmul(${v.name})`, -1, 1.5)
  if (heads === 1 || w.rng.chance(0.5)) return [y]
  return [w.emit(`${y.name}.swapaxes(0, 1).reshape([${rows}, ${heads * depth}])`, -1, 1.5)]
}
