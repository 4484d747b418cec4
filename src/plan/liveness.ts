/** How many bytes of intermediate values stand in memory at once under a plan, before buffers are laid out. */
import type { Graph, Node } from '../graph/node.ts'
import { storedBytes } from './formats.ts'
import { accessesOf } from './memory/access.ts'
import type { FusionPlan } from './plan.ts'
import { storageOf } from './region.ts'

/** The most bytes of stored values alive between two kernels' beginnings; inputs and results of the graph are not counted. */
export function liveBytes(graph: Graph, plan: FusionPlan): number {
  const results = new Set(graph.outputs.map(storageOf))
  const last = new Map<Node, number>()
  plan.groups.forEach((g, i) => {
    for (const { buffers } of accessesOf(g)) for (const n of buffers) last.set(n, i)
  })
  const ends = new Map<number, number>()
  let live = 0
  let peak = 0
  plan.groups.forEach((g, i) => {
    for (const o of accessesOf(g).flatMap((a) => a.writes)) {
      const bytes = results.has(o) ? 0 : storedBytes(o, plan.bits)
      const end = Math.max(i, last.get(o) ?? i)
      live += bytes
      ends.set(end, (ends.get(end) ?? 0) + bytes)
    }
    peak = Math.max(peak, live)
    live -= ends.get(i) ?? 0
  })
  return peak
}
