/** What folds make a program hold at once: their results, and operands of products without blocks, over axes that no grid cuts. */
import { foldAxes } from '../../kernel/folds.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { pointsOf } from '../body/body.ts'
import { type Refused, refuse } from '../refusal.ts'
import type { Analysis } from './analysis.ts'
import { follows, type RowSplit } from './split.ts'

/**
 * Why the results of folds do not stay with a program that runs over all of its `reduced` axes: a scan's over axes that are folded
 * after it; where nothing is read again those of reductions too, and operands of products, which are copied. Undefined: they do.
 */
export function tooMuchHeld(
  { body, extents, row, reduced, lets, target }: Analysis,
  split: ReadonlySet<ValueId>,
  splitBy: RowSplit | undefined,
): Refused | undefined {
  const rereads = target.rereadShare !== undefined
  // Cut reductions go through their axis a row at a time where rows stand below them, else block by block.
  const cut = new Map(extents)
  if (splitBy === 'every-index')
    for (const l of body.lets) for (const a of split.has(l.id) ? foldAxes(l) : []) cut.set(a, 1)
  else if (splitBy !== undefined) cut.set(splitBy.axis, row.size > 0 ? 1 : splitBy.block)
  const localOf = (l: LetStmt): string[] => l.axes.filter((a) => reduced.has(a) || row.has(a))
  const bytesOf = (l: LetStmt): number => pointsOf(cut, localOf(l)) * Math.max(4, dtypeBytes(l.dtype))
  const held = new Set<LetStmt>()
  for (const l of body.lets) {
    const { op } = l
    if (op.kind !== 'scan' && (rereads || (op.kind !== 'reduce' && op.kind !== 'dot'))) continue
    if (split.size > 0 && (split.has(l.id) || follows(l, split, lets))) continue
    const local = localOf(l)
    // Rows alone are judged as rows.
    if (local.length > 0 && (op.kind !== 'scan' || local.some((a) => !row.has(a)))) held.add(l)
    if (op.kind !== 'dot') continue
    for (const id of [op.a, op.b]) {
      const operand = lets.get(id)
      if (operand !== undefined && localOf(operand).some((a) => !op.axes.includes(a))) held.add(operand)
    }
  }
  let bytes = 0
  for (const l of held) bytes += bytesOf(l)
  const room = rereads ? (target.blockRowBytes ?? target.rowBytes) : target.rowBytes
  if (bytes <= room) return undefined
  return refuse('row-too-long', `${bytes} bytes between one fold and the next do not stay resident`)
}
