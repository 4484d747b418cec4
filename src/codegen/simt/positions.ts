/**
 * Values that a few bits of a position decide (which of two neighbours an element is): computed wherever they are read, since lanes
 * of vectors know them.
 */
import { isBitwise } from '../../index/expr.ts'
import type { LetStmt } from '../../kernel/ir.ts'
import { scalarInfo } from '../../scalar/ops.ts'
import { isFloat } from '../../types/dtype.ts'
import type { Part } from './part.ts'

/** Whether a value is a remainder of an index by a power of two, or made of such and of literals alone. */
export function isPosition(part: Part, l: LetStmt | undefined): boolean {
  if (l === undefined) return false
  const { op } = l
  if (op.kind === 'index')
    return op.expr.terms.length > 0 && isBitwise(op.expr) && op.expr.terms.every((t) => t.atom.kind === 'mod')
  if (op.kind !== 'scalar' || isFloat(l.dtype) || !['free', 'simple'].includes(scalarInfo(op.op).cost)) return false
  const operands = op.args.map((id) => part.lets.get(id))
  return (
    operands.every((o) => o?.op.kind === 'const' || isPosition(part, o)) && operands.some((o) => isPosition(part, o))
  )
}
