/** What is known of where values lie, NaN aside. */
import type { ValueId } from '../../../kernel/ir.ts'
import { combinerOp, scalarInfo } from '../../../scalar/ops.ts'
import type { Part } from '../part/part.ts'

/** Whether a value is known to be no less than zero; what a loop carries is if it begins so and stays so. */
export function isNonnegative(part: Part, id: ValueId): boolean {
  const rests = new Set<ValueId>([id])
  for (const x of rests) {
    const on = restsOn(part, x)
    if (on === undefined) return false
    for (const y of on) rests.add(y)
  }
  return true
}

/** Values of which a value is no less than zero if they are; undefined where that is not known. */
function restsOn(part: Part, id: ValueId): readonly ValueId[] | undefined {
  const carry = part.carryOf(id)
  if (carry !== undefined) return [carry.init, carry.next]
  const op = part.lets.get(id)?.op
  switch (op?.kind) {
    case 'const':
      return Number(op.value) >= 0 ? [] : undefined
    case 'scalar':
      if (scalarInfo(op.op).nonnegative === true) return []
      return op.op === combinerOp.sum || scalarInfo(op.op).factors !== undefined ? op.args : undefined
    case 'reduce':
      return op.combiner === 'sum' || op.combiner === 'max' || op.combiner === 'min' ? [op.arg] : undefined
    default:
      return undefined
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
