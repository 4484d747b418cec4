/** Code that moves words of memory: copies, transposes and fills, by pointers that stand in locals. */
import { word } from '../../../schedule/loop/nest/packing.ts'
import type { FunctionBuilder, Local } from '../binary/builder.ts'
import type { Index } from './scope.ts'

/** Moves a pointer on. */
function move(f: FunctionBuilder, l: Local, by: number): void {
  f.get(l)
  f.i32Const(by)
  f.op('i32.add')
  f.set(l)
}

/** Elements a run of known length may have to be written out without a loop. */
const writtenOut = 64

/** Copies `n` words; the pointers move behind them. */
export function emitCopy(f: FunctionBuilder, source: Local, target: Local, n: Index): void {
  const piece = (load: 'v128.load' | 'i64.load' | 'i32.load', at: number): void => {
    f.get(target)
    f.get(source)
    f.load(load, 4, at)
    if (load === 'v128.load') f.store('v128.store', 4, at)
    else f.store(load === 'i64.load' ? 'i64.store' : 'i32.store', 4, at)
  }
  const written = (count: number): void => {
    let at = 0
    for (; at + 4 <= count; at += 4) piece('v128.load', word * at)
    if (count - at >= 2) {
      piece('i64.load', word * at)
      at += 2
    }
    if (at < count) piece('i32.load', word * at)
  }
  if (typeof n === 'number' && n <= writtenOut) {
    written(n)
    return
  }
  const steps = (count: Index, step: number): void => {
    const i = f.local('i32')
    f.forLoop(i, step - 1, count, step, () => {
      written(step)
      move(f, source, word * step)
      move(f, target, word * step)
    })
    f.release(i)
  }
  if (typeof n === 'number') {
    steps(n - (n % 16), 16)
    written(n % 16)
    return
  }
  steps(n, 16)
  f.push(n)
  f.i32Const(15)
  f.op('i32.and')
  const left = f.toLocal('i32')
  steps(left, 4)
  f.get(left)
  f.i32Const(3)
  f.op('i32.and')
  f.set(left)
  steps(left, 1)
  f.release(left)
}

/**
 * `n` rows of `m` words, `rowStride` bytes apart, become `m` rows of `n` words, `targetStride` apart: blocks of four by four
 * in registers, words one by one at the edges.
 */
export function emitTranspose(
  f: FunctionBuilder,
  source: Local,
  target: Local,
  n: Index,
  m: Index,
  rowStride: number,
  targetStride: number,
): void {
  const [s, t, i, j] = [f.local('i32'), f.local('i32'), f.local('i32'), f.local('i32')]
  const strip = (rows: 1 | 4): void => {
    f.get(source)
    f.set(s)
    // Rows that go backwards are counted from the last one: offsets are not negative.
    const first = rowStride < 0 ? rows - 1 : 0
    if (first > 0) move(f, s, first * rowStride)
    f.get(target)
    f.set(t)
    const pieces = (columns: 1 | 4): void => {
      if (rows === 4 && columns === 4) transposeBlock(f, s, t, first, rowStride, targetStride)
      else
        for (let r = 0; r < rows; r++)
          for (let c = 0; c < columns; c++) {
            f.get(t)
            f.get(s)
            f.load('i32.load', 4, (r - first) * rowStride + word * c)
            f.store('i32.store', 4, word * r + c * targetStride)
          }
      move(f, s, word * columns)
      move(f, t, columns * targetStride)
    }
    f.i32Const(0)
    f.set(j)
    whole(j, m, 4, () => pieces(4))
    whole(j, m, 1, () => pieces(1))
    move(f, source, rows * rowStride)
    move(f, target, rows * word)
  }
  /** Steps on from where the counter stands, as long as whole ones fit. */
  const whole = (counter: Local, count: Index, step: number, body: () => void): void => {
    const fits = (): void => {
      f.get(counter)
      f.push(count)
      f.i32Const(step - 1)
      f.ops('i32.sub', 'i32.lt_s')
    }
    fits()
    f.if(() =>
      f.loop((again) => {
        body()
        move(f, counter, step)
        fits()
        f.brIf(again)
      }),
    )
  }
  f.i32Const(0)
  f.set(i)
  whole(i, n, 4, () => strip(4))
  whole(i, n, 1, () => strip(1))
  f.release(s, t, i, j)
}

/** `s` stands at row `first` of the block. */
function transposeBlock(
  f: FunctionBuilder,
  s: Local,
  t: Local,
  first: number,
  rowStride: number,
  targetStride: number,
): void {
  const rows = [0, 1, 2, 3].map((r) => {
    f.get(s)
    f.load('v128.load', 4, (r - first) * rowStride)
    return f.toLocal('v128')
  })
  const mixed = (a: number, b: number, lanes: readonly [number, number, number, number]): Local => {
    const [x, y] = [rows[a], rows[b]]
    if (x !== undefined) f.get(x)
    if (y !== undefined) f.get(y)
    f.shuffle32(...lanes)
    return f.toLocal('v128')
  }
  const low01 = mixed(0, 1, [0, 4, 1, 5])
  const low23 = mixed(2, 3, [0, 4, 1, 5])
  const high01 = mixed(0, 1, [2, 6, 3, 7])
  const high23 = mixed(2, 3, [2, 6, 3, 7])
  const column = (c: number, a: Local, b: Local, lanes: readonly [number, number, number, number]): void => {
    f.get(t)
    f.get(a)
    f.get(b)
    f.shuffle32(...lanes)
    f.store('v128.store', 4, c * targetStride)
  }
  column(0, low01, low23, [0, 1, 4, 5])
  column(1, low01, low23, [2, 3, 6, 7])
  column(2, high01, high23, [0, 1, 4, 5])
  column(3, high01, high23, [2, 3, 6, 7])
  f.release(...rows, low01, low23, high01, high23)
}

/** Writes a word `n` times; the pointer moves. */
export function emitFill(f: FunctionBuilder, target: Local, n: Index, bits: number): void {
  const steps = (count: Index, step: 1 | 4): void => {
    const i = f.local('i32')
    f.forLoop(i, step - 1, count, step, () => {
      f.get(target)
      if (step === 4) {
        f.i32x4Const(bits)
        f.store('v128.store', 4)
      } else {
        f.i32Const(bits)
        f.store('i32.store', 4)
      }
      move(f, target, word * step)
    })
    f.release(i)
  }
  if (typeof n === 'number') {
    if (n >= 4) steps(n - (n % 4), 4)
    if (n % 4 > 0) steps(n % 4, 1)
    return
  }
  steps(n, 4)
  f.push(n)
  f.i32Const(3)
  f.op('i32.and')
  const left = f.toLocal('i32')
  steps(left, 1)
  f.release(left)
}
