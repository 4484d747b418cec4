/**
 * Growth of a kernel by groups that are alike: of what merges one by one with the same effect ever more is merged at once. One by one
 * a kernel of n would be built n times.
 */
import type { Machine } from '../target/machine.ts'
import type { Group } from './groups.ts'
import { buffersOf } from './memory/bindings.ts'

/** A merge that happened: what each of the groups added did to the kernel. */
export interface Growth {
  /** One of the groups that were added. */
  readonly like: Group
  readonly statements: number
  readonly buffers: number
  /** Modelled seconds that each merge gained. */
  readonly gain: number
  /** Groups to add at once next, if they are alike. */
  readonly next: number
}

/** Whether two groups are as large and as dear, whatever they compute. */
export function isLike(a: Group, b: Group): boolean {
  const [p, q] = [a.made, b.made]
  return (
    p !== undefined &&
    q !== undefined &&
    a.members.size === b.members.size &&
    a.outputs.length === b.outputs.length &&
    p.roles.kind === q.roles.kind &&
    p.body.lets.length === q.body.lets.length &&
    p.body.loads.size === q.body.loads.size &&
    p.cost.seconds === q.cost.seconds &&
    p.cost.compute === q.cost.compute &&
    p.cost.bytesRead === q.cost.bytesRead &&
    p.cost.bytesWritten === q.cost.bytesWritten
  )
}

/** Buffers that a group's kernel binds, results included. */
export const boundBy = (g: Group): number => (g.made === undefined ? 0 : buffersOf(g.made.body))

const statementsOf = (g: Group): number => g.made?.body.lets.length ?? 0
const secondsOf = (g: Group): number => g.made?.cost.seconds ?? 0

/** What adding groups that are alike to `a` did to it. */
export function growthOf(a: Group, added: readonly [Group, ...Group[]], merged: Group): Growth {
  const each = 1 / added.length
  return {
    like: added[0],
    statements: (statementsOf(merged) - statementsOf(a)) * each,
    buffers: (boundBy(merged) - boundBy(a)) * each,
    gain: (added.reduce((t, g) => t + secondsOf(g), secondsOf(a)) - secondsOf(merged)) * each,
    next: 4 * added.length,
  }
}

/** With how many groups like `first` a kernel that grew may be tried at once: as many as it has room for. */
export function mostAtOnce(growth: Growth | undefined, a: Group, first: Group, target: Machine): number {
  if (growth === undefined || !isLike(growth.like, first)) return 1
  const { statements, buffers, next } = growth
  const room = (left: number, each: number): number => (each > 0 ? Math.floor(left / each) : Number.POSITIVE_INFINITY)
  return Math.min(
    next,
    room(target.maxStatements - statementsOf(a), statements),
    room(target.maxBuffers - boundBy(a), buffers),
  )
}
