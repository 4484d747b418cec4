/** Graphs as functions, and parts of graphs as graphs of their own: what ops with graphs inside are built and taken apart with. */
import { invariant } from '../diagnostics/errors.ts'
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode, param, withContext } from './build.ts'
import type { AttrsByOp, Graph, Node, OpName } from './node.ts'
import { topologicalOrder } from './traverse.ts'

const again = (node: Node, inputs: readonly Node[]): Node =>
  inOrigin(node.origin, () => makeNode<OpName>(node.op, inputs, node.attrs as AttrsByOp[OpName]) as Node)

/** The nodes between a cut and what is computed from it, in topological order, the cut not included. */
function nodesBetween(cut: ReadonlySet<Node>, outputs: readonly Node[]): Node[] {
  const order = topologicalOrder(outputs)
  const needed = new Set<Node>(outputs)
  for (const n of order.toReversed()) if (needed.has(n) && !cut.has(n)) for (const x of n.inputs) needed.add(x)
  return order.filter((n) => needed.has(n) && !cut.has(n))
}

function rebuildFrom(to: Map<Node, Node>, outputs: readonly Node[]): Node[] {
  const image = (n: Node): Node => {
    const r = to.get(n)
    invariant(r !== undefined, 'a node before its inputs')
    return r
  }
  for (const n of nodesBetween(new Set(to.keys()), outputs)) {
    invariant(n.op !== 'param', 'a graph inside reads a value that is not handed to it')
    to.set(n, again(n, n.inputs.map(image)))
  }
  return outputs.map(image)
}

/** What a graph without effects gives on arguments, in the current context. The arguments' types are the caller's care. */
export function inlineOutputs(graph: Graph, args: readonly Node[]): Node[] {
  invariant(args.length === graph.params.length, `${args.length} arguments for ${graph.params.length} parameters`)
  const to = new Map<Node, Node>()
  graph.params.forEach((p, i) => {
    const a = args[i]
    if (a !== undefined) to.set(p, a)
  })
  return rebuildFrom(to, graph.outputs)
}

/**
 * The graph from some nodes to what is computed from them: `inputs` become its parameters (position i is parameter i), whatever
 * they are; nothing else may reach `outputs` but literals.
 */
export function graphBetween(inputs: readonly Node[], outputs: readonly Node[]): Graph {
  return withContext(() => {
    const params = inputs.map((n, i) => param(i, n.shape, n.dtype))
    const to = new Map<Node, Node>()
    params.forEach((p, i) => {
      const n = inputs[i]
      if (n !== undefined && !to.has(n)) to.set(n, p)
    })
    return { params, outputs: rebuildFrom(to, outputs), effects: [] }
  })
}
