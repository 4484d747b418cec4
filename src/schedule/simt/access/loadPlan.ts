/** Loads that a thread can make before it needs them, as data. */
import type { LetStmt, TileOp } from '../../../kernel/ir.ts'

export type LoadStmt = LetStmt & { readonly op: Extract<TileOp, { kind: 'load' }> }

/** The axes of blocks that are turned: along `rows` elements lie side by side, along `columns` a thread holds two. */
export interface Turned {
  readonly rows: string
  readonly columns: string
}

/** A load in groups of `n` elements along an axis. */
export interface LoadPlan {
  readonly let: LoadStmt
  readonly axis: string
  readonly n: number
  /** Words of a group, groups of a thread. */
  readonly words: number
  readonly groups: number
  /** Each element stands for so many indices in a row; one unless given. */
  readonly repeats?: number
  /** The group is one element, in a word that others share. */
  readonly isPart?: true
  /** Words are of blocks that are turned among the lanes of a warp when they are read. */
  readonly turned?: Turned
}
