/** Where accesses stand in memory. */
import { type Expr, flatten, mul } from '../../../affine/expr.ts'
import type { KernelParam } from '../../../kernel/ir.ts'
import { dtypeBytes } from '../../../types/dtype.ts'

/** Byte position of an access of a plain parameter. */
export function bytePosition(p: KernelParam, index: readonly Expr[]): Expr {
  const known = positions.get(p)?.get(index)
  if (known !== undefined) return known
  const position = mul(flatten(index, p.shape), dtypeBytes(p.dtype))
  const own = positions.get(p) ?? new WeakMap<readonly Expr[], Expr>()
  positions.set(p, own)
  own.set(index, position)
  return position
}

/** Positions by parameter and index: they are asked for at every use. */
const positions = new WeakMap<KernelParam, WeakMap<readonly Expr[], Expr>>()
