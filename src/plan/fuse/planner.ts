/** Merging of groups along the edges between them: each trial builds the kernel of both, and a refusal is kept with its reason. */

import { invariant } from '../../diagnostics/errors.ts'
import type { Node } from '../../graph/node.ts'
import type { NumericsMode } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import { MergeQueue, type Pair } from '../algorithms/mergeQueue.ts'
import { isOfSteps } from '../axes/chain.ts'
import { holdsProducts } from '../axes/roles.ts'
import { bytesOf, dataInputs, type Region } from '../body/region.ts'
import { type StoredForms, storedBytes } from '../body/stored.ts'
import { tooLarge } from '../cost/bounds.ts'
import type { CandidateMemo, Made, Outcome } from '../cost/candidateMemo.ts'
import type { KernelCost } from '../cost/cost.ts'
import { lossOf } from '../cost/loss.ts'
import type { Recomputed, RefusedMerge } from '../plan.ts'
import { type Refused, refuse } from '../refusal.ts'
import { type SeparatePasses, Separation } from '../remat/separatePasses.ts'
import { Candidates } from './candidates.ts'
import { type FreshGroup, type Group, Groups } from './groups.ts'
import { type Growth, growthOf, isLike, mostAtOnce } from './growth.ts'
import { nodePieces } from './pieces.ts'

/** The planning of one graph: what its passes share. */
export class Planner {
  readonly groups: Groups
  readonly target: Machine
  readonly mode: NumericsMode
  readonly judge: Candidates
  /** Nodes that stand in memory whoever uses them. */
  readonly demanded: ReadonlySet<Node>
  /** How nodes stand in memory if they are stored. */
  readonly storable: StoredForms
  /** Nodes beyond what the target's memory reaches: a kernel that does not store one is better at any cost. */
  readonly unstorable: ReadonlySet<Node>
  readonly refused = new Map<string, RefusedMerge | UntoldMerge>()
  readonly recomputed: Recomputed[]
  /** Members of kernels that were taken apart. */
  private readonly doubtful = new Set<Node>()
  private readonly separation: Separation | undefined

  constructor(
    clusters: readonly ReadonlySet<Node>[],
    demanded: ReadonlySet<Node>,
    target: Machine,
    mode: NumericsMode,
    storable: StoredForms,
    recomputed: readonly Recomputed[],
    trials: CandidateMemo,
    apart?: SeparatePasses,
  ) {
    this.target = target
    this.mode = mode
    this.demanded = demanded
    this.storable = storable
    this.unstorable = new Set(
      clusters.flatMap((c) => [...c].filter((n) => storedBytes(n, this.storable) > target.mostBytes.value)),
    )
    this.recomputed = [...recomputed]
    this.separation = apart === undefined ? undefined : new Separation(apart)
    this.judge = new Candidates(target, mode, this.storable, trials)
    this.groups = new Groups(clusters, demanded)
    for (const g of this.groups.all.values()) this.make(g)
  }

  private make(g: Group): void {
    if (g.boundary !== undefined) return
    const made = this.judge.of(g, true)
    invariant(made.ok, `a single node is no kernel: ${made.ok ? '' : made.detail}`)
    g.made = made
  }

  /**
   * Puts parts of a group in its place, and single nodes in that of a part which is no kernel, since what lay between its members is computed elsewhere. What
   * they merge into is decided by schedules.
   */
  split(g: Group, pieces: readonly ReadonlySet<Node>[]): Group[] {
    for (const n of g.members) this.doubtful.add(n)
    const parts = this.groups.replace(
      [g],
      pieces.map((members) => ({ members })),
    )
    const kernels = parts.flatMap((p) =>
      p.boundary !== undefined || this.judge.of(p, true).ok
        ? [p]
        : this.groups.replace(
            [p],
            nodePieces(this.groups, p).map((members) => ({ members })),
          ),
    )
    for (const p of kernels) this.make(p)
    return kernels
  }

  /** Seconds that a kernel takes more than those of the groups that it would replace. */
  private lossOf(made: Made, groups: readonly Group[]): number {
    const inDoubt = this.doubtful.size > 0 && groups.some((g) => [...g.members].some((n) => this.doubtful.has(n)))
    return lossOf(
      [made],
      groups.map((g) => g.made),
      inDoubt,
    )
  }

  /** Keeps why two groups are not one; `loss` in modelled seconds, where a trial told. What is known of them already stays, if `first`. */
  refuse(a: Group, b: Group, why: Refused, loss: number | undefined, first = false): void {
    const ends = endsOf(a, b)
    if (ends === undefined || (first && this.refused.has(ends.key))) return
    const { key, from, to } = ends
    this.refused.set(key, { from, to, code: why.code, detail: why.detail, loss })
  }

  /** Keeps that two groups are not one where only who asks needs to know why: `tell` tries what planning did not need to. */
  refuseUntold(a: Group, b: Group, tell: (judge: Candidates) => Told | undefined): void {
    const ends = endsOf(a, b)
    if (ends !== undefined) this.refused.set(ends.key, { from: ends.from, to: ends.to, tell })
  }

  /** Merges along edges (those of some groups, where told) until none gains, largest saving first. */
  mergeEdges(among: Iterable<number> = this.groups.all.keys()): void {
    const { all, links } = this.groups
    const pairs = (from: number, to: number): Pair[] => {
      const [a, b] = [all.get(from), all.get(to)]
      if (a === undefined || b === undefined) return []
      let saving = 0
      for (const n of a.outputs) if (b.inputs.has(n)) saving += bytesOf(n)
      const epilogue = isProduct(a)
      const [p, q] = [a.members.size, b.members.size]
      return [{ from, to, saving, epilogue, size: p + q, smaller: Math.min(p, q) }]
    }
    const asked = new Set(among)
    const growths = new Map<number, Growth>()
    const queue = new MergeQueue(
      links
        .ids()
        .flatMap((id) => [...links.successors(id)].flatMap((s) => (asked.has(id) || asked.has(s) ? pairs(id, s) : []))),
    )
    for (let pair = queue.pop(); pair !== undefined; pair = queue.pop()) {
      const [a, b] = [all.get(pair.from), all.get(pair.to)]
      if (a === undefined || b === undefined) continue
      const [grown, other] = a.members.size < b.members.size ? [b, a] : [a, b]
      const growth = growths.get(grown.id)
      const chain = this.chainFrom(grown, other, growth)
      const many = growth === undefined ? undefined : this.tryMergeAll(grown, chain, growth.gain)
      const merged = many ?? this.tryMerge(a, b)
      if (merged === undefined) continue
      growths.delete(grown.id)
      growths.set(merged.id, growthOf(grown, many === undefined ? [other] : chain, merged))
      for (const p of links.predecessors(merged.id)) for (const again of pairs(p, merged.id)) queue.add(again)
      for (const s of links.successors(merged.id)) for (const again of pairs(merged.id, s)) queue.add(again)
    }
  }

  /** A neighbour of a group, and those like it that follow on it on the same side: as many as may be tried at once. */
  private chainFrom(grown: Group, first: Group, growth: Growth | undefined): [Group, ...Group[]] {
    const { all, links } = this.groups
    const chain: [Group, ...Group[]] = [first]
    if (growth === undefined || !isLike(growth.like, first)) return chain
    const after = links.successors(grown.id).has(first.id)
    const next = ({ id }: Group): Group | undefined => {
      for (const n of after ? links.successors(id) : links.predecessors(id)) {
        const g = all.get(n)
        if (g !== undefined && isLike(g, first) && !chain.includes(g)) return g
      }
      return undefined
    }
    let g = next(first)
    const most = g === undefined ? 1 : mostAtOnce(growth, this.target)
    for (; g !== undefined && chain.length < most; g = next(g)) chain.push(g)
    return chain
  }

  /**
   * What a region is as a kernel. Steps of a chain store results of the program alone: whether others read what each could make for itself is decided for all of them
   * at once (`tileFusion.ts`).
   */
  private kernelOf(region: Region): Outcome {
    const made = this.judge.of(region)
    const chain = made.ok ? made.roles.chain : undefined
    if (!made.ok || chain === undefined) return made
    return made.body.stores.some((s) => !this.demanded.has(s.node) && isOfSteps(s, chain))
      ? refuse('unaligned-output', 'a value runs along the axis that a chain of products goes through in blocks')
      : made
  }

  /** Merges two groups if that is a kernel and modelled faster. */
  tryMerge(a: Group, b: Group): Group | undefined {
    const quick = this.quickRefusal(a, b)
    if (quick !== undefined) {
      this.refuse(a, b, quick, undefined)
      return undefined
    }
    const region = this.groups.joined(a, b)
    const made = tooLarge(a, b, region, this.target) ?? this.kernelOf(region)
    if (!made.ok) {
      this.refuse(a, b, made, undefined)
      return undefined
    }
    const loss = this.lossOf(made, [a, b])
    if (loss >= 0 && !this.sparesUnstorable([...a.outputs, ...b.outputs], region.outputs)) {
      this.refuse(a, b, lossReason(a, b, made), loss)
      return undefined
    }
    return this.groups.replace([a, b], [{ members: region.members, made }])[0]
  }

  /**
   * Merges a group with several others as one trial, if that gains as much for each of them as `gain`, what the merge with one like them
   * gained. Where it does not they are merged one by one, which tells why not.
   */
  tryMergeAll(a: Group, others: readonly Group[], gain: number): Group | undefined {
    if (others.length < 2) return undefined
    const all = [a, ...others]
    if (all.filter(isProduct).length > 1) return undefined
    if (this.groups.links.leads(new Set(all.map((g) => g.id)))) return undefined
    const region = this.groups.joined(...all)
    const mixes = (p: ReadonlySet<Node>, q: ReadonlySet<Node>): boolean => this.separation?.mixes(p, q) === true
    if (mixes(region.members, region.members) || others.some((b) => mixes(a.members, b.members))) return undefined
    const made = this.kernelOf(region)
    if (!made.ok) return undefined
    const gained = -this.lossOf(made, all)
    if (gained < 0.9 * gain * others.length) return undefined
    return this.groups.replace(all, [{ members: region.members, made }])[0]
  }

  /**
   * Merges groups that are a kernel only together, if they are one that is modelled faster. `from` and `to`: of which a refusal tells.
   */
  tryMergeChain(all: readonly Group[], from: Group, to: Group): Group | undefined {
    if (!this.mayStandTogether(all)) return undefined
    const region = this.groups.joined(...all)
    const made = this.kernelOf(region)
    if (!made.ok) {
      this.refuse(from, to, made, undefined)
      return undefined
    }
    const loss = this.lossOf(made, all)
    if (loss >= 0 && !this.sparesUnstorable(outputsIn(all), region.outputs)) {
      this.refuse(from, to, lossReason(from, to, made), loss)
      return undefined
    }
    return this.groups.replace(all, [{ members: region.members, made }])[0]
  }

  /**
   * The same without what the last of them computes in some pieces, which become kernels of their own behind it. A refusal tells nothing, since it is known
   * why all of them are no kernel.
   */
  tryMergeChainBefore(all: readonly Group[], pieces: readonly ReadonlySet<Node>[]): readonly Group[] {
    if (!this.mayStandTogether(all)) return []
    const regions = this.groups.joinedBefore(all, pieces)
    const fresh: FreshGroup[] = []
    for (const region of regions) {
      const made = this.kernelOf(region)
      if (!made.ok) return []
      fresh.push({ members: region.members, made })
    }
    const loss = lossOf(
      fresh.map((g) => g.made),
      all.map((g) => g.made),
      false,
    )
    return loss >= 0 && !this.sparesUnstorable(outputsIn(all), outputsIn(regions))
      ? []
      : this.groups.replace(all, fresh)
  }

  /** Whether nothing else stands between some groups, and none computes again what another computes for the forward pass. */
  private mayStandTogether(all: readonly Group[]): boolean {
    if (this.groups.links.leads(new Set(all.map((g) => g.id)))) return false
    return !all.some((p) => all.some((q) => this.separation?.mixes(p.members, q.members) === true))
  }

  /** Whether fewer nodes that cannot be stored are, of the results of kernels before and after. */
  sparesUnstorable(before: readonly Node[], after: readonly Node[]): boolean {
    if (this.unstorable.size === 0) return false
    const count = (nodes: readonly Node[]): number => nodes.filter((n) => this.unstorable.has(n)).length
    return count(after) < count(before)
  }

  /** Whether a kernel of these members would bring what is computed again next to what it was computed first with. */
  mixes(members: ReadonlySet<Node>): boolean {
    return this.separation?.mixes(members, members) === true
  }

  /** Reasons that need no trial. */
  private quickRefusal(a: Group, b: Group): Refused | undefined {
    for (const g of [a, b])
      if (g.boundary !== undefined) return refuse(`${g.boundary}-boundary`, `${[...g.members][0]?.op} stands alone`)
    if (this.separation?.mixes(a.members, b.members))
      return refuse(
        'computed-again',
        'one computes again for the backward pass what the other computes for the forward pass',
      )
    if (isProduct(a) && isProduct(b)) return refuse('two-contractions', 'a kernel holds one matrix product')
    const { links } = this.groups
    if (links.hasIndirectPath(a.id, b.id) || links.hasIndirectPath(b.id, a.id))
      return refuse('cycle', 'another kernel stands between the two')
    return undefined
  }
}

/** Why two groups are not one, and what it would have cost. */
export interface Told {
  readonly why: Refused
  readonly loss: number | undefined
}

/** A refusal that is tried when it is told. */
export interface UntoldMerge extends Pick<RefusedMerge, 'from' | 'to'> {
  readonly tell: (judge: Candidates) => Told | undefined
}

/** The nodes between which two groups stay apart, and their key. */
function endsOf(a: Group, b: Group): { readonly key: string; readonly from: Node; readonly to: Node } | undefined {
  const from = firstIn(a.members, b.inputs) ?? [...a.members].at(-1)
  const to = (from === undefined ? undefined : firstReader(b.members, from)) ?? [...b.members][0]
  return from === undefined || to === undefined ? undefined : { key: `${from.id}>${to.id}`, from, to }
}

/** What some groups store. */
const outputsIn = (groups: readonly Pick<Group, 'outputs'>[]): Node[] => groups.flatMap((g) => g.outputs)

const isProduct = (g: Group): boolean => g.made !== undefined && holdsProducts(g.made.roles)

function firstIn(nodes: ReadonlySet<Node>, among: ReadonlySet<Node>): Node | undefined {
  for (const n of nodes) if (among.has(n)) return n
  return undefined
}

function firstReader(nodes: ReadonlySet<Node>, of: Node): Node | undefined {
  for (const n of nodes) if (dataInputs(n).includes(of)) return n
  return undefined
}

/** How often a kernel of two groups evaluates what one of them computes, by the arithmetic of the three. */
function evaluatedAgain(a: Group, b: Group, made: Made): string {
  const [first, second] = [a.made?.cost.compute ?? 0, b.made?.cost.compute ?? 0]
  const times = first > 0 ? Math.round((made.cost.compute - second) / first) : 1
  const often = times > 1 ? `about ${times} times an element` : 'more than once an element'
  return `the producer would be evaluated ${often}: the kernel's programs do not share it`
}

/** Why the kernel of two groups takes no less time than the two. */
function lossReason(a: Group, b: Group, made: Made): Refused {
  if ((a.made?.called ?? b.made?.called) !== undefined && made.called === undefined)
    return refuse('library-product', 'the library computes the product alone faster than one kernel does both')
  if (made.cost.compute > 1.01 * ((a.made?.cost.compute ?? 0) + (b.made?.cost.compute ?? 0)))
    return refuse('recompute-cost', evaluatedAgain(a, b, made))
  const bytes = ({ bytesRead, bytesWritten }: Partial<KernelCost> = {}): number =>
    (bytesRead ?? 0) + (bytesWritten ?? 0)
  const saved = bytes(a.made?.cost) + bytes(b.made?.cost) - bytes(made.cost)
  const { share = 1 } = made.cost
  if (saved > 0 && share < Math.min(a.made?.cost.share ?? 1, b.made?.cost.share ?? 1))
    return refuse('too-few-programs', `its programs keep ${(100 * share).toPrecision(2)}% of the device busy`)
  return refuse('no-gain', saved > 0 ? 'less is saved than it costs' : 'nothing is saved')
}
