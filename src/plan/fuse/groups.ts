/** The groups of a plan while it is made: which nodes each computes and stores, what it reads, and who depends on whom. */
import type { Node } from '../../graph/node.ts'
import { opDef } from '../../graph/table.ts'
import { GroupGraph } from '../algorithms/groupGraph.ts'
import { boundaryInputs } from '../body/reads.ts'
import { dataInputs, type Region } from '../body/region.ts'
import type { Made } from '../cost/candidateMemo.ts'
import type { BoundaryGroup } from '../plan.ts'

export interface Group {
  readonly id: number
  readonly members: ReadonlySet<Node>
  readonly boundary: BoundaryGroup['kind'] | undefined
  /** Members that are stored. */
  outputs: readonly Node[]
  /** Nodes it reads that others compute, or that stand in memory from the beginning. */
  readonly inputs: ReadonlySet<Node>
  /** What it is as a kernel; boundaries are none. */
  made: Made | undefined
}

const none: ReadonlySet<number> = new Set()

/** What replaces groups. */
export interface FreshGroup {
  readonly members: ReadonlySet<Node>
  readonly made: Made
  /** Those of its members that it stores, where others compute them again; otherwise the first group that has a member stores it. */
  readonly outputs?: readonly Node[]
}

/** A group before it is known what it is as a kernel, which may depend on what others read of it. */
type Unmade = Omit<FreshGroup, 'made'> & Partial<Pick<FreshGroup, 'made'>>

/** Nodes that a group of these members reads. */
function inputsOf(members: ReadonlySet<Node>, boundary: Group['boundary']): Set<Node> {
  const inputs = new Set<Node>()
  // Kernels read through a view that is stored; boundaries read what is stored.
  for (const m of members)
    for (const x of boundary === undefined ? dataInputs(m) : boundaryInputs(m)) if (!members.has(x)) inputs.add(x)
  return inputs
}

/** The groups that compute each node, in the order given. */
export function groupsByNode<G>(
  groups: Iterable<G>,
  membersOf: (g: G) => Iterable<Node>,
): ReadonlyMap<Node, readonly G[]> {
  const out = new Map<Node, G[]>()
  for (const g of groups)
    for (const n of membersOf(g)) {
      const have = out.get(n)
      if (have === undefined) out.set(n, [g])
      else if (have.at(-1) !== g) have.push(g)
    }
  return out
}

export class Groups {
  /** By number. */
  readonly all = new Map<number, Group>()
  readonly links = new GroupGraph()
  /** The group that stores a node where anything asks for it; others may compute it again. */
  private readonly home = new Map<Node, number>()
  private readonly users = new Map<Node, Set<number>>()
  private readonly demanded: ReadonlySet<Node>
  private nextId = 0

  /** A group for each cluster; `demanded` nodes are stored whoever uses them. */
  constructor(clusters: readonly ReadonlySet<Node>[], demanded: ReadonlySet<Node>) {
    this.demanded = demanded
    for (const members of clusters) {
      const [n] = members
      if (n === undefined) continue
      const g = this.insert(members, opDef(n).boundary, undefined)
      for (const m of members) this.home.set(m, g.id)
    }
    for (const g of this.all.values()) this.refresh(g)
  }

  /** Nodes that several groups read. */
  sharedReads(): Node[] {
    const out: Node[] = []
    for (const [node, users] of this.users) if (users.size > 1) out.push(node)
    return out
  }

  /** The group that stores a node where anything asks for it. */
  homeOf(node: Node): Group | undefined {
    return this.all.get(this.home.get(node) ?? -1)
  }

  /** Numbers of the groups that read a node. */
  usersOf(node: Node): number[] {
    return [...(this.users.get(node) ?? [])]
  }

  /** Whether a node is stored by a group, where anything asks for it: others compute it again. */
  isHome(g: Group, node: Node): boolean {
    return this.home.get(node) === g.id
  }

  /** What the groups would compute and store as one. */
  joined(...groups: readonly Group[]): Region {
    const members = new Set<Node>()
    for (const g of groups) for (const n of g.members) members.add(n)
    return { members, outputs: this.outputsOf(members, new Set(groups.map((g) => g.id))) }
  }

  /** The same without the members of some pieces, which nothing else in them needs, and behind it those pieces. */
  joinedBefore(groups: readonly Group[], pieces: readonly ReadonlySet<Node>[]): Region[] {
    const { members, outputs } = this.joined(...groups)
    const behind = new Set(pieces.flatMap((p) => [...p].filter((n) => groups.some((g) => this.isHome(g, n)))))
    const all = [new Set([...members].filter((n) => !behind.has(n))), ...pieces]
    const stored = new Set(outputs)
    const reads = all.map((some) => inputsOf(some, undefined))
    return all.map((some, i) => ({
      members: some,
      outputs: [...some].filter((n) => {
        const isHome = i === 0 ? !behind.has(n) : behind.has(n)
        return isHome && (stored.has(n) || reads.some((read, j) => j !== i && read.has(n)))
      }),
    }))
  }

  /** Puts new groups, which compute all that the old ones did, in their place. */
  replace(old: readonly Group[], fresh: readonly Unmade[]): Group[] {
    const homeless = new Set<Node>()
    for (const g of old) for (const n of g.members) if (this.home.get(n) === g.id) homeless.add(n)
    // New groups stand where old ones stood: the last of them with the last.
    const ranks = old.map((g) => this.links.rankOf(g.id))
    for (const g of old) this.drop(g)
    const made = fresh.map((f, i) => {
      const g = this.insert(f.members, undefined, f.made, ranks[old.length - fresh.length + i])
      for (const n of f.outputs ?? []) if (homeless.delete(n)) this.home.set(n, g.id)
      return g
    })
    for (const g of made) for (const n of g.members) if (homeless.delete(n)) this.home.set(n, g.id)
    for (const g of made) this.refresh(g)
    return made
  }

  private insert(
    members: ReadonlySet<Node>,
    boundary: Group['boundary'],
    made: Made | undefined,
    rank?: number,
  ): Group {
    const g: Group = { id: this.nextId++, members, boundary, outputs: [], inputs: inputsOf(members, boundary), made }
    this.all.set(g.id, g)
    this.links.add(g.id, rank)
    for (const x of g.inputs) {
      const set = this.users.get(x) ?? new Set()
      set.add(g.id)
      this.users.set(x, set)
    }
    return g
  }

  private drop(g: Group): void {
    this.all.delete(g.id)
    this.links.remove(g.id)
    for (const x of g.inputs) this.users.get(x)?.delete(g.id)
  }

  /** Outputs and links of a group, once all groups beside it stand. */
  private refresh(g: Group): void {
    g.outputs = this.outputsOf(g.members, new Set([g.id]))
    for (const x of g.inputs) {
      const from = this.home.get(x)
      if (from !== undefined) this.links.connect(from, g.id)
    }
    for (const m of g.members)
      if (this.home.get(m) === g.id) for (const u of this.users.get(m) ?? none) this.links.connect(g.id, u)
  }

  /** Members at home in some groups that others use or that must stand in memory. */
  private outputsOf(members: ReadonlySet<Node>, inside: ReadonlySet<number>): Node[] {
    const out: Node[] = []
    for (const n of members) {
      const home = this.home.get(n)
      if (home === undefined || !inside.has(home)) continue
      const users = this.users.get(n) ?? none
      let isStored = this.demanded.has(n) || users.size > inside.size
      if (!isStored) for (const u of users) isStored ||= !inside.has(u)
      if (isStored) out.push(n)
    }
    return out
  }
}
