/** How many bytes of intermediate values stand in memory at once under a plan, before buffers are laid out. */
import type { Graph } from '../../graph/node.ts'
import { storageOf } from '../body/region.ts'
import { storedBytes } from '../body/stored.ts'
import { type FusionPlan, singleGroups } from '../plan.ts'
import { PlanMemory } from './peak.ts'

/** The most bytes of stored values alive during a launch; inputs and results of the graph are not counted. */
export function liveBytes(graph: Graph, plan: FusionPlan): number {
  const results = new Set(graph.outputs.map(storageOf))
  const groups = new Map(singleGroups(plan).map((g, i) => [i, g]))
  const memory = new PlanMemory(groups, results, (n) => storedBytes(n, plan.stored), plan.reuse)
  let next = 0
  return memory.peakOf(plan.groups.map((g) => (g.kind === 'union' ? g.parts : [g]).map(() => next++)))
}
