/** Reverse mode: forward mode, then the transpose of its linear part, so that one set of derivative rules serves both. */
import { zeros } from '../compose/source.ts'
import { UserError } from '../diagnostics/errors.ts'
import { param, withContext } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { isFloat } from '../types/dtype.ts'
import type { Tangent } from './jvp/index.ts'
import { pushForward } from './jvp.ts'
import { at, checkDifferentiable, freeIndex } from './rule.ts'
import { transposeLinear } from './transpose.ts'

/** Tangents that never leave a transform: their negative indices are no input's. */
let nextTangent = -1
const temporaryTangent = (like: Node): NodeOf<'param'> => param(nextTangent--, like.shape, like.dtype)

/** A graph on some arguments, ready to take cotangents. */
export interface PulledBack {
  readonly outputs: readonly Node[]
  readonly effects: readonly Node[]
  /**
   * Gradients in the chosen parameters, in the order of `wrt` (undefined: zero), given a cotangent for each output
   * (undefined: zero; those of outputs that are not float are not read).
   */
  readonly gradients: (cotangents: readonly Tangent[]) => Tangent[]
}

function checkChoice(graph: Graph, wrt: readonly number[]): void {
  if (new Set(wrt).size !== wrt.length)
    throw new UserError('E_ARGUMENT', `an input is named twice in [${wrt.join(', ')}]`)
  for (const i of wrt) checkDifferentiable(graph, i)
}

/** The graph on `args` and the function from its outputs' cotangents to gradients; all in the current context. */
export function pullBack(graph: Graph, args: readonly Node[], wrt: readonly number[]): PulledBack {
  checkChoice(graph, wrt)
  const inputs = wrt.map((i) => temporaryTangent(at(graph.params, i, 'parameter')))
  const tangents = graph.params.map((_, i) => inputs[wrt.indexOf(i)])
  const pushed = pushForward(graph, args, tangents, 'linear')
  const gradients = (cotangents: readonly Tangent[]): Tangent[] =>
    transposeLinear(
      pushed.tangents.flatMap((t, i) => {
        const cotangent = cotangents[i]
        return t === undefined || cotangent === undefined ? [] : [{ node: t, cotangent }]
      }),
      inputs,
    )
  return { outputs: pushed.outputs, effects: pushed.effects, gradients }
}

/**
 * Reverse mode: parameters are the graph's, then a cotangent for each float output; outputs are the graph's, then the
 * gradients in the parameters `wrt` (positions). Throws E_DTYPE for a parameter that is not float.
 */
export function vjpGraph(graph: Graph, wrt: readonly number[]): Graph {
  return withContext(() => {
    const pulled = pullBack(graph, graph.params, wrt)
    let next = freeIndex(graph)
    const cotangents = pulled.outputs.map((y) => (isFloat(y.dtype) ? param(next++, y.shape, y.dtype) : undefined))
    const gradients = pulled.gradients(cotangents)
    return {
      params: [...graph.params, ...cotangents.filter((c) => c !== undefined)],
      outputs: [
        ...pulled.outputs,
        ...wrt.map((i, k) => {
          const p = at(graph.params, i, 'parameter')
          return gradients[k] ?? zeros(p.shape, p.dtype)
        }),
      ],
      effects: pulled.effects,
    }
  })
}
