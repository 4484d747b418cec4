/** Operands of matrix products that are read in place. */
import { type Expr, flatten, mul, strideOf, valuesOf } from '../../../affine/expr.ts'
import type { KernelParam } from '../../../kernel/ir.ts'
import { dtypeBytes } from '../../../types/dtype.ts'
import type { Axes, Def } from './tile.ts'

/** An operand read in place: its byte position (relative to the buffer) and byte strides along its two roles. */
export interface DirectOperand {
  readonly param: string
  readonly flat: Expr
  /** Stride of the m (of `a`) or n (of `b`) role, and of the k role. */
  readonly outer: number
  readonly inner: number
  /** How eight elements are read, of a product of short integers. */
  readonly form?: '8_s' | '8_u' | 'plain'
}

/** The byte stride of a role's flattened index, where the axes' strides nest row-major. */
function roleStride(flat: Expr, role: readonly string[], axes: Axes): number | undefined {
  let expected: number | undefined
  let unit: number | undefined
  for (const a of [...role].reverse()) {
    const s = strideOf(flat, a)
    if (s === undefined || (expected !== undefined && s !== expected)) return undefined
    unit ??= s
    expected = s * axes.view(a).max
  }
  return unit
}

/** A value that is loaded from a parameter, unmasked, by strides along its two roles. */
export function loadedInPlace(
  { op }: Def,
  outer: readonly string[],
  inner: readonly string[],
  axes: Axes,
  param: (name: string) => KernelParam,
): (Omit<DirectOperand, 'param'> & { readonly param: KernelParam }) | undefined {
  if (op?.kind !== 'load' || op.mask.length > 0 || op.maskValue !== undefined) return undefined
  const p = param(op.param)
  if (p.format !== 'plain') return undefined
  const flat = mul(flatten(op.index, p.shape), dtypeBytes(p.dtype))
  if (valuesOf(flat).size > 0) return undefined
  const [o, i] = [outer, inner].map((role) => roleStride(flat, role, axes))
  return o === undefined || i === undefined || o <= 0 || i <= 0 ? undefined : { param: p, flat, outer: o, inner: i }
}
