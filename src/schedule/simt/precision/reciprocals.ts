/**
 * Quotients in half precision by numbers, as products in f32 with 1 / c rounded to f32: both round once to half precision, and a quotient of two
 * halves is further from where that rounding turns (one part in 2^23 for f16, 2^17 for bf16) than the product errs, unless it is subnormal.
 */
import type { LetStmt, ValueId } from '../../../kernel/ir.ts'
import { isModerate } from '../../../scalar/moderate.ts'
import { scalarInfo } from '../../../scalar/ops.ts'

/** A value as a number times another. */
export interface ByReciprocal {
  readonly kind: 'multiple'
  readonly of: ValueId
  readonly by: number
}

/** A quotient as such a product (`fast` mode alone), where its divisor is a number whose reciprocal neither overflows nor loses bits. */
export function byReciprocal(
  { op, dtype }: Pick<LetStmt, 'op' | 'dtype'>,
  opOf: (id: ValueId) => LetStmt['op'] | undefined,
): ByReciprocal | undefined {
  if (op.kind !== 'scalar' || (dtype !== 'f16' && dtype !== 'bf16')) return undefined
  if (scalarInfo(op.op).factors?.[1] !== -1) return undefined
  const [of, divisor] = op.args
  const c = divisor === undefined ? undefined : opOf(divisor)
  if (of === undefined || c?.kind !== 'const' || !isModerate(c.value)) return undefined
  return { kind: 'multiple', of, by: 1 / Number(c.value) }
}
