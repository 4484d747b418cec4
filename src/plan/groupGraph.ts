/** An acyclic graph of groups under merging. It knows nothing of tensors. */

export class GroupGraph {
  private readonly succ = new Map<number, Set<number>>()
  private readonly pred = new Map<number, Set<number>>()

  add(id: number): void {
    this.succ.set(id, new Set())
    this.pred.set(id, new Set())
  }

  connect(from: number, to: number): void {
    if (from === to) return
    this.succ.get(from)?.add(to)
    this.pred.get(to)?.add(from)
  }

  successors(id: number): ReadonlySet<number> {
    return this.succ.get(id) ?? new Set()
  }

  predecessors(id: number): ReadonlySet<number> {
    return this.pred.get(id) ?? new Set()
  }

  has(id: number): boolean {
    return this.succ.has(id)
  }

  ids(): number[] {
    return [...this.succ.keys()]
  }

  /** Whether `to` can be reached from `from` through at least one group in between. */
  hasIndirectPath(from: number, to: number): boolean {
    const stack = [...this.successors(from)].filter((s) => s !== to)
    const seen = new Set(stack)
    for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
      for (const s of this.successors(n)) {
        if (s === to) return true
        if (!seen.has(s)) {
          seen.add(s)
          stack.push(s)
        }
      }
    }
    return false
  }

  remove(id: number): void {
    for (const s of this.successors(id)) this.pred.get(s)?.delete(id)
    for (const p of this.predecessors(id)) this.succ.get(p)?.delete(id)
    this.succ.delete(id)
    this.pred.delete(id)
  }

  /** Topological order; among the ready, the least by `rank` first. Throws where there is a cycle. */
  order(rank: (id: number) => number): number[] {
    const waiting = new Map(this.ids().map((id) => [id, this.predecessors(id).size]))
    const ready = this.ids().filter((id) => waiting.get(id) === 0)
    const out: number[] = []
    while (ready.length > 0) {
      let best = 0
      for (let i = 1; i < ready.length; i++) if (rank(ready[i] ?? 0) < rank(ready[best] ?? 0)) best = i
      const [id] = ready.splice(best, 1)
      if (id === undefined) break
      out.push(id)
      for (const s of this.successors(id)) {
        const left = (waiting.get(s) ?? 0) - 1
        waiting.set(s, left)
        if (left === 0) ready.push(s)
      }
    }
    if (out.length !== this.succ.size) throw new Error('the group graph has a cycle')
    return out
  }
}
