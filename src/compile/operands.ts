/** Operations of more operands than a kernel may bind or choose among, as trees of the same operation. */
import { makeNode } from '../graph/build.ts'
import type { Graph, Node } from '../graph/node.ts'
import { mapGraph, nodesOf, withInputs } from '../graph/traverse.ts'
import type { TargetInfo } from '../plan/target.ts'

/** What a kernel may read of a concatenation: so many tensors, in so many branches. */
export interface OperandLimits {
  readonly tensors: number
  readonly branches: number
}

/** Statements of a branch: it loads, it is chosen or not, and that depends on a predicate. */
const branchStatements = 3

/** What the kernel of a concatenation may read on a target, if its code is to stay inside the target's limits. */
export const operandLimits = ({ maxBuffers, maxUnionBuffers, maxStatements }: TargetInfo): OperandLimits => ({
  tensors: Math.max(maxBuffers, maxUnionBuffers) - 1,
  branches: Math.floor(maxStatements / branchStatements),
})

/** Operands of a concatenation's pieces, if it must be made of pieces. */
function widthOf(n: Node, { tensors, branches }: OperandLimits): number | undefined {
  if (n.op !== 'concat' || n.inputs.length <= Math.min(tensors, branches)) return undefined
  return new Set(n.inputs).size > tensors
    ? Math.min(tensors, branches)
    : n.inputs.length > branches
      ? branches
      : undefined
}

/** The same values computed by an operation: views belong to whoever reads them, computed values may stand in memory. */
const stored = (n: Node): Node => makeNode('cast', [n], { dtype: n.dtype })

/** A graph in which every concatenation keeps to the limits; the graph itself where all do. */
export function boundOperands(graph: Graph, limits: OperandLimits): Graph {
  if (nodesOf(graph).every((n) => widthOf(n, limits) === undefined)) return graph
  return mapGraph(graph, (node, inputs) => {
    const most = widthOf(node, limits)
    if (node.op !== 'concat' || most === undefined) return withInputs(node, inputs)
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
