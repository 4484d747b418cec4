/** How many bytes of intermediate values an order of groups keeps alive at once, before any memory is planned. */
import type { Node } from '../graph/node.ts'
import { accessOf } from './memory/access.ts'
import type { SingleGroup } from './plan.ts'

interface Touched {
  readonly reads: readonly number[]
  readonly writes: readonly number[]
  /** Whether a result may take over the memory of what is read last here. */
  readonly inPlace: boolean
}

export class OrderPeak {
  private readonly bytes: number[] = []
  private readonly touched: ReadonlyMap<number, Touched>

  /** Of groups by number; `results` have memory of their own however the groups are ordered. */
  constructor(groups: ReadonlyMap<number, SingleGroup>, results: ReadonlySet<Node>, bytes: (node: Node) => number) {
    const buffers = new Map<Node, number>()
    for (const g of groups.values())
      for (const n of accessOf(g).writes) {
        if (results.has(n) || buffers.has(n)) continue
        buffers.set(n, this.bytes.length)
        this.bytes.push(bytes(n))
      }
    const known = (nodes: Iterable<Node>): number[] => [...nodes].flatMap((n) => buffers.get(n) ?? [])
    this.touched = new Map(
      [...groups].map(([id, g]) => [
        id,
        {
          reads: known(accessOf(g).buffers),
          writes: known(accessOf(g).writes),
          inPlace:
            g.kind === 'kernel' && g.called === undefined && (g.roles.kind === 'elementwise' || g.outputs.length === 1),
        },
      ]),
    )
  }

  /** The most bytes alive during a step of an order; a step is one group, or several launched as one. */
  of(steps: readonly (readonly number[])[]): number {
    const { bytes } = this
    const last = new Int32Array(bytes.length)
    const touched = steps.map((ids) => ids.flatMap((id) => this.touched.get(id) ?? []))
    touched.forEach((parts, i) => {
      for (const t of parts) for (const b of [...t.reads, ...t.writes]) last[b] = i
    })
    let live = 0
    let most = 0
    touched.forEach((parts, i) => {
      const readers = new Map<number, number>()
      for (const t of parts) for (const b of t.reads) readers.set(b, (readers.get(b) ?? 0) + 1)
      const dying = new Set(parts.flatMap((t) => [...t.reads, ...t.writes]).filter((b) => last[b] === i))
      let shared = 0
      for (const t of parts) {
        const hosts = t.inPlace ? t.reads.filter((b) => dying.has(b) && readers.get(b) === 1) : []
        for (const w of t.writes) {
          live += bytes[w] ?? 0
          const at = hosts.findIndex((b) => bytes[b] === bytes[w])
          if (at < 0) continue
          shared += bytes[w] ?? 0
          hosts.splice(at, 1)
        }
      }
      most = Math.max(most, live - shared)
      for (const b of dying) live -= bytes[b] ?? 0
    })
    return most
  }
}
