/** An acyclic graph of groups under merging. It knows nothing of tensors. */
import { Heap } from './heap.ts'
import { PathSearch } from './pathSearch.ts'

const none: ReadonlySet<number> = new Set()

export class GroupGraph {
  private readonly succ = new Map<number, Set<number>>()
  private readonly pred = new Map<number, Set<number>>()
  /** Numbers that grow along every edge, each once; made when a path is first asked for, and kept so from then on. */
  private ranks: Map<number, number> | undefined
  private nextRank = 0
  /** The last searches, until links change: what a group leads to, and what leads to one. */
  private ahead: PathSearch | undefined
  private behind: PathSearch | undefined
  /** Groups that searches for paths went through so far. */
  visited = 0

  /** `rank`: one that a removed group had, where the new one is to stand. */
  add(id: number, rank?: number): void {
    this.succ.set(id, new Set())
    this.pred.set(id, new Set())
    this.ranks?.set(id, rank ?? this.nextRank++)
  }

  connect(from: number, to: number): void {
    const successors = this.succ.get(from)
    if (from === to || successors === undefined || successors.has(to)) return
    this.forget()
    if (this.ranks !== undefined) this.rankAbove(this.ranks, from, to)
    successors.add(to)
    this.pred.get(to)?.add(from)
  }

  /** Where a group stands among the others, once that is known. */
  rankOf(id: number): number | undefined {
    return this.ranks?.get(id)
  }

  /**
   * Ranks `to` behind `from`: of what stands between the two, what leads to `from` comes before what `to` leads to (Pearce and Kelly, A
   * dynamic topological sort algorithm for directed acyclic graphs, 2007).
   */
  private rankAbove(ranks: Map<number, number>, from: number, to: number): void {
    const [least, most] = [ranks.get(to) ?? 0, ranks.get(from) ?? 0]
    if (most < least) return
    /** Groups that can be reached, by their ranks. */
    const at = new Map<number, number>()
    const reached = (root: number, neighbours: ReadonlyMap<number, ReadonlySet<number>>): Float64Array => {
      const own = [ranks.get(root) ?? 0]
      at.set(ranks.get(root) ?? 0, root)
      const stack = [root]
      for (let n = stack.pop(); n !== undefined; n = stack.pop())
        for (const s of neighbours.get(n) ?? none) {
          const rank = ranks.get(s) ?? 0
          if (rank <= least || rank >= most || at.has(rank)) continue
          at.set(rank, s)
          own.push(rank)
          stack.push(s)
        }
      this.visited += own.length
      return Float64Array.from(own).sort()
    }
    const before = reached(from, this.pred)
    const after = reached(to, this.succ)
    // The two share no group: it would be on a cycle.
    const inOrder = new Float64Array(before.length + after.length)
    inOrder.set(before)
    inOrder.set(after, before.length)
    const places = inOrder.slice().sort()
    for (let i = 0; i < places.length; i++) ranks.set(at.get(inOrder[i] ?? 0) ?? 0, places[i] ?? 0)
  }

  private ranked(): ReadonlyMap<number, number> {
    if (this.ranks === undefined) {
      this.ranks = new Map(this.order(() => 0).map((id, i) => [id, i]))
      this.nextRank = this.ranks.size
    }
    return this.ranks
  }

  successors(id: number): ReadonlySet<number> {
    return this.succ.get(id) ?? none
  }

  predecessors(id: number): ReadonlySet<number> {
    return this.pred.get(id) ?? none
  }

  has(id: number): boolean {
    return this.succ.has(id)
  }

  ids(): number[] {
    return [...this.succ.keys()]
  }

  /** Whether one of two groups directly depends on the other. */
  touch(a: number, b: number): boolean {
    return this.successors(a).has(b) || this.successors(b).has(a)
  }

  /** Whether a group depends on no other and none on it. */
  isApart(id: number): boolean {
    return this.successors(id).size === 0 && this.predecessors(id).size === 0
  }

  /**
   * Whether `to` can be reached from `from` through at least one group in between. Two searches take turns, from both ends, until one is done or they meet:
   * much may lead from one group where little leads to the other. Questions about one group mostly follow on each other, so both go on from there.
   */
  hasIndirectPath(from: number, to: number): boolean {
    const ranks = this.ranked()
    const [first, last] = [ranks.get(from) ?? 0, ranks.get(to) ?? 0]
    if (first >= last) return false
    let entered = false
    for (const p of this.predecessors(to)) entered ||= p !== from
    if (!entered) return false
    if (this.ahead?.root !== from)
      this.ahead = new PathSearch(
        from,
        (id) => this.successors(id),
        (id) => ranks.get(id) ?? 0,
      )
    if (this.behind?.root !== to)
      this.behind = new PathSearch(
        to,
        (id) => this.predecessors(id),
        (id) => -(ranks.get(id) ?? 0),
      )
    const { ahead, behind } = this
    for (;;) {
      if (ahead.has(to) || behind.has(from)) return true
      const after = ahead.step(last)
      if (after === undefined) return false
      this.visited++
      if (behind.reaches(after)) return true
      const before = behind.step(-first)
      if (before === undefined) return false
      this.visited++
      if (ahead.reaches(before)) return true
    }
  }

  private forget(): void {
    this.ahead = undefined
    this.behind = undefined
  }

  /** Whether a path leads from one of some groups through at least one other to one of them: as one they would be on a cycle. */
  leads(among: ReadonlySet<number>): boolean {
    const ranks = this.ranked()
    let most = -1
    for (const id of among) most = Math.max(most, ranks.get(id) ?? 0)
    const seen = new Set<number>()
    const stack: number[] = []
    const enter = (id: number): void => {
      if ((ranks.get(id) ?? 0) >= most || among.has(id) || seen.has(id)) return
      seen.add(id)
      stack.push(id)
    }
    for (const id of among) for (const s of this.successors(id)) enter(s)
    for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
      this.visited++
      for (const s of this.successors(n)) {
        if (among.has(s)) return true
        enter(s)
      }
    }
    return false
  }

  /** A group that can be reached from `from` and reaches `to`, where one stands between. */
  between(from: number, to: number): number | undefined {
    for (const s of this.successors(from))
      if (s !== to && (this.successors(s).has(to) || this.hasIndirectPath(s, to))) return s
    return undefined
  }

  remove(id: number): void {
    this.forget()
    for (const s of this.successors(id)) this.pred.get(s)?.delete(id)
    for (const p of this.predecessors(id)) this.succ.get(p)?.delete(id)
    this.succ.delete(id)
    this.pred.delete(id)
    this.ranks?.delete(id)
  }

  /** Topological order; among the ready, the least by `rank` first. Throws where there is a cycle. */
  order(rank: (id: number) => number): number[] {
    const ids = this.ids()
    const place = new Map([...ids].sort((p, q) => rank(p) - rank(q)).map((id, i) => [id, i]))
    const waiting = new Map(ids.map((id) => [id, this.predecessors(id).size]))
    const ready = new Heap<number>((a, b) => a - b)
    const at = new Map<number, number>()
    const push = (id: number): void => {
      const key = place.get(id) ?? 0
      at.set(key, id)
      ready.push(key)
    }
    for (const id of ids) if (waiting.get(id) === 0) push(id)
    const out: number[] = []
    for (let key = ready.pop(); key !== undefined; key = ready.pop()) {
      const id = at.get(key)
      if (id === undefined) break
      out.push(id)
      for (const s of this.successors(id)) {
        const left = (waiting.get(s) ?? 0) - 1
        waiting.set(s, left)
        if (left === 0) push(s)
      }
    }
    if (out.length !== this.succ.size) throw new Error('the group graph has a cycle')
    return out
  }

  /**
   * For each group the most groups that count on a path from it to an end, itself among them. Groups that count and have the
   * same number have no path between them, and one group in the place of all of them leaves the graph acyclic.
   */
  countToEnd(counts: (id: number) => boolean): Map<number, number> {
    const out = new Map<number, number>()
    for (const id of this.order(() => 0).reverse()) {
      let most = 0
      for (const s of this.successors(id)) most = Math.max(most, out.get(s) ?? 0)
      out.set(id, most + (counts(id) ? 1 : 0))
    }
    return out
  }

  /** The graph with each set of groups as one, named by `nameOf` (others keep their number). */
  contracted(nameOf: ReadonlyMap<number, number>): GroupGraph {
    const out = new GroupGraph()
    const name = (id: number): number => nameOf.get(id) ?? id
    for (const id of this.ids()) if (!out.has(name(id))) out.add(name(id))
    for (const id of this.ids()) for (const s of this.successors(id)) out.connect(name(id), name(s))
    return out
  }
}
