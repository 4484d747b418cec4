/**
 * The two passes of a differentiated program: what transposition built (and what depends on it) is the backward pass, all
 * else is forward. Values of the forward pass that the backward pass reads are kept between the two, unless computed again.
 */
import type { Graph, Node } from '../../graph/node.ts'
import { opDef } from '../../graph/table.ts'
import { topologicalOrder } from '../../graph/traverse.ts'

export interface Phases {
  /** Every node in topological order. */
  readonly nodes: readonly Node[]
  readonly backward: ReadonlySet<Node>
  /** Forward nodes that must be computed before the backward pass begins: the program's own results, and what starts it. */
  readonly early: ReadonlySet<Node>
}

/** Nodes that follow from no input: equal ones are one node, whichever pass named it first, and belong to neither. */
function literalsAmong(nodes: readonly Node[]): Set<Node> {
  const out = new Set<Node>()
  for (const n of nodes) if (n.op !== 'param' && n.inputs.every((x) => out.has(x))) out.add(n)
  return out
}

/** The phases of a graph; undefined where nothing is differentiated in reverse, or everything is. */
export function phasesOf(graph: Graph): Phases | undefined {
  const nodes = topologicalOrder([...graph.outputs, ...graph.effects])
  if (!nodes.some((n) => n.origin.phase === 'backward')) return undefined
  const literals = literalsAmong(nodes)
  const backward = new Set<Node>()
  /** Backward nodes above another backward node that computes something (not a view of a forward value). */
  const later = new Set<Node>()
  for (const n of nodes) {
    const after = n.inputs.filter((x) => backward.has(x))
    if ((after.length === 0 && n.origin.phase !== 'backward') || literals.has(n)) continue
    backward.add(n)
    if (after.some((x) => later.has(x) || opDef(x).family !== 'view')) later.add(n)
  }
  if (backward.size === 0) return undefined
  const early = new Set<Node>()
  const stack: Node[] = []
  const need = (n: Node): void => {
    if (backward.has(n) || early.has(n)) return
    early.add(n)
    stack.push(n)
  }
  graph.outputs.forEach(need)
  for (const n of backward) if (!later.has(n) && opDef(n).family !== 'view') n.inputs.forEach(need)
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) n.inputs.forEach(need)
  return early.size === 0 ? undefined : { nodes, backward, early }
}
