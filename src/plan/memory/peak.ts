/** How many bytes of intermediates an order of groups keeps alive at once, before there are kernels and offsets. */
import type { Node } from '../../graph/node.ts'
import type { BufferReuse } from '../axes/bindings.ts'
import { partialBytes } from '../axes/partials.ts'
import type { SingleGroup } from '../plan.ts'
import { accessOf } from './access.ts'
import { assignBuffers, type BufferAssignment, type BufferNeed, type MemoryStep, peakBytes } from './assignment.ts'
import { mayStandOver } from './overwrites.ts'

/** What a group does to the intermediates. */
interface Touched {
  readonly group: SingleGroup
  readonly reads: readonly number[]
  readonly writes: readonly number[]
  readonly partials: readonly number[]
}

export class PlanMemory {
  /** By number; partial results have none. */
  private readonly nodes: (Node | undefined)[] = []
  private readonly needs: BufferNeed[] = []
  private readonly touched: ReadonlyMap<number, Touched>
  private readonly decided: ReadonlyMap<number, number>

  /**
   * Of groups by number; `results` have memory of their own however the groups are ordered; `reuse` is decided. Where inputs are `donated`,
   * results may be written over them.
   */
  constructor(
    groups: ReadonlyMap<number, SingleGroup>,
    results: ReadonlySet<Node>,
    bytes: (node: Node) => number,
    reuse: BufferReuse,
    donated?: ReadonlySet<Node>,
  ) {
    const numbers = new Map<Node, number>()
    const add = (node: Node | undefined, size: number, kind: BufferNeed['kind'] = 'intermediate'): number => {
      this.nodes.push(node)
      return this.needs.push({ bytes: size, kind }) - 1
    }
    // What becomes a result stands where that does.
    const apart = new Set(results)
    for (const n of apart) {
      const under = reuse.get(n)
      if (under !== undefined && under.op !== 'param') apart.add(under)
    }
    for (const g of groups.values())
      for (const n of accessOf(g).writes) {
        if (!apart.has(n) && !numbers.has(n)) numbers.set(n, add(n, bytes(n)))
        else if (donated !== undefined && results.has(n)) numbers.set(n, add(n, bytes(n), 'result'))
      }
    for (const n of donated ?? []) if (!results.has(n)) numbers.set(n, add(n, bytes(n), 'donated'))
    const known = (nodes: Iterable<Node>): number[] => [...nodes].flatMap((n) => numbers.get(n) ?? [])
    this.touched = new Map(
      [...groups].map(([id, group]) => {
        const { buffers, writes, partials } = accessOf(group)
        const own = partials.map((p) => add(undefined, partialBytes(p)))
        return [id, { group, reads: known(buffers), writes: known(writes), partials: own }]
      }),
    )
    this.decided = new Map(
      [...reuse].flatMap(([write, read]) => {
        const [w, r] = [numbers.get(write), numbers.get(read)]
        return w === undefined || r === undefined ? [] : [[w, r] as const]
      }),
    )
  }

  /** Lifetimes and reuse under an order; a step is one group, or several launched as one. */
  assign(steps: readonly (readonly number[])[]): BufferAssignment {
    const made = steps.map((ids) => this.stepOf(ids.flatMap((id) => this.touched.get(id) ?? [])))
    return assignBuffers(made, this.needs, this.decided)
  }

  /** The most bytes alive during a step of an order. */
  peakOf(steps: readonly (readonly number[])[]): number {
    return peakBytes(this.assign(steps), this.needs, steps.length)
  }

  /** What is written over what under an order, of buffers that have elements. */
  donorsOf(steps: readonly (readonly number[])[]): BufferReuse {
    const out = new Map<Node, Node>()
    for (const [write, read] of this.assign(steps).donors) {
      const [to, from] = [this.nodes[write], this.nodes[read]]
      if (to !== undefined && from !== undefined && this.needs[write]?.bytes !== 0) out.set(to, from)
    }
    return out
  }

  private stepOf(parts: readonly Touched[]): MemoryStep {
    const touches = parts.flatMap((t) => [...t.reads, ...t.writes, ...t.partials])
    const [only, another] = parts
    if (another === undefined) return { touches, donorFor: (write, isFree) => this.donorIn(only, write, isFree) }
    let parted: { readonly writer: Map<number, Touched>; readonly readers: Map<number, number> } | undefined
    return {
      touches,
      donorFor: (write, isFree) => {
        if (parted === undefined) {
          parted = { writer: new Map(), readers: new Map() }
          for (const t of parts) {
            for (const b of t.writes) parted.writer.set(b, t)
            for (const b of t.reads) parted.readers.set(b, (parted.readers.get(b) ?? 0) + 1)
          }
        }
        const { writer, readers } = parted
        return this.donorIn(writer.get(write), write, (b) => isFree(b) && readers.get(b) === 1)
      },
    }
  }

  private donorIn(part: Touched | undefined, write: number, isFree: (b: number) => boolean): number | undefined {
    const to = this.nodes[write]
    if (part === undefined || to === undefined) return undefined
    for (const b of part.reads) {
      const from = this.nodes[b]
      if (from !== undefined && isFree(b) && mayStandOver(part.group, to, from)) return b
    }
    return undefined
  }
}
