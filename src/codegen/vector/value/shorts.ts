/** Code that makes elements of 16 bits of bytes and of integers of 16 bits in memory, in runs, by pointers that stand in registers. */
import { shortBytes } from '../../../schedule/loop/ir/shortOperands.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr, LoadForm, Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import type { Index } from './scope.ts'
import { emitRun } from './words.ts'

/** Elements of a vector. */
const lanes = 8

/** How a run stands in memory: how eight elements are read, and bytes from one element to the next, the size of an element or twice that. */
export interface ShortRun {
  readonly form: LoadForm
  readonly apart: number
}

/** Writes `n` elements of a run side by side; the pointers move behind them, but for those of a run that is short and known. */
export function emitWidened(f: Builder, source: Register, target: Register, n: Index, { form, apart }: ShortRun): void {
  const bytes = form === 'plain' ? shortBytes : 1
  const vector = (at: number): void => {
    const from = at * apart
    const first = X.load(T.i16x8, source, from, 1, form)
    const second = (): Expr => X.load(T.i16x8, source, from + lanes * bytes, 1, form)
    const value = apart === bytes ? first : X.shuffle(T.i16x8, first, second(), [0, 2, 4, 6, 8, 10, 12, 14])
    f.store(target, value, at * shortBytes, shortBytes)
  }
  const one = (at: number): void => {
    const narrow = form === 'plain' ? '16_s' : form
    f.store(target, X.load(T.i32, source, at * apart, 1, narrow), at * shortBytes, shortBytes, '16')
  }
  const written = (count: number): void => {
    let at = 0
    for (; at + lanes <= count; at += lanes) vector(at)
    // What is left goes with those before it, where there are enough.
    if (at < count && count >= lanes) vector(count - lanes)
    else for (; at < count; at++) one(at)
  }
  emitRun(f, n, written, [1], (count) => {
    f.assign(source, X.add(source, count * apart))
    f.assign(target, X.add(target, count * shortBytes))
  })
}
