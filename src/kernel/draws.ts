/** How neighbouring elements read random bits: each its own element of them, or several the same one (masks). */
import { dividend, type Expr } from '../affine/expr.ts'
import { sharedByMask } from '../scalar/threefry.ts'

export interface Draws {
  /** The position of a reader. */
  readonly position: Expr
  /** Neighbouring positions that read one element. */
  readonly repeat: number
}

/** Who reads element `index` of random bits. */
export function drawsAt(index: Expr): Draws {
  const shared = dividend(index, sharedByMask)
  return shared === undefined ? { position: index, repeat: 1 } : { position: shared, repeat: sharedByMask }
}
