/**
 * The register-blocked matrix product c[m][n] += a[m][k] * b[k][n] on operands in memory: blocks of `rows` by two vectors of
 * accumulators, or one where no more columns are left, k in order, rows left over by smaller blocks, columns padded. Strides are
 * constants, so a step of k moves two pointers and the rest are constant offsets.
 */
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr, Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import type { Index } from '../value/scope.ts'

export interface ProductShape {
  readonly compute: 'f32' | 'f64' | 'i32'
  /** Multiply and add in one instruction. */
  readonly fused: boolean
  /** Byte strides. */
  readonly aRow: number
  readonly aDepth: number
  readonly bRow: number
  readonly cRow: number
  /** Accumulators start at zero, not from c. */
  readonly fresh: boolean
  /** Rows of a block of accumulators, the largest first. */
  readonly blocks: readonly number[]
}

export interface ProductPlace {
  readonly a: Register
  readonly b: Register
  readonly c: Register
  readonly rows: Index
  readonly columns: Index
  readonly depth: Index
}

const types = { f32: T.f32x4, i32: T.i32x4, f64: T.f64x2 } as const

export function emitProduct(f: Builder, s: ProductShape, p: ProductPlace): void {
  const row = f.register(T.i32)
  const rowEnd = f.register(T.i32)
  const a = f.register(T.i32)
  const c = f.register(T.i32)
  const { blocks } = s
  const sweep = (rows: number): void => {
    const lanes = 16 / T.elementBytes[s.compute]
    const column = f.register(T.i32)
    const b = f.register(T.i32)
    const at = f.register(T.i32)
    f.assign(b, p.b)
    f.assign(at, c)
    const { columns } = p
    const left = typeof columns === 'number' ? columns % (2 * lanes) : 0
    const isSingle = left > 0 && left <= lanes
    const wide: Index = isSingle && typeof columns === 'number' ? columns - left : columns
    if (wide !== 0)
      f.for(column, 0, wide, 2 * lanes, () => {
        block(f, s, p.depth, [rows, 2], a, b, at)
        bump(f, b, 32)
        bump(f, at, 32)
      })
    if (isSingle) block(f, s, p.depth, [rows, 1], a, b, at)
    bump(f, a, rows * s.aRow)
    bump(f, c, rows * s.cRow)
    f.release(column, b, at)
  }
  f.assign(a, p.a)
  f.assign(c, p.c)
  f.assign(row, 0)
  for (const rows of blocks) {
    // Whole blocks of this height; the smaller heights take what is left.
    f.assign(rowEnd, X.sub(p.rows, rows - 1))
    const goesOn = X.compare('lt_s', row, rowEnd)
    f.if(goesOn, () =>
      f.repeat(() => {
        sweep(rows)
        bump(f, row, rows)
        return goesOn
      }),
    )
  }
  f.release(row, rowEnd, a, c)
}

/** Moves a pointer or a counter on. */
export function bump(f: Builder, l: Register, by: number): void {
  f.assign(l, X.add(l, by))
}

/** One block of some rows by some vectors over the whole depth. */
function block(
  f: Builder,
  s: ProductShape,
  depth: Index,
  [rows, vectors]: readonly [number, number],
  a0: Register,
  b0: Register,
  c: Register,
): void {
  const type = types[s.compute]
  const acc = Array.from({ length: rows * vectors }, () => f.register(type))
  const across = Array.from({ length: vectors }, (_, v) => v)
  const a = f.register(T.i32)
  const b = f.register(T.i32)
  const end = f.register(T.i32)
  const accumulator = (i: number): Register => acc[i] ?? c
  for (let r = 0; r < rows; r++)
    for (const v of across)
      f.assign(accumulator(vectors * r + v), s.fresh ? X.constant(type, 0) : X.load(type, c, r * s.cRow + 16 * v, 4))
  f.assign(a, a0)
  f.assign(b, b0)
  f.assign(end, X.add(b, X.mul(depth, s.bRow)))
  const next = (x: Expr, y: Expr, z: Expr): Expr => (s.fused ? X.fma(type, x, y, z) : X.add(z, X.mul(x, y)))
  const step = (): void => {
    const columns = across.map((v) => f.keep(X.load(type, b, 16 * v, 4)))
    for (let r = 0; r < rows; r++) {
      const x = f.keep(X.load(type, a, r * s.aRow, 4, 'splat'))
      columns.forEach((y, v) => {
        const z = accumulator(vectors * r + v)
        f.assign(z, next(x, y, z))
      })
      f.release(x)
    }
    f.release(...columns)
    bump(f, a, s.aDepth)
    bump(f, b, s.bRow)
  }
  const inRange = X.compare('lt_u', b, end)
  f.if(inRange, () =>
    f.repeat(() => {
      step()
      return inRange
    }),
  )
  for (let r = 0; r < rows; r++)
    for (const v of across) f.store(c, accumulator(vectors * r + v), r * s.cRow + 16 * v, 4)
  f.release(a, b, end, ...acc)
}
