/** Stored values computed again instead, in every kernel that reads them, where that is modelled faster. */
import type { Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { isFloat } from '../../types/dtype.ts'
import { bytesOf, dataInputs } from '../body/region.ts'
import { leastSecondsWith, leastSecondsWithout, tooLarge } from '../cost/bounds.ts'
import { lossOf } from '../cost/loss.ts'
import { type Refused, refuse } from '../refusal.ts'
import { without } from './clusters.ts'
import type { FreshGroup, Group } from './groups.ts'
import type { Planner } from './planner.ts'

const dearAgain = (kernels: number): Refused =>
  refuse('recompute-cost', `computing it again in ${kernels} kernels costs more than storing it`)

/** Computes stored values again in all their consumers where that gains; tells whether any were. */
export function recomputeCheap(planner: Planner): boolean {
  const { groups, demanded } = planner
  let changed = false
  for (const o of [...groups.all.values()].flatMap((g) => g.outputs)) {
    // Groups are others once one of their results is computed again.
    const g = demanded.has(o) ? undefined : groups.homeOf(o)
    if (g === undefined || g.boundary !== undefined || !g.outputs.includes(o)) continue
    changed = waysAgain(planner, g, o).some((way) => tryRecompute(planner, g, o, way)) || changed
  }
  return changed
}

/** How consumers compute a value again, element by element. */
interface Way {
  /** What computes it, itself included. */
  readonly chain: ReadonlySet<Node>
  /** What that stops at: other members of the group, which stand in memory then. */
  readonly kept: readonly Node[]
}

/**
 * The ways to compute a value again from what takes less memory: from what its group stores anyway and what is converted to more bytes, and from what
 * the group reads.
 */
function waysAgain({ groups }: Planner, g: Group, o: Node): Way[] {
  if (!isOfElements(o)) return []
  const stored = new Set(g.outputs)
  /** Folds and products stand in memory, whatever it is computed from. */
  const stopping = (isKept: (x: Node, user: Node) => boolean): Way => {
    const [chain, kept, stack] = [new Set([o]), new Set<Node>(), [o]]
    for (let n = stack.pop(); n !== undefined; n = stack.pop())
      for (const x of dataInputs(n)) {
        if (!g.members.has(x) || chain.has(x) || kept.has(x)) continue
        if (isKept(x, n) || !isOfElements(x)) kept.add(x)
        else {
          chain.add(x)
          stack.push(x)
        }
      }
    return { chain, kept: [...kept] }
  }
  const near = stopping((x, user) => stored.has(x) || narrowerOf(user) === x)
  const far = stopping(() => false)
  const isLess = ({ kept }: Way): boolean =>
    kept.every((n) => groups.isHome(g, n)) &&
    kept.reduce((t, n) => (stored.has(n) ? t : t + bytesOf(n)), 0) < bytesOf(o)
  return (near.chain.size === far.chain.size ? [far] : [near, far]).filter(isLess)
}

/** Whether elements are computed one by one. */
const isOfElements = (n: Node): boolean => ['elementwise', 'random', 'gather', 'view'].includes(familyOf(n))

/** Computes a value again in all its consumers, one way, where that gains. */
function tryRecompute(planner: Planner, g: Group, o: Node, { chain, kept }: Way): boolean {
  const { groups, judge, target } = planner
  const consumers = groups
    .usersOf(o)
    .flatMap((id) => groups.all.get(id) ?? [])
    .filter((c) => c.id !== g.id)
  const [first] = consumers
  if (first === undefined || consumers.some((c) => c.boundary !== undefined)) return false
  const rest = without(g, [o], kept)
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
