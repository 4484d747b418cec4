/**
 * Loads that wait for folds. A weight that all programs share is read from a cache; where everything that uses it also needs a fold
 * over the row, it is loaded after that fold, so that it takes no registers while the row is folded. What only this program reads is
 * loaded first: memory is slow, and more should be on its way.
 */
import { axesOf as axesIn } from '../../../affine/expr.ts'
import { startOf } from '../../../kernel/axes.ts'
import { foldAxes, isFoldOrScan } from '../../../kernel/folds.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../../kernel/ir.ts'
import type { Place } from '../access/place.ts'
import { storeValues } from '../part/facts.ts'
import type { Part } from '../part/part.ts'

/**
 * Folds that every use of a load's value needs besides; `list`: the values of the statement list that the load stands in. Only folds
 * over several warps count: others are soon done.
 */
export function foldsBefore(
  { part, layout, setting, isChunked }: Place,
  load: LetStmt,
  list: ReadonlySet<ValueId>,
): ValueId[] {
  if (load.op.kind !== 'load' || !isShared(part, load) || [...layout.axes.keys()].some(isChunked)) return []
  const waits = (l: LetStmt): boolean =>
    list.has(l.id) && layout.bitsOf(foldAxes(l)).some((b) => b >= setting.machine.laneBits)
  if (![...part.lets.values()].some(waits)) return []
  const needed = new Map<ValueId, ReadonlySet<ValueId>>()
  const foldsOf = (id: ValueId): ReadonlySet<ValueId> => {
    const have = needed.get(id)
    if (have !== undefined) return have
    const out = new Set<ValueId>()
    const l = part.lets.get(id)
    if (l !== undefined) {
      for (const o of operandsOf(l.op)) for (const f of foldsOf(o)) out.add(f)
      if (waits(l)) out.add(id)
    }
    needed.set(id, out)
    return out
  }
  const union = (ids: Iterable<ValueId>): ReadonlySet<ValueId> => new Set([...ids].flatMap((o) => [...foldsOf(o)]))
  const known = new Map<ValueId, ReadonlySet<ValueId> | undefined>()
  /** Undefined where some use needs no fold, or stands in another list. */
  const ofUses = (id: ValueId): ReadonlySet<ValueId> | undefined => {
    if (!known.has(id)) known.set(id, meetOfUses(id))
    return known.get(id)
  }
  const meetOfUses = (id: ValueId): ReadonlySet<ValueId> | undefined => {
    let out: ReadonlySet<ValueId> | undefined
    const meet = (s: ReadonlySet<ValueId>): void => {
      out = out === undefined ? s : new Set([...out].filter((f) => s.has(f)))
    }
    for (const l of part.lets.values()) {
      const operands = operandsOf(l.op)
      if (!operands.includes(id)) continue
      if (!list.has(l.id)) return undefined
      const folds = union(operands)
      const later = folds.size > 0 || isFoldOrScan(l) || l.op.kind === 'stage' ? folds : ofUses(l.id)
      if (later === undefined || later.size === 0) return undefined
      meet(later)
    }
    for (const s of part.stores) {
      const values = storeValues(s)
      if (!values.includes(id)) continue
      const folds = union(values)
      if (folds.size === 0) return undefined
      meet(folds)
    }
    if (part.loops.some((l) => l.carries.some((c) => c.init === id || c.next === id) || l.from === id || l.to === id))
      return undefined
    return out
  }
  return [...(ofUses(load.id) ?? [])]
}

/** Whether all programs load the same: no axis of the grid is in the index. */
function isShared(part: Part, load: LetStmt): boolean {
  if (load.op.kind !== 'load' || operandsOf(load.op).length > 0) return false
  const { index, mask } = load.op
  return [...index, ...mask.map((b) => b.expr)].every((e) =>
    [...axesIn(e)].every((a) => startOf(a) === undefined && part.axis(a).role === 'local'),
  )
}
