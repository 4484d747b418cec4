/**
 * Chains whose tiles several kernels need. Where products sum over values that are themselves made of products and larger than what they
 * give (weights and their adjoints in the gradients of an attention), storing those is the alternative to making them in every kernel that needs
 * them. So for all such products that share values one trial is made: each of them with what it sums over, made from products on; what else
 * those values were folded into, as kernels of their own or with one of the products; and products that share what they sum over
 * together. It replaces the kernels that are there if it is modelled faster.
 */
import type { Node } from '../../graph/node.ts'
import { bytesOf, dataInputs, type Region } from '../body/region.ts'
import type { Made } from '../cost/candidateMemo.ts'
import { type Refused, refuse } from '../refusal.ts'
import type { Group, Groups } from './groups.ts'
import { behindProduct, byMember } from './pieces.ts'
import type { Planner } from './planner.ts'
import { isFold, isProduct, related, type Sum, sumsIn, Tiles } from './tileSums.ts'

/** Values of many bytes that stand in memory must save a share of the time: others could use it. */
const [manyBytes, worthMemory] = [2 ** 26, 0.05]

/** A kernel of the trial, and the groups that it stands for. */
interface Part {
  readonly region: Region
  readonly made: Made
  readonly of: ReadonlySet<Group>
}

/** Tries what shares tiles; tells the numbers of the groups that came of it. */
export function fuseTiles(planner: Planner, clusters: readonly ReadonlySet<Node>[]): void {
  const { chains, vectorChains } = planner.target
  if ((chains === undefined && vectorChains === undefined) || planner.mode === 'strict') return
  const clusterOf = byMember(clusters)
  const fresh: number[] = []
  for (const { size, sums } of sumsIn(planner))
    for (const some of related(sums)) {
      // Sums whose values nobody else needs are chains of two products already, or none.
      if (some.some((s) => !planner.groups.all.has(s.group.id))) continue
      fresh.push(...tryTiles(planner, some, new Tiles(size), clusterOf))
    }
  if (fresh.length > 0) planner.mergeEdges(fresh.filter((id) => planner.groups.all.has(id)))
}

function tryTiles(
  planner: Planner,
  sums: readonly Sum[],
  tiles: Tiles,
  clusterOf: ReadonlyMap<Node, ReadonlySet<Node>>,
): readonly number[] {
  const { groups } = planner
  const made = new Set(sums.flatMap((s) => [...s.tiles]))
  const lasts = new Set(sums.map((s) => s.group))
  const involved = new Set<Group>(lasts)
  for (const n of made) {
    const home = groups.homeOf(n)
    if (home !== undefined) involved.add(home)
  }
  const stored = [...involved].some((g) => g.outputs.some((n) => made.has(n)))
  if (!stored || [...involved].some((g) => g.made === undefined || g.boundary !== undefined)) return []
  const parts = partsOf(planner, involved, sums, tiles, clusterOf)
  const last = sums[0]?.group
  // Chains that store what others sum over too are all that is involved.
  const first = [...involved].find((g) => !lasts.has(g)) ?? [...lasts].find((g) => g !== last)
  if (first === undefined || last === undefined) return []
  if ('ok' in parts) {
    planner.refuse(first, last, parts, undefined, true)
    return []
  }
  const joined = joinParts(planner, involved, parts)
  const seconds = (of: Iterable<{ readonly made: Made | undefined }>): number =>
    [...of].reduce((t, { made }) => t + (made?.cost.seconds ?? 0), 0)
  const loss = seconds(joined) - seconds(involved)
  const spares = planner.sparesUnstorable(
    [...involved].flatMap((g) => g.outputs),
    joined.flatMap((p) => p.region.outputs),
  )
  const standing = [...involved].flatMap((g) => g.outputs.filter((n) => made.has(n)))
  const least = standing.some((n) => bytesOf(n) >= manyBytes) ? worthMemory * seconds(involved) : 0
  if (loss >= least && !spares) {
    const why = refuse(
      'recompute-cost',
      'making the values again in every product over them costs more than storing them',
    )
    planner.refuse(first, last, why, loss, true)
    return []
  }
  for (const n of made) {
    const consumers = joined.filter((p) => p.region.members.has(n)).length
    const savedBytes = groups.homeOf(n)?.outputs.includes(n) === true ? bytesOf(n) * (1 + consumers) : 0
    if (savedBytes > 0) planner.recomputed.push({ node: n, consumers, savedBytes })
  }
  return groups
    .replace(
      [...involved],
      joined.map(({ region, made }) => ({ members: region.members, made, outputs: region.outputs })),
    )
    .map((g) => g.id)
}

/**
 * The kernels of a trial before any are joined: one for each product over tiles, without its end where that is no kernel with it, and those of what else is
 * needed of the groups.
 */
function partsOf(
  planner: Planner,
  involved: ReadonlySet<Group>,
  sums: readonly Sum[],
  tiles: Tiles,
  clusterOf: ReadonlyMap<Node, ReadonlySet<Node>>,
): Part[] | Refused {
  const { groups, judge } = planner
  /** Members, with all that they need of the groups and is to be made again, or stands in the same group, but for what they read. */
  const withTiles = (start: Iterable<Node>, own: (n: Node) => boolean, read?: ReadonlySet<Node>): Set<Node> => {
    const members = new Set(start)
    const stack = [...members]
    for (let n = stack.pop(); n !== undefined; n = stack.pop())
      for (const x of dataInputs(n)) {
        if (members.has(x) || read?.has(x) === true) continue
        const home = groups.homeOf(x)
        const again = own(x) ? [x] : home !== undefined && involved.has(home) ? (tiles.of(x) ?? []) : []
        for (const m of again)
          if (!members.has(m)) {
            members.add(m)
            stack.push(m)
          }
      }
    return members
  }
  const regions: { readonly members: Set<Node>; readonly of: Group }[] = []
  for (const { group, tiles: own } of sums)
    regions.push({ members: withTiles([...group.members, ...own], (n) => group.members.has(n)), of: group })
  const lasts = new Set(sums.map((s) => s.group))
  // What others read of the groups, until nothing more is asked for.
  const asked = new Set<Node>()
  const isInside = new Set([...involved].map((g) => g.id))
  for (const g of involved)
    for (const n of g.outputs)
      if (planner.demanded.has(n) || groups.usersOf(n).some((u) => !isInside.has(u))) asked.add(n)
  const ask = (members: ReadonlySet<Node>): void => {
    for (const m of members)
      for (const x of dataInputs(m)) {
        const home = groups.homeOf(x)
        if (!members.has(x) && home !== undefined && involved.has(home)) asked.add(x)
      }
  }
  for (const r of regions) ask(r.members)
  const made = new Map<Group, Set<Node>>()
  for (let before = -1; before !== asked.size; ) {
    before = asked.size
    for (const g of involved) {
      const own = [...asked].filter((n) => groups.homeOf(n) === g)
      if (lasts.has(g) || own.length === 0) continue
      const members = withTiles(own, (n) => g.members.has(n))
      made.set(g, members)
      ask(members)
    }
  }
  const parts: Part[] = []
  const judged = (members: ReadonlySet<Node>, outputs: readonly Node[], of: Group): Refused | undefined => {
    const region = { members, outputs }
    if (planner.mixes(members)) return refuse('computed-again', 'the forward pass computes what would be made again')
    const outcome = judge.of(region)
    if (!outcome.ok) return outcome
    parts.push({ region, made: outcome, of: new Set([of]) })
    return undefined
  }
  /** Values that products sum over and others read, no kernels by themselves: one of those products stores them. */
  const ofSteps = new Map<Node, Refused>()
  const isOfSteps = (n: Node): boolean =>
    sums.some((s) => s.tiles.has(n)) && [...(tiles.of(n) ?? [])].some((m) => isProduct(m))
  /** The nearest of those below a value of a group, or the value itself. */
  const nearestSteps = (n: Node, { members }: Group): Set<Node> => {
    const out = new Set<Node>()
    const seen = new Set([n])
    for (const x of seen)
      if (isOfSteps(x)) out.add(x)
      else if (members.has(x)) for (const y of dataInputs(x)) seen.add(y)
    return out
  }
  for (const [g, members] of made) {
    const own = new Set([...asked].filter((n) => groups.homeOf(n) === g))
    const refused = judged(members, [...own], g)
    if (refused === undefined) continue
    const alone = (n: Node, kept: ReadonlySet<Node>, read?: ReadonlySet<Node>): Set<Node> =>
      withTiles([n], (x) => g.members.has(x) && !kept.has(x), read)
    /** Folds along rows and along columns: each with the product that goes its way; where that is no kernel, apart from what follows it. */
    const byFolds = (n: Node): Refused | undefined => {
      const whole = alone(n, own)
      if (own.size > 1 && judged(whole, [n], g) === undefined) return undefined
      const folds = [...whole].filter((m) => isFold(m) && m.inputs.some((x) => tiles.of(x) !== undefined))
      const kept = new Set([...own, ...folds])
      if (kept.size === own.size) return refused
      for (const m of new Set([n, ...folds])) {
        const still = judged(alone(m, kept), [m], g)
        if (still !== undefined) return still
      }
      return undefined
    }
    for (const n of own) {
      const before = parts.length
      const still = byFolds(n)
      if (still === undefined) continue
      parts.length = before
      const steps = nearestSteps(n, g)
      for (const x of steps) ofSteps.set(x, still)
      const behind = steps.has(n) ? undefined : steps.size === 0 ? still : judged(alone(n, own, steps), [n], g)
      if (behind !== undefined) return behind
    }
  }
  for (const { members, of } of regions) {
    // What it stored for products that make it again is stored no more.
    const outputs = of.outputs.filter((n) => asked.has(n) || !isOfSteps(n))
    const whole = judged(members, outputs, of)
    if (whole === undefined) continue
    const behind = behindProduct(groups, of, clusterOf)
    if (behind.length === 0) return whole
    const [product, ...pieces] = groups.joinedBefore([of], behind)
    if (product === undefined) return whole
    const end = new Set([...of.members].filter((n) => !product.members.has(n)))
    const front: Region = { members: new Set([...members].filter((n) => !end.has(n))), outputs: product.outputs }
    for (const part of [front, ...pieces]) {
      const refused = judged(part.members, part.outputs, of)
      if (refused !== undefined) return refused
    }
  }
  const values = new Set(ofSteps.keys())
  for (const [n, refused] of ofSteps) {
    const [cheapest] = parts
      .flatMap((part): { readonly part: Part; readonly storing: Part; readonly more: number }[] => {
        const { members, outputs } = part.region
        if (!members.has(n) || outputs.includes(n) || needsBefore(groups, members, values)) return []
        const region = { members, outputs: [...outputs, n] }
        const storing = judge.of(region)
        if (!storing.ok) return []
        const more = storing.cost.seconds - part.made.cost.seconds
        return [{ part, storing: { ...part, region, made: storing }, more }]
      })
      .sort((x, y) => x.more - y.more)
    if (cheapest === undefined) return refused
    parts.splice(parts.indexOf(cheapest.part), 1, cheapest.storing)
  }
  return parts
}

/** Whether something that a kernel of these members reads needs one of some values: then it cannot be what stores them. */
function needsBefore(groups: Groups, members: ReadonlySet<Node>, values: ReadonlySet<Node>): boolean {
  const ranks = [...values].map((n) => groups.links.rankOf(groups.homeOf(n)?.id ?? -1) ?? Number.NEGATIVE_INFINITY)
  const [first, least] = [Math.min(...[...values].map((n) => n.id)), Math.min(...ranks)]
  const seen = new Set<Node>()
  const stack = [...readBy(members)]
  for (let x = stack.pop(); x !== undefined; x = stack.pop()) {
    if (seen.has(x)) continue
    seen.add(x)
    const home = groups.homeOf(x)
    // Operands have lower numbers than what is made of them, and what a group needs a lower rank.
    const below = x.id > first ? dataInputs(x) : []
    const beside = home !== undefined && (groups.links.rankOf(home.id) ?? least) > least ? home.inputs : []
    for (const y of [...below, ...beside]) {
      if (values.has(y)) return true
      stack.push(y)
    }
  }
  return false
}

/** What a kernel of these members reads. */
const readBy = (members: ReadonlySet<Node>): Set<Node> =>
  new Set([...members].flatMap((m) => dataInputs(m).filter((x) => !members.has(x))))

/** A value that a kernel needs, and whether it reads it itself. */
interface Needed {
  readonly value: Node
  readonly direct: boolean
}

/** Joins kernels of a trial that are one kernel which takes less time than both. */
function joinParts(planner: Planner, involved: ReadonlySet<Group>, parts: readonly Part[]): readonly Part[] {
  const { groups, judge } = planner
  const isInside = new Set([...involved].map((g) => g.id))
  /** Groups before this place lead to none of the trial that stands behind them. */
  const least = Math.min(...[...isInside].map((id) => groups.links.rankOf(id) ?? 0))
  let all = [...parts]
  /** Which kernel of the trial stores a value. */
  let makers = new Map<Node, Part>()
  const join = (p: Part, q: Part): Part | undefined => {
    if (![...p.region.members].some((n) => isProduct(n) && q.region.members.has(n))) return undefined
    const of = new Set([...p.of, ...q.of])
    if (leads(p, q) || leads(q, p)) return undefined
    const members = new Set([...p.region.members, ...q.region.members])
    const isAsked = (n: Node): boolean =>
      planner.demanded.has(n) ||
      groups.usersOf(n).some((u) => !isInside.has(u)) ||
      all.some((r) => r !== p && r !== q && readOf(r).has(n))
    const outputs = [...p.region.outputs, ...q.region.outputs].filter(isAsked)
    if (planner.mixes(members)) return undefined
    const made = judge.of({ members, outputs })
    if (!made.ok || made.cost.seconds >= p.made.cost.seconds + q.made.cost.seconds) return undefined
    return { region: { members, outputs }, made, of }
  }
  const read = new Map<Part, ReadonlySet<Node>>()
  const readOf = (p: Part): ReadonlySet<Node> => {
    const have = read.get(p) ?? readBy(p.region.members)
    read.set(p, have)
    return have
  }
  /** Values of the trial's groups that a kernel needs, and whether it reads them itself. */
  const needed = new Map<Part, readonly Needed[]>()
  const neededBy = (p: Part): readonly Needed[] => {
    const have = needed.get(p)
    if (have !== undefined) return have
    const out: Needed[] = []
    const seen = new Set<Node>()
    const stack: Needed[] = [...readOf(p)].map((value) => ({ value, direct: true }))
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      const home = groups.homeOf(at.value)
      if (home === undefined) continue
      if (involved.has(home)) out.push(at)
      else if ((groups.links.rankOf(home.id) ?? least) >= least)
        for (const x of home.inputs)
          if (!seen.has(x)) {
            seen.add(x)
            stack.push({ value: x, direct: false })
          }
    }
    needed.set(p, out)
    return out
  }
  /** Kernels of the trial that one needs, and whether through a group beside them. */
  const needs = (p: Part): { readonly part: Part; readonly direct: boolean }[] =>
    neededBy(p).flatMap(({ value, direct }) => {
      const part = makers.get(value)
      return part === undefined || part === p ? [] : [{ part, direct }]
    })
  /** Whether something else stands between two kernels of the trial. */
  const leads = (from: Part, to: Part): boolean => {
    const seen = new Set<Part>()
    const stack = [to]
    for (let r = stack.pop(); r !== undefined; r = stack.pop())
      for (const { part, direct } of needs(r)) {
        if (part === from) {
          if (r !== to || !direct) return true
        } else if (!seen.has(part)) {
          seen.add(part)
          stack.push(part)
        }
      }
    return false
  }
  const gainOf = (p: Part, q: Part, both: Part): number =>
    p.made.cost.seconds + q.made.cost.seconds - both.made.cost.seconds
  for (;;) {
    makers = new Map(all.flatMap((p) => p.region.outputs.map((n): [Node, Part] => [n, p])))
    const pairs = all.flatMap((p, i) =>
      all.slice(i + 1).flatMap((q) => {
        const both = join(p, q)
        return both === undefined ? [] : [{ p, q, both, gain: gainOf(p, q, both) }]
      }),
    )
    const [best] = pairs.sort((x, y) => y.gain - x.gain)
    if (best === undefined) return all
    all = [...all.filter((x) => x !== best.p && x !== best.q), best.both]
  }
}
