/**
 * What goes through an axis in strips: the nodes between which large values stand, where each node's index of the axis asks for the same index of
 * those it reads. What folds the axis away leaves the strips, and nothing inside may need it whole.
 */
import { gcd } from '../../affine/gcd.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { nodesOf, usersOf } from '../../graph/traverse.ts'
import { bytesOf, isFree } from '../../plan/body/region.ts'
import { combinerOf, hasParts, isFolded, type Meeting, mayBeStripped, meetingsOf } from './axes.ts'

/** Nodes that are computed strip by strip. */
export interface StripRegion {
  /** In topological order. */
  readonly members: readonly Node[]
  /** The axis that strips are of: of members, and of what they read strip by strip. */
  readonly axisOf: ReadonlyMap<Node, number>
  /** Parts of the axis that strips are whole numbers of, as many in all of these nodes. */
  readonly extent: number
  /** Whether a member reads all of an input in every strip. */
  readonly isWhole: (member: Node, input: number) => boolean
  /** What is read whole in every strip, and views and numbers made of it, in topological order. */
  readonly whole: readonly Node[]
  readonly views: readonly Node[]
  /** What is read strip by strip. */
  readonly striped: readonly Node[]
  /** Members that others read. */
  readonly results: readonly Node[]
}

/** Most nodes of a region. */
const mostMembers = 400

class Growing {
  readonly members = new Set<Node>()
  readonly axisOf = new Map<Node, number>()
  private readonly users: ReadonlyMap<Node, readonly Node[]>
  private readonly order: readonly Node[]
  private readonly stored: ReadonlySet<Node>
  private readonly isLarge: (n: Node) => boolean
  private readonly queue: Node[] = []
  private readonly meetings = new Map<Node, readonly Meeting[]>()

  /** `large`: the bytes from which on a value is to stand a strip at a time. */
  constructor(graph: Graph, large: number) {
    this.order = nodesOf(graph)
    this.users = usersOf(graph)
    this.stored = new Set<Node>([...graph.outputs, ...graph.effects])
    this.isLarge = (n) => bytesOf(n) > large && !this.stored.has(n)
  }

  /** Grows from an axis of a node; whether that is a region. */
  from(seed: Node, axis: number): boolean {
    if (!this.join(seed, axis)) return false
    for (;;) {
      for (let n = this.queue.pop(); n !== undefined; n = this.queue.pop()) if (!this.follow(n)) return false
      const between = this.between()
      if (between.length === 0) return [...this.members].every((n) => this.isAligned(n))
      for (const n of between) {
        const own = this.meetingsOf(n).find((m) => this.axisOf.get(n.inputs[m.input] as Node) === m.axis)?.own
        if (own === undefined || !this.join(n, own)) return false
      }
    }
  }

  private meetingsOf(n: Node): readonly Meeting[] {
    const have = this.meetings.get(n) ?? meetingsOf(n)
    this.meetings.set(n, have)
    return have
  }

  private mark(n: Node, axis: number): boolean {
    const have = this.axisOf.get(n)
    this.axisOf.set(n, have ?? axis)
    return have === undefined || have === axis
  }

  private join(n: Node, axis: number): boolean {
    if (!this.mark(n, axis)) return false
    if (this.members.has(n)) return true
    if (!mayBeStripped(n) || !hasParts(n, axis, this.meetingsOf(n)) || this.members.size >= mostMembers) return false
    this.members.add(n)
    this.queue.push(n)
    return true
  }

  /** Large values that a member reads, and all that read it where it is large, are members. */
  private follow(n: Node): boolean {
    const axis = this.axisOf.get(n)
    for (const m of this.meetingsOf(n)) {
      const x = n.inputs[m.input]
      if (x === undefined || m.own !== axis) continue
      if (this.isInside(x, m.axis) ? !this.join(x, m.axis) : !this.mark(x, m.axis)) return false
    }
    if (axis === undefined || isFolded(n, axis) || !this.isLarge(n)) return true
    return (this.users.get(n) ?? []).every((u) => {
      const own = this.meetingsOf(u).find((m) => u.inputs[m.input] === n && m.axis === axis)?.own
      return own !== undefined && this.join(u, own)
    })
  }

  /** Whether a value that members read is made in strips: it is large, or costs nothing. */
  private isInside(x: Node, axis: number): boolean {
    if (!mayBeStripped(x)) return false
    return this.isLarge(x) || (isFree(x) && (x.inputs.length === 0 || this.meetingsOf(x).some((m) => m.own === axis)))
  }

  /** What depends on members, and members on it. */
  private between(): Node[] {
    const behind = new Set<Node>()
    for (const n of this.order) if (n.inputs.some((x) => this.members.has(x) || behind.has(x))) behind.add(n)
    const ahead = new Set<Node>()
    for (const n of this.order.toReversed())
      if (this.members.has(n) || ahead.has(n)) for (const x of n.inputs) ahead.add(x)
    return this.order.filter((n) => behind.has(n) && ahead.has(n) && !this.members.has(n))
  }

  /** Whether a member reads strips of what has strips, at its own places, and is itself needed in strips alone if it folds them. */
  private isAligned(n: Node): boolean {
    const own = this.axisOf.get(n)
    if (own === undefined) return false
    if (isFolded(n, own) && (combinerOf(n) === undefined || (this.users.get(n) ?? []).some((u) => this.members.has(u))))
      return false
    return n.inputs.every((x, input) => {
      if (this.isWhole(n, input)) return !this.members.has(x)
      return this.meetingsOf(n).every((m) => m.input !== input || (m.own === own) === (m.axis === this.axisOf.get(x)))
    })
  }

  /** Whether a member reads all of an input in every strip. */
  private isWhole(n: Node, input: number): boolean {
    const own = this.axisOf.get(n)
    return !this.meetingsOf(n).some((m) => m.input === input && m.own === own)
  }

  region(): StripRegion {
    const members = this.order.filter((n) => this.members.has(n))
    const read = (whole: boolean): Node[] =>
      members.flatMap((n) => n.inputs.filter((_, i) => this.isWhole(n, i) === whole))
    const needed = new Set(read(true))
    for (const n of needed) if (isFree(n)) for (const x of n.inputs) needed.add(x)
    const isRead = (n: Node): boolean =>
      this.stored.has(n) || (this.users.get(n) ?? []).some((u) => !this.members.has(u))
    const extents = [...this.axisOf].flatMap(([n, axis]) => n.shape[axis] ?? [])
    return {
      members,
      axisOf: this.axisOf,
      extent: extents.reduce(gcd),
      isWhole: (n, input) => this.isWhole(n, input),
      whole: [...needed].filter((x) => !isFree(x)),
      views: this.order.filter((x) => needed.has(x) && isFree(x)),
      striped: [...new Set(read(false))].filter((x) => !this.members.has(x)),
      results: members.filter(isRead),
    }
  }
}

/** The regions in which values of more than `large` bytes, one of them given, stand a strip at a time: one for each axis that may be, the longest first. */
export function stripRegions(graph: Graph, seed: Node, large: number): StripRegion[] {
  const axes = seed.shape.map((extent, axis) => ({ extent, axis })).filter((a) => a.extent > 1)
  return axes
    .sort((a, b) => b.extent - a.extent)
    .flatMap(({ axis }) => {
      const growing = new Growing(graph, large)
      return growing.from(seed, axis) ? [growing.region()] : []
    })
}
