/**
 * A grid of matrix products: time over floor at points drawn from it, and at neighbours one step away in one coordinate. The floor is the
 * greater of bytes (each operand and the result once) at the rate of a copy, and flops at the rate of the library's largest product (f32: a third of
 * its rate in tf32, since a product of f32 is three of tf32), both measured in the same run. Operands rotate through 200 MB, so that the cache does not serve them.
 */
import * as api from '../../src/index.ts'
import { median } from './measure.mjs'
import { bytes, leaves, makeInputs } from './rows.mjs'

const coordinates = {
  m: [1, 2, 7, 16, 64, 200, 1024, 8192],
  k: [64, 77, 1000, 4096, 14336],
  n: [64, 77, 1000, 4096, 14336],
  /** Which operand stands transposed in memory: none, the weights, the rows. */
  order: ['nn', 'nt', 'tn'],
  weights: ['bf16', 'f32', 'i8', 'i4'],
  form: ['plain', 'prologue', 'epilogue'],
}
const names = Object.keys(coordinates)
const rotated = 200e6

/** Numbers below `n`, the same for one seed (Marsaglia's xorshift). */
const drawing = (seed) => {
  let x = (seed * 2654435761 + 1) >>> 0
  return (n) => {
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    return (x >>> 0) % n
  }
}

/** Whether a point is one: 4-bit weights stand in pairs along the depth, in groups of 32. */
const exists = (p) => p.weights !== 'i4' || (p.order !== 'nn' && p.k % 32 === 0)

export const titleOf = (p) => `${p.m} x ${p.k} x ${p.n} ${p.order} ${p.weights} ${p.form}`

/** The point of a whole title, drawn or not; undefined where it is none. */
export function pointOf(title) {
  const [m, , k, , n, order, weights, form] = title.split(' ')
  const point = { m: Number(m), k: Number(k), n: Number(n), order, weights, form }
  const known = ['order', 'weights', 'form'].every((c) => coordinates[c].includes(point[c]))
  return known && titleOf(point) === title && exists(point) ? point : undefined
}

/** `count` points: strata of weights, forms and numbers of rows in turn, each followed by a neighbour. */
export function drawPoints(seed, count) {
  const draw = drawing(seed)
  const points = []
  for (let i = 0; points.length < count; i++) {
    const at = Object.fromEntries(names.map((c) => [c, draw(coordinates[c].length)]))
    at.weights = i % coordinates.weights.length
    at.m = Math.floor(i / coordinates.weights.length) % coordinates.m.length
    const point = (x) => Object.fromEntries(names.map((c) => [c, coordinates[c][x[c]]]))
    const along = names[draw(names.length)]
    const there = at[along] === coordinates[along].length - 1 ? at[along] - 1 : at[along] + 1
    const [base, next] = [point(at), point({ ...at, [along]: there })]
    if (!exists(base) || !exists(next)) continue
    points.push({ ...base }, { ...next, beside: titleOf(base), along })
  }
  return points.slice(0, count)
}

/** The point's inputs, as [shape, dtype, kind]: rows, a second factor of a prologue, weights, scales, a bias. */
export function specsOf({ m, k, n, order, weights, form }) {
  const [dtype] = weights === 'f32' ? ['f32'] : ['bf16']
  const rows = order === 'tn' ? [k, m] : [m, k]
  const stored = order === 'nt' || weights === 'i4' ? [n, k] : [k, n]
  const held = {
    bf16: [[stored, 'bf16']],
    f32: [[stored, 'f32']],
    i8: [
      [stored, 'i8', [-127, 128]],
      [[n], 'bf16', 'uniform'],
    ],
    i4: [
      [[n, k / 2], 'u8', [0, 256]],
      [[n, k / 32], 'bf16', 'uniform'],
    ],
  }[weights]
  return {
    rows:
      form === 'prologue'
        ? [
            [rows, dtype],
            [rows, dtype],
          ]
        : [[rows, dtype]],
    weights: held,
    bias: form === 'epilogue' ? [[[n], dtype]] : [],
  }
}

/** The product in plain operations. */
export function productOf({ k, n, order, weights, form }) {
  return (rows, [w, scale], [bias]) => {
    const [a, b] = rows
    const x = form === 'prologue' ? api.nn.silu(a).mul(b) : a
    const wide = {
      bf16: () => w,
      f32: () => w,
      i8: () => w.astype('bf16').mul(order === 'nt' ? scale.reshape([n, 1]) : scale),
      i4: () => {
        const pairs = api.stack([api.bitwiseAnd(w, 15), api.rightShift(w, 4)], -1).reshape([n, k / 32, 32])
        return pairs
          .astype('bf16')
          .sub(8)
          .mul(scale.reshape([n, k / 32, 1]))
          .reshape([n, k])
      },
    }[weights]()
    const y = (order === 'tn' ? x.transpose() : x).matmul(order === 'nt' || weights === 'i4' ? wide.transpose() : wide)
    return bias === undefined ? y : api.nn.gelu(y.add(bias))
  }
}

/** What the library's largest product and a copy reach here, in flops and bytes a second. */
export async function ceilings(open, copy) {
  const n = 8192
  const rate = async (dtype, precision) => {
    const specs = [
      [[n, n], dtype],
      [[n, n], dtype],
    ]
    const [a, b] = makeInputs(specs, 1).map((t) => api.evaluate(t))
    const f = api.jit((x, y) => x.matmul(y), { precision })
    const times = []
    for (let i = 0; i < 9; i++) times.push(await open.time(() => f(a, b).dispose()))
    for (const t of [a, b]) t.dispose()
    f.dispose()
    return (2 * n ** 3) / median(times) / 1e-3
  }
  return { copy: 1e9 * (await copy.measure()), bf16: await rate('bf16', 'ieee'), f32: (await rate('f32', 'tf32')) / 3 }
}

/** One point: milliseconds a call, floor, kernels. */
export async function measurePoint(open, point, rates) {
  api.setDevice(open.device)
  const specs = specsOf(point)
  const all = [...specs.rows, ...specs.weights, ...specs.bias]
  const sets = Math.max(2, Math.min(100, Math.ceil(rotated / bytes(...all))))
  const inputs = Array.from({ length: sets }, (_, i) => makeInputs(all, 100 + i).map((t) => api.evaluate(t)))
  const product = productOf(point)
  const parts = [specs.rows.length, specs.rows.length + specs.weights.length]
  const f = api.jit((...xs) => product(xs.slice(0, parts[0]), xs.slice(parts[0], parts[1]), xs.slice(parts[1])), {
    precision: point.weights === 'f32' ? 'tf32x3' : 'ieee',
  })
  const start = performance.now()
  let turn = 0
  const call = () => {
    for (const t of leaves(f(...inputs[turn++ % sets]))) t.dispose()
  }
  try {
    call()
    await open.backend.settled()
    const first = performance.now() - start
    for (let i = 0; i < sets; i++) call()
    const once =
      (await open.time(() => {
        for (let i = 0; i < sets; i++) call()
      })) / sets
    const calls = Math.max(10, Math.min(2000, Math.ceil(15 / once)))
    const times = []
    for (let i = 0; i < 5; i++)
      times.push(
        (await open.time(() => {
          for (let j = 0; j < calls; j++) call()
        })) / calls,
      )
    const { m, k, n, weights } = point
    const moved = bytes(...all) + m * n * (weights === 'f32' ? 4 : 2)
    const flops = 2 * m * n * k
    const floor = 1e3 * Math.max(moved / rates.copy, flops / (weights === 'f32' ? rates.f32 : rates.bf16))
    const { totals, kernels } = f.explain(...inputs[0])
    const ms = median(times)
    return {
      ...point,
      ms,
      floor,
      over: ms / floor,
      kernels: totals.kernels,
      stages: totals.stages ?? 0,
      kinds: kernels.map((x) => x.kind),
      first,
    }
  } finally {
    for (const set of inputs) for (const t of set) t.dispose()
    f.dispose()
  }
}

const quantile = (list, q) => list[Math.min(list.length - 1, Math.floor(q * list.length))]

/** What the points show: time over floor from `least` ms of floor up, ratios between neighbours, the worst. */
export function summary(points, least = 0.02) {
  const measured = points.filter((p) => p.error === undefined)
  const lines = []
  const show = (label, of) => {
    const over = of.map((p) => p.over).sort((a, b) => a - b)
    if (over.length === 0) return
    const within = over.filter((x) => x <= 1.43).length
    lines.push(
      `  ${label.padEnd(34)} ${String(over.length).padStart(4)} points: ${within} within 1.43; 5% ${quantile(over, 0.05).toFixed(2)}, median ${quantile(over, 0.5).toFixed(2)}, 95% ${quantile(over, 0.95).toFixed(2)}, most ${quantile(over, 1).toFixed(2)}`,
    )
  }
  const large = measured.filter((p) => p.floor >= least)
  show(`floor from ${1e3 * least} us`, large)
  for (const w of coordinates.weights)
    show(
      `  ${w}`,
      large.filter((p) => p.weights === w),
    )
  for (const f of coordinates.form)
    show(
      `  ${f}`,
      large.filter((p) => p.form === f),
    )
  for (const o of coordinates.order)
    show(
      `  ${o}`,
      large.filter((p) => p.order === o),
    )
  show(
    'm up to 16',
    large.filter((p) => p.m <= 16),
  )
  show(
    'smaller floors',
    measured.filter((p) => p.floor < least),
  )
  const by = new Map(measured.map((p) => [titleOf(p), p]))
  const steps = measured.flatMap((p) => {
    const q = p.beside === undefined ? undefined : by.get(p.beside)
    return q === undefined || Math.min(p.floor, q.floor) < least
      ? []
      : [{ p, q, ratio: Math.max(p.over / q.over, q.over / p.over) }]
  })
  lines.push(`  neighbours: ${steps.filter((s) => s.ratio <= 1.6).length} of ${steps.length} within 1.6`)
  for (const { p, q, ratio } of steps.sort((a, b) => b.ratio - a.ratio).slice(0, 10))
    lines.push(
      `    ${ratio.toFixed(2)} along ${p.along}: ${titleOf(q)} ${q.over.toFixed(2)}, ${titleOf(p)} ${p.over.toFixed(2)}`,
    )
  lines.push('  worst:')
  for (const p of [...large].sort((a, b) => b.over - a.over).slice(0, 20))
    lines.push(
      `    ${p.over.toFixed(2).padStart(6)}  ${p.ms.toFixed(4)} ms, floor ${p.floor.toFixed(4)}, ${p.kernels} kernels (${p.kinds.join(', ')})  ${titleOf(p)}`,
    )
  for (const p of points) if (p.error !== undefined) lines.push(`  FAILED ${titleOf(p)}: ${p.error}`)
  return lines.join('\n')
}
