/**
 * Which results stand in the memory of what their kernels read last: of donated inputs, and of intermediates that one kernel alone
 * reads. Decided before kernels are launched as one, so that what a launch binds is counted as it will be bound; the memory plan
 * does what is decided here, and besides takes over what it finds.
 */
import type { Node } from '../graph/node.ts'
import type { Stmt } from '../kernel/ir.ts'
import { mayOverwrite, type PartAccess, accessOf as partAccess } from '../kernel/overwrite.ts'
import { ancestorsOf } from '../kernel/walk.ts'
import { dtypeBytes } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { isAlike, type Takeovers } from './bindings.ts'
import type { Body, BodyStore, BodyTensor } from './body.ts'
import { accessOf } from './memory/access.ts'
import type { KernelGroup, SingleGroup } from './plan.ts'
import { storageOf } from './region.ts'
import { type Stage, stagesOf } from './stages.ts'

interface Scope {
  /** In the order they run in, but for kernels launched as one. */
  readonly order: readonly SingleGroup[]
  /** Parameters whose memory is the program's. */
  readonly donated: ReadonlySet<Node>
  /** Nodes stored in the program's results. */
  readonly results: ReadonlySet<Node>
}

export interface PlannedTakeovers {
  readonly takeovers: Takeovers
  /** Who else reads an input that is taken over, and the kernel that writes over it: the one stays before the other. */
  readonly before: readonly (readonly [reader: SingleGroup, heir: SingleGroup])[]
}

/**
 * A donated input goes to a result of the kernel that reads it last, an intermediate with one reader to an intermediate that this
 * kernel stores, where the kernel may write the one over the other. (Not where a matrix product is: its kernels bind few buffers.)
 */
export function planTakeovers({ order, donated, results }: Scope): PlannedTakeovers {
  const readers = new Map<Node, SingleGroup[]>()
  for (const g of order) {
    for (const n of accessOf(g).buffers) {
      const list = readers.get(n)
      if (list === undefined) readers.set(n, [g])
      else list.push(g)
    }
  }
  const takeovers = new Map<Node, Node>()
  const before: [SingleGroup, SingleGroup][] = []
  for (const g of order) {
    if (g.kind !== 'kernel' || g.called !== undefined || g.roles.kind === 'matrix') continue
    const mayHost = (x: Node): boolean => {
      const of = readers.get(x) ?? []
      if (results.has(x) || x.op === 'constant' || sizeOf(x.shape) === 0 || of.at(-1) !== g) return false
      return x.op === 'param' ? donated.has(x) : of.length === 1
    }
    for (const [write, read] of takeoversIn(g, mayHost, results)) {
      takeovers.set(write, read)
      for (const r of readers.get(read) ?? []) if (r !== g) before.push([r, g])
    }
  }
  return { takeovers, before }
}

/** A kernel's stage in one of its parts, and what it does to memory. */
interface Part {
  readonly body: Body
  readonly stage: Stage
  readonly access: PartAccess
}

const storeName = (s: BodyStore): string => `store ${s.node.id}`

/** `cut`: the stage stores partial results, or folds them. */
function partOf(body: Body, stage: Stage, cut: boolean): Part {
  const shapes = new Map([...body.loads].map(([name, t]) => [name, t.shape]))
  for (const s of stage.stores) shapes.set(storeName(s), s.shape)
  const store = (param: string, s: Pick<BodyStore, 'value' | 'index'>): Stmt => ({
    kind: 'store',
    param,
    index: s.index,
    mask: [],
    value: s.value,
  })
  const stores = [
    ...stage.folded.map((value) => store('partial', { value, index: [] })),
    ...stage.stores.map((s) => store(storeName(s), s)),
  ]
  const access = partAccess([...stage.lets, ...stores], (name) => shapes.get(name) ?? [])
  return { body, stage, access: { ...access, folds: access.folds || cut } }
}

type Takeover = readonly [write: Node, read: Node]

/** What one kernel takes over, of the nodes that may be hosts. */
function takeoversIn(g: KernelGroup, mayHost: (x: Node) => boolean, results: ReadonlySet<Node>): Takeover[] {
  const hosts = new Set([...g.body.loads.values()].map((t) => storageOf(t.node)).filter(mayHost))
  if (hosts.size === 0) return []
  const { split, splitBy, row } = g.roles
  const staged = (g.segments.length > 1 ? g.segments : [g.body]).map((body) => ({ body, ...stagesOf(body, split) }))
  const cut = split.size > 0
  const late = staged.flatMap(({ body, finish }) => (finish === undefined ? [] : [partOf(body, finish, cut)]))
  const out = matched(pairs(late, hosts, results))
  // What the finishing stage reads it reads last; and what a loop over rows reads may leave it under another name.
  for (const t of loadsOf(late).values()) hosts.delete(storageOf(t.node))
  if (cut && splitBy !== 'every-index' && row.size > 0) return out
  const main = staged.map((s) => partOf(s.body, s.main, cut))
  return [...out, ...matched(pairs(main, hosts, results))]
}

/** The tensors that parts load, by parameter. */
function loadsOf(parts: readonly Part[]): Map<string, BodyTensor> {
  const out = new Map<string, BodyTensor>()
  for (const { body, access } of parts)
    for (const name of access.loads.keys()) {
      const t = body.loads.get(name)
      if (t !== undefined) out.set(name, t)
    }
  return out
}

/** A tensor that is loaded, and one that may be stored over it. */
interface Pair {
  readonly write: BodyStore
  readonly read: BodyTensor
  /** What is written is computed from what is read. */
  readonly isUsed: boolean
}

/** The values by their memory, of memory that is one parameter. */
function byMemory<T extends BodyTensor>(
  tensors: Iterable<readonly [name: string, T]>,
): Map<Node, readonly [string, T]> {
  const out = new Map<Node, readonly [string, T]>()
  const several = new Set<Node>()
  for (const entry of tensors) {
    const memory = storageOf(entry[1].node)
    if (out.has(memory)) several.add(memory)
    out.set(memory, entry)
  }
  for (const memory of several) out.delete(memory)
  return out
}

function pairs(parts: readonly Part[], hosts: ReadonlySet<Node>, results: ReadonlySet<Node>): Pair[] {
  const stores = new Map(parts.flatMap(({ stage }) => stage.stores.map((s) => [storeName(s), s] as const)))
  const writes = byMemory(stores)
  const reads = byMemory(loadsOf(parts))
  const used = new Map<string, ReadonlySet<string>>()
  for (const name of stores.keys()) {
    const from = parts.flatMap(({ access }) => {
      const needed = ancestorsOf(access.stores.get(name)?.uses ?? [], access.lets)
      return [...needed].flatMap((id) => {
        const op = access.lets.get(id)?.op
        return op?.kind === 'load' ? [op.param] : []
      })
    })
    used.set(name, new Set(from))
  }
  const out: Pair[] = []
  for (const [to, [writeName, write]] of writes)
    for (const [from, [readName, read]] of reads) {
      // Results stand in memory of their own, intermediates in the arena.
      if (!hosts.has(from) || results.has(to) !== (from.op === 'param')) continue
      const fits =
        sizeOf(to.shape) === sizeOf(from.shape) &&
        dtypeBytes(to.dtype) === dtypeBytes(from.dtype) &&
        write.format === read.format
      const accesses = parts.map((p) => p.access)
      const loading = accesses.filter((a) => a.loads.has(readName))
      const storing = accesses.filter((a) => a.stores.has(writeName))
      if (!fits || !mayOverwrite(loading, storing, readName, writeName)) continue
      out.push({ write, read, isUsed: used.get(writeName)?.has(readName) === true })
    }
  return out
}

/**
 * One host for every result, one result for every host: results with least to choose from first, over what is one parameter with
 * them, then over what they are computed from and fewest others are (a moment over itself: so buffers do not change places).
 */
function matched(all: readonly Pair[]): Takeover[] {
  const options = new Map<BodyStore, Pair[]>()
  const users = new Map<BodyTensor, number>()
  for (const p of all) {
    options.set(p.write, [...(options.get(p.write) ?? []), p])
    if (p.isUsed) users.set(p.read, (users.get(p.read) ?? 0) + 1)
  }
  const usedIn = (of: readonly Pair[]): number => of.filter((p) => p.isUsed).length
  const better = (a: Pair, b: Pair): number =>
    Number(isAlike(b.write, b.read)) - Number(isAlike(a.write, a.read)) ||
    Number(b.isUsed) - Number(a.isUsed) ||
    (users.get(a.read) ?? 0) - (users.get(b.read) ?? 0)
  const taken = new Set<BodyTensor>()
  const out: Takeover[] = []
  for (const of of [...options.values()].sort((a, b) => a.length - b.length || usedIn(a) - usedIn(b))) {
    const [best] = of.filter((p) => !taken.has(p.read)).sort(better)
    if (best === undefined) continue
    taken.add(best.read)
    out.push([storageOf(best.write.node), storageOf(best.read.node)])
  }
  return out
}
