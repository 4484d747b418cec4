/**
 * Contractions as sums of products, for values that no memory holds. A kernel has one matrix product, and blocks of its result; what is folded
 * along a whole row of one product and goes into another (softmax(q k^T) v) has to be stored between the two. As reductions the same sums are
 * rows, which a program holds: slower, and nothing is stored.
 */
import { cast } from '../compose/elementwise.ts'
import { makeNode } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { mapGraph, nodesOf, withInputs } from '../graph/traverse.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import { summedLabels } from '../rewrite/contraction.ts'
import { strictChunk } from '../scalar/summation.ts'
import type { Machine } from '../target/machine.ts'
import { computeDType, dtypeBytes, isFloat } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'

type Contraction = NodeOf<'contract'>

/** Labels that a contraction sums over, in its order. */
const summed = ({ lhs, rhs, out }: Contraction['attrs']): string[] => [...summedLabels(lhs, rhs, out)]

function extentOf({ inputs: [lhs, rhs], attrs }: Contraction, label: string): number {
  const d = attrs.lhs.indexOf(label)
  return (d < 0 ? rhs?.shape[attrs.rhs.indexOf(label)] : lhs?.shape[d]) ?? 1
}

/** The same sums in the same order; halves accumulate in f32. */
function writeOut(node: Contraction, [lhs, rhs]: readonly [Node, Node]): Node {
  const { dtype, attrs } = node
  const labels = [...attrs.out, ...summed(attrs)]
  const shape = labels.map((label) => extentOf(node, label))
  const wide = computeDType(dtype)
  const spread = (x: Node, own: string): Node =>
    makeNode('broadcast', [cast(x, wide)], { shape, dims: [...own].map((label) => labels.indexOf(label)) })
  const products = makeNode('mul', [spread(lhs, attrs.lhs), spread(rhs, attrs.rhs)], {})
  const axes = shape.flatMap((_, i) => (i < attrs.out.length ? [] : [i]))
  return cast(axes.length === 0 ? products : makeNode('reduce', [products], { combiner: 'sum', axes }), dtype)
}

/**
 * The graph with its contractions that read or give more than the target's memory reaches written out; itself where there is no such
 * contraction. In strict mode those stay whose sums are longer than a chunk: sums of reductions have another order then
 * (docs/numerics.md, "Modes").
 */
export function writeOutContractions(graph: Graph, target: Machine, mode: NumericsMode): Graph {
  const isBeyond = (n: Node): boolean => sizeOf(n.shape) * dtypeBytes(computeDType(n.dtype)) > target.mostBytes.value
  const keepsOrder = (n: Contraction): boolean =>
    mode === 'fast' || !isFloat(n.dtype) || summed(n.attrs).reduce((p, l) => p * extentOf(n, l), 1) <= strictChunk
  const chosen = new Set<Node>(
    nodesOf(graph).filter((n) => n.op === 'contract' && [n, ...n.inputs].some(isBeyond) && keepsOrder(n)),
  )
  if (chosen.size === 0) return graph
  return mapGraph(graph, (node, inputs) => {
    const [lhs, rhs] = inputs
    if (node.op !== 'contract' || !chosen.has(node) || lhs === undefined || rhs === undefined)
      return withInputs(node, inputs)
    return writeOut(node, [lhs, rhs])
  })
}
