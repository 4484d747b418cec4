/**
 * Sums and products that a loop carries, in fast mode (src/kernel/carried.ts): their totals (running.ts) are seldom touched, and stand in the
 * threads' own cells of shared memory where there is room.
 */
import { closesOf, foldedCarries } from '../../kernel/carried.ts'
import type { Carry, LoopStmt } from '../../kernel/ir.ts'
import { combinerIdentity } from '../../scalar/ops.ts'
import type { Levels } from '../../scalar/summation.ts'
import { constant } from './arith.ts'
import { eachKept } from './fold.ts'
import { add, type Block, int, mul, type SharedArray, shared, v } from './ir.ts'
import { declare, type Registers, registerAt } from './registers.ts'
import { type Cells, closeRound, type Elements, wholeOf } from './running.ts'
import { type Scope, tid } from './scope.ts'
import { placeShared } from './shared.ts'

/** A loop's running folds. */
export interface CarriedFolds {
  /** At the end of an iteration. */
  close(out: Block): void
  /** Behind the loop: what is carried is whole. */
  finish(out: Block): void
}

/** Begins the totals of what a loop carries, before it. */
export function openCarried(
  scope: Scope,
  s: LoopStmt,
  carried: ReadonlyMap<Carry, Registers>,
  out: Block,
): CarriedFolds {
  const { unit, part } = scope
  const closes = unit.mode === 'fast' ? closesOf(s, part.axis(s.axis).extent, (id) => part.lets.get(id)?.op) : []
  const levels: Levels = { copies: 1, closes }
  const all: Elements[] = []
  for (const { carry: c, combiner } of closes.length === 0 ? [] : foldedCarries(s)) {
    const terms = carried.get(c)
    if (terms === undefined) continue
    const totals = levels.closes.map(() => ownCells(scope, terms))
    const each = eachKept(scope, part.axesOf(c.param))
    for (const t of totals) {
      t.declare(out)
      const value = constant(c.dtype, combinerIdentity(combiner, c.dtype))
      each(out, (i, body) => body.push({ k: 'assign', to: t.at(i), value }))
    }
    all.push({ of: { combiner, dtype: c.dtype, terms, levels, totals }, each })
  }
  if (all.length === 0) return { close: () => undefined, finish: () => undefined }
  const name = unit.name('rounds')
  const count = v('i32', name)
  out.push({ k: 'var', name, type: 'i32', value: int(0) })
  return {
    close(body) {
      body.push({ k: 'assign', to: count, value: add(count, int(1)) })
      closeRound(all, count, body)
    },
    finish(after) {
      for (const { of, each } of all)
        each(after, (i, body) => body.push({ k: 'assign', to: registerAt(of.terms, i), value: wholeOf(of, i) }))
    },
  }
}

/** Bytes of shared memory that the exchanges of what follows take at most. */
const reserved = 4096

/** Cells for an array's elements: the thread's own in shared memory, or registers where that is full. */
function ownCells({ unit, layout }: Scope, { name: wish, type, length }: Registers): Cells {
  const name = unit.name(`${wish}_total`)
  const array: SharedArray = { name, type, length: length * layout.threads, own: true }
  const bytes = placeShared([...unit.shared, array]).bytes
  if (bytes + reserved > unit.sharedBytes || unit.cluster > 1) {
    const registers: Registers = { name, type, length }
    return { at: (i) => registerAt(registers, i), declare: (out) => declare(registers, out) }
  }
  unit.shared.push(array)
  return { at: (i) => shared(array, add(mul(i, int(layout.threads)), tid)), declare: () => undefined }
}
