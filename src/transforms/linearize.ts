/** Linearising: the derivative at a point as a program of its own, with what it needs of the point as inputs. */
import type { Graph } from '../graph/node.ts'
import { graphBetween } from '../graph/subgraph.ts'
import { jvpGraph } from './jvp.ts'
import { residualsOf } from './linear.ts'

/** A program and its derivative at its arguments. */
export interface Linearized {
  /** Parameters are the graph's; outputs are the graph's, then the residuals. */
  readonly primal: Graph
  /** Parameters are the residuals, then the tangents; outputs are the tangents of the float outputs. */
  readonly tangent: Graph
  readonly residuals: number
}

/** The graph and its linear map at a point, in the float parameters chosen by `tangentFor` (by position). */
export function linearizeGraph(graph: Graph, tangentFor: readonly boolean[]): Linearized {
  const both = jvpGraph(graph, tangentFor, 'linear')
  const count = graph.outputs.length
  const inputs = both.params.slice(graph.params.length)
  const results = both.outputs.slice(count)
  const residuals = residualsOf(results, inputs)
  return {
    primal: { params: graph.params, outputs: [...both.outputs.slice(0, count), ...residuals], effects: both.effects },
    tangent: graphBetween([...residuals, ...inputs], results),
    residuals: residuals.length,
  }
}
