/**
 * What holds all over most blocks of a loop: that they are whole, and conditions on positions (a causal mask away from its diagonal), of
 * which intervals of what they compare say where. A nest is there twice, and does without tests in such blocks.
 */
import { type BlockedAxis, endOfBlocks } from '../../../affine/blocks.ts'
import * as ix from '../../../affine/expr.ts'
import { Conditions } from '../../../kernel/conditions.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import { type Layout, spanOf } from '../layout/layout.ts'
import type { Part } from '../part/part.ts'
import type { PointStep, Usual } from './sequence.ts'

/** What holds all over most blocks that a nest of a chain of products goes over, if anything. */
export function usualOf(part: Part, layout: Layout, run: readonly PointStep[]): Usual | undefined {
  if (!part.isChain) return undefined
  const axes = cutAxes(part, layout, run[0]?.loops.map((l) => l.axis) ?? [])
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
  return numbers.size + axes.length === 0 ? undefined : { axes, ids: [...ids], numbers: [...numbers.values()] }
}

/** Axes that a chain's loop goes over, of which a block may be cut, and has as many indices as threads hold where it is not. */
export const cutAxes = (part: Part, layout: Layout, axes: readonly string[]): readonly string[] =>
  [...new Set(axes)].filter((a) => {
    const [{ role, tail, size }, spread] = [part.axis(a), layout.find(a)]
    return part.isChain && role === 'loop' && tail && (spread === undefined || spanOf(spread) * spread.chunks === size)
  })
