/**
 * The tree that sums and products of strict mode fold their chunks' totals in (src/scalar/summation.ts): a register for each of its places
 * and each kept element.
 */
import { placesOf } from '../../../scalar/summation.ts'
import type { DType } from '../../../types/dtype.ts'
import { type Block, bin, type Ex, int, type Type } from '../ir/ir.ts'
import { declare, type Registers, registerAt } from '../ir/registers.ts'
import { mergeEx } from '../scalar/arith.ts'

/** The tree of an accumulator. */
export interface Totals {
  readonly places: readonly Registers[]
  /** What counts the totals of each kept element. */
  readonly counts: Registers
}

/** A tree of at most `most` totals. */
export function makeTotals(
  name: (wish: string) => string,
  wish: string,
  type: Type,
  length: number,
  most: number,
): Totals {
  return {
    places: Array.from({ length: placesOf(most) }, (_, j) => ({ name: name(`${wish}_${2 ** j}`), type, length })),
    counts: { name: name(`${wish}_count`), type: 'i32', length },
  }
}

export function declareTotals({ places, counts }: Totals, out: Block): void {
  for (const p of places) declare(p, out)
  declare(counts, out)
}

const isSet = (count: Ex, j: number): Ex => bin('!=', bin('&', count, int(2 ** j)), int(0))

/** Emits a statement for each of some registers: their index, where they hold the total, and what statements go to. */
export type EachTotal = (out: Block, emit: (i: Ex, total: Ex, body: Block) => void) => void

/** Folds the totals kept in a place into those that go on. */
const mergeFrom =
  (place: Registers, combiner: 'sum' | 'prod', dtype: DType) =>
  (i: Ex, total: Ex, body: Block): void => {
    body.push({ k: 'assign', to: total, value: mergeEx(combiner, dtype, registerAt(place, i), total) })
  }

/** Takes the next totals, `count` before them; the registers that hold them are free afterwards. */
export function pushTotals(
  { places }: Totals,
  combiner: 'sum' | 'prod',
  dtype: DType,
  count: Ex,
  each: EachTotal,
  out: Block,
): void {
  const carry = (j: number, to: Block): void => {
    const place = places[j]
    if (place === undefined) return
    const keep = (body: Block): void =>
      each(body, (i, total, b) => b.push({ k: 'assign', to: registerAt(place, i), value: total }))
    if (j === places.length - 1) {
      keep(to)
      return
    }
    const [body, otherwise]: [Block, Block] = [[], []]
    each(body, mergeFrom(place, combiner, dtype))
    carry(j + 1, body)
    keep(otherwise)
    to.push({ k: 'if', cond: isSet(count, j), body, otherwise })
  }
  carry(0, out)
}

/** Folds all totals, `count` of them, before what follows them. */
export function foldTotals(
  { places }: Totals,
  combiner: 'sum' | 'prod',
  dtype: DType,
  count: Ex,
  each: EachTotal,
  out: Block,
): void {
  places.forEach((place, j) => {
    const body: Block = []
    each(body, mergeFrom(place, combiner, dtype))
    out.push({ k: 'if', cond: isSet(count, j), body, otherwise: [] })
  })
}
