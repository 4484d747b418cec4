/** Code that moves memory into words: copies, transposes and fills, by pointers that stand in registers. */
import { word } from '../../../schedule/loop/nest/packing.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr, Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import type { Index } from './scope.ts'

/** Moves a pointer on. */
function move(f: Builder, l: Register, by: number): void {
  f.assign(l, X.add(l, by))
}

/** Elements a run of known length may have to be written out without a loop. */
const writtenOut = 64

/** Copies `n` words; the pointers move behind them. */
export function emitCopy(f: Builder, source: Register, target: Register, n: Index): void {
  const piece = (type: T.Type, at: number): void => f.store(target, X.load(type, source, at, word), at, word)
  const written = (count: number): void => {
    let at = 0
    for (; at + 4 <= count; at += 4) piece(T.i32x4, word * at)
    if (count - at >= 2) {
      piece(T.i64, word * at)
      at += 2
    }
    if (at < count) piece(T.i32, word * at)
  }
  emitRun(f, n, written, [4, 1], (count) => {
    move(f, source, word * count)
    move(f, target, word * count)
  })
}

/**
 * A run of `n` elements: written out where that is short, else sixteen at a time; what is left of an open one goes in steps of `rest`, largest first.
 * `written` writes so many from the pointers on, `moved` moves these.
 */
export function emitRun(
  f: Builder,
  n: Index,
  written: (count: number) => void,
  rest: readonly number[],
  moved: (count: number) => void,
): void {
  if (typeof n === 'number' && n <= writtenOut) {
    written(n)
    return
  }
  const steps = (count: Index, step: number): void => {
    const i = f.register(T.i32)
    f.for(i, step - 1, count, step, () => {
      written(step)
      moved(step)
    })
    f.release(i)
  }
  if (typeof n === 'number') {
    steps(n - (n % 16), 16)
    written(n % 16)
    return
  }
  steps(n, 16)
  const left = f.keep(X.and(n, 15))
  for (const [i, step] of rest.entries()) {
    steps(left, step)
    if (i < rest.length - 1) f.assign(left, X.and(left, step - 1))
  }
  f.release(left)
}

/** How elements of memory become words: four side by side, in a register that is the caller's, and one, that `use` takes. */
export interface Elements {
  readonly bytes: number
  row(at: Register, offset: number): Register
  one(at: Register, offset: number, use: (word: Expr) => void): void
  /** Four at places apart, where they are better made words together. */
  readonly column?: (at: Register, offsets: readonly number[]) => Register
}

/** Words as they stand. */
const asTheyStand = (f: Builder): Elements => ({
  bytes: word,
  row: (at, offset) => f.keep(X.load(T.i32x4, at, offset, word)),
  one: (at, offset, use) => use(X.load(T.i32, at, offset, word)),
})

/** Rows and targets of a transposition, in bytes. */
interface Strides {
  readonly row: number
  readonly target: number
}

/**
 * `n` rows of `m` elements become `m` rows of `n` words: blocks of four by four in registers, one by one at the edges.
 */
export function emitTranspose(
  f: Builder,
  source: Register,
  target: Register,
  n: Index,
  m: Index,
  strides: Strides,
  elements = asTheyStand(f),
): void {
  const [s, t, i, j] = [f.register(T.i32), f.register(T.i32), f.register(T.i32), f.register(T.i32)]
  const strip = (rows: 1 | 4): void => {
    f.assign(s, source)
    // Rows that go backwards are counted from the last one: offsets are not negative.
    const first = strides.row < 0 ? rows - 1 : 0
    if (first > 0) move(f, s, first * strides.row)
    f.assign(t, target)
    const pieces = (columns: 1 | 4): void => {
      const offset = (r: number): number => (r - first) * strides.row
      const { column } = elements
      if (rows === 4 && columns === 4) transposeBlock(f, s, t, offset, strides.target, elements)
      else if (rows === 4 && column !== undefined) {
        const words = column(s, [0, 1, 2, 3].map(offset))
        f.store(t, words, 0, word)
        f.release(words)
      } else if (columns === 4 && column !== undefined) {
        const row = elements.row(s, 0)
        for (let c = 0; c < 4; c++) f.storeLane(t, X.view(T.i32x4, row), c, c * strides.target, word)
        f.release(row)
      } else
        for (let r = 0; r < rows; r++)
          for (let c = 0; c < columns; c++)
            elements.one(s, offset(r) + elements.bytes * c, (x) => f.store(t, x, word * r + c * strides.target, word))
      move(f, s, elements.bytes * columns)
      move(f, t, columns * strides.target)
    }
    f.assign(j, 0)
    whole(j, m, 4, () => pieces(4))
    whole(j, m, 1, () => pieces(1))
    move(f, source, rows * strides.row)
    move(f, target, rows * word)
  }
  /** Steps on from where the counter stands, as long as whole ones fit. */
  const whole = (counter: Register, count: Index, step: number, body: () => void): void => {
    const fits = X.compare('lt_s', counter, X.sub(count, step - 1))
    f.if(fits, () =>
      f.repeat(() => {
        body()
        move(f, counter, step)
        return fits
      }),
    )
  }
  f.assign(i, 0)
  whole(i, n, 4, () => strip(4))
  whole(i, n, 1, () => strip(1))
  f.release(s, t, i, j)
}

/** Rows of a block stand at offsets of `s`. */
function transposeBlock(
  f: Builder,
  s: Register,
  t: Register,
  offset: (row: number) => number,
  targetStride: number,
  elements: Elements,
): void {
  const row = (r: number): Register => elements.row(s, offset(r))
  const rows = [row(0), row(1), row(2), row(3)] as const
  const mixed = (a: Expr, b: Expr, lanes: readonly number[]): Expr => X.shuffle(T.i32x4, a, b, lanes)
  const low01 = f.keep(mixed(rows[0], rows[1], [0, 4, 1, 5]))
  const low23 = f.keep(mixed(rows[2], rows[3], [0, 4, 1, 5]))
  const high01 = f.keep(mixed(rows[0], rows[1], [2, 6, 3, 7]))
  const high23 = f.keep(mixed(rows[2], rows[3], [2, 6, 3, 7]))
  const column = (c: number, a: Expr, b: Expr, lanes: readonly number[]): void =>
    f.store(t, mixed(a, b, lanes), c * targetStride, word)
  column(0, low01, low23, [0, 1, 4, 5])
  column(1, low01, low23, [2, 3, 6, 7])
  column(2, high01, high23, [0, 1, 4, 5])
  column(3, high01, high23, [2, 3, 6, 7])
  f.release(...rows, low01, low23, high01, high23)
}

/** What a fill writes: elements of so many bytes, the bits of one, and bytes from one element to the next. */
export interface Fill {
  readonly size: 2 | 4
  readonly bits: number
  readonly apart: number
}

/** Writes an element `n` times: written out where that is short, in pieces that overlap where elements are side by side; else the pointer moves. */
export function emitFill(f: Builder, target: Register, n: Index, { size, bits, apart }: Fill): void {
  const pair = size === 2 ? (bits & 0xffff) | (bits << 16) : bits
  const one = (at: number): void => f.store(target, X.constant(T.i32, bits), at, size, size === 2 ? '16' : 'plain')
  const vector = (at: number): void => f.store(target, X.constant(T.i32x4, pair), at, size)
  const steps = (count: Index, step: number): void => {
    const i = f.register(T.i32)
    f.for(i, step - 1, count, step, () => {
      if (step === 1) one(0)
      else vector(0)
      move(f, target, step * apart)
    })
    f.release(i)
  }
  if (apart !== size) {
    if (typeof n === 'number' && n <= writtenOut) for (let i = 0; i < n; i++) one(i * apart)
    else steps(n, 1)
    return
  }
  const lanes = 16 / size
  if (typeof n === 'number') {
    const short = n <= writtenOut ? n : n % lanes
    if (short < n) steps(n - short, lanes)
    const bytes = short * size
    if (bytes >= 16) inPieces(bytes, 16, vector)
    else if (bytes >= 8) inPieces(bytes, 8, (at) => f.store(target, X.constant(T.i64, twice(pair)), at, size))
    else if (bytes >= 4) inPieces(bytes, 4, (at) => f.store(target, X.constant(T.i32, pair), at, size))
    else if (bytes > 0) one(0)
    return
  }
  steps(n, lanes)
  const left = f.keep(X.and(n, lanes - 1))
  steps(left, 1)
  f.release(left)
}

/** Covers so many bytes by pieces of one size, the last of which ends where they do. */
function inPieces(bytes: number, piece: number, write: (at: number) => void): void {
  let at = 0
  for (; at + piece <= bytes; at += piece) write(at)
  if (at < bytes) write(bytes - piece)
}

/** 32 bits two times, as an integer of 64. */
const twice = (bits: number): bigint => BigInt.asIntN(64, (BigInt(bits) << 32n) | BigInt(bits >>> 0))
