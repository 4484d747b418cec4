/**
 * Which nodes make one kernel. Every node starts alone; producer-consumer pairs merge in the order of the traffic they save,
 * as long as the merged body is a kernel (instances.ts, roles.ts) and is modelled faster; then stored values that are cheaper
 * to compute again are, and groups that read the same tensors over the same axes join. Refusals are kept with their reasons.
 */
import { invariant } from '../../diagnostics/errors.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { topologicalOrder } from '../../graph/traverse.ts'
import type { NumericsMode } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import { isFree, storageOf } from '../body/region.ts'
import { storedBytes } from '../body/stored.ts'
import { boundaryCost, copyingScatters } from '../cost/boundaryCost.ts'
import { CandidateMemo } from '../cost/candidateMemo.ts'
import { betweenKernels, decideFormats, packableNodes } from '../cost/formats.ts'
import { paddedRows } from '../cost/paddedRows.ts'
import { orderGroups } from '../memory/order.ts'
import { overwrites, readersFirst } from '../memory/readersFirst.ts'
import { planDonors, planReuse } from '../memory/reuse.ts'
import { type FusionPlan, membersOf, type PlannedGroup, type PlanningWork, type SingleGroup } from '../plan.ts'
import type { SeparatePasses } from '../remat/separatePasses.ts'
import { fuseChains } from './chainFusion.ts'
import { demandedNodes, startingClusters, withResults } from './clusters.ts'
import { refusedOf } from './cycles.ts'
import { takeApart } from './doubts.ts'
import { groupsByNode } from './groups.ts'
import { fuseHorizontally } from './horizontalFusion.ts'
import { Planner } from './planner.ts'
import { recomputeCheap } from './recompute.ts'
import { moveCuts } from './recut.ts'
import { fuseSiblings } from './siblingFusion.ts'
import { spreadSingles } from './singles.ts'
import { fuseTiles } from './tileFusion.ts'

/** Whether the memory of a parameter may be written over: as the plan likes, or if whoever runs the program sees fit. */
export type Overwritable = 'donated' | 'perhaps' | undefined

/**
 * Plans a graph for a target. Without `fuse` every node is a kernel of its own. Kernels that may put results over parameters
 * (`overwritable`, by number) come after all that read them, where data allows; no kernel holds both sides of `apart`. `trials` are
 * remembered from plannings for the same target in the same mode.
 */
export function planFusion(
  graph: Graph,
  target: Machine,
  mode: NumericsMode,
  fuse = true,
  overwritable: readonly Overwritable[] = [],
  apart?: SeparatePasses,
  trials: CandidateMemo = new CandidateMemo(),
): FusionPlan {
  const nodes = topologicalOrder([...graph.outputs, ...graph.effects])
  const demanded = demandedNodes(graph, nodes)
  const stands = (n: Node): boolean => n.op === 'param' || n.op === 'result' || (n.op === 'constant' && !isFree(n))
  const units = nodes.filter((n) => !stands(n) && (!isFree(n) || demanded.has(n)))
  const between = betweenKernels(units, demanded)
  const bits = packableNodes(between, target)
  const plain = new Set([...between].filter((n) => !bits.has(n)))
  const storable = { bits, rows: paddedRows(nodes, plain, target) }
  const { clusters, recomputed } = fuse
    ? spreadSingles(startingClusters(units, demanded, target), demanded, target)
    : { clusters: units.map((n) => new Set([n])), recomputed: [] }
  const planner = new Planner(withResults(clusters, nodes), demanded, target, mode, storable, recomputed, trials, apart)
  if (fuse) {
    planner.mergeEdges()
    fuseChains(planner, clusters)
    fuseTiles(planner, clusters)
    fuseSiblings(planner)
    const moved = moveCuts(planner)
    if (recomputeCheap(planner) || moved) {
      planner.mergeEdges()
      fuseSiblings(planner)
    }
    const parts = takeApart(planner, clusters)
    if (parts.length > 0) {
      planner.mergeEdges(parts)
      fuseSiblings(planner)
    }
  }
  const later = new CandidateMemo(trials.priceOf)
  const refusedAmong = refusedOf(planner, later)
  const results = new Set(graph.outputs.map(storageOf))
  const fixed = (n: Node): boolean => (n.op === 'param' ? overwritable[n.attrs.index] !== 'donated' : stands(n))
  const copying = copyingScatters(nodes, (n) => fixed(n) || results.has(n))
  const order = planner.groups.links.order(programOrder(planner.groups.all.values()))
  const chosen = order.map((id): SingleGroup => {
    const g = planner.groups.all.get(id)
    invariant(g !== undefined, 'a group without number')
    const [node] = g.members
    if (g.boundary !== undefined && node !== undefined)
      return {
        kind: g.boundary,
        node,
        results: [...g.members].filter((m) => m.op === 'result'),
        cost: boundaryCost(g.boundary, node, copying.has(node), target),
      }
    invariant(g.made !== undefined, 'a kernel group without body')
    return { kind: 'kernel', members: g.members, outputs: g.outputs, ...g.made }
  })
  const { groups: settled, bits: packed, unpacked } = decideFormats(chosen, bits, target)
  const stored = { bits: packed, rows: storable.rows }
  const bytes = (n: Node): number => storedBytes(n, stored)
  const idOf = new Map(settled.map((g, i) => [g, order[i] ?? -1]))
  const donors = graph.params.filter((_, i) => overwritable[i] !== undefined)
  const inOrder = readersFirst(fuse ? orderGroups(settled, results, stored) : settled, donors, results)
  const donated = new Set(graph.params.filter((_, i) => overwritable[i] === 'donated'))
  const { reuse, before } = planReuse({ order: inOrder, donated, results })
  for (const [reader, writer] of [...overwrites(inOrder, donors, results), ...before])
    planner.groups.links.connect(idOf.get(reader) ?? -1, idOf.get(writer) ?? -1)
  const { groups, refused } = fuse
    ? fuseHorizontally({
        groups: new Map([...idOf].map(([g, id]) => [id, g])),
        links: planner.groups.links,
        order: inOrder.map((g) => idOf.get(g) ?? -1),
        mark: (g) => ([...g.members].some((n) => apart?.backward.has(n)) ? 'backward' : ''),
        results,
        bytes,
        reuse,
        standsAlone: (n) => results.has(n) || (n.op === 'param' && overwritable[n.attrs.index] === undefined),
        target,
      })
    : { groups: inOrder, refused: [] }
  const holders = groupsByNode(groups, membersOf)
  const kernels = (n: Node): readonly PlannedGroup[] => holders.get(n) ?? []
  const plan = {
    groups,
    stored,
    unpacked,
    reuse: planDonors({ launches: groups, donated, results, bytes, reuse }),
    // Later merges may have joined some of the kernels that compute a value again.
    recomputed: planner.recomputed.flatMap((r) => {
      const consumers = Math.min(r.consumers, kernels(r.node).length)
      const savedBytes = storedBytes(r.node, storable) * (1 + consumers)
      return kernels(r.node).length < 2 ? [] : [{ ...r, consumers, savedBytes }]
    }),
  }
  const refusals = refusedAmong(refused, (r) => !kernels(r.from).some((g) => kernels(r.to).includes(g)))
  return withRefusals(plan, refusals, { ...trials.work, visited: planner.groups.links.visited }, later)
}

/** A plan that finds what was refused when it is asked; apart from planning, so that what it keeps is not all that planning had. */
const withRefusals = (
  plan: Omit<FusionPlan, 'refused' | 'refusals' | 'work'>,
  refusals: FusionPlan['refusals'],
  during: PlanningWork,
  later: CandidateMemo,
): FusionPlan => ({
  ...plan,
  refusals,
  get refused() {
    return refusals.value
  },
  get work() {
    const { trials, built, statements } = later.work
    return {
      ...during,
      trials: during.trials + trials,
      built: during.built + built,
      statements: during.statements + statements,
    }
  },
})

/** Ranks of groups by the program's order: by the first node of each, and where groups compute one node again by the last. */
function programOrder(groups: Iterable<{ readonly id: number; readonly members: ReadonlySet<Node> }>) {
  const spans = [...groups].map(({ id, members }) => {
    let [first, last] = [Number.POSITIVE_INFINITY, 0]
    for (const { id: n } of members) [first, last] = [Math.min(first, n), Math.max(last, n)]
    return { id, first, last }
  })
  const ranks = new Map(spans.sort((a, b) => a.first - b.first || a.last - b.last).map(({ id }, i) => [id, i]))
  return (id: number): number => ranks.get(id) ?? 0
}
