/** The precision of contractions that do not name one: as the program says. */
import { makeNode } from '../graph/build.ts'
import type { Graph } from '../graph/node.ts'
import { mapGraph, nodesOf, withInputs } from '../graph/traverse.ts'
import type { Precision } from '../types/product.ts'

/** The graph with a precision for every contraction of f32 that has none. */
export function withPrecision(graph: Graph, precision: Precision): Graph {
  if (!nodesOf(graph).some((n) => n.op === 'contract' && n.dtype === 'f32' && n.attrs.precision === undefined))
    return graph
  return mapGraph(graph, (node, inputs) =>
    node.op === 'contract' && node.dtype === 'f32' && node.attrs.precision === undefined
      ? makeNode('contract', inputs, { ...node.attrs, precision })
      : withInputs(node, inputs),
  )
}
