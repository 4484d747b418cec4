/**
 * Growth of a kernel by groups that are alike: of what merges one by one with the same effect ever more is merged at once. One by one
 * a kernel of n would be built n times.
 */
import type { Machine } from '../../target/machine.ts'
import { buffersOf } from '../axes/bindings.ts'
import type { Group } from './groups.ts'

/** A merge that happened: what each of the groups added did to the kernel. */
export interface Growth {
  /** One of the groups that were added. */
  readonly like: Group
  /** The groups before and after. */
  readonly from: Group
  readonly to: Group
  /** How many groups were added. */
  readonly added: number
  /** Modelled seconds that each merge gained. */
  readonly gain: number
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
  const before = added.reduce((t, g) => t + secondsOf(g), secondsOf(a))
  const gain = (before - secondsOf(merged)) / added.length
  return { like: added[0], from: a, to: merged, added: added.length, gain }
}

/** With how many groups like `growth.like` a kernel that grew may be tried at once: as many as it has room for. */
export function mostAtOnce({ from, to, added }: Growth, target: Machine): number {
  // What each of the groups added took of what the target has; more of them take as much each.
  const room = (most: number, taken: (g: Group) => number): number => {
    const now = taken(to)
    const each = (now - taken(from)) / added
    return each > 0 ? Math.floor((most - now) / each) : Number.POSITIVE_INFINITY
  }
  return Math.min(4 * added, room(target.maxStatements, statementsOf), room(target.maxBuffers, boundBy))
}
