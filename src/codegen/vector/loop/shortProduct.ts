/**
 * The register-blocked product c[m][n] += a[m][k] * b of integers that fit 16 bits, in blocks of some rows of a and some columns of b. Where b
 * is [n][k], accumulators are four partial sums each, eight of the depth a step; where it is [k][n], a step interleaves two of its rows, and
 * two neighbours of a row of a go to all columns: one vector of them, where no more are left. Sums wrap as those of 32 bits do, in whatever order.
 */
import { pairBytes, pairsBlockBytes, type ShortForm, shortColumns } from '../../../schedule/loop/ir/shortOperands.ts'
import { cacheLine } from '../../../target/loops.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr, LoadForm, Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import type { Index } from '../value/scope.ts'
import { bump, type ProductPlace } from './gemm.ts'

/** Neighbours of the depth that a step takes. */
const steps = { depth: 8, pairs: 2 } as const

export interface ShortOperand {
  /** How eight elements are read, and bytes from one index of the outer role to the next, and of the depth. */
  readonly form: LoadForm
  readonly outer: number
  readonly inner: number
}

export interface ShortShape {
  readonly short: ShortForm
  readonly a: ShortOperand
  readonly b: ShortOperand
  readonly cRow: number
  /** Accumulators start at zero, not from c. */
  readonly fresh: boolean
  /** Rows that are multiplied with one block of columns after another: they stay in the nearest cache. */
  readonly rowsAtOnce: number
  /** Where so much of the depth of b, and all its columns, are packed at a time. */
  readonly pairs: { readonly at: Register; readonly depth: number } | undefined
  /** Where a word is written to no purpose, if rows of b are brought near before they are packed. */
  readonly touches: Register | undefined
  /** Rows of a block of accumulators, the largest first. */
  readonly blocks: readonly number[]
}

export function emitShortProduct(f: Builder, s: ShortShape, p: ProductPlace): void {
  const { pairs, touches } = s
  if (pairs === undefined) {
    sweep(f, s, p)
    return
  }
  const { depth } = p
  const packed = { ...s, b: packedBy(pairs.depth) }
  if (typeof depth === 'number' && depth <= pairs.depth) {
    if (touches !== undefined) emitTouches(f, s, p, touches)
    emitPairs(f, s, p, pairs.at)
    sweep(f, packed, { ...p, b: pairs.at })
    return
  }
  const [at, a, b, count] = [f.register(T.i32), f.keep(p.a), f.keep(p.b), f.register(T.i32)]
  if (s.fresh) emitZeros(f, s, p)
  f.for(at, 0, depth, pairs.depth, () => {
    f.assign(count, X.sub(depth, at))
    f.assign(count, X.least(count, pairs.depth))
    const rows = { ...p, b, depth: count }
    if (touches !== undefined) emitTouches(f, s, rows, touches)
    emitPairs(f, s, rows, pairs.at)
    sweep(f, { ...packed, fresh: false }, { ...p, a, b: pairs.at, depth: count })
    bump(f, a, pairs.depth * s.a.inner)
    bump(f, b, pairs.depth * s.b.inner)
  })
  f.release(at, a, b, count)
}

/** Loads a word of every line of rows that are about to be packed: packing them keeps few loads in flight. */
function emitTouches(f: Builder, s: ShortShape, p: ProductPlace, scratch: Register): void {
  const [row, at, b, seen] = [f.register(T.i32), f.register(T.i32), f.keep(p.b), f.register(T.i32)]
  const end = f.register(T.i32)
  f.assign(seen, X.undefinedOf(T.i32))
  f.for(row, 0, p.depth, 1, () => {
    f.assign(end, X.add(b, X.add(X.mul(p.columns, s.b.outer), cacheLine - 1)))
    f.for(at, b, end, cacheLine, () => f.assign(seen, X.or(X.load(T.i32, at, 0, 1), seen)))
    bump(f, b, s.b.inner)
  })
  // The store keeps the loads alive.
  f.store(scratch, seen, 0, 4)
  f.release(row, at, b, seen, end)
}

/** Packed blocks of columns, one after another, of so much of the depth each. */
const packedBy = (depth: number): ShortOperand => ({
  form: 'plain',
  outer: pairsBlockBytes(depth) / shortColumns.pairs,
  inner: pairBytes / steps.pairs,
})

/** Packs rows of the second operand by pairs, whole rows one after another as they are in memory: the last, if it has no other, beside zeros. */
function emitPairs(f: Builder, s: ShortShape, p: ProductPlace, to: Register): void {
  const { depth } = p
  const [left, column, at, c, b, target] = [
    f.register(T.i32),
    f.register(T.i32),
    f.register(T.i32),
    f.register(T.i32),
    f.keep(p.b),
    f.keep(to),
  ]
  const block = pairsBlockBytes(s.pairs?.depth ?? 0)
  const two = (isPair: boolean): void => {
    f.assign(at, b)
    f.assign(c, target)
    f.for(column, 0, p.columns, shortColumns.pairs, () => {
      const upper = f.keep(X.load(T.i16x8, at, 0, 1, s.b.form))
      const lower = f.keep(
        isPair ? X.load(T.i16x8, at, s.b.inner, 1, s.b.form) : X.view(T.i16x8, X.constant(T.i32x4, 0)),
      )
      f.store(c, X.shuffle(T.i16x8, upper, lower, [0, 8, 1, 9, 2, 10, 3, 11]), 0, 4)
      f.store(c, X.shuffle(T.i16x8, upper, lower, [4, 12, 5, 13, 6, 14, 7, 15]), 16, 4)
      f.release(upper, lower)
      bump(f, at, shortColumns.pairs * s.b.outer)
      bump(f, c, block)
    })
    bump(f, b, steps.pairs * s.b.inner)
    bump(f, target, pairBytes)
  }
  f.for(left, 1, depth, steps.pairs, () => two(true))
  if (typeof depth !== 'number') f.if(X.and(depth, 1), () => two(false))
  else if (depth % 2 === 1) two(false)
  f.release(left, column, at, c, b, target)
}

/** Clears the result, whole blocks of columns. */
function emitZeros(f: Builder, s: ShortShape, p: ProductPlace): void {
  const [row, column, c, at] = [f.register(T.i32), f.register(T.i32), f.keep(p.c), f.register(T.i32)]
  f.for(row, 0, p.rows, 1, () => {
    f.assign(at, c)
    f.for(column, 0, p.columns, 4, () => {
      f.store(at, X.constant(T.i32x4, 0), 0, 4)
      bump(f, at, 16)
    })
    bump(f, c, s.cRow)
  })
  f.release(row, column, c, at)
}

/** All blocks over a range of the depth. */
function sweep(f: Builder, s: ShortShape, p: ProductPlace): void {
  const { depth } = p
  const step = steps[s.short]
  const columns = shortColumns[s.short]
  const block = s.short === 'depth' ? depthBlock : pairsBlock
  const over = s.short === 'pairs' && typeof p.columns === 'number' ? p.columns % columns : 0
  const isHalf = over > 0 && over <= columns / 2
  const wide = isHalf && typeof p.columns === 'number' ? p.columns - over : p.columns
  // Pairs are whole; beyond the depth there are zeros.
  const filled = s.short === 'pairs' ? 1 : 0
  const rest: Index = filled ? 0 : typeof depth === 'number' ? depth % step : f.keep(X.and(depth, step - 1))
  const whole: Index =
    typeof depth === 'number'
      ? Math.floor((depth + filled) / step)
      : f.keep(X.shrU(filled ? X.add(depth, filled) : depth, Math.log2(step)))
  // Beyond the depth rows hold anything: the elements of `a` count as zero there.
  const inside =
    rest === 0
      ? undefined
      : f.keep(X.compare('lt_s', X.constant(T.i16x8, [0, 1, 2, 3, 4, 5, 6, 7]), X.splat(T.i16x8, rest)))
  const at = { whole, rest, inside }
  const register = (): Register => f.register(T.i32)
  const [first, end, column, row] = [register(), register(), register(), register()]
  const [a, from, b] = [register(), register(), register()]
  const [c, top, to] = [register(), register(), register()]
  f.assign(a, p.a)
  f.assign(c, p.c)
  f.for(first, 0, p.rows, s.rowsAtOnce, () => {
    f.assign(end, X.least(X.add(first, s.rowsAtOnce), p.rows))
    f.assign(b, p.b)
    f.assign(top, c)
    const strip = (vectors: 1 | 2): void => {
      f.assign(from, a)
      f.assign(to, top)
      f.assign(row, first)
      for (const rows of s.blocks) {
        f.for(row, row, X.sub(end, rows - 1), rows, () => {
          block(f, s, at, [rows, vectors], from, b, to)
          bump(f, from, rows * s.a.outer)
          bump(f, to, rows * s.cRow)
        })
      }
    }
    if (wide !== 0)
      f.for(column, 0, wide, columns, () => {
        strip(2)
        bump(f, b, columns * s.b.outer)
        bump(f, top, 4 * columns)
      })
    if (isHalf) strip(1)
    bump(f, a, s.rowsAtOnce * s.a.outer)
    bump(f, c, s.rowsAtOnce * s.cRow)
  })
  f.release(first, end, column, row, a, from, b, c, top, to)
  for (const r of [rest, whole, inside]) if (typeof r === 'object') f.release(r)
}

interface Depth {
  readonly whole: Index
  readonly rest: Index
  /** Lanes of the last step that are inside. */
  readonly inside: Register | undefined
}

/** One block of accumulators over the whole depth, which is innermost in both operands. */
function depthBlock(
  f: Builder,
  s: ShortShape,
  depth: Depth,
  [rows]: readonly [number, 1 | 2],
  a0: Register,
  b0: Register,
  c: Register,
): void {
  const sums = Array.from({ length: rows }, () => Array.from({ length: shortColumns.depth }, () => f.register(T.i32x4)))
  for (const sum of sums.flat()) f.assign(sum, X.constant(T.i32x4, 0))
  const a = f.keep(a0)
  const b = f.keep(b0)
  const next = (mask: Register | undefined): void => {
    const across = Array.from({ length: shortColumns.depth }, (_, j) =>
      f.keep(X.load(T.i16x8, b, j * s.b.outer, 1, s.b.form)),
    )
    sums.forEach((row, r) => {
      const loaded = X.load(T.i16x8, a, r * s.a.outer, 1, s.a.form)
      const x = f.keep(mask === undefined ? loaded : X.and(loaded, mask))
      row.forEach((sum, j) => {
        const y = across[j]
        if (y !== undefined) f.assign(sum, X.add(sum, X.dotPairs(x, y)))
      })
      f.release(x)
    })
    f.release(...across)
  }
  const left = f.register(T.i32)
  f.for(left, 0, depth.whole, 1, () => {
    next(undefined)
    bump(f, a, steps.depth * s.a.inner)
    bump(f, b, steps.depth * s.b.inner)
  })
  const { rest, inside } = depth
  if (inside !== undefined) {
    if (typeof rest === 'number') next(inside)
    else f.if(rest, () => next(inside))
  }
  sums.forEach((row, r) => {
    const total = f.keep(transposedSum(f, row))
    f.store(c, s.fresh ? total : X.add(total, X.load(T.i32x4, c, r * s.cRow, 4)), r * s.cRow, 4)
    f.release(total)
  })
  f.release(a, b, left, ...sums.flat())
}

/** The sums of the lanes of four vectors, as one. */
function transposedSum(f: Builder, [p, q, r, s]: readonly Register[]): Expr {
  if (p === undefined || q === undefined || r === undefined || s === undefined) return X.constant(T.i32x4, 0)
  const halves = (x: Expr, y: Expr): Expr =>
    X.add(X.shuffle(T.i32x4, x, y, [0, 2, 4, 6]), X.shuffle(T.i32x4, x, y, [1, 3, 5, 7]))
  const [first, second] = [f.keep(halves(p, q)), f.keep(halves(r, s))]
  const total = halves(first, second)
  f.release(first, second)
  return total
}

/** One block of some rows by some vectors of accumulators over the whole depth, whose second operand is packed by pairs. */
function pairsBlock(
  f: Builder,
  s: ShortShape,
  depth: Depth,
  [rows, vectors]: readonly [number, 1 | 2],
  a0: Register,
  b0: Register,
  c: Register,
): void {
  const across = Array.from({ length: vectors }, (_, v) => v)
  const sums = Array.from({ length: rows }, () => across.map(() => f.register(T.i32x4)))
  sums.forEach((row, r) => {
    row.forEach((sum, v) => {
      f.assign(sum, s.fresh ? X.constant(T.i32x4, 0) : X.load(T.i32x4, c, r * s.cRow + 16 * v, 4))
    })
  })
  const a = f.keep(a0)
  const b = f.keep(b0)
  const left = f.register(T.i32)
  f.for(left, 0, depth.whole, 1, () => {
    const columns = across.map((v) => f.keep(X.load(T.i16x8, b, 16 * v, 4)))
    sums.forEach((row, r) => {
      const x = f.keep(X.view(T.i16x8, X.load(T.i32x4, a, r * s.a.outer, 2, 'splat')))
      columns.forEach((y, v) => {
        const sum = row[v]
        if (sum !== undefined) f.assign(sum, X.add(sum, X.dotPairs(x, y)))
      })
      f.release(x)
    })
    f.release(...columns)
    bump(f, a, steps.pairs * s.a.inner)
    bump(f, b, pairBytes)
  })
  sums.forEach((row, r) => {
    row.forEach((sum, v) => {
      f.store(c, sum, r * s.cRow + 16 * v, 4)
    })
  })
  f.release(a, b, left, ...sums.flat())
}
