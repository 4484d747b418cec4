/** Operations of more operands than a kernel may bind or choose among, as trees of the same operation. */
import { makeNode } from '../graph/build.ts'
import type { Graph, Node } from '../graph/node.ts'
import { familyOf } from '../graph/table.ts'
import { mapGraph, nodesOf, withInputs } from '../graph/traverse.ts'
import type { Machine } from '../target/machine.ts'
import { stored } from './windowOrder.ts'

/** What a kernel may read of a concatenation: so many tensors, in so many branches. */
export interface OperandLimits {
  readonly tensors: number
  readonly branches: number
}

/** Statements of a branch: it loads, it is chosen or not, and that depends on a predicate. */
const branchStatements = 3

/** What the kernel of a concatenation may read on a target, if its code is to stay inside the target's limits. */
export const operandLimits = ({ maxBuffers, maxUnionBuffers, maxStatements }: Machine): OperandLimits => ({
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

/**
 * Branches and views that a kernel goes through for one element of a node, at most: views are evaluated where they are read,
 * so those of views of several operands multiply.
 */
interface Reach {
  readonly branches: number
  readonly views: number
  /** Reshapes among the views that are more than axes of extent 1: each may double the index maps. */
  readonly regroupings: number
}

const here: Reach = { branches: 1, views: 0, regroupings: 0 }

/** Regroupings that views may lead through: with one more in each step, index maps of 2^10 times the letters. */
const mostRegroupings = 10

const core = (n: Node): string => n.shape.filter((d) => d !== 1).join()
const regroups = (n: Node): boolean => n.op === 'reshape' && n.inputs.some((x) => core(x) !== core(n))

/** Times the branches of one concatenation that views may lead to: how many of them a kernel takes its ranges decide. */
const viewShare = 4

/** A graph in which every concatenation, and every chain of views, keeps to the limits; the graph itself where all do. */
export function boundOperands(graph: Graph, limits: OperandLimits): Graph {
  const reaches = new Map<Node, Reach>()
  const reachOf = (n: Node): Reach => reaches.get(n) ?? here
  const through = (n: Node, inputs: readonly Node[]): Reach => {
    let [branches, views, regroupings] = [0, 0, 0]
    for (const x of n.op === 'concat' ? inputs : inputs.slice(0, 1)) {
      const r = reachOf(x)
      branches += r.branches
      views = Math.max(views, r.views)
      regroupings = Math.max(regroupings, r.regroupings)
    }
    return { branches: Math.max(1, branches), views: views + 1, regroupings: regroupings + (regroups(n) ? 1 : 0) }
  }
  const fits = ({ branches, views, regroupings }: Reach): boolean =>
    branches <= viewShare * limits.branches && views <= limits.branches && regroupings <= mostRegroupings
  let all = true
  for (const n of nodesOf(graph)) {
    if (familyOf(n) === 'view') reaches.set(n, through(n, n.inputs))
    all &&= fits(reachOf(n)) && widthOf(n, limits) === undefined
  }
  if (all) return graph
  reaches.clear()
  return mapGraph(graph, (node, mapped) => {
    if (familyOf(node) !== 'view') return withInputs(node, mapped)
    const inputs = fits(through(node, mapped)) ? mapped : mapped.map((x) => (reachOf(x) === here ? x : stored(x)))
    const made = inPieces(node, inputs, widthOf(node, limits))
    reaches.set(made, through(made, made.inputs))
    return made
  })
}

/** A node on other inputs, a concatenation made of pieces of `most` operands where it has more. */
function inPieces(node: Node, inputs: readonly Node[], most: number | undefined): Node {
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
}
