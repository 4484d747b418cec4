/** Graph to graph rewriting: canonical forms, simplification, common subexpressions, dead code. */
import type { Graph } from '../graph/node.ts'
import { type RewriteOptions, type Rewritten, rewriteWith } from './driver.ts'
import { allRules } from './rules.ts'

export type { RewriteOptions, Rewritten } from './driver.ts'
export type { RewriteContext, RewriteMode, Rule } from './rule.ts'

/** Rewrites a graph with every rule of its mode; see `rewriteWith` for what is kept. */
export const rewriteGraph = (graph: Graph, options: RewriteOptions): Rewritten => rewriteWith(allRules, graph, options)
