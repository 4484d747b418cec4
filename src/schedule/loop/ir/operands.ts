/** Operands of matrix products that are read in place. */
import { type Expr, strideOf } from '../../../affine/expr.ts'
import type { Axes } from './tile.ts'

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
export function roleStride(flat: Expr, role: readonly string[], axes: Axes): number | undefined {
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
