/** The current point of a loop nest, as memory accesses see it: what they need of the evaluation of values. */
import type { Expr } from '../../../affine/expr.ts'
import type { Predicate } from '../../../affine/predicate.ts'
import type { KernelParam, ValueId } from '../../../kernel/ir.ts'
import type { Scalar } from '../../../scalar/ops.ts'
import type { Axes } from '../../../schedule/loop/ir/tile.ts'
import type { Builder } from '../ir/builder.ts'
import type { Register } from '../ir/ir.ts'
import type { Env, Reg } from './lanes.ts'
import type { Scope } from './scope.ts'

/** The axis along which four (times `copies`) consecutive indices are computed at a time. */
export interface VectorAxis {
  readonly name: string
  readonly copies: number
  /** In the last, partial step: the number of valid lanes, and their mask. */
  readonly limit?: Register
  readonly mask?: Reg
  /** The largest power of two, at most the elements of a step, that every step begins at a multiple of. */
  readonly unit: number
}

/** A load or store through an index map and a mask, to be emitted in frame `depth` and remembered as `key`. */
export interface Access {
  readonly param: string
  readonly index: readonly Expr[]
  readonly mask: Predicate
  readonly maskValue?: ValueId
  readonly other: Scalar
  readonly depth: number
  readonly key: string
}

/** Emitters of a read whose addresses stand in registers already: they may run under a condition. */
export interface LaneReader {
  readonly whole: () => Reg
  readonly lane: (into: Reg, lane: number) => void
}

export interface Point {
  readonly scope: Scope
  readonly f: Builder
  readonly env: Env
  readonly axes: Axes
  readonly vector: VectorAxis | undefined
  /** Whether a value, or an expression, differs between lanes. */
  varies(id: ValueId): boolean
  exprVaries(e: Expr): boolean
  /** The innermost frame an expression depends on. */
  exprDepth(e: Expr): number
  /** A value that is the same in all lanes, as one element. */
  element(id: ValueId): Reg
  /** Four lanes of a value in copy `j`. */
  lanes(id: ValueId, j: number): Reg
  paramOf(name: string): KernelParam
  /** Address of a parameter. */
  baseOf(name: string): Register
}
