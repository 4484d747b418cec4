/** Stored values computed again instead, in every kernel that reads them, where that is modelled faster. */
import type { Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { isFloat } from '../../types/dtype.ts'
import { bytesOf, dataInputs, type Region } from '../body/region.ts'
import { leastSecondsWith, leastSecondsWithout, tooLarge } from '../cost/bounds.ts'
import { isCertainLoss, lossOf } from '../cost/loss.ts'
import { type Refused, refuse } from '../refusal.ts'
import type { Candidates } from './candidates.ts'
import { without } from './clusters.ts'
import type { FreshGroup, Group } from './groups.ts'
import type { Planner, Told } from './planner.ts'

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
  const leastOf = (c: Group): number => leastSecondsWith(c, o, chain, target)
  const restLeast = rest.members.size === g.members.size ? leastSecondsWithout(g, o, target) : 0
  const least = restLeast + consumers.reduce((t, c) => t + leastOf(c), 0)
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
  const parts = [
    ...(rest.members.size > 0 ? [{ region: rest, reader: undefined, least: restLeast }] : []),
    ...consumers.map((c, i) => ({ region: regions[i] ?? c, reader: c, least: leastOf(c) })),
  ]
  const loses = (seconds: number): boolean => !must && isCertainLoss(seconds, before, judge.isPriced)
  const found = judged(judge, parts, loses)
  if (found === undefined) {
    if (several) planner.refuseUntold(g, first, (judge) => toldOf(judged(judge, parts), [g, ...consumers]))
    return false
  }
  if (!('fresh' in found)) {
    if (found.reader !== undefined) planner.refuse(g, found.reader, found.refused, undefined)
    return false
  }
  const { fresh } = found
  const loss = lossIn(fresh, [g, ...consumers])
  if (loss >= 0 && !must) {
    if (several) planner.refuse(g, first, whyNot(fresh, [g, ...consumers]), loss)
    return false
  }
  planner.recomputed.push({ node: o, consumers: consumers.length, savedBytes: bytesOf(o) * (1 + consumers.length) })
  groups.replace([g, ...consumers], fresh)
  return true
}

/** What a kernel would be of once a value is computed again, and its least seconds: one that reads the value, or what stays of the one that stores it. */
interface Part {
  readonly region: Region
  readonly reader: Group | undefined
  readonly least: number
}

/** Kernels, or the first of those that are none. */
type Judged =
  | { readonly fresh: readonly FreshGroup[] }
  | { readonly refused: Refused; readonly reader: Group | undefined }

/** The kernels of some parts. Undefined: it `loses`, whatever the others cost, with what is remembered, or with what has been judged so far. */
function judged(judge: Candidates, parts: readonly Part[]): Judged
function judged(judge: Candidates, parts: readonly Part[], loses: (seconds: number) => boolean): Judged | undefined
function judged(
  judge: Candidates,
  parts: readonly Part[],
  loses: (seconds: number) => boolean = () => false,
): Judged | undefined {
  const known = parts.map((p) => judge.known(p.region))
  let seconds = parts.reduce((t, { least }, i) => {
    const have = known[i]
    return t + (have?.ok === true ? have.cost.seconds : least)
  }, 0)
  if (loses(seconds)) return undefined
  const fresh: FreshGroup[] = []
  for (const [i, { region, reader, least }] of parts.entries()) {
    const have = known[i]
    const made = have?.ok === true ? have : judge.of(region)
    if (!made.ok) return { refused: made, reader }
    fresh.push({ members: region.members, made })
    if (made === have) continue
    seconds += made.cost.seconds - least
    if (fresh.length < parts.length && loses(seconds)) return undefined
  }
  return { fresh }
}

const lossIn = (fresh: readonly FreshGroup[], before: readonly Group[]): number =>
  lossOf(
    fresh.map((f) => f.made),
    before.map((x) => x.made),
  )

/** Why kernels that compute a value again are not taken. */
function whyNot(fresh: readonly FreshGroup[], before: readonly Group[]): Refused {
  const compute = before.reduce((t, x) => t + (x.made?.cost.compute ?? 0), 0)
  const dearer = fresh.reduce((t, f) => t + f.made.cost.compute, 0) > 1.01 * compute
  return dearer ? dearAgain(before.length - 1) : refuse('no-gain', 'nothing is saved by computing it again')
}

function toldOf(found: Judged, before: readonly Group[]): Told | undefined {
  if ('fresh' in found) return { why: whyNot(found.fresh, before), loss: lossIn(found.fresh, before) }
  return found.reader === undefined ? undefined : { why: found.refused, loss: undefined }
}

/** What a value is the exact conversion of, to more bytes. */
function narrowerOf(o: Node): Node | undefined {
  const [x] = o.inputs
  if (o.op !== 'cast' || x === undefined || bytesOf(x) >= bytesOf(o)) return undefined
  return isFloat(x.dtype) && isFloat(o.dtype) ? x : undefined
}
