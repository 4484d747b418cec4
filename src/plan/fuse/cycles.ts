/** Merges refused because a third kernel stands between: only those that would have gained without it tell a user anything. */

import { describeNode } from '../body/region.ts'
import { tooLarge } from '../cost/bounds.ts'
import type { RefusedMerge } from '../plan.ts'
import { groupsByNode } from './groups.ts'
import type { Planner } from './planner.ts'

/** Merges of one kernel that are judged: in a long chain whose kernels read one tensor all of them stand between others. */
const mostOfOne = 32

/**
 * Keeps refusals as `cycle` whose merge, as groups stand when planning ends, is a kernel and modelled faster, and names what stands between:
 * of the first so many of each kernel.
 */
export function keepGainingCycles(planner: Planner): void {
  const { groups, judge, refused, target } = planner
  const { all, links } = groups
  const cycles = [...refused].filter(([, r]) => r.code === 'cycle')
  if (cycles.length === 0) return
  const holders = groupsByNode(all.values(), (g) => g.members)
  const told = new Set<string>()
  const trials = new Map<number, number>()
  const judged = ({ from, to, detail }: RefusedMerge): RefusedMerge | undefined => {
    const [a, b] = [holders.get(from)?.[0], holders.get(to)?.[0]]
    if (a === undefined || b === undefined || a === b) return undefined
    const pair = `${Math.min(a.id, b.id)},${Math.max(a.id, b.id)}`
    if (told.has(pair)) return undefined
    told.add(pair)
    if (a.made === undefined || b.made === undefined) return undefined
    const before = trials.get(a.id) ?? 0
    if (before === mostOfOne) return undefined
    trials.set(a.id, before + 1)
    const between = all.get(links.between(a.id, b.id) ?? links.between(b.id, a.id) ?? -1)
    if (between === undefined) return undefined
    const region = groups.joined(a, b)
    const made = tooLarge(a, b, region, target) ?? judge.of(region)
    if (!made.ok) return undefined
    const loss = made.cost.seconds - a.made.cost.seconds - b.made.cost.seconds
    if (loss >= 0) return undefined
    const [node] = between.members
    const what =
      node === undefined ? detail : `${describeNode(node)} stands between the two: it reads one and the other reads it`
    return { from, to, code: 'cycle', detail: what, loss }
  }
  for (const [key, r] of cycles) {
    const kept = judged(r)
    if (kept === undefined) refused.delete(key)
    else refused.set(key, kept)
  }
}
