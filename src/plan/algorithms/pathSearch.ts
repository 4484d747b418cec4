/** A search through an acyclic graph that goes on where it ended. It knows nothing of tensors. */
import { Heap } from './heap.ts'

type Neighbours = (id: number) => ReadonlySet<number>

/**
 * What can be reached from a group, the nearest first, as far as anything asked. It holds as long as the graph and the order of its groups are the same.
 */
export class PathSearch {
  readonly root: number
  private readonly next: Neighbours
  /** Where a group stands: what can be reached from it is farther. */
  private readonly far: (id: number) => number
  private readonly seen = new Set<number>()
  /** Places of groups that were seen and whose neighbours have not been looked at, and which groups stand there. */
  private readonly waiting = new Heap<number>((p, q) => p - q)
  private readonly at = new Map<number, number>()
  /** Groups that can be reached through at least one other. */
  private readonly found = new Set<number>()

  constructor(root: number, next: Neighbours, far: (id: number) => number) {
    this.root = root
    this.next = next
    this.far = far
    for (const s of next(root)) this.see(s)
  }

  private see(id: number): void {
    if (this.seen.has(id)) return
    this.seen.add(id)
    const place = this.far(id)
    this.at.set(place, id)
    this.waiting.push(place)
  }

  /** Whether a group can be reached through at least one other, as far as the search has gone. */
  has(id: number): boolean {
    return this.found.has(id)
  }

  /** Goes on by one group that stands before a place; the group, or undefined where there is none: what leads to a group stands before it. */
  step(before: number): number | undefined {
    const place = this.waiting.peek()
    if (place === undefined || place >= before) return undefined
    this.waiting.pop()
    const id = this.at.get(place)
    if (id === undefined) return undefined
    for (const s of this.next(id)) {
      this.found.add(s)
      this.see(s)
    }
    return id
  }

  /** Whether a group can be reached at all, as far as the search has gone. */
  reaches(id: number): boolean {
    return this.seen.has(id)
  }
}
