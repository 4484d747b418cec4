/** Linearising: the derivative at a point as a program of its own, with what it needs of the point as inputs. */
import { inOrigin } from '../diagnostics/origin.ts'
import { param, withContext } from '../graph/build.ts'
import type { Graph, Node } from '../graph/node.ts'
import { topologicalOrder } from '../graph/traverse.ts'
import { rebuild } from './inline.ts'
import { jvpGraph } from './jvp.ts'
import { linearNodes } from './transpose.ts'

/** A program and its derivative at its arguments. */
export interface Linearized {
  /** Parameters are the graph's; outputs are the graph's, then the residuals. */
  readonly primal: Graph
  /** Parameters are the residuals, then the tangents; outputs are the tangents of the float outputs. */
  readonly tangent: Graph
  readonly residuals: number
}

/** Generated values are made again where they are used instead of being handed over. */
const isGenerated = (n: Node): boolean => n.op === 'full' || n.op === 'iota' || n.op === 'constant'

/** The graph and its linear map at a point, in the float parameters chosen by `tangentFor` (by position). */
export function linearizeGraph(graph: Graph, tangentFor: readonly boolean[]): Linearized {
  const both = jvpGraph(graph, tangentFor)
  const count = graph.outputs.length
  const inputs = both.params.slice(graph.params.length)
  const results = both.outputs.slice(count)
  const order = topologicalOrder(results)
  const linear = linearNodes(order, inputs)
  const residuals = new Set<Node>()
  for (const n of order)
    if (linear.has(n)) for (const x of n.inputs) if (!linear.has(x) && !isGenerated(x)) residuals.add(x)
  for (const r of results) if (!linear.has(r) && !isGenerated(r)) residuals.add(r)
  const handed = [...residuals]
  const primal: Graph = {
    params: graph.params,
    outputs: [...both.outputs.slice(0, count), ...handed],
    effects: both.effects,
  }
  const tangent = withContext((): Graph => {
    const params = [...handed, ...inputs].map((n, i) => param(i, n.shape, n.dtype))
    const to = new Map<Node, Node>([...handed, ...inputs].map((n, i) => [n, params[i] ?? n]))
    const image = (n: Node): Node => to.get(n) ?? n
    for (const n of order) {
      if (to.has(n) || !(linear.has(n) || isGenerated(n))) continue
      to.set(
        n,
        inOrigin(n.origin, () => rebuild(n, n.inputs.map(image))),
      )
    }
    return { params, outputs: results.map(image), effects: [] }
  })
  return { primal, tangent, residuals: handed.length }
}
