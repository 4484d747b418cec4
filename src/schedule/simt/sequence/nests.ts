/** Steps that wait to be put in order, and which of them share a loop nest. */
import type { LetStmt } from '../../../kernel/ir.ts'
import type { BlockWork, PointStep, Token } from './sequence.ts'

/** Work that stands alone; what it does is settled when its turn comes, from what is held then. */
export interface PendingBlock {
  readonly kind: 'block'
  readonly make: () => BlockWork
  readonly needs: readonly Token[]
  readonly after: readonly Token[]
  readonly rank: number
}

/** The merging of the threads' parts of a fold: those that are ready share their barriers. */
export interface PendingClose {
  readonly kind: 'close'
  readonly let: LetStmt
  readonly needs: readonly Token[]
  readonly after: readonly Token[]
  readonly rank: number
  /** It waits for a product in the background: alone, and in the order in which those began. */
  readonly inBackground: boolean
}

export type Pending = PointStep | PendingBlock | PendingClose

/** What steps of one nest have in common; undefined for steps that stand alone. */
export const keyOf = (s: Pending): string | undefined =>
  s.kind === 'point' ? `${s.like ?? ''}|${s.loops.map((l) => `${l.axis}.${l.over}`).join(' ')}` : undefined
