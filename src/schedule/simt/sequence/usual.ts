/**
 * Conditions on positions that hold all over most blocks of a loop (a causal mask away from its diagonal): intervals of what they compare
 * say where, so that a nest is there twice, and does without them in whole blocks.
 */
import { type BlockedAxis, endOfBlocks } from '../../../affine/blocks.ts'
import * as ix from '../../../affine/expr.ts'
import { Conditions } from '../../../kernel/conditions.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import type { Part } from '../part/part.ts'
import type { PointStep, Usual } from './sequence.ts'

/** Conditions that a nest of a chain of products reads and that hold wherever numbers of the block are not negative. */
export function usualOf(part: Part, run: readonly PointStep[]): Usual | undefined {
  if (part.chain === undefined) return undefined
  const conditions = new Conditions(part.lets)
  const blockOf = (name: string): BlockedAxis | undefined => {
    const { role, size, extent } = part.axis(name)
    return role === 'local' ? undefined : { block: size, extent }
  }
  const ids = new Set<ValueId>()
  const numbers = new Map<string, ix.Expr>()
  for (const id of new Set(run.flatMap((s) => s.needs))) {
    const l = part.lets.get(id)
    if (l?.dtype !== 'bool' || !l.axes.some((a) => part.axis(a).role === 'loop')) continue
    const { bounds, isAll } = conditions.holding(id, true)
    const ends = bounds.flatMap(({ expr, lo, hi }) => {
      const [least, most] = [endOfBlocks(expr, blockOf, 'least'), endOfBlocks(expr, blockOf, 'most')]
      if (least === undefined || most === undefined) return [undefined]
      return [
        ...(ix.rangeOf(expr).lo >= lo ? [] : [ix.addConst(least, -lo)]),
        ...(ix.rangeOf(expr).hi < hi ? [] : [ix.addConst(ix.mul(most, -1), hi - 1)]),
      ]
    })
    if (!isAll || ends.includes(undefined)) continue
    ids.add(id)
    for (const e of ends) if (e !== undefined) numbers.set(e.key, e)
  }
  return numbers.size === 0 ? undefined : { ids: [...ids], numbers: [...numbers.values()] }
}
