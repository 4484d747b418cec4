/**
 * The groups of a plan while it is made: merging, recomputing, and why not. Every trial builds the merged body and asks its
 * roles and its cost; refusals are kept with their reasons.
 */
import { invariant } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { familyOf, opDef } from '../graph/table.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import { dtypeBytes } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { type Body, pointsOf } from './body.ts'
import { leastSecondsWith, leastSecondsWithout, tooLarge } from './bounds.ts'
import { buildBody } from './buildBody.ts'
import { ancestorsWithin, standingInputs } from './clusters.ts'
import { collapse } from './collapse.ts'
import { costOf, type KernelCost } from './cost.ts'
import { packableNodes, withFormats } from './formats.ts'
import { GroupGraph } from './groupGraph.ts'
import { withLibrary } from './library.ts'
import type { BoundaryGroup, Recomputed, RefusedMerge } from './plan.ts'
import { type Refused, refuse } from './refusal.ts'
import { dataInputs } from './region.ts'
import { analyse } from './roles.ts'
import { interleaves, partsOf, segmentsOf } from './segments.ts'
import type { TargetInfo } from './target.ts'
import type { Made, Originals, Outcome, Trials } from './trials.ts'

interface Group {
  readonly id: number
  readonly members: ReadonlySet<Node>
  readonly boundary: BoundaryGroup['kind'] | undefined
  outputs: readonly Node[]
  inputs: ReadonlySet<Node>
  made: Made | undefined
  marks: Marks | undefined
}

/** What a group computes for which pass, and what it computes again. */
interface Marks {
  readonly copied: readonly Node[]
  readonly early: boolean
  readonly backward: boolean
}

/** Values of a forward pass that a backward pass computes again: the copies must not be made in the forward pass. */
export interface Apart {
  readonly early: ReadonlySet<Node>
  /** Copies, and what each is a copy of. */
  readonly copies: ReadonlyMap<Node, Node>
  readonly backward: ReadonlySet<Node>
  /** What nodes stand for in the graph without copies. */
  readonly originals: Originals
}

const none: Originals = new Map()

function marksOf(g: Group, apart: Apart): Marks {
  if (g.marks !== undefined) return g.marks
  const copied: Node[] = []
  let early = false
  let backward = false
  for (const n of g.members) {
    const original = apart.copies.get(n)
    if (original !== undefined) copied.push(original)
    early ||= apart.early.has(n)
    backward ||= apart.backward.has(n)
  }
  g.marks = { copied, early, backward }
  return g.marks
}

const dearAgain = (kernels: number): Refused =>
  refuse('recompute-cost', `computing it again in ${kernels} kernels costs more than storing it`)

const unlimited = (target: TargetInfo): TargetInfo => ({
  ...target,
  maxBuffers: Infinity,
  maxStatements: Infinity,
  rowBytes: Infinity,
})

/** Less time; or as much with less arithmetic under it, or with neighbours in one program that are in several of the other's. */
function isCheaper(a: Made, b: Made): boolean {
  if (a.cost.seconds !== b.cost.seconds) return a.cost.seconds < b.cost.seconds
  return a.cost.compute < b.cost.compute || (a.segments.length < b.segments.length && interleaves(a.body))
}

export const bytesOf = (n: Node): number => sizeOf(n.shape) * dtypeBytes(n.dtype)

/** Whether reading a tensor once instead of twice is a part of two kernels' traffic. What saves launches alone is a union's matter. */
const worthSharing = (bytes: number, a: KernelCost, b: KernelCost): boolean =>
  64 * bytes >= Math.min(a.bytesRead + a.bytesWritten, b.bytesRead + b.bytesWritten)

export class Planner {
  readonly groups = new Map<number, Group>()
  readonly links = new GroupGraph()
  readonly home = new Map<Node, number>()
  readonly demanded: ReadonlySet<Node>
  readonly refused = new Map<string, RefusedMerge>()
  readonly recomputed: Recomputed[]
  private readonly users = new Map<Node, Set<number>>()
  private readonly target: TargetInfo
  private readonly mode: NumericsMode
  /** Bools that are packed if they are stored. */
  readonly packable: ReadonlySet<Node>
  private readonly apart: Apart | undefined
  private readonly trials: Trials | undefined
  private nextId = 0

  constructor(
    clusters: readonly ReadonlySet<Node>[],
    demanded: ReadonlySet<Node>,
    target: TargetInfo,
    mode: NumericsMode,
    recomputed: readonly Recomputed[],
    trials?: Trials,
    apart?: Apart,
  ) {
    this.target = target
    this.mode = mode
    this.demanded = demanded
    this.packable = packableNodes(clusters, demanded, target)
    this.recomputed = [...recomputed]
    this.apart = apart
    this.trials = trials
    for (const members of clusters) {
      const [n] = members
      if (n === undefined) continue
      const boundary = opDef(n).boundary
      for (const m of members) this.home.set(m, this.nextId)
      this.insert({
        id: this.nextId++,
        members,
        boundary,
        outputs: [],
        inputs: new Set(),
        made: undefined,
        marks: undefined,
      })
    }
    for (const g of this.groups.values()) this.refresh(g)
    for (const g of this.groups.values()) {
      if (g.boundary !== undefined) continue
      const made = this.make(g.members, g.outputs, true)
      invariant(made.ok, `a single node is no kernel: ${made.ok ? '' : made.detail}`)
      g.made = made
    }
  }

  private insert(g: Group): void {
    this.groups.set(g.id, g)
    this.links.add(g.id)
    const inputs = new Set<Node>()
    for (const m of g.members) for (const x of dataInputs(m)) if (!g.members.has(x)) inputs.add(x)
    // Kernels read through a view that is stored; boundaries read what is stored.
    if (g.boundary !== undefined)
      for (const m of g.members) for (const x of standingInputs(m)) if (!g.members.has(x)) inputs.add(x)
    g.inputs = inputs
    for (const x of inputs) {
      const set = this.users.get(x) ?? new Set()
      set.add(g.id)
      this.users.set(x, set)
    }
  }

  private drop(g: Group): void {
    this.groups.delete(g.id)
    this.links.remove(g.id)
    for (const x of g.inputs) this.users.get(x)?.delete(g.id)
  }

  /** Recomputes outputs and links of a group. */
  private refresh(g: Group): void {
    g.outputs = this.outputsOf(g.members, (n) => this.home.get(n) === g.id, new Set([g.id]))
    for (const x of g.inputs) {
      const from = this.home.get(x)
      if (from !== undefined) this.links.connect(from, g.id)
    }
    for (const m of g.members)
      if (this.home.get(m) === g.id) for (const u of this.users.get(m) ?? []) this.links.connect(g.id, u)
  }

  private outputsOf(members: ReadonlySet<Node>, isHome: (n: Node) => boolean, inside: ReadonlySet<number>): Node[] {
    const out: Node[] = []
    for (const n of members) {
      if (!isHome(n)) continue
      const used = [...(this.users.get(n) ?? [])].some((u) => !inside.has(u))
      if (this.demanded.has(n) || used) out.push(n)
    }
    return out
  }

  private make(members: ReadonlySet<Node>, outputs: readonly Node[], single = false): Outcome {
    const build = (): Outcome => this.build(members, outputs, single ? unlimited(this.target) : this.target)
    if (this.trials === undefined) return build()
    return this.trials.of({ members, outputs, single }, this.packable, this.apart?.originals ?? none, build)
  }

  private build(members: ReadonlySet<Node>, outputs: readonly Node[], limits: TargetInfo): Outcome {
    const whole = buildBody({ members, outputs }, this.mode)
    const made = whole.ok ? this.judge(whole.body, limits) : whole
    if (!whole.branches) return made
    // Where a kernel joins or reads pieces, its results may be better bound range by range.
    const inPieces = buildBody({ members, outputs }, this.mode, true)
    const other = inPieces.ok ? this.judge(inPieces.body, limits) : inPieces
    return other.ok && (!made.ok || isCheaper(other, made)) ? other : made
  }

  /** What a body is as a kernel. */
  private judge(built: Body, limits: TargetInfo): Outcome {
    const body = withFormats(collapse(built), this.packable)
    const analysed = analyse(body, limits, this.mode)
    if (!analysed.ok) return analysed
    const { roles } = analysed
    const cut = body.stores.some((s) => s.pieces !== undefined)
    const segments = roles.kind !== 'elementwise' ? [body] : cut ? partsOf(body) : segmentsOf(body)
    const cost = costOf(body, segments, roles, this.target)
    return withLibrary({ ok: true, body, segments, roles, cost }, this.target, this.mode)
  }

  private note(a: Group, b: Group, why: Refused, loss: number | undefined): void {
    const from = [...a.members].find((n) => b.inputs.has(n)) ?? [...a.members].at(-1)
    const to = [...b.members].find((n) => from !== undefined && dataInputs(n).includes(from)) ?? [...b.members][0]
    if (from === undefined || to === undefined) return
    this.refused.set(`${from.id}>${to.id}`, { from, to, code: why.code, detail: why.detail, loss })
  }

  /** Reasons that need no trial. */
  private quickRefusal(a: Group, b: Group): Refused | undefined {
    for (const g of [a, b])
      if (g.boundary !== undefined) return refuse(`${g.boundary}-boundary`, `${[...g.members][0]?.op} stands alone`)
    if (this.mixes(a, b))
      return refuse(
        'computed-again',
        'one computes again for the backward pass what the other computes for the forward pass',
      )
    const ka = a.made?.roles.kind
    const kb = b.made?.roles.kind
    if (ka === 'matrix' && kb === 'matrix') return refuse('two-contractions', 'a kernel holds one matrix product')
    if (this.links.hasIndirectPath(a.id, b.id) || this.links.hasIndirectPath(b.id, a.id))
      return refuse('cycle', 'another kernel stands between the two')
    return undefined
  }

  /** Whether a merge would bring what is computed again next to what it was computed first with. */
  private mixes(a: Group, b: Group): boolean {
    const { apart } = this
    if (apart === undefined) return false
    const [p, q] = [marksOf(a, apart), marksOf(b, apart)]
    if (p.copied.length + q.copied.length === 0) return false
    if (p.copied.some((n) => a.members.has(n) || b.members.has(n))) return true
    if (q.copied.some((n) => a.members.has(n) || b.members.has(n))) return true
    return (p.early || q.early) && !p.backward && !q.backward
  }

  /** Merges two groups if that is a kernel and modelled faster. */
  tryMerge(a: Group, b: Group): Group | undefined {
    const quick = this.quickRefusal(a, b)
    if (quick !== undefined) {
      this.note(a, b, quick, undefined)
      return undefined
    }
    const members = new Set([...a.members, ...b.members])
    const outputs = this.outputsOf(
      members,
      (n) => this.home.get(n) === a.id || this.home.get(n) === b.id,
      new Set([a.id, b.id]),
    )
    const made = tooLarge(a, b, members, outputs, this.target) ?? this.make(members, outputs)
    if (!made.ok) {
      this.note(a, b, made, undefined)
      return undefined
    }
    const before = (a.made?.cost.seconds ?? 0) + (b.made?.cost.seconds ?? 0)
    const loss = made.cost.seconds - before
    if (loss >= 0) {
      const recompute = made.cost.compute > 1.01 * ((a.made?.cost.compute ?? 0) + (b.made?.cost.compute ?? 0))
      const library = a.made?.called ?? b.made?.called
      this.note(
        a,
        b,
        library !== undefined && made.called === undefined
          ? refuse('library-product', 'the library computes the product alone faster than one kernel does both')
          : recompute
            ? refuse('recompute-cost', 'the producer would be evaluated more than once an element')
            : refuse('no-gain', 'nothing is saved'),
        loss,
      )
      return undefined
    }
    return this.replace([a, b], [{ members, made }])[0]
  }

  /** Puts new groups in the place of old ones. */
  private replace(
    old: readonly Group[],
    fresh: readonly { readonly members: ReadonlySet<Node>; readonly made: Made }[],
  ): Group[] {
    const homes = new Map<Node, boolean>()
    for (const g of old) for (const n of g.members) if (this.home.get(n) === g.id) homes.set(n, true)
    for (const g of old) this.drop(g)
    const made: Group[] = []
    for (const f of fresh) {
      const g: Group = {
        id: this.nextId++,
        members: f.members,
        boundary: undefined,
        outputs: [],
        inputs: new Set(),
        made: f.made,
        marks: undefined,
      }
      this.insert(g)
      for (const n of f.members) if (homes.delete(n)) this.home.set(n, g.id)
      made.push(g)
    }
    for (const g of made) this.refresh(g)
    return made
  }

  /** Merges along edges (those of some groups, where told) until none gains, largest saving first. */
  mergeEdges(among: Iterable<number> = this.links.ids()): void {
    // Largest saving last; among equals what follows a matrix product (its epilogue costs least), then the smaller groups,
    // whose trials are cheap.
    const queue: { saving: number; epilogue: number; size: number; a: number; b: number }[] = []
    type Entry = (typeof queue)[number]
    const order = (p: Entry, q: Entry): number => p.saving - q.saving || p.epilogue - q.epilogue || q.size - p.size
    const push = (a: number, b: number): void => {
      const from = this.groups.get(a)
      const to = this.groups.get(b)
      if (from === undefined || to === undefined) return
      let saving = 0
      for (const n of from.outputs) if (to.inputs.has(n)) saving += bytesOf(n)
      const epilogue = from.made?.roles.kind === 'matrix' ? 1 : 0
      queue.push({ saving, epilogue, size: from.members.size + to.members.size, a, b })
    }
    const from = new Set(among)
    for (const id of this.links.ids())
      for (const s of this.links.successors(id)) if (from.has(id) || from.has(s)) push(id, s)
    queue.sort(order)
    /** The last entry moves to its place, behind its equals. */
    const settle = (): void => {
      const last = queue.pop()
      if (last === undefined) return
      let [low, high] = [0, queue.length]
      while (low < high) {
        const middle = (low + high) >> 1
        const there = queue[middle]
        if (there !== undefined && order(there, last) <= 0) low = middle + 1
        else high = middle
      }
      queue.splice(low, 0, last)
    }
    const add = (a: number, b: number): void => {
      const before = queue.length
      push(a, b)
      if (queue.length > before) settle()
    }
    for (let top = queue.pop(); top !== undefined; top = queue.pop()) {
      const a = this.groups.get(top.a)
      const b = this.groups.get(top.b)
      if (a === undefined || b === undefined) continue
      const merged = this.tryMerge(a, b)
      if (merged === undefined) continue
      for (const p of this.links.predecessors(merged.id)) add(p, merged.id)
      for (const s of this.links.successors(merged.id)) add(merged.id, s)
    }
  }

  /** Stored values that every consumer may compute again for less. */
  recomputeCheap(): boolean {
    let changed = false
    for (const g of [...this.groups.values()]) {
      for (const o of [...g.outputs]) {
        if (!this.groups.has(g.id) || g.boundary !== undefined || this.demanded.has(o)) continue
        changed = this.tryRecompute(g, o) || changed
      }
    }
    return changed
  }

  private tryRecompute(g: Group, o: Node): boolean {
    const consumers = [...(this.users.get(o) ?? [])]
      .flatMap((id) => this.groups.get(id) ?? [])
      .filter((c) => c.id !== g.id)
    if (consumers.length === 0 || consumers.some((c) => c.boundary !== undefined)) return false
    const chain = ancestorsWithin(o, g.members)
    for (const n of chain) {
      const f = familyOf(n)
      if (f !== 'elementwise' && f !== 'random' && f !== 'gather' && f !== 'view') return false
    }
    const rest = this.prune(g, o)
    const before = [g, ...consumers].reduce((t, x) => t + (x.made?.cost.seconds ?? 0), 0)
    const least =
      (rest.members.size === g.members.size ? leastSecondsWithout(g, o, this.target) : 0) +
      consumers.reduce((t, c) => t + leastSecondsWith(c, o, chain, this.target), 0)
    const [first] = consumers
    if (least >= before && first !== undefined) {
      this.note(g, first, dearAgain(consumers.length), least - before)
      return false
    }
    const fresh: { members: ReadonlySet<Node>; made: NonNullable<Group['made']> }[] = []
    let after = 0
    if (rest.members.size > 0) {
      const made = this.make(rest.members, rest.outputs)
      if (!made.ok) return false
      fresh.push({ members: rest.members, made })
      after += made.cost.seconds
    }
    let compute = g.made?.cost.compute ?? 0
    for (const c of consumers) {
      const members = new Set([...c.members, ...chain])
      const made = this.make(members, c.outputs)
      if (!made.ok) {
        this.note(g, c, made, undefined)
        return false
      }
      fresh.push({ members, made })
      after += made.cost.seconds
      compute += c.made?.cost.compute ?? 0
    }
    if (after >= before) {
      const dearer = fresh.reduce((t, f) => t + f.made.cost.compute, 0) > 1.01 * compute
      if (first !== undefined)
        this.note(
          g,
          first,
          dearer ? dearAgain(consumers.length) : refuse('no-gain', 'nothing is saved by computing it again'),
          after - before,
        )
      return false
    }
    this.recomputed.push({ node: o, consumers: consumers.length, savedBytes: bytesOf(o) * (1 + consumers.length) })
    this.replace([g, ...consumers], fresh)
    return true
  }

  /** A group without one of its outputs, and without what only that needed. */
  private prune(g: Group, o: Node): { members: Set<Node>; outputs: Node[] } {
    const outputs = g.outputs.filter((n) => n !== o)
    const members = new Set<Node>()
    for (const n of outputs) for (const m of ancestorsWithin(n, g.members)) members.add(m)
    return { members, outputs }
  }

  /** Groups that read the same tensor over the same axes become one kernel with several results, which may then join what they read. */
  mergeSiblings(): void {
    const joined = new Set<number>()
    const leaves = [...this.users.keys()].filter((n) => bytesOf(n) > 0).sort((p, q) => bytesOf(q) - bytesOf(p))
    // Pairs refused: no merge of others changes that.
    const refused = new Set<string>()
    for (const leaf of leaves) {
      const seen = [...(this.users.get(leaf) ?? [])]
      for (let i = 0; i < seen.length; i++) {
        for (let j = i + 1; j < seen.length; j++) {
          const a = this.groups.get(seen[i] ?? -1)
          const b = this.groups.get(seen[j] ?? -1)
          if (a?.made === undefined || b?.made === undefined || !this.alike(a, b)) continue
          if (!worthSharing(bytesOf(leaf), a.made.cost, b.made.cost)) continue
          const pair = a.id < b.id ? `${a.id},${b.id}` : `${b.id},${a.id}`
          if (refused.has(pair)) continue
          const merged = this.tryMerge(a, b)
          if (merged === undefined) {
            refused.add(pair)
            continue
          }
          joined.add(merged.id)
          seen[i] = merged.id
          seen.splice(j--, 1)
        }
      }
    }
    this.mergeEdges([...joined].filter((id) => this.groups.has(id)))
  }

  /** Cheap test before a sibling trial: the same number of points, or those of an operand or the result of a matrix product. */
  private alike(a: Group, b: Group): boolean {
    const points = (g: Group): number => {
      let n = 1
      for (const x of g.made?.body.axes ?? []) n *= x.extent
      return n
    }
    const product = a.made?.roles.matrix ?? b.made?.roles.matrix
    if (product === undefined) return points(a) === points(b)
    if (a.made?.roles.matrix !== undefined && b.made?.roles.matrix !== undefined) return false
    const [matrix, other] = a.made?.roles.matrix === undefined ? [b, a] : [a, b]
    const { m, n, k } = product
    return [m, n, k].some(
      (side) => points(other) * pointsOf(matrix.made?.roles.extents ?? new Map(), side) === points(matrix),
    )
  }
}
