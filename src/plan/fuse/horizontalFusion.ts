/**
 * Independent kernels launched as one: the last step of planning. A union of kernels is a disjoint union of their grids; each
 * part computes what it would compute alone, so all it changes is the number of launches and when each part runs.
 */
import type { Node } from '../../graph/node.ts'
import type { Machine } from '../../target/machine.ts'
import { isSingleWord } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import type { GroupGraph } from '../algorithms/groupGraph.ts'
import { type BindingRules, type BufferReuse, bindingsOf, valuesAmong } from '../axes/bindings.ts'
import { holdsProducts } from '../axes/roles.ts'
import { outlineOf } from '../body/outline.ts'
import { PlanMemory } from '../memory/peak.ts'
import {
  type KernelGroup,
  type PlannedGroup,
  type RefusedMerge,
  type SingleGroup,
  storedBy,
  type UnionGroup,
} from '../plan.ts'
import { type Refused, refuse } from '../refusal.ts'
import { idleSeconds, type ThreadBlocks, threadBlocksOf } from './unionThreads.ts'

/** Intermediates may grow by this much: planning memory by lifetimes is no more exact. */
const [slackShare, slackBytes] = [1 / 64, 1 << 16]
/** Orders tried where joining everything would need more memory. */
const mostTrials = 64

export interface Separate {
  readonly groups: ReadonlyMap<number, SingleGroup>
  readonly links: GroupGraph
  /** The program's order of the groups, without unions. */
  readonly order: readonly number[]
  /** Kernels with different marks are never joined (forward and backward passes that must stay apart). */
  readonly mark?: (group: KernelGroup) => string
  /** Nodes stored in the program's results. */
  readonly results: ReadonlySet<Node>
  readonly bytes: (node: Node) => number
  /** What is certain to be written over what. */
  readonly reuse: BufferReuse
  /** Whether a node's memory is its own for all of the program, and nothing is written over it. */
  readonly standsAlone: (node: Node) => boolean
  readonly target: Machine
}

export interface Joined {
  /** In an order that respects data and effects. */
  readonly groups: readonly PlannedGroup[]
  readonly refused: readonly RefusedMerge[]
}

/**
 * Joins kernels with no path between them. All that are the same number of such kernels away from the end of the program are
 * joined, up to the target's limits: no fewer launches are possible, since the kernels of one path need one each. A kernel
 * then runs as late as its results allow. Where that makes the modelled peak of intermediates grow, unions are made one by
 * one, halved where one alone does, and kept as far as it does not.
 */
export function fuseHorizontally(s: Separate): Joined {
  const refused: RefusedMerge[] = []
  const wanted = s.target.launch > 0 ? candidates(s, refused) : []
  const memory = new PlanMemory(s.groups, s.results, s.bytes, s.reuse)
  const before = memory.peakOf(orderOf(s, []))
  const allowed = before + Math.max(slackBytes, before * slackShare)
  const fits = (unions: readonly Union[]): boolean => memory.peakOf(orderOf(s, unions)) <= allowed
  let unions = wanted
  if (wanted.length > 0 && !fits(wanted)) {
    unions = []
    let trials = mostTrials
    const tryJoin = (u: Union): void => {
      if (trials-- > 0 && fits([...unions, u])) unions.push(u)
      else if (u.length > 3 && trials > 0) {
        const half = u.length >> 1
        tryJoin(u.slice(0, half))
        tryJoin(u.slice(half))
      } else
        note(s, u, refuse('longer-lifetimes', 'intermediates would be kept for longer than there is memory'), refused)
    }
    for (const u of [...wanted].sort((p, q) => q.length - p.length)) tryJoin(u)
  }
  const groups = orderOf(s, unions).flatMap((ids): PlannedGroup[] => {
    const parts = ids.flatMap((id) => s.groups.get(id) ?? [])
    const kernels = parts.flatMap((g) => (g.kind === 'kernel' ? [g] : []))
    return kernels.length > 1 ? [unionOf(kernels, s.target)] : parts
  })
  return { groups, refused }
}

/** Numbers of the groups of a union, in the program's order. */
type Union = readonly number[]

/**
 * Kernels without a matrix product, whose result has elements. A matrix product runs for long against a launch, and its
 * blocks need the registers and the scratch that a launch must then set aside for every part.
 */
function mayJoin(g: SingleGroup | undefined): g is KernelGroup {
  return (
    g?.kind === 'kernel' &&
    g.called === undefined &&
    !holdsProducts(g.roles) &&
    g.outputs.some((n) => sizeOf(n.shape) > 0)
  )
}

const statementsOf = (g: KernelGroup): number =>
  g.segments.reduce((n, body) => n + body.lets.length + body.stores.length, 0)

/** A union that others may join. */
interface Open {
  readonly ids: number[]
  readonly main: Set<string>
  readonly finish: Set<string>
  statements: number
  readonly outlines: Set<string>
  readonly blocks: ThreadBlocks[]
}

/** What a kernel and its finishing stage bind. */
function boundBy(
  g: KernelGroup,
  { reuse, standsAlone, target }: Separate,
): { readonly main: Set<string>; readonly finish: Set<string> } {
  const isValue = (n: Node): boolean => standsAlone(n) && isSingleWord(n.dtype, sizeOf(n.shape))
  const rules: BindingRules = {
    ...(target.joinsOverwritten ? { joined: reuse } : {}),
    ...(target.valueBuffers > 0 ? { isValue } : {}),
  }
  const [main, finish] = [new Set<string>(), new Set<string>()]
  for (const body of g.segments) {
    const own = bindingsOf(body, g.roles.stages, rules)
    for (const b of own.main) main.add(b)
    for (const b of own.finish) finish.add(b)
  }
  return { main, finish }
}

/** Buffers of a union of sets, without the values that the target binds apart. */
function together(a: ReadonlySet<string> | undefined, b: ReadonlySet<string>, { valueBuffers }: Machine): number {
  const all = [...b].reduce((n, x) => (a?.has(x) === true ? n : n + 1), a?.size ?? 0)
  return valueBuffers === 0 ? all : all - Math.min(valueBuffers, valuesAmong(new Set([...(a ?? []), ...b])))
}

/** The unions that the graph allows, cut where a kernel of the target ends. */
function candidates(s: Separate, refused: RefusedMerge[]): Union[] {
  const { target, links } = s
  const level = links.countToEnd((id) => mayJoin(s.groups.get(id)))
  const open = new Map<string, Open[]>()
  const out: number[][] = []
  for (const id of s.order) {
    const g = s.groups.get(id)
    if (!mayJoin(g)) continue
    const at = `${level.get(id) ?? 0} ${s.mark?.(g) ?? ''}`
    const own = boundBy(g, s)
    const blocks = threadBlocksOf(g, target)
    const others = open.get(at) ?? []
    // The first whose threads would not stand idle for longer than a launch takes.
    const now = others.find((o) => idleSeconds([...o.blocks, ...blocks], target) <= target.launch)
    if (now === undefined && others.length > 0)
      note(
        s,
        [...(others.at(-1)?.ids ?? []), id],
        refuse('idle-threads', 'most threads of its blocks would stand idle'),
        refused,
      )
    // Code that stands in the union already is shared where the target can.
    const outline = target.sharesUnionCode ? outlineOf(g) : undefined
    const statements = outline !== undefined && now?.outlines.has(outline) === true ? 0 : statementsOf(g)
    const buffers = Math.max(together(now?.main, own.main, target), together(now?.finish, own.finish, target))
    const why =
      now === undefined
        ? undefined
        : buffers > target.maxUnionBuffers
          ? refuse('too-many-buffers', `a union on this target binds at most ${target.maxUnionBuffers} buffers`)
          : now.statements + statements > target.maxUnionStatements
            ? refuse('too-much-code', `a union on this target has at most ${target.maxUnionStatements} statements`)
            : undefined
    if (now !== undefined && why === undefined) {
      now.ids.push(id)
      for (const b of own.main) now.main.add(b)
      for (const b of own.finish) now.finish.add(b)
      now.statements += statements
      now.blocks.push(...blocks)
      if (outline !== undefined) now.outlines.add(outline)
      continue
    }
    if (now !== undefined && why !== undefined) note(s, [...now.ids.slice(-1), id], why, refused)
    const ids = [id]
    const fresh: Open = {
      ids,
      ...own,
      statements: statementsOf(g),
      outlines: new Set(outline === undefined ? [] : [outline]),
      blocks,
    }
    open.set(at, [...others.filter((o) => o !== now), fresh])
    out.push(ids)
  }
  return out.filter((ids) => ids.length > 1)
}

/** Numbers of the groups of each step: a union runs where its last part did. */
function orderOf(s: Separate, unions: readonly Union[]): number[][] {
  if (unions.length === 0) return s.order.map((id) => [id])
  const place = new Map(s.order.map((id, i) => [id, i]))
  const name = new Map<number, number>()
  const parts = new Map<number, Union>()
  unions.forEach((ids, i) => {
    const union = -1 - i
    parts.set(union, ids)
    for (const id of ids) name.set(id, union)
    place.set(
      union,
      ids.reduce((most, id) => Math.max(most, place.get(id) ?? 0), 0),
    )
  })
  return s.links
    .contracted(name)
    .order((id) => place.get(id) ?? 0)
    .map((id) => [...(parts.get(id) ?? [id])])
}

/** The parts that take longest come first, so that threads end together. */
function unionOf(kernels: readonly KernelGroup[], target: Machine): UnionGroup {
  const parts = [...kernels].sort((a, b) => b.cost.seconds - a.cost.seconds)
  const total = (pick: (g: KernelGroup) => number): number => parts.reduce((n, g) => n + pick(g), 0)
  return {
    kind: 'union',
    parts,
    cost: {
      bytesRead: total((g) => g.cost.bytesRead),
      bytesWritten: total((g) => g.cost.bytesWritten),
      flops: total((g) => g.cost.flops),
      special: total((g) => g.cost.special),
      compute: total((g) => g.cost.compute),
      seconds: total((g) => g.cost.seconds - target.launch) + target.launch,
    },
  }
}

function note(s: Separate, ids: Union, why: Refused, refused: RefusedMerge[]): void {
  const [from, to] = [ids[0], ids.at(-1)].map((id) => {
    const g = id === undefined ? undefined : s.groups.get(id)
    return g === undefined ? undefined : storedBy(g)[0]
  })
  if (from !== undefined && to !== undefined)
    refused.push({ from, to, code: why.code, detail: why.detail, loss: undefined })
}
