/**
 * Values that bits of a position decide (which of two neighbours an element is): cheap enough to be computed wherever they are read,
 * along whatever axes make up the position.
 */
import { isBitwise } from '../affine/expr.ts'
import { scalarInfo } from '../scalar/ops.ts'
import { isFloat } from '../types/dtype.ts'
import type { LetStmt, ValueId } from './ir.ts'

/** Whether a value is a remainder of an index by a power of two, or made of one such value and literals by a simple operation. */
export function isPosition(lets: ReadonlyMap<ValueId, LetStmt>, l: LetStmt | undefined): boolean {
  if (l === undefined) return false
  const { op } = l
  if (op.kind === 'index')
    return op.expr.terms.length > 0 && isBitwise(op.expr) && op.expr.terms.every((t) => t.atom.kind === 'mod')
  if (op.kind !== 'scalar' || isFloat(l.dtype) || !['free', 'simple'].includes(scalarInfo(op.op).cost)) return false
  // Of two such operands the code would double at each operation: nothing holds what is computed where it is read.
  const [one, ...more] = op.args.filter((id) => lets.get(id)?.op.kind !== 'const')
  return one !== undefined && more.length === 0 && isPosition(lets, lets.get(one))
}
