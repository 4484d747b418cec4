/** Stored values computed again instead, in every kernel that reads them, where that is modelled faster. */
import type { Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { isFloat } from '../../types/dtype.ts'
import { bytesOf } from '../body/region.ts'
import { leastSecondsWith, leastSecondsWithout, tooLarge } from '../cost/bounds.ts'
import { lossOf } from '../cost/loss.ts'
import { type Refused, refuse } from '../refusal.ts'
import { ancestorsWithin, without } from './clusters.ts'
import type { FreshGroup, Group } from './groups.ts'
import type { Planner } from './planner.ts'

const dearAgain = (kernels: number): Refused =>
  refuse('recompute-cost', `computing it again in ${kernels} kernels costs more than storing it`)

/** Computes stored values again in all their consumers where that gains; tells whether any were. */
export function recomputeCheap(planner: Planner): boolean {
  const { all } = planner.groups
  let changed = false
  for (const g of [...all.values()]) {
    for (const o of [...g.outputs]) {
      if (!all.has(g.id) || g.boundary !== undefined || planner.demanded.has(o)) continue
      changed = tryNarrower(planner, g, o) || tryRecompute(planner, g, o) || changed
    }
  }
  return changed
}

function tryRecompute(planner: Planner, g: Group, o: Node): boolean {
  const { groups, judge, target } = planner
  const consumers = groups
    .usersOf(o)
    .flatMap((id) => groups.all.get(id) ?? [])
    .filter((c) => c.id !== g.id)
  const [first] = consumers
  if (first === undefined || consumers.some((c) => c.boundary !== undefined)) return false
  const chain = ancestorsWithin(o, g.members)
  for (const n of chain) {
    const f = familyOf(n)
    if (f !== 'elementwise' && f !== 'random' && f !== 'gather' && f !== 'view') return false
  }
  const rest = without(g, [o])
  const before = [g, ...consumers].reduce((t, x) => t + (x.made?.cost.seconds ?? 0), 0)
  const least =
    (rest.members.size === g.members.size ? leastSecondsWithout(g, o, target) : 0) +
    consumers.reduce((t, c) => t + leastSecondsWith(c, o, chain, target), 0)
  // Of a value with one consumer the merge of the two said why.
  const several = consumers.length > 1
  const must = planner.unstorable.has(o)
  if (least >= before && !must) {
    if (several) planner.refuse(g, first, dearAgain(consumers.length), least - before)
    return false
  }
  const regions = consumers.map((c) => ({ members: new Set([...c.members, ...chain]), outputs: c.outputs }))
  // What computes it, as a kernel of its own.
  const alone = chain.size === g.members.size ? undefined : judge.of({ members: chain, outputs: [o] }, true)
  const made = alone === undefined ? g.made : alone.ok ? alone : undefined
  const again = { members: chain, outputs: [o], made }
  for (const [i, c] of consumers.entries()) {
    const region = regions[i]
    const refused = region === undefined ? undefined : tooLarge(again, c, region, target)
    if (refused === undefined) continue
    planner.refuse(g, c, refused, undefined)
    return false
  }
  const fresh: FreshGroup[] = []
  if (rest.members.size > 0) {
    const made = judge.of(rest)
    if (!made.ok) return false
    fresh.push({ members: rest.members, made })
  }
  for (const [i, region] of regions.entries()) {
    const made = judge.of(region)
    if (!made.ok) {
      planner.refuse(g, consumers[i] ?? first, made, undefined)
      return false
    }
    fresh.push({ members: region.members, made })
  }
  const loss = lossOf(
    fresh.map((f) => f.made),
    [g, ...consumers].map((x) => x.made),
  )
  if (loss >= 0 && !must) {
    const compute = [g, ...consumers].reduce((t, x) => t + (x.made?.cost.compute ?? 0), 0)
    const dearer = fresh.reduce((t, f) => t + f.made.cost.compute, 0) > 1.01 * compute
    const why = dearer ? dearAgain(consumers.length) : refuse('no-gain', 'nothing is saved by computing it again')
    if (several) planner.refuse(g, first, why, loss)
    return false
  }
  planner.recomputed.push({ node: o, consumers: consumers.length, savedBytes: bytesOf(o) * (1 + consumers.length) })
  groups.replace([g, ...consumers], fresh)
  return true
}

/** What a value is the exact conversion of, to more bytes. */
function narrowerOf(o: Node): Node | undefined {
  const [x] = o.inputs
  if (o.op !== 'cast' || x === undefined || bytesOf(x) >= bytesOf(o)) return undefined
  return isFloat(x.dtype) && isFloat(o.dtype) ? x : undefined
}

/** Stores what a value is converted from instead of the value, and converts it in all its consumers, where that gains. */
function tryNarrower(planner: Planner, g: Group, o: Node): boolean {
  const { groups, judge } = planner
  const x = narrowerOf(o)
  const ids = groups.usersOf(o)
  if (x === undefined || !g.members.has(x) || ids.length === 0) return false
  const consumers = ids.flatMap((id) => groups.all.get(id) ?? []).filter((c) => c.id !== g.id)
  if (consumers.some((c) => c.boundary !== undefined)) return false
  const others = g.outputs.filter((n) => n !== o)
  const outputs = others.includes(x) ? others : [...others, x]
  const members = new Set(outputs.flatMap((n) => [...ancestorsWithin(n, g.members)]))
  const fresh: FreshGroup[] = []
  for (const region of [
    { members, outputs },
    ...consumers.map((c) => ({ members: new Set([...c.members, o]), outputs: c.outputs })),
  ]) {
    const made = judge.of(region)
    if (!made.ok) return false
    fresh.push({ members: region.members, made })
  }
  const before = [g, ...consumers].map((c) => c.made)
  if (
    lossOf(
      fresh.map((f) => f.made),
      before,
    ) >= 0
  )
    return false
  groups.replace([g, ...consumers], fresh)
  return true
}
