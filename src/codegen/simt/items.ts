/** Work of a statement list, as the lowering passes it into loops. */
import type { LetStmt, Stmt, StoreStmt, ValueId } from '../../kernel/ir.ts'
import type { Accumulator } from './accumulator.ts'
import type { Block } from './ir.ts'
import type { Carried } from './moments.ts'
import type { Scope, SharedTile } from './scope.ts'
import type { Stream } from './streaming.ts'

export type Item =
  | { readonly kind: 'stmt'; readonly stmt: Stmt }
  /** A fold's part inside a loop over chunks. */
  | { readonly kind: 'accumulate'; readonly acc: Accumulator }
  /** The same of a fold that is the anchor of streaming sums: the chunk's, and the sums moved to it. */
  | { readonly kind: 'stream'; readonly stream: Stream }
  /** The sums that some of those carry beside them, which take a chunk in when the others have moved. */
  | { readonly kind: 'moments'; readonly carried: Carried; readonly moved: readonly ValueId[] }
  /** The writing of a staged tile. */
  | { readonly kind: 'fill'; readonly let: LetStmt; readonly to: SharedTile }
  /** A store whose points may meet, under a layout that walks them in order. */
  | { readonly kind: 'ordered'; readonly store: StoreStmt }

/** Emits a statement list; `exports` are values needed after it. */
export type LowerItems = (scope: Scope, items: readonly Item[], exports: ReadonlySet<ValueId>, out: Block) => void

export const itemsOf = (stmts: readonly Stmt[]): Item[] => stmts.map((stmt) => ({ kind: 'stmt', stmt }))
