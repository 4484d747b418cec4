/**
 * The register-blocked matrix product c[m][n] += a[m][k] * b[k][n] on operands in memory: blocks of `rows` x 8 accumulators
 * (4 of f64), k in order, rows left over by smaller blocks, columns padded. Strides are constants, so a step of k moves two
 * pointers and the rest are immediates.
 */
import type { FunctionBuilder, Local, WasmOp } from '../binary/builder.ts'
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
  readonly a: Local
  readonly b: Local
  readonly c: Local
  readonly rows: Index
  readonly columns: Index
  readonly depth: Index
}

const laneBytes = { f32: 4, i32: 4, f64: 8 } as const
const shapes = { f32: 'f32x4', i32: 'i32x4', f64: 'f64x2' } as const

export function emitProduct(f: FunctionBuilder, s: ProductShape, p: ProductPlace): void {
  const row = f.local('i32')
  const rowEnd = f.local('i32')
  const a = f.local('i32')
  const c = f.local('i32')
  const { blocks } = s
  const sweep = (rows: number): void => {
    const panelColumns = 32 / laneBytes[s.compute]
    const column = f.local('i32')
    const b = f.local('i32')
    const at = f.local('i32')
    f.get(p.b)
    f.set(b)
    f.get(c)
    f.set(at)
    f.forLoop(column, 0, p.columns, panelColumns, () => {
      block(f, s, p.depth, rows, a, b, at)
      bump(f, b, 32)
      bump(f, at, 32)
    })
    bump(f, a, rows * s.aRow)
    bump(f, c, rows * s.cRow)
    f.release(column, b, at)
  }
  f.get(p.a)
  f.set(a)
  f.get(p.c)
  f.set(c)
  f.i32Const(0)
  f.set(row)
  for (const rows of blocks) {
    // Whole blocks of this height; the smaller heights take what is left.
    f.push(p.rows)
    f.i32Const(rows - 1)
    f.op('i32.sub')
    f.set(rowEnd)
    f.get(row)
    f.get(rowEnd)
    f.op('i32.lt_s')
    f.if(() => {
      f.loop((again) => {
        sweep(rows)
        f.get(row)
        f.i32Const(rows)
        f.op('i32.add')
        f.tee(row)
        f.get(rowEnd)
        f.op('i32.lt_s')
        f.brIf(again)
      })
    })
  }
  f.release(row, rowEnd, a, c)
}

/** The block heights needed to cover every possible number of rows. */
function bump(f: FunctionBuilder, l: Local, by: number): void {
  f.get(l)
  f.i32Const(by)
  f.op('i32.add')
  f.set(l)
}

/** One block of `rows` x two vectors over the whole depth. */
function block(f: FunctionBuilder, s: ProductShape, depth: Index, rows: number, a0: Local, b0: Local, c: Local): void {
  const shape = shapes[s.compute]
  const add: WasmOp = `${shape}.add`
  const mul: WasmOp = `${shape}.mul`
  const acc = Array.from({ length: rows * 2 }, () => f.local('v128'))
  const a = f.local('i32')
  const b = f.local('i32')
  const end = f.local('i32')
  const accumulator = (i: number): Local => acc[i] ?? c
  for (let r = 0; r < rows; r++)
    for (let v = 0; v < 2; v++) {
      if (s.fresh) f.i32x4Const(0)
      else {
        f.get(c)
        f.load('v128.load', 4, r * s.cRow + 16 * v)
      }
      f.set(accumulator(2 * r + v))
    }
  f.get(a0)
  f.set(a)
  f.get(b0)
  f.set(b)
  f.get(b)
  f.push(depth)
  f.i32Const(s.bRow)
  f.ops('i32.mul', 'i32.add')
  f.set(end)
  const step = (): void => {
    const columns = [0, 1].map((v) => {
      f.get(b)
      f.load('v128.load', 4, 16 * v)
      return f.toLocal('v128')
    })
    for (let r = 0; r < rows; r++) {
      f.get(a)
      f.load(s.compute === 'f64' ? 'v128.load64_splat' : 'v128.load32_splat', 4, r * s.aRow)
      const x = f.toLocal('v128')
      columns.forEach((y, v) => {
        const z = accumulator(2 * r + v)
        if (s.fused) {
          f.get(x)
          f.get(y)
          f.get(z)
          f.op(s.compute === 'f64' ? 'f64x2.relaxed_madd' : 'f32x4.relaxed_madd')
        } else {
          f.get(z)
          f.get(x)
          f.get(y)
          f.ops(mul, add)
        }
        f.set(z)
      })
      f.release(x)
    }
    f.release(...columns)
    bump(f, a, s.aDepth)
    bump(f, b, s.bRow)
  }
  const inRange = (): void => {
    f.get(b)
    f.get(end)
    f.op('i32.lt_u')
  }
  inRange()
  f.if(() =>
    f.loop((again) => {
      step()
      inRange()
      f.brIf(again)
    }),
  )
  for (let r = 0; r < rows; r++)
    for (let v = 0; v < 2; v++) {
      f.get(c)
      f.get(accumulator(2 * r + v))
      f.store('v128.store', 4, r * s.cRow + 16 * v)
    }
  f.release(a, b, end, ...acc)
}
