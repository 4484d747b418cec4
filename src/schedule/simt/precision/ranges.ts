/** What is known of where values lie, NaN aside. */
import type { ValueId } from '../../../kernel/ir.ts'
import { combinerOp, scalarInfo } from '../../../scalar/ops.ts'
import type { Part } from '../part/part.ts'

/** Whether a value is known to be no less than zero. */
export function isNonnegative(part: Part, id: ValueId): boolean {
  const op = part.lets.get(id)?.op
  switch (op?.kind) {
    case 'const':
      return Number(op.value) >= 0
    case 'scalar':
      return scalarInfo(op.op).nonnegative === true
    case 'reduce':
      return (op.combiner === 'sum' || op.combiner === 'max' || op.combiner === 'min') && isNonnegative(part, op.arg)
    default:
      return false
  }
}

/** The least normal number of f32. */
const leastNormal = 2 ** -126

/** Whether an f32 value is known to be a positive normal number, or infinite: a sum with a constant that is. */
export function isPositiveNormal(part: Part, id: ValueId): boolean {
  const op = part.lets.get(id)?.op
  if (op?.kind !== 'scalar' || op.op !== combinerOp.sum || part.dtypeOf(id) !== 'f32') return false
  const isLarge = (a: ValueId): boolean => {
    const c = part.lets.get(a)?.op
    return c?.kind === 'const' && Number(c.value) >= leastNormal
  }
  return op.args.every((a) => isNonnegative(part, a)) && op.args.some(isLarge)
}
