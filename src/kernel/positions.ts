/**
 * Values that bits of a position decide (which of two neighbours an element is): cheap enough to be computed wherever they are read,
 * along whatever axes make up the position.
 */
import { isBitwise } from '../index/expr.ts'
import { scalarInfo } from '../scalar/ops.ts'
import { isFloat } from '../types/dtype.ts'
import type { LetStmt, ValueId } from './ir.ts'

/** Whether a value is a remainder of an index by a power of two, or made of such and of literals by simple operations. */
export function isPosition(lets: ReadonlyMap<ValueId, LetStmt>, l: LetStmt | undefined): boolean {
  if (l === undefined) return false
  const { op } = l
  if (op.kind === 'index')
    return op.expr.terms.length > 0 && isBitwise(op.expr) && op.expr.terms.every((t) => t.atom.kind === 'mod')
  if (op.kind !== 'scalar' || isFloat(l.dtype) || !['free', 'simple'].includes(scalarInfo(op.op).cost)) return false
  const operands = op.args.map((id) => lets.get(id))
  return (
    operands.every((o) => o?.op.kind === 'const' || isPosition(lets, o)) && operands.some((o) => isPosition(lets, o))
  )
}
