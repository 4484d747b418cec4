/** What is known of where values lie, NaN aside. */
import type { TileOp, ValueId } from '../../../kernel/ir.ts'
import { combinerOp, scalarInfo } from '../../../scalar/ops.ts'
import type { Part } from '../part/part.ts'

/** Whether a value is known to be no less than zero; what a loop carries is if it begins so and stays so. */
export function isNonnegative(part: Part, id: ValueId, assumed: ReadonlySet<ValueId> = new Set()): boolean {
  if (assumed.has(id)) return true
  const carry = part.carryOf(id)
  if (carry !== undefined) {
    const all = new Set([...assumed, carry.param, carry.result])
    return isNonnegative(part, carry.init, all) && isNonnegative(part, carry.next, all)
  }
  const op = part.lets.get(id)?.op
  switch (op?.kind) {
    case 'const':
      return Number(op.value) >= 0
    case 'scalar':
      return scalarInfo(op.op).nonnegative === true || isSumOrProductOf(op, (x) => isNonnegative(part, x, assumed))
    case 'reduce':
      return (
        (op.combiner === 'sum' || op.combiner === 'max' || op.combiner === 'min') &&
        isNonnegative(part, op.arg, assumed)
      )
    default:
      return false
  }
}

const isSumOrProductOf = (
  op: Pick<TileOp & { readonly kind: 'scalar' }, 'op' | 'args'>,
  holds: (x: ValueId) => boolean,
): boolean => (op.op === combinerOp.sum || scalarInfo(op.op).factors !== undefined) && op.args.every(holds)

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
