/**
 * Quotients in half precision by what is broadcast, as products in f32 with 1 / y of each value that is: one division for each value of y, as the rule for f32 has it
 * (src/rewrite/broadcasts.ts). Both round once to half precision (src/schedule/simt/precision/reciprocals.ts says why they agree). It comes after the passes that know rows which are
 * normalised by their quotients.
 */
import { cast } from '../compose/elementwise.ts'
import { makeNode } from '../graph/build.ts'
import type { Graph, Node } from '../graph/node.ts'
import { mapGraph, nodesOf, withInputs } from '../graph/traverse.ts'
import { fullOf } from '../rewrite/facts.ts'
import { computeDType } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { isNarrow } from './widenedRows.ts'

/** The divisor before it is broadcast, if a node is such a quotient. */
function divisorOf(n: Node): Node | undefined {
  const [, y] = n.inputs
  const [z] = y?.inputs ?? []
  if (n.op !== 'div' || !isNarrow(n) || y?.op !== 'broadcast' || z === undefined) return undefined
  return sizeOf(z.shape) < sizeOf(y.shape) ? z : undefined
}

/** The graph with such quotients as products; itself where there are none. For fast mode. */
export function divideOnce(graph: Graph): Graph {
  if (!nodesOf(graph).some((n) => divisorOf(n) !== undefined)) return graph
  return mapGraph(graph, (node, inputs) => {
    const same = withInputs(node, inputs)
    const z = divisorOf(same)
    const [x, y] = same.inputs
    if (z === undefined || x === undefined || y?.op !== 'broadcast') return same
    const wide = computeDType(same.dtype)
    const once = makeNode('div', [fullOf(z.shape, wide, 1), cast(z, wide)], {})
    const product = makeNode('mul', [cast(x, wide), makeNode('broadcast', [once], y.attrs)], {})
    return makeNode('cast', [product], { dtype: same.dtype, loose: true })
  })
}
