/** Steps of random programs: reductions, scans, normalisations, contractions, convolutions, pooling, random numbers. */
import * as compose from '../../src/compose/index.ts'
import { makeNode } from '../../src/graph/build.ts'
import { randomDTypes, randomWidth } from '../../src/scalar/threefry.ts'
import { computeDType, isFloat } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import type { Builder, Step } from './builder.ts'
import { arithmetic, composite, isExact, magnitude, moving, roundoff, type Tracked, tracked } from './tracked.ts'

const extentOf = (x: Tracked, axes: readonly number[]): number => axes.reduce((n, a) => n * (x.node.shape[a] ?? 1), 1)

const someAxes = (b: Builder, x: Tracked): number[] => {
  const rank = x.node.shape.length
  if (b.rng.chance(0.35)) return [rank - 1]
  const axes = x.node.shape.flatMap((_, i) => (b.rng.chance(0.5) ? [i] : []))
  return axes.length === 0 ? [b.rng.int(0, rank - 1)] : axes
}

/** What accumulating n terms of magnitude m in a float dtype may be off by, beside the terms' own errors. */
function accumulation(dtype: Tracked['node']['dtype'], n: number, m: number): number {
  return roundoff[computeDType(dtype)] * (2 + n / 8) * n * m + roundoff[dtype] * n * m
}

/** The axes kept as extents of 1, now and then. */
function maybeKept(b: Builder, node: Tracked['node'], x: Tracked, axes: readonly number[]): Tracked['node'] {
  if (b.rng.chance(0.6)) return node
  return makeNode('reshape', [node], { shape: x.node.shape.map((d, i) => (axes.includes(i) ? 1 : d)) })
}

function reduced(b: Builder): Tracked | undefined {
  const x = b.find((t) => t.node.shape.length >= 1)
  if (x === undefined) return undefined
  const { dtype } = x.node
  const axes = someAxes(b, x)
  const n = extentOf(x, axes)
  const combiner =
    dtype === 'bool'
      ? b.rng.pick(['max', 'min'] as const)
      : b.rng.pick(['sum', 'sum', 'max', 'max', 'min', 'prod'] as const)
  const node = (): Tracked['node'] => maybeKept(b, makeNode('reduce', [x.node], { combiner, axes }), x, axes)
  if (!isFloat(dtype)) return tracked(node(), Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY, 0)
  if (combiner === 'max' || combiner === 'min') return n === 0 ? undefined : tracked(node(), x.lo, x.hi, x.error)
  const m = magnitude(x)
  if (combiner === 'sum')
    return tracked(node(), Math.min(0, n * x.lo), Math.max(0, n * x.hi), n * x.error + accumulation(dtype, n, m))
  const top = Math.max(1, m) ** n
  if (n > 8 || top > 100) return undefined
  return tracked(node(), -top, top, n * top * (x.error + 2 * roundoff[dtype]))
}

function arg(b: Builder): Tracked | undefined {
  const x = b.find((t) => t.node.shape.length >= 1 && isExact(t) && sizeOf(t.node.shape) > 0)
  if (x === undefined) return undefined
  const axis = b.rng.int(0, x.node.shape.length - 1)
  const node = makeNode('reduce', [x.node], {
    combiner: b.rng.pick(['argmax', 'argmin'] as const),
    axes: [axis],
    dtype: b.rng.pick(['i32', 'i64'] as const),
    last: b.rng.chance(0.3),
  })
  return tracked(node, 0, Math.max(0, (x.node.shape[axis] ?? 1) - 1), 0)
}

function scanned(b: Builder): Tracked | undefined {
  const x = b.find((t) => t.node.shape.length >= 1 && t.node.dtype !== 'bool')
  if (x === undefined) return undefined
  const { dtype, shape } = x.node
  const axis = b.rng.int(0, shape.length - 1)
  const n = shape[axis] ?? 0
  const exclusive = b.rng.chance(0.3)
  const combiner = isFloat(dtype)
    ? exclusive
      ? 'sum'
      : b.rng.pick(['sum', 'max', 'min'] as const)
    : b.rng.pick(['sum', 'prod', 'max', 'min'] as const)
  const node = makeNode('scan', [x.node], { combiner, axis, exclusive, reverse: b.rng.chance(0.3) })
  if (!isFloat(dtype)) return tracked(node, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY, 0)
  if (combiner !== 'sum') return tracked(node, x.lo, x.hi, x.error)
  return tracked(node, Math.min(0, n * x.lo), Math.max(0, n * x.hi), n * x.error + accumulation(dtype, n, magnitude(x)))
}

/** Normalisations along axes, and their cousins: several reductions that depend on one another. */
function normalised(b: Builder): Tracked | undefined {
  const x = b.find(
    (t) => isFloat(t.node.dtype) && t.node.shape.length >= 1 && magnitude(t) <= 20 && sizeOf(t.node.shape) > 0,
  )
  if (x === undefined) return undefined
  const axes = b.rng.chance(0.7) ? [x.node.shape.length - 1] : someAxes(b, x)
  const n = extentOf(x, axes)
  const m = Math.max(1, magnitude(x))
  const keep = b.rng.chance(0.5)
  const spread = x.hi - x.lo
  switch (b.rng.int(0, 6)) {
    case 0:
      return composite(compose.softmax(x.node, axes), 0, 1, x, 4, n + 8 + 4 * m)
    case 1:
      return composite(compose.logSoftmax(x.node, axes), -spread - Math.log(n), 0, x, 4, n + 8 + 4 * m)
    case 2:
      return composite(compose.logSumExp(x.node, axes, keep), x.lo, x.hi + Math.log(n), x, 2, n + 8 + 2 * m)
    case 3:
      return composite(compose.mean(x.node, axes, keep), x.lo, x.hi, x, 2, n / 4 + 4)
    case 4:
      return composite(compose.variance(x.node, axes, keep), 0, spread * spread, x, 8 * m, n / 4 + 8)
    case 5:
      return composite(
        compose.layerNorm(x.node, { axes, epsilon: 0.1 }),
        -Math.sqrt(n) - 1,
        Math.sqrt(n) + 1,
        x,
        8 + 64 * m * m,
        n / 4 + 8 + 64 * m * m,
      )
    default:
      return composite(
        compose.rmsNorm(x.node, { axes, epsilon: 0.1 }),
        -Math.sqrt(n) - 1,
        Math.sqrt(n) + 1,
        x,
        4 + 32 * m * m,
        n / 4 + 8 + 32 * m * m,
      )
  }
}

function activated(b: Builder): Tracked | undefined {
  const x = b.findFloat()
  if (x === undefined || magnitude(x) > 50) return undefined
  const m = magnitude(x)
  const [f, lo] = b.rng.pick([
    [compose.gelu, -1],
    [(v: Tracked['node']) => compose.gelu(v, 'tanh'), -1],
    [compose.silu, -1],
    [compose.softplus, 0],
    [compose.relu, 0],
    [compose.hardSwish, -1],
  ] as const)
  return composite(f(x.node), Math.min(lo, 0), m + 1, x, 3 + 3 * Math.min(m, 3), 8)
}

function contraction(b: Builder, x: Tracked, labels: string): Tracked | undefined {
  const { dtype, shape } = x.node
  const own = [...labels]
  const shared = own.filter(() => b.rng.chance(0.6))
  const fresh = [...'xyz'].slice(0, b.rng.int(0, 2))
  const rhsLabels = b.rng.shuffle([...shared, ...fresh])
  const rhsShape = rhsLabels.map((l) => (own.includes(l) ? (shape[own.indexOf(l)] ?? 1) : b.rng.pick([1, 2, 3, 5, 8])))
  const out = b.rng.shuffle([...own.filter((l) => !shared.includes(l) || b.rng.chance(0.35)), ...fresh])
  const extents = new Map([
    ...own.map((l, i) => [l, shape[i] ?? 1] as const),
    ...rhsLabels.map((l, i) => [l, rhsShape[i] ?? 1] as const),
  ])
  const outShape = out.map((l) => extents.get(l) ?? 1)
  const n = [...extents].reduce((p, [l, d]) => (out.includes(l) ? p : p * d), 1)
  if (!b.fits(outShape) || !b.fits(rhsShape) || n * sizeOf(outShape) > 20000) return undefined
  const known = b.find((t) => t.node.dtype === dtype && t.node.shape.join() === rhsShape.join())
  const y =
    known !== undefined && b.rng.chance(0.4)
      ? known
      : b.rng.chance(0.3)
        ? b.constant(rhsShape, dtype)
        : b.param(rhsShape, dtype)
  const node = makeNode('contract', [x.node, y.node], { lhs: labels, rhs: rhsLabels.join(''), out: out.join('') })
  if (!isFloat(dtype)) return tracked(node, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY, 0)
  const m = magnitude(x) * magnitude(y)
  const error = n * (x.error * magnitude(y) + y.error * magnitude(x)) + accumulation(dtype, n, m)
  return tracked(node, -n * m, n * m, error)
}

function contracted(b: Builder): Tracked | undefined {
  const x = b.find((t) => t.node.dtype !== 'bool' && t.node.shape.length >= 1 && t.node.shape.length <= 4)
  return x === undefined ? undefined : contraction(b, x, 'abcd'.slice(0, x.node.shape.length))
}

/** x @ w with a bias or a scale by literals: what folds into weights. */
function linear(b: Builder): Tracked | undefined {
  const x = b.find((t) => isFloat(t.node.dtype) && t.node.shape.length >= 1 && magnitude(t) <= 20)
  if (x === undefined) return undefined
  const { dtype, shape } = x.node
  const width = b.rng.pick([1, 2, 3, 5, 8])
  const k = shape.at(-1) ?? 1
  if (!b.fits([...shape.slice(0, -1), width]) || !b.fits([k, width])) return undefined
  const w = b.rng.chance(0.5) ? b.constant([k, width], dtype) : b.param([k, width], dtype)
  const node = compose.matmul(x.node, w.node)
  const m = magnitude(x) * magnitude(w)
  const y = tracked(node, -k * m, k * m, k * x.error * magnitude(w) + accumulation(dtype, k, m))
  if (y === undefined) return undefined
  const vector = (): Tracked | undefined => {
    const v = b.rng.chance(0.6) ? b.constant([width], dtype) : b.param([width], dtype)
    return moving('broadcast', [v], { shape: node.shape, dims: [node.shape.length - 1] }, [v])
  }
  const shift = vector()
  const scale = vector()
  const shifted =
    shift === undefined || b.rng.chance(0.4) ? y : arithmetic(b.rng.pick(['add', 'sub'] as const), y, shift)
  if (shifted === undefined || scale === undefined || b.rng.chance(0.5)) return shifted
  return arithmetic('mul', shifted, scale)
}

/** x @ w of a few blocks, with folds of what goes in and what comes out: along its depth, its rows, its columns or all. */
function foldedProduct(b: Builder): Tracked | undefined {
  const dtype = b.dtype(isFloat)
  if (dtype === undefined) return undefined
  const [m, k, n] = [b.rng.pick([2, 7, 12, 33]), b.rng.pick([2, 5, 11]), b.rng.pick([4, 9, 19, 34])]
  if (!b.fits([m, n]) || !b.fits([m, k]) || !b.fits([k, n])) return undefined
  const [x, w] = [b.param([m, k], dtype), b.param([k, n], dtype)]
  const top = magnitude(x) * magnitude(w)
  const y = tracked(compose.matmul(x.node, w.node), -k * top, k * top, accumulation(dtype, k, top))
  if (y === undefined) return undefined
  const shaped =
    b.rng.chance(0.5) || magnitude(y) > 50 ? y : composite(compose.gelu(y.node), -1, magnitude(y) + 1, y, 4, 8)
  if (shaped === undefined) return undefined
  const fold = (t: Tracked, axes: readonly number[]): Tracked | undefined => {
    const count = extentOf(t, axes)
    const combiner = b.rng.pick(['sum', 'max', 'min'] as const)
    const node = makeNode('reduce', [t.node], { combiner, axes })
    if (combiner !== 'sum') return tracked(node, t.lo, t.hi, t.error)
    const error = count * t.error + accumulation(dtype, count, magnitude(t))
    return tracked(node, Math.min(0, count * t.lo), Math.max(0, count * t.hi), error)
  }
  const made = [
    fold(shaped, b.rng.pick([[0], [1], [0, 1]])),
    b.rng.chance(0.5) ? fold(w, [0]) : fold(x, [1]),
    b.rng.chance(0.5) ? fold(shaped, [b.rng.int(0, 1)]) : undefined,
  ]
  for (const t of made) if (t !== undefined) b.pool.push(t)
  return shaped
}

function convolved(b: Builder): Tracked | undefined {
  const dtype = b.dtype(isFloat)
  if (dtype === undefined) return undefined
  const groups = b.rng.pick([1, 1, 1, 2])
  const [channels, filters] = [groups * b.rng.int(1, 2), groups * b.rng.int(1, 3)]
  const spatial = b.rng.int(1, 2)
  const known = b.find(
    (t) =>
      t.node.dtype === dtype &&
      t.node.shape.length === 2 + spatial &&
      magnitude(t) <= 20 &&
      (t.node.shape[1] ?? 1) % groups === 0 &&
      sizeOf(t.node.shape) > 0,
  )
  const x =
    known ?? b.param([b.rng.int(1, 2), channels, ...Array.from({ length: spatial }, () => b.rng.int(3, 7))], dtype)
  const perGroup = (x.node.shape[1] ?? 1) / groups
  const kernel = x.node.shape.slice(2).map((d) => b.rng.int(1, Math.min(3, d)))
  const w = b.rng.chance(0.5)
    ? b.constant([filters, perGroup, ...kernel], dtype)
    : b.param([filters, perGroup, ...kernel], dtype)
  const n = perGroup * sizeOf(kernel)
  const node = compose.conv(x.node, w.node, {
    groups,
    stride: b.rng.int(1, 2),
    padding: b.rng.pick(['valid', 'same', 1] as const),
  })
  if (!b.fits(node.shape)) return undefined
  const m = magnitude(x) * magnitude(w)
  const y = tracked(node, -n * m, n * m, n * x.error * magnitude(w) + accumulation(dtype, n, m))
  if (y === undefined || b.rng.chance(0.5)) return y
  const vector = (): Tracked | undefined => {
    const v = b.constant([filters], dtype)
    return moving('broadcast', [v], { shape: node.shape, dims: [1] }, [v])
  }
  const [scale, shift] = [vector(), vector()]
  const scaled = scale === undefined ? undefined : arithmetic('mul', y, scale)
  return scaled === undefined || shift === undefined ? scaled : arithmetic('add', scaled, shift)
}

function pooled(b: Builder): Tracked | undefined {
  const x = b.find((t) => isFloat(t.node.dtype) && t.node.shape.length >= 1 && (t.node.shape.at(-1) ?? 0) >= 2)
  if (x === undefined || sizeOf(x.node.shape) === 0) return undefined
  const kernel = [b.rng.int(1, Math.min(3, x.node.shape.at(-1) ?? 1))]
  const options = { stride: b.rng.int(1, 2), padding: 'valid' } as const
  if (b.rng.chance(0.5)) return tracked(compose.maxPool(x.node, kernel, options), x.lo, x.hi, x.error)
  return composite(compose.averagePool(x.node, kernel, options), x.lo, x.hi, x, 2, 8)
}

function random(b: Builder): Tracked | undefined {
  const key = b.key()
  if (b.rng.chance(0.3)) {
    const dtype = b.rng.pick(randomDTypes)
    return tracked(makeNode('randomBits', [key.node], { shape: b.shape(), dtype }), 0, 2 ** randomWidth(dtype) - 1, 0)
  }
  const x = b.find((t) => t.node.dtype === 'f32')
  if (x === undefined || b.rng.chance(0.4)) return tracked(compose.randomUniform(key.node, b.shape(), 'f32'), 0, 1, 0)
  const y = compose.dropout(x.node, key.node, 0.25)
  return composite(y, Math.min(0, x.lo * 1.5), Math.max(0, x.hi * 1.5), x, 2, 4)
}

export const foldingSteps: readonly Step[] = [
  { name: 'reduce', weight: 6, apply: reduced },
  { name: 'arg', weight: 1, apply: arg },
  { name: 'scan', weight: 1, apply: scanned },
  { name: 'normalise', weight: 4, apply: normalised },
  { name: 'activation', weight: 3, apply: activated },
  { name: 'contract', weight: 4, apply: contracted },
  { name: 'linear', weight: 3, apply: linear },
  { name: 'folded product', weight: 2, apply: foldedProduct },
  { name: 'conv', weight: 1.5, apply: convolved },
  { name: 'pool', weight: 1, apply: pooled },
  { name: 'random', weight: 1, apply: random },
]
