/** What views and folds, which evaluate their operands in turn, see of the evaluation of a region (instances.ts). */

import type { Expr } from '../../affine/expr.ts'
import type { Predicate } from '../../affine/predicate.ts'
import type { Node } from '../../graph/node.ts'
import type { NumericsMode, ValueId } from '../../kernel/ir.ts'
import type { Region } from './region.ts'
import type { Tiles } from './tiles.ts'

/** A node at an index map. Where the mask does not hold the value is anything. */
export interface Instance {
  readonly key: string
  readonly index: readonly Expr[]
  readonly mask: Predicate
  readonly value: ValueId
}

export interface Evaluation {
  readonly region: Region
  readonly mode: NumericsMode
  readonly tiles: Tiles
  /** Coordinates behind reshapes are those of places in bounds: masks stand for the others. */
  readonly isInside: boolean
  /** Whether a branch was met that a result bound in pieces would decide. */
  branches: boolean
  /** The value of a node at coordinates, where `mask` holds (elsewhere anything, but memory is not touched). */
  value(node: Node, index: readonly Expr[], mask: Predicate): ValueId
  /** Instances of a node so far. */
  instancesOf(node: Node): readonly Instance[]
  /** Instances of a node, else of the elementwise operands of its shape that it would be computed from. */
  instancesNear(node: Node): readonly Instance[]
}
