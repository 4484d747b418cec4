/**
 * Which nodes make one kernel. Every node starts alone; producer-consumer pairs merge in the order of the traffic they save,
 * as long as the merged body is a kernel (instances.ts, roles.ts) and is modelled faster; then stored values that are cheaper
 * to compute again are, and groups that read the same tensors over the same axes join. Refusals are kept with their reasons.
 */
import { invariant } from '../diagnostics/errors.ts'
import type { Graph, Node } from '../graph/node.ts'
import { topologicalOrder } from '../graph/traverse.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import { chains, demandedNodes, withResults } from './clusters.ts'
import { decideFormats, storedBytes } from './formats.ts'
import { orderGroups } from './order.ts'
import type { FusionPlan, PlannedGroup } from './plan.ts'
import { type Apart, Planner } from './planner.ts'
import { isFree, storageOf } from './region.ts'
import { spreadSingles } from './singles.ts'
import type { TargetInfo } from './target.ts'

/** Plans a graph for a target. Without `fuse` every node is a kernel of its own; no kernel holds both sides of `apart`. */
export function planFusion(
  graph: Graph,
  target: TargetInfo,
  mode: NumericsMode,
  fuse = true,
  apart?: Apart,
): FusionPlan {
  const nodes = topologicalOrder([...graph.outputs, ...graph.effects])
  const demanded = demandedNodes(graph, nodes)
  const stands = (n: Node): boolean => n.op === 'param' || n.op === 'result' || (n.op === 'constant' && !isFree(n))
  const units = nodes.filter((n) => !stands(n) && (!isFree(n) || demanded.has(n)))
  const { clusters, recomputed } = fuse
    ? spreadSingles(chains(units, demanded, target), demanded, target)
    : { clusters: units.map((n) => new Set([n])), recomputed: [] }
  const planner = new Planner(withResults(clusters, nodes), demanded, target, mode, recomputed, apart)
  if (fuse) {
    planner.mergeEdges()
    planner.mergeSiblings()
    if (planner.recomputeCheap()) {
      planner.mergeEdges()
      planner.mergeSiblings()
    }
  }
  const ranks = new Map<number, number>()
  for (const g of planner.groups.values()) {
    let least = Number.POSITIVE_INFINITY
    for (const n of g.members) least = Math.min(least, n.id)
    ranks.set(g.id, least)
  }
  const chosen = planner.links
    .order((id) => ranks.get(id) ?? 0)
    .flatMap((id): PlannedGroup[] => {
      const g = planner.groups.get(id)
      if (g === undefined) return []
      const [node] = g.members
      if (g.boundary !== undefined && node !== undefined)
        return [{ kind: g.boundary, node, results: [...g.members].filter((m) => m.op === 'result') }]
      invariant(g.made !== undefined, 'a kernel group without body')
      return [{ kind: 'kernel', members: g.members, outputs: g.outputs, ...g.made }]
    })
  const { groups, bits, unpacked } = decideFormats(chosen, planner.packable, target)
  const holders = new Map<Node, PlannedGroup[]>()
  for (const g of groups)
    for (const n of g.kind === 'kernel' ? g.members : [g.node, ...g.results])
      holders.set(n, [...(holders.get(n) ?? []), g])
  const kernels = (n: Node): PlannedGroup[] => holders.get(n) ?? []
  const results = new Set(graph.outputs.map(storageOf))
  return {
    groups: fuse ? orderGroups(groups, results, bits) : groups,
    bits,
    unpacked,
    refused: [...planner.refused.values()].filter((r) => !kernels(r.from).some((g) => kernels(r.to).includes(g))),
    // Later merges may have joined some of the kernels that compute a value again.
    recomputed: planner.recomputed.flatMap((r) => {
      const consumers = Math.min(r.consumers, kernels(r.node).length)
      const savedBytes = storedBytes(r.node, planner.packable) * (1 + consumers)
      return kernels(r.node).length < 2 ? [] : [{ ...r, consumers, savedBytes }]
    }),
  }
}
