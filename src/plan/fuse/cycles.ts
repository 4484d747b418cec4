/** Merges refused because a third kernel stands between: only those that would have gained without it tell a user anything. */

import { describeNode, type Region } from '../body/region.ts'
import { tooLarge } from '../cost/bounds.ts'
import type { CandidateMemo } from '../cost/candidateMemo.ts'
import { Later } from '../later.ts'
import type { RefusedMerge } from '../plan.ts'
import { Candidates } from './candidates.ts'
import { type Group, groupsByNode } from './groups.ts'
import type { Planner, UntoldMerge } from './planner.ts'

/** Merges of one kernel that are judged: in a long chain whose kernels read one tensor all of them stand between others. */
const mostOfOne = 32

/** A merge that a third kernel prevents, as groups stand when planning ends. */
interface Prevented {
  readonly a: Group
  readonly b: Group
  readonly between: Group
  readonly region: Region
}

/**
 * What planning was refused, found when it is asked for: a report that nobody reads asks for no trials. Of refusals as `cycle` those whose merge, as
 * groups stand now, is a kernel and modelled faster, with what stands between; of the first so many of each kernel. `trials` remember what is tried
 * then: those of planning are not kept for it. The function that it gives adds other refusals, and tells of those that `isApart` holds of.
 */
export function refusedOf(
  planner: Planner,
  trials: CandidateMemo,
): (
  others: readonly RefusedMerge[],
  isApart: (r: Pick<RefusedMerge, 'from' | 'to'>) => boolean,
) => Later<readonly RefusedMerge[]> {
  const { groups, refused, target } = planner
  const judge = new Candidates(target, planner.mode, planner.storable, trials)
  const { all, links } = groups
  const isCycle = (r: RefusedMerge | UntoldMerge): r is RefusedMerge => 'code' in r && r.code === 'cycle'
  const entries = [...refused.values()]
  const prevented = new Map<RefusedMerge, Prevented>()
  const holders = entries.some(isCycle) ? groupsByNode(all.values(), (g) => g.members) : undefined
  const seen = new Set<string>()
  const judged = new Map<number, number>()
  for (const r of entries.filter(isCycle)) {
    const [a, b] = [holders?.get(r.from)?.[0], holders?.get(r.to)?.[0]]
    if (a === undefined || b === undefined || a === b) continue
    const pair = `${Math.min(a.id, b.id)},${Math.max(a.id, b.id)}`
    if (seen.has(pair)) continue
    seen.add(pair)
    const before = judged.get(a.id) ?? 0
    if (a.made === undefined || b.made === undefined || before === mostOfOne) continue
    judged.set(a.id, before + 1)
    const between = all.get(links.between(a.id, b.id) ?? links.between(b.id, a.id) ?? -1)
    if (between !== undefined) prevented.set(r, { a, b, between, region: groups.joined(a, b) })
  }
  const gaining = (r: RefusedMerge): readonly RefusedMerge[] => {
    const p = prevented.get(r)
    if (p?.a.made === undefined || p.b.made === undefined) return []
    const made = tooLarge(p.a, p.b, p.region, target) ?? judge.of(p.region)
    if (!made.ok) return []
    const loss = made.cost.seconds - p.a.made.cost.seconds - p.b.made.cost.seconds
    if (loss >= 0) return []
    const [node] = p.between.members
    const what = 'stands between the two: it reads one and the other reads it'
    return [{ ...r, detail: node === undefined ? r.detail : `${describeNode(node)} ${what}`, loss }]
  }
  const told = (r: RefusedMerge | UntoldMerge): readonly RefusedMerge[] => {
    if (isCycle(r)) return gaining(r)
    if (!('tell' in r)) return [r]
    const found = r.tell(judge)
    if (found === undefined) return []
    const { code, detail } = found.why
    return [{ from: r.from, to: r.to, code, detail, loss: found.loss }]
  }
  return (others, isApart) => {
    const kept = [...entries, ...others].filter(isApart)
    return new Later(() => kept.flatMap(told))
  }
}
