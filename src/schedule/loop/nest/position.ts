/** Where accesses stand in memory. */
import { type Expr, flatten, mul, rangeOf, valuesOf } from '../../../affine/expr.ts'
import type { Bound, Predicate } from '../../../affine/predicate.ts'
import type { KernelParam, ValueId } from '../../../kernel/ir.ts'
import { dtypeBytes } from '../../../types/dtype.ts'
import { sizeOf } from '../../../types/shape.ts'
import { readMargin } from '../ir/tile.ts'

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

/** An address that points backwards does so by steps of this many bytes, and the rest forwards: neighbours share a register. */
export const backStep = 4096

/** Bytes behind its first element that the reads of a step touch at most. */
const wholeRead = 64

/**
 * Whether all that a read would touch if it had no mask lies in memory, is mostly what the parameter holds, padding around it, and its mask mostly holds. Then it is
 * read whole without asking, and lanes are chosen afterwards.
 */
export function readsFreely(p: KernelParam, { index, mask, maskValue }: Masked): boolean {
  if (p.format !== 'plain' || mask.length === 0 || maskValue !== undefined || !mask.every(holdsMostly)) return false
  const position = bytePosition(p, index)
  if (valuesOf(position).size > 0) return false
  const bytes = dtypeBytes(p.dtype) * sizeOf(p.shape)
  const { lo, hi } = rangeOf(position)
  const [before, behind] = [Math.max(0, -lo), Math.max(0, hi - bytes)]
  return Math.max(before + backStep, behind + wholeRead) <= readMargin && before + behind <= bytes / 2
}

/** A read under a mask. */
interface Masked {
  readonly index: readonly Expr[]
  readonly mask: Predicate
  readonly maskValue?: ValueId
}

/** Whether a bound holds for half of what its expression may be, or more. */
function holdsMostly({ expr, lo, hi }: Bound): boolean {
  if (valuesOf(expr).size > 0) return false
  const range = rangeOf(expr)
  return 2 * (Math.min(hi, range.hi + 1) - Math.max(lo, range.lo)) >= range.hi + 1 - range.lo
}

/** Positions by parameter and index: they are asked for at every use. */
const positions = new WeakMap<KernelParam, WeakMap<readonly Expr[], Expr>>()
