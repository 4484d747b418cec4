/** Operations of more operands than a kernel may bind, as trees of the same operation. */
import { makeNode } from '../graph/build.ts'
import type { Graph, Node } from '../graph/node.ts'
import { mapGraph, nodesOf, withInputs } from '../graph/traverse.ts'

const isWide = (n: Node, most: number): boolean =>
  n.op === 'concat' && n.inputs.length > most && new Set(n.inputs).size > most

/** The same values computed by an operation: views belong to whoever reads them, computed values may stand in memory. */
const stored = (n: Node): Node => makeNode('cast', [n], { dtype: n.dtype })

/** A graph in which no concatenation reads more than `most` tensors; the graph itself where none does. */
export function boundOperands(graph: Graph, most: number): Graph {
  if (!nodesOf(graph).some((n) => isWide(n, most))) return graph
  return mapGraph(graph, (node, inputs) => {
    if (node.op !== 'concat' || !isWide(node, most)) return withInputs(node, inputs)
    let pieces = inputs
    while (pieces.length > most) {
      const groups: Node[] = []
      for (let i = 0; i < pieces.length; i += most) {
        const group = pieces.slice(i, i + most)
        const [only] = group
        groups.push(group.length === 1 && only !== undefined ? only : stored(makeNode('concat', group, node.attrs)))
      }
      pieces = groups
    }
    return makeNode('concat', pieces, node.attrs)
  })
}
