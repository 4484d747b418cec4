/** Graph to graph rewriting: canonical forms, simplification, common subexpressions, dead code. */
import type { Graph } from '../graph/node.ts'
import { graphsInside, noForwardRule } from '../graph/ops/region.ts'
import { nodesOf } from '../graph/traverse.ts'
import { type RewriteOptions, type Rewritten, rewriteWith } from './driver.ts'
import { allRules } from './rules.ts'

export type { RewriteOptions, Rewritten } from './driver.ts'
export type { Generic, RewriteContext, RewriteMode, Rule } from './rule.ts'

/** Throws E_UNSUPPORTED where a derivative that only reverse mode knows is to be computed. */
function refuseLinear(graph: Graph): void {
  for (const n of nodesOf(graph)) {
    if (n.op === 'customLinear') throw noForwardRule(n)
    for (const inside of graphsInside(n)) refuseLinear(inside.graph)
  }
}

/**
 * Rewrites a graph with every rule of its mode; see `rewriteWith` for what is kept. Throws E_UNSUPPORTED for the forward
 * derivative of a function whose rule is for reverse mode alone.
 */
export function rewriteGraph(graph: Graph, options: RewriteOptions): Rewritten {
  const rewritten = rewriteWith(allRules, graph, options)
  refuseLinear(rewritten.graph)
  return rewritten
}
