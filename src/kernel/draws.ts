/** How neighbouring elements read random bits: each its own element of them, or two the same one (masks). */
import { dividend, type Expr } from '../index/expr.ts'

export interface Draws {
  /** The position of a reader. */
  readonly position: Expr
  /** Neighbouring positions that read one element. */
  readonly repeat: 1 | 2
}

/** Who reads element `index` of random bits. */
export function drawsAt(index: Expr): Draws {
  const halved = dividend(index, 2)
  return halved === undefined ? { position: index, repeat: 1 } : { position: halved, repeat: 2 }
}
