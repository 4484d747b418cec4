/**
 * What a kernel of `fast` stores is rounded for all that follows from it there, as in kernels that read it: where statistics are taken of what is stored,
 * and weights are made of it elsewhere, both must be of the same numbers.
 */
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { renameOperands } from '../../kernel/walk.ts'
import { scalarInfo } from '../../scalar/ops.ts'
import { isHalf } from '../../types/dtype.ts'

/** The statements with stored values rounded for those that read them; `round` makes a statement that rounds a value. */
export function roundedWhereStored(
  lets: readonly LetStmt[],
  stored: ReadonlySet<ValueId>,
  round: (l: LetStmt) => LetStmt,
): readonly LetStmt[] {
  if (!lets.some((l) => isHalf(l.dtype) && stored.has(l.id))) return lets
  const operands = new Set(lets.flatMap((l) => operandsOf(l.op)))
  const rounded = new Map<ValueId, ValueId>()
  const unrounded = new Set<ValueId>()
  return lets.flatMap((was) => {
    const isStored = stored.has(was.id)
    const read = rounded.size === 0 ? was : { ...was, op: renameOperands(was.op, (id) => rounded.get(id) ?? id) }
    const l = isStored ? firm(read) : read
    if (!staysUnrounded(l, unrounded)) return [l]
    if (!isStored || !operands.has(l.id)) {
      unrounded.add(l.id)
      return [l]
    }
    const to = round(l)
    rounded.set(l.id, to.id)
    return [l, to]
  })
}

/** A loose cast as one that rounds. */
function firm(l: LetStmt): LetStmt {
  if (l.op.kind !== 'scalar' || l.op.loose !== true) return l
  const { loose: _, ...op } = l.op
  return { ...l, op }
}

/** Whether `fast` may leave a value of a half dtype with more bits than it has: what arithmetic gives, and choices among such. */
function staysUnrounded({ op, dtype }: LetStmt, unrounded: ReadonlySet<ValueId>): boolean {
  if (!isHalf(dtype)) return false
  if (op.kind === 'reduce') return (op.combiner === 'max' || op.combiner === 'min') && unrounded.has(op.arg)
  if (op.kind !== 'scalar') return false
  if (op.op === 'cast' || op.op === 'bitcast') return op.loose === true
  return scalarInfo(op.op).chooses !== true || op.args.some((a) => unrounded.has(a))
}
