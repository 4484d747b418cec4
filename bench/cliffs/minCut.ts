/** The least total weight of nodes whose removal leaves no path from a source to a sink (maximum flow by breadth-first search). */

export interface CutNode {
  /** Infinity where it cannot be removed. */
  readonly weight: number
  /** Reached from outside without passing another node. */
  readonly isSource: boolean
  readonly isSink: boolean
  readonly inputs: readonly number[]
}

/** The nodes of a least cut; undefined where a path has none that can be removed. */
export function minCut(nodes: readonly CutNode[]): readonly number[] | undefined {
  // Node i is split into 2i (in) and 2i + 1 (out); then the source and the sink.
  const count = 2 * nodes.length + 2
  const [source, sink] = [count - 2, count - 1]
  const room: Map<number, number>[] = Array.from({ length: count }, () => new Map<number, number>())
  const add = (a: number, b: number, capacity: number): void => {
    room[a]?.set(b, (room[a]?.get(b) ?? 0) + capacity)
    if (room[b]?.has(a) !== true) room[b]?.set(a, 0)
  }
  nodes.forEach((n, i) => {
    add(2 * i, 2 * i + 1, n.weight)
    if (n.isSource) add(source, 2 * i, Number.POSITIVE_INFINITY)
    if (n.isSink) add(2 * i + 1, sink, Number.POSITIVE_INFINITY)
    for (const x of n.inputs) add(2 * x + 1, 2 * i, Number.POSITIVE_INFINITY)
  })
  const search = (): Map<number, number> => {
    const from = new Map<number, number>([[source, source]])
    const queue = [source]
    for (let at = queue.shift(); at !== undefined; at = queue.shift())
      for (const [to, left] of room[at] ?? [])
        if (left > 0 && !from.has(to)) {
          from.set(to, at)
          queue.push(to)
        }
    return from
  }
  for (;;) {
    const from = search()
    if (!from.has(sink)) return nodes.flatMap((_, i) => (from.has(2 * i) && !from.has(2 * i + 1) ? [i] : []))
    const path: (readonly [number, number])[] = []
    for (let at = sink; at !== source; at = from.get(at) ?? source) path.push([from.get(at) ?? source, at])
    const flow = Math.min(...path.map(([a, b]) => room[a]?.get(b) ?? 0))
    if (flow === Number.POSITIVE_INFINITY) return undefined
    for (const [a, b] of path) {
      room[a]?.set(b, (room[a]?.get(b) ?? 0) - flow)
      room[b]?.set(a, (room[b]?.get(a) ?? 0) + flow)
    }
  }
}
