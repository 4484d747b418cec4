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

/** The rank of the steps behind the loop of a matrix product, and of the ends of folds. */
export const rankBehind = 2

/** Whether a step stands behind the loop of a matrix product that another is before. */
export const isAfter = (s: PointStep, first: PointStep): boolean => s.rank === rankBehind && first.rank < rankBehind

/**
 * The step to take before a nest is begun: one of fewer loops that others of the nest wait for, or the nest's own first. Cut in two, the nest would hand on in
 * registers what it has for each of its points.
 */
export function aheadOf(first: PointStep, steps: readonly Pending[], isReady: (t: Token) => boolean): PointStep {
  const key = keyOf(first)
  const depth = first.loops.length
  if (depth === 0) return first
  /** What can be had without and with steps of fewer loops, and the first of these that each needs. */
  const [own, ahead] = [new Set<Token>(), new Map<Token, PointStep>()]
  for (const s of steps) {
    if (s.kind !== 'point' || isAfter(s, first)) continue
    const isOwn = keyOf(s) === key
    if (!isOwn && s.loops.length >= depth) continue
    const missing = s.needs.filter((t) => !isReady(t) && !own.has(t))
    if (!missing.every((t) => ahead.has(t))) continue
    const [waits] = missing
    const before = waits === undefined ? undefined : ahead.get(waits)
    if (isOwn && before !== undefined) return before
    if (s.gives === undefined) continue
    if (isOwn) own.add(s.gives)
    else ahead.set(s.gives, before ?? s)
  }
  return first
}
