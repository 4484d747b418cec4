/** Walking and rebuilding graphs. Nothing recurses: a graph may be tens of thousands of nodes deep. */
import { InternalError } from '../diagnostics/errors.ts'
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode } from './build.ts'
import type { AttrsByOp, Graph, Node, OpName } from './node.ts'

/** The nodes reachable from the roots, inputs before users, in depth-first order of the roots. */
export function topologicalOrder(roots: readonly Node[]): Node[] {
  const order: Node[] = []
  const seen = new Set<Node>()
  // Nodes whose inputs are being visited, and which input of each is next.
  const stack: Node[] = []
  const next: number[] = []
  for (const root of roots) {
    if (seen.has(root)) continue
    seen.add(root)
    stack[0] = root
    next[0] = 0
    for (let top = 0, node: Node | undefined = root; node !== undefined; node = stack[top]) {
      const at = next[top] ?? 0
      const input = node.inputs[at]
      next[top] = at + 1
      if (input === undefined) {
        order.push(node)
        if (--top < 0) break
      } else if (!seen.has(input)) {
        seen.add(input)
        if (input.inputs.length === 0) {
          order.push(input)
          continue
        }
        stack[++top] = input
        next[top] = 0
      }
    }
  }
  return order
}

/** What must be computed: outputs and effects. */
export const rootsOf = (graph: Graph): Node[] => [...graph.outputs, ...graph.effects]

const known = new WeakMap<Graph, readonly Node[]>()

/** Every node of a graph in topological order, its parameters first (unused ones too). Found once: a dozen passes go through a graph. */
export function nodesOf(graph: Graph): readonly Node[] {
  const have = known.get(graph)
  if (have !== undefined) return have
  const nodes = topologicalOrder([...graph.params, ...rootsOf(graph)])
  known.set(graph, nodes)
  return nodes
}

/** The distinct users of every node of a list (or of a graph), in the list's order; a node without users has an empty list. */
export function usersOf(of: readonly Node[] | Graph): Map<Node, Node[]> {
  const nodes = 'outputs' in of ? nodesOf(of) : of
  const users = new Map<Node, Node[]>(nodes.map((n) => [n, []]))
  for (const n of nodes) for (const input of new Set(n.inputs)) users.get(input)?.push(n)
  return users
}

/** The same operation on other inputs, of the same origin; the node itself where nothing changed. */
export function withInputs(node: Node, inputs: readonly Node[]): Node {
  if (inputs.length === node.inputs.length && inputs.every((x, i) => x === node.inputs[i])) return node
  return inOrigin(node.origin, () => makeNode<OpName>(node.op, inputs, node.attrs as AttrsByOp[OpName]) as Node)
}

/**
 * Rebuilds a graph bottom-up: `rebuild` gets each node but the parameters with its inputs rebuilt, inside the node's origin,
 * and gives what stands in its place (`withInputs(node, inputs)` keeps it). Parameters stay.
 */
export function mapGraph(graph: Graph, rebuild: (node: Node, inputs: readonly Node[]) => Node): Graph {
  const to = new Map<Node, Node>()
  const image = (n: Node): Node => {
    const r = to.get(n)
    if (r === undefined) throw new InternalError('a node before its inputs')
    return r
  }
  for (const node of nodesOf(graph))
    to.set(node, node.op === 'param' ? node : inOrigin(node.origin, () => rebuild(node, node.inputs.map(image))))
  return { params: graph.params, outputs: graph.outputs.map(image), effects: graph.effects.map(image) }
}
