/** Forward mode: a graph's outputs with their tangents, by one rule an op. */
import { UserError } from '../diagnostics/errors.ts'
import { inOrigin } from '../diagnostics/origin.ts'
import { param, withContext } from '../graph/build.ts'
import type { Graph, Node, NodeOf, OpName } from '../graph/node.ts'
import { nodesOf } from '../graph/traverse.ts'
import { isFloat } from '../types/dtype.ts'
import { checkArguments, rebuild } from './inline.ts'
import { type JvpRules, jvpRules, type Tangent } from './jvp/index.ts'
import { materialised } from './jvp/rule.ts'
import { at, checkDifferentiable, freeIndex, refuse } from './rule.ts'

/** A graph on some arguments, with the tangent of each output (undefined: zero). */
export interface PushedForward {
  readonly outputs: readonly Node[]
  readonly tangents: readonly Tangent[]
  readonly effects: readonly Node[]
}

/** The tangent of a node whose inputs have tangents; the node stands on its final inputs. */
function tangentOf<O extends OpName>(node: NodeOf<O>, tangents: readonly Tangent[]): Tangent {
  const rule = (jvpRules as JvpRules)[node.op]
  if (rule === 'zero') return undefined
  if (typeof rule === 'object')
    return refuse(node as Node, 'the derivative', rule.unsupported, 'stop the gradient before it (stopGradient)')
  return rule(node, tangents)
}

/**
 * The graph on `args` and its derivative in the direction of `tangents`, one for each parameter (undefined: none). Nodes are
 * built in the current context, in the origins of the nodes they belong to. Throws E_UNSUPPORTED where a tangent meets an op
 * without derivative.
 */
export function pushForward(graph: Graph, args: readonly Node[], tangents: readonly Tangent[]): PushedForward {
  checkArguments(graph, args)
  const primal = new Map<Node, Node>()
  const tangent = new Map<Node, Node>()
  graph.params.forEach((p, i) => {
    primal.set(p, at(args, i, 'argument'))
    const t = tangents[i]
    if (t !== undefined) tangent.set(p, t)
  })
  const image = (n: Node): Node => primal.get(n) ?? n
  for (const node of nodesOf(graph)) {
    if (node.op === 'param') continue
    inOrigin(node.origin, () => {
      const here = rebuild(node, node.inputs.map(image))
      primal.set(node, here)
      if (!isFloat(node.dtype) || !node.inputs.some((x) => tangent.has(x))) return
      const t = tangentOf(
        here,
        node.inputs.map((x) => tangent.get(x)),
      )
      if (t !== undefined) tangent.set(node, t)
    })
  }
  return {
    outputs: graph.outputs.map(image),
    tangents: graph.outputs.map((n) => tangent.get(n)),
    effects: graph.effects.map(image),
  }
}

/**
 * Forward mode: parameters are the graph's, then the tangents of those chosen by `tangentFor` (by position); outputs are the
 * graph's, then the tangents of its float outputs. Throws E_DTYPE for a chosen parameter that is not float.
 */
export function jvpGraph(graph: Graph, tangentFor: readonly boolean[]): Graph {
  if (tangentFor.length > graph.params.length)
    throw new UserError('E_ARGUMENT', `${tangentFor.length} choices for ${graph.params.length} parameters`)
  return withContext(() => {
    let next = freeIndex(graph)
    const directions = graph.params.map((p, i) => {
      if (tangentFor[i] !== true) return undefined
      checkDifferentiable(graph, i)
      return param(next++, p.shape, p.dtype)
    })
    const pushed = pushForward(graph, graph.params, directions)
    const tangents = pushed.outputs.flatMap((y, i) => (isFloat(y.dtype) ? [materialised(pushed.tangents[i], y)] : []))
    return {
      params: [...graph.params, ...directions.filter((d) => d !== undefined)],
      outputs: [...pushed.outputs, ...tangents],
      effects: pushed.effects,
    }
  })
}
