/**
 * Minimum cut of a directed graph with non-negative capacities, by Dinic's algorithm (E. A. Dinic: Algorithm for solution of
 * a problem of maximum flow in networks with power estimation, 1970). It knows nothing of tensors.
 */
import { invariant } from '../../diagnostics/errors.ts'

/** Residuals below this share of the largest finite capacity count as nothing. */
const relativeRest = 1e-12

export class FlowNetwork {
  private readonly head: number[] = []
  private readonly next: number[] = []
  private readonly to: number[] = []
  private readonly rest: number[] = []

  vertex(): number {
    this.head.push(-1)
    return this.head.length - 1
  }

  /** An edge; infinite capacities are never cut. */
  connect(from: number, to: number, capacity: number): void {
    this.half(from, to, capacity)
    this.half(to, from, 0)
  }

  private half(from: number, to: number, capacity: number): void {
    this.to.push(to)
    this.rest.push(capacity)
    this.next.push(this.head[from] ?? -1)
    this.head[from] = this.to.length - 1
  }

  /** Vertices on the sink's side of a least cut between the two: as few as there can be. Some cut must be finite. */
  sinkSide(source: number, sink: number): ReadonlySet<number> {
    const finite = this.rest.reduce((m, c) => (Number.isFinite(c) ? Math.max(m, c) : m), 0)
    const least = finite * relativeRest
    for (;;) {
      const level = this.levels(source, least)
      if ((level[sink] ?? -1) < 0) break
      const at = [...this.head]
      while (this.augment(source, sink, level, at, least)) {}
    }
    const side = new Set([sink])
    for (const v of side)
      for (let e = this.head[v] ?? -1; e >= 0; e = this.next[e] ?? -1)
        if ((this.rest[e ^ 1] ?? 0) > least) side.add(this.to[e] ?? sink)
    return side
  }

  /** Breadth-first distance from the source over edges with something left; -1 where none leads. */
  private levels(source: number, least: number): number[] {
    const level = new Array<number>(this.head.length).fill(-1)
    level[source] = 0
    const queue = [source]
    for (let i = 0; i < queue.length; i++) {
      const v = queue[i] ?? 0
      for (let e = this.head[v] ?? -1; e >= 0; e = this.next[e] ?? -1) {
        const w = this.to[e] ?? 0
        if ((this.rest[e] ?? 0) <= least || (level[w] ?? 0) >= 0) continue
        level[w] = (level[v] ?? 0) + 1
        queue.push(w)
      }
    }
    return level
  }

  /** Pushes flow along one path that gains a level at every edge; whether there was one. `at` remembers dead ends. */
  private augment(source: number, sink: number, level: readonly number[], at: number[], least: number): boolean {
    const path: number[] = []
    let v = source
    while (v !== sink) {
      const e = at[v] ?? -1
      if (e < 0) {
        const back = path.pop()
        if (back === undefined) return false
        v = this.to[back ^ 1] ?? source
        at[v] = this.next[back] ?? -1
        continue
      }
      const w = this.to[e] ?? 0
      if ((this.rest[e] ?? 0) > least && level[w] === (level[v] ?? 0) + 1) {
        path.push(e)
        v = w
      } else at[v] = this.next[e] ?? -1
    }
    const flow = path.reduce((m, e) => Math.min(m, this.rest[e] ?? 0), Number.POSITIVE_INFINITY)
    invariant(Number.isFinite(flow), 'every cut of the network is infinite')
    for (const e of path) {
      this.rest[e] = (this.rest[e] ?? 0) - flow
      this.rest[e ^ 1] = (this.rest[e ^ 1] ?? 0) + flow
    }
    return true
  }
}
