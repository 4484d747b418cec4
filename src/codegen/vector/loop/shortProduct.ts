/**
 * The register-blocked product c[m][n] += a[m][k] * b[n][k] of integers that fit 16 bits: blocks of `rows` x 4 accumulators of four partial
 * sums each, eight of the depth a step. Sums wrap as those of 32 bits do, in whatever order.
 */
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr, LoadForm, Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import type { Index } from '../value/scope.ts'
import { bump, type ProductPlace } from './gemm.ts'

/** Lanes of a step, and columns of a block. */
const step = 8
const columns = 4

export interface ShortOperand {
  /** How eight elements are read, and bytes from one row of them to the next. */
  readonly form: LoadForm
  readonly row: number
}

export interface ShortShape {
  readonly a: ShortOperand
  readonly b: ShortOperand
  readonly cRow: number
  /** Accumulators start at zero, not from c. */
  readonly fresh: boolean
  /** Rows that are multiplied with one block of columns after another: they stay in the nearest cache. */
  readonly rowsAtOnce: number
  /** Rows of a block of accumulators, the largest first. */
  readonly blocks: readonly number[]
}

const bytesOf = ({ form }: ShortOperand): number => (form === 'plain' ? 2 : 1) * step

export function emitShortProduct(f: Builder, s: ShortShape, p: ProductPlace): void {
  const { depth } = p
  const rest: Index = typeof depth === 'number' ? depth % step : f.keep(X.and(depth, step - 1))
  const whole: Index = typeof depth === 'number' ? Math.floor(depth / step) : f.keep(X.shrU(depth, 3))
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
    f.for(column, 0, p.columns, columns, () => {
      f.assign(from, a)
      f.assign(to, top)
      f.assign(row, first)
      for (const rows of s.blocks) {
        f.for(row, row, X.sub(end, rows - 1), rows, () => {
          block(f, s, at, rows, from, b, to)
          bump(f, from, rows * s.a.row)
          bump(f, to, rows * s.cRow)
        })
      }
      bump(f, b, columns * s.b.row)
      bump(f, top, 4 * columns)
    })
    bump(f, a, s.rowsAtOnce * s.a.row)
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

/** One block of accumulators over the whole depth. */
function block(f: Builder, s: ShortShape, depth: Depth, rows: number, a0: Register, b0: Register, c: Register): void {
  const sums = Array.from({ length: rows }, () => Array.from({ length: columns }, () => f.register(T.i32x4)))
  for (const sum of sums.flat()) f.assign(sum, X.constant(T.i32x4, 0))
  const a = f.keep(a0)
  const b = f.keep(b0)
  const next = (mask: Register | undefined): void => {
    const across = Array.from({ length: columns }, (_, j) => f.keep(X.load(T.i16x8, b, j * s.b.row, 1, s.b.form)))
    sums.forEach((row, r) => {
      const loaded = X.load(T.i16x8, a, r * s.a.row, 1, s.a.form)
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
    bump(f, a, bytesOf(s.a))
    bump(f, b, bytesOf(s.b))
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
