/** Sums and products that a loop carries, in fast mode (src/schedule/simt/fold/carriedTotals.ts): accumulators of their totals (running.ts). */
import type { Carry } from '../../../kernel/ir.ts'
import { combinerIdentity } from '../../../scalar/ops.ts'
import type { CarriedTotals } from '../../../schedule/simt/fold/carriedTotals.ts'
import { add, type Block, int, mul, type SharedArray, shared, v } from '../ir/ir.ts'
import { declare, type Registers, registerAt } from '../ir/registers.ts'
import { type Scope, tid } from '../nest/scope.ts'
import { constant } from '../scalar/arith.ts'
import { eachKept } from './fold.ts'
import { type Cells, closeRound, type Elements, wholeOf } from './running.ts'

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
  plans: readonly CarriedTotals[],
  carried: ReadonlyMap<Carry, Registers>,
  out: Block,
): CarriedFolds {
  const { unit, part } = scope
  const all: Elements[] = []
  for (const { carry: c, combiner, levels, cells } of plans) {
    const terms = carried.get(c)
    if (terms === undefined) continue
    const totals = cells.map((where) => ownCells(scope, terms, where))
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

/** Cells for an array's elements: the thread's own in shared memory, or registers. */
function ownCells(
  { unit, layout }: Scope,
  { name: wish, type, length }: Registers,
  where: CarriedTotals['cells'][number],
): Cells {
  const name = unit.name(`${wish}_total`)
  if (where === 'registers') {
    const registers: Registers = { name, type, length }
    return { at: (i) => registerAt(registers, i), declare: (out) => declare(registers, out) }
  }
  const array: SharedArray = { name, type, length: length * layout.threads, own: true }
  unit.shared.push(array)
  return { at: (i) => shared(array, add(mul(i, int(layout.threads)), tid)), declare: () => undefined }
}
