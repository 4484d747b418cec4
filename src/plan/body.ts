/** The unscheduled kernel: what one region computes, as tile statements over named axes, before grids and blocks. */
import type { Node } from '../graph/node.ts'
import type { Expr } from '../index/expr.ts'
import type { KernelAxis, LetStmt, ValueId } from '../kernel/ir.ts'
import { dtypeBytes } from '../types/dtype.ts'

/** A tensor in memory as the body addresses it: `shape` is the node's, or flat once axes are collapsed. */
export interface BodyTensor {
  readonly node: Node
  readonly shape: readonly number[]
  /** One bit an element (src/plan/formats.ts decides); absent: as the dtype says. */
  readonly format?: 'bits'
}

export interface BodyStore extends BodyTensor {
  readonly value: ValueId
  readonly index: readonly Expr[]
}

/** Bytes of some elements of a tensor in its format. */
export const tensorBytes = (t: BodyTensor, elements: number): number =>
  t.format === 'bits' ? Math.ceil(elements / 8) : elements * dtypeBytes(t.node.dtype)

/** Points of a space over some axes: the product of their extents. */
export function pointsOf(extents: ReadonlyMap<string, number>, axes: Iterable<string>): number {
  let n = 1
  for (const a of axes) n *= extents.get(a) ?? 1
  return n
}

export interface Body {
  readonly axes: readonly KernelAxis[]
  /** In dependence order; every statement feeds a store. */
  readonly lets: readonly LetStmt[]
  readonly stores: readonly BodyStore[]
  /** Materialised nodes the body loads, by the parameter name each has. */
  readonly loads: ReadonlyMap<string, BodyTensor>
  /** The node each value computes (an instance of it). */
  readonly origin: ReadonlyMap<ValueId, Node>
}
