/**
 * Which results stand in the memory of what their kernels read last: of donated inputs, and of intermediates that one kernel alone
 * reads; and which scatters combine their updates into their target where it was made. Decided before kernels are launched as one, so that what a launch binds is counted as it will be bound; the buffer assignment of
 * the finished program keeps to it, and besides reuses what it finds.
 */
import type { Node, NodeOf } from '../../graph/node.ts'
import { sizeOf } from '../../types/shape.ts'
import { type BufferReuse, isAlike } from '../axes/bindings.ts'
import { holdsProducts } from '../axes/roles.ts'
import type { BodyStore, BodyTensor } from '../body/body.ts'
import { storageOf } from '../body/region.ts'
import type { KernelGroup, PlannedGroup, SingleGroup } from '../plan.ts'
import { accessOf } from './access.ts'
import { type Overwrite, overwritesOf, targetOf } from './overwrites.ts'
import { PlanMemory } from './peak.ts'

interface Scope {
  /** In the order they run in, but for kernels launched as one. */
  readonly order: readonly SingleGroup[]
  /** Parameters whose memory is the program's. */
  readonly donated: ReadonlySet<Node>
  /** Nodes stored in the program's results. */
  readonly results: ReadonlySet<Node>
}

export interface PlannedReuse {
  readonly reuse: BufferReuse
  /** Who else reads an input that is written over, and the kernel that does: the one stays before the other. */
  readonly before: readonly (readonly [reader: SingleGroup, writer: SingleGroup])[]
}

/**
 * A donated input goes to a result of the kernel that reads it last, an intermediate with one reader to an intermediate that this
 * kernel stores, where the kernel may write the one over the other. (Not where a matrix product is: its kernels bind few buffers.)
 * The target of a scatter goes to its result where no other reads it afterwards.
 */
export function planReuse({ order, donated, results }: Scope): PlannedReuse {
  const readers = new Map<Node, SingleGroup[]>()
  for (const g of order) {
    for (const n of accessOf(g).buffers) {
      const list = readers.get(n)
      if (list === undefined) readers.set(n, [g])
      else list.push(g)
    }
  }
  const reuse = new Map<Node, Node>()
  const before: [SingleGroup, SingleGroup][] = []
  const made = new Set(order.flatMap((g) => accessOf(g).writes))
  /** What stands in memory of its own: results, and targets that become results. */
  const apart = new Set(results)
  for (const g of order.toReversed()) {
    if (g.kind !== 'scatter') continue
    const target = targetOf(g.node as NodeOf<'scatter'>)
    if (target === undefined || results.has(target) || readers.get(target)?.at(-1) !== g) continue
    if (target.op === 'param' ? !(donated.has(target) && apart.has(g.node)) : !made.has(target)) continue
    reuse.set(g.node, target)
    if (apart.has(g.node)) apart.add(target)
    for (const r of readers.get(target) ?? []) if (r !== g) before.push([r, g])
  }
  for (const g of order) {
    if (g.kind !== 'kernel' || g.called !== undefined || holdsProducts(g.roles)) continue
    const mayDonate = (x: Node): boolean => {
      const of = readers.get(x) ?? []
      if (results.has(x) || x.op === 'constant' || sizeOf(x.shape) === 0 || of.at(-1) !== g) return false
      return x.op === 'param' ? donated.has(x) : of.length === 1
    }
    for (const [write, read] of donorsIn(g, mayDonate, results, apart)) {
      reuse.set(write, read)
      for (const r of readers.get(read) ?? []) if (r !== g) before.push([r, g])
    }
  }
  return { reuse, before }
}

/** What a plan needs to know to say all that is written over what. */
interface Decided {
  /** The launches, in the order they run in: kernels launched as one are one. */
  readonly launches: readonly PlannedGroup[]
  readonly donated: ReadonlySet<Node>
  readonly results: ReadonlySet<Node>
  readonly bytes: (node: Node) => number
  /** What is decided already. */
  readonly reuse: BufferReuse
}

/** All that is written over what in an order of launches, but for what loops carry, whose programs are planned by themselves. */
export function planDonors({ launches, donated, results, bytes, reuse }: Decided): BufferReuse {
  const groups = new Map<number, SingleGroup>()
  const steps = launches.map((g) =>
    (g.kind === 'union' ? g.parts : [g]).map((part) => {
      groups.set(groups.size, part)
      return groups.size - 1
    }),
  )
  return new Map([...reuse, ...new PlanMemory(groups, results, bytes, reuse, donated).donorsOf(steps)])
}

type Donation = readonly [write: Node, read: Node]

/** What one kernel writes over what, of the nodes that may be donors; `apart`: what stands in memory of its own. */
function donorsIn(
  g: KernelGroup,
  mayDonate: (x: Node) => boolean,
  results: ReadonlySet<Node>,
  apart: ReadonlySet<Node>,
): Donation[] {
  const donors = new Set([...accessOf(g).buffers].filter(mayDonate))
  if (donors.size === 0) return []
  const { finish, main, leftToMain } = overwritesOf(g)
  // Results stand in memory of their own, intermediates in the arena.
  const intermediate = new Set(accessOf(g).writes.filter((n) => !apart.has(n)))
  const may = (write: Node, read: Node): boolean =>
    donors.has(read) && (read.op === 'param' ? results : intermediate).has(write)
  return [...matched(finish.pairs(may)), ...matched(main.pairs((write, read) => may(write, read) && leftToMain(read)))]
}

/**
 * One donor for every result, one result for every donor: results with least to choose from first, over what is one parameter with
 * them, then over what they are computed from and fewest others are (a moment over itself: so buffers do not change places).
 */
function matched(all: readonly Overwrite[]): Donation[] {
  const options = new Map<BodyStore, Overwrite[]>()
  const users = new Map<BodyTensor, number>()
  for (const p of all) {
    options.set(p.write, [...(options.get(p.write) ?? []), p])
    if (p.isUsed) users.set(p.read, (users.get(p.read) ?? 0) + 1)
  }
  const usedIn = (of: readonly Overwrite[]): number => of.filter((p) => p.isUsed).length
  const better = (a: Overwrite, b: Overwrite): number =>
    Number(isAlike(b.write, b.read)) - Number(isAlike(a.write, a.read)) ||
    Number(b.isUsed) - Number(a.isUsed) ||
    (users.get(a.read) ?? 0) - (users.get(b.read) ?? 0)
  const taken = new Set<BodyTensor>()
  const out: Donation[] = []
  for (const of of [...options.values()].sort((a, b) => a.length - b.length || usedIn(a) - usedIn(b))) {
    const [best] = of.filter((p) => !taken.has(p.read)).sort(better)
    if (best === undefined) continue
    taken.add(best.read)
    out.push([storageOf(best.write.node), storageOf(best.read.node)])
  }
  return out
}
