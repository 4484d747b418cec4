/**
 * Contractions as sums of products, for values that no memory holds. A kernel has one matrix product, and blocks of its result; what is folded
 * along a whole row of one product and goes into another (softmax(q k^T) v) has to be stored between the two. As reductions the same sums are
 * rows, which a program holds: slower, and nothing is stored.
 */
import { reshape } from '../compose/broadcast.ts'
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

/**
 * The axes that a summed dimension becomes. Dimensions of one extent may share the axes of a kernel, and one that is summed would then tie a
 * row to an axis of the result: it becomes two of other extents.
 */
function axesFor(extent: number, tied: ReadonlySet<number>): number[] {
  if (tied.has(extent))
    for (let inner = 2; inner * inner <= extent; inner++)
      if (extent % inner === 0 && !tied.has(inner) && !tied.has(extent / inner)) return [extent / inner, inner]
  return [extent]
}

/** The same sums in the same order; halves accumulate in f32. */
function writeOut(node: Contraction, [lhs, rhs]: readonly [Node, Node], axesOf: (label: string) => number[]): Node {
  const { dtype, attrs } = node
  const kept = [...attrs.out].map((label) => ({ label, axes: [extentOf(node, label)] }))
  const dims = [...kept, ...summed(attrs).map((label) => ({ label, axes: axesOf(label) }))]
  const shape = dims.flatMap((d) => d.axes)
  const place = (label: string): number[] => {
    const at = dims.findIndex((d) => d.label === label)
    const first = dims.slice(0, at).reduce((n, d) => n + d.axes.length, 0)
    return (dims[at]?.axes ?? []).map((_, i) => first + i)
  }
  const wide = computeDType(dtype)
  const spread = (x: Node, own: string): Node => {
    const places = [...own].flatMap(place)
    const apart = reshape(
      cast(x, wide),
      places.map((d) => shape[d] ?? 1),
    )
    return makeNode('broadcast', [apart], { shape, dims: places })
  }
  const products = makeNode('mul', [spread(lhs, attrs.lhs), spread(rhs, attrs.rhs)], {})
  const axes = shape.flatMap((_, i) => (i < kept.length ? [] : [i]))
  return cast(axes.length === 0 ? products : makeNode('reduce', [products], { combiner: 'sum', axes }), dtype)
}

/**
 * The graph with its contractions that read or give more than the target's memory reaches written out, in the ways worth a try; none where
 * there is no such contraction. In strict mode those stay whose sums are longer than a chunk: sums of reductions have another order then
 * (docs/numerics.md, "Modes").
 */
export function writeOutContractions(graph: Graph, target: Machine, mode: NumericsMode): Graph[] {
  const isBeyond = (n: Node): boolean => sizeOf(n.shape) * dtypeBytes(computeDType(n.dtype)) > target.mostBytes.value
  const keepsOrder = (n: Contraction): boolean =>
    mode === 'fast' || !isFloat(n.dtype) || summed(n.attrs).reduce((p, l) => p * extentOf(n, l), 1) <= strictChunk
  const chosen = new Set<Node>(
    nodesOf(graph).filter((n) => n.op === 'contract' && [n, ...n.inputs].some(isBeyond) && keepsOrder(n)),
  )
  if (chosen.size === 0) return []
  const results = new Set([...chosen].flatMap((n) => n.shape))
  return [new Set<number>(), results].map((tied) => writtenOut(graph, chosen, isBeyond, tied))
}

/** `tied`: extents of which a summed dimension becomes two. */
function writtenOut(
  graph: Graph,
  chosen: ReadonlySet<Node>,
  isBeyond: (n: Node) => boolean,
  tied: ReadonlySet<number>,
): Graph {
  return mapGraph(graph, (node, inputs) => {
    const [lhs, rhs] = inputs
    if (node.op !== 'contract' || !chosen.has(node) || lhs === undefined || rhs === undefined)
      return withInputs(node, inputs)
    // Rows of what is not stored are folded elsewhere too: they stay whole.
    const rows = node.inputs.flatMap((x, i) => (isBeyond(x) ? [...(i === 0 ? node.attrs.lhs : node.attrs.rhs)] : []))
    return writeOut(node, [lhs, rhs], (l) => {
      const extent = extentOf(node, l)
      return rows.includes(l) ? [extent] : axesFor(extent, tied)
    })
  })
}
