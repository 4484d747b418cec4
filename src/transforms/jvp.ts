/** Forward mode: a graph's outputs with their tangents, by one rule an op. */
import { UserError } from '../diagnostics/errors.ts'
import { inOrigin } from '../diagnostics/origin.ts'
import { param, withContext } from '../graph/build.ts'
import type { Graph, Node, NodeOf, OpName } from '../graph/node.ts'
import { isRegion, type RegionOp } from '../graph/ops/region.ts'
import { nodesOf } from '../graph/traverse.ts'
import { isFloat } from '../types/dtype.ts'
import { anchorsOf } from './anchors.ts'
import { checkArguments, rebuild } from './inline.ts'
import {
  type Derivative,
  type Differentiation,
  type JvpRules,
  jvpRules,
  type RegionCall,
  type RegionDerivative,
  type RegionJvpRules,
  regionJvp,
  type Tangent,
} from './jvp/index.ts'
import { materialised } from './jvp/rule.ts'
import { at, checkDifferentiable, freeIndex, operand, refuse } from './rule.ts'

/** A graph on some arguments, with the tangent of each output (undefined: zero). */
export interface PushedForward {
  readonly outputs: readonly Node[]
  readonly tangents: readonly Tangent[]
  readonly effects: readonly Node[]
}

/** The tangent of a node whose inputs have tangents; the node stands on its final inputs. */
function tangentOf<O extends Exclude<OpName, RegionOp>>(node: NodeOf<O>, tangents: readonly Tangent[]): Tangent {
  const rule = (jvpRules as JvpRules)[node.op]
  if (rule === 'zero') return undefined
  if (typeof rule === 'object')
    return refuse(
      node as Node,
      'the derivative',
      rule.unsupported,
      rule.help ?? 'stop the gradient before it (stopGradient)',
    )
  return rule(node, tangents)
}

/** The derivative of a graph in some parameters, over its own parameters and a fresh direction for each chosen one. */
function derivativeOf(graph: Graph, tangentFor: readonly boolean[], mode: Differentiation): Derivative {
  return withContext(() => {
    let next = freeIndex(graph)
    const directions = graph.params.map((p, i) =>
      tangentFor[i] === true ? param(next++, p.shape, p.dtype) : undefined,
    )
    const { outputs, tangents } = pushForward(graph, graph.params, directions, mode)
    return { params: graph.params, directions, outputs, tangents }
  })
}

/** What stands in place of a region some of whose inputs have tangents; the node stands on its final inputs. */
function differentiateRegion<O extends RegionOp>(
  node: NodeOf<O>,
  tangents: readonly Tangent[],
  mode: Differentiation,
): RegionDerivative {
  const rule: (call: RegionCall<O>) => RegionDerivative = (regionJvp as RegionJvpRules)[node.op]
  return rule({
    node,
    tangents,
    mode,
    derivative: (graph, tangentFor) => derivativeOf(graph, tangentFor, mode),
    push: (graph, args, along) => pushForward(graph, args, along, mode),
  })
}

/**
 * The graph on `args` and its derivative in the direction of `tangents`, one for each parameter (undefined: none). Nodes are
 * built in the current context, in the origins of the nodes they belong to. Throws E_UNSUPPORTED where a tangent meets an op
 * without derivative. Only in mode 'linear' can the tangents be transposed; 'joint' keeps less.
 */
export function pushForward(
  graph: Graph,
  args: readonly Node[],
  tangents: readonly Tangent[],
  mode: Differentiation = 'joint',
): PushedForward {
  checkArguments(graph, args)
  const primal = new Map<Node, Node>()
  const tangent = new Map<Node, Node>()
  const regions = new Map<Node, RegionDerivative>()
  graph.params.forEach((p, i) => {
    primal.set(p, at(args, i, 'argument'))
    const t = tangents[i]
    if (t !== undefined) tangent.set(p, t)
  })
  const image = (n: Node): Node => primal.get(n) ?? n
  const anchors = anchorsOf(graph)
  const visit = (node: Node): void => {
    const moves = node.inputs.some((x) => tangent.has(x)) && !anchors.has(node)
    const along = node.inputs.map((x) => tangent.get(x))
    if (node.op === 'result') {
      const region = regions.get(operand(node, 0))
      if (region !== undefined) {
        primal.set(node, at(region.outputs, node.attrs.index, 'result'))
        const t = region.tangents[node.attrs.index]
        if (t !== undefined) tangent.set(node, t)
        return
      }
    }
    const here = rebuild(node, node.inputs.map(image))
    primal.set(node, here)
    if (!moves) return
    if (isRegion(here)) regions.set(node, differentiateRegion(here, along, mode))
    else if (isFloat(node.dtype)) {
      const t = tangentOf(here, along)
      if (t !== undefined) tangent.set(node, t)
    }
  }
  for (const node of nodesOf(graph)) if (node.op !== 'param') inOrigin(node.origin, () => visit(node))
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
export function jvpGraph(graph: Graph, tangentFor: readonly boolean[], mode: Differentiation = 'joint'): Graph {
  if (tangentFor.length > graph.params.length)
    throw new UserError('E_ARGUMENT', `${tangentFor.length} choices for ${graph.params.length} parameters`)
  return withContext(() => {
    let next = freeIndex(graph)
    const directions = graph.params.map((p, i) => {
      if (tangentFor[i] !== true) return undefined
      checkDifferentiable(graph, i)
      return param(next++, p.shape, p.dtype)
    })
    const pushed = pushForward(graph, graph.params, directions, mode)
    const tangents = pushed.outputs.flatMap((y, i) => (isFloat(y.dtype) ? [materialised(pushed.tangents[i], y)] : []))
    return {
      params: [...graph.params, ...directions.filter((d) => d !== undefined)],
      outputs: [...pushed.outputs, ...tangents],
      effects: pushed.effects,
    }
  })
}
