/** Transposing the linear part of a graph: cotangents from results back to what they are linear in. */
import { add } from '../compose/elementwise.ts'
import { InternalError, invariant } from '../diagnostics/errors.ts'
import { inBackward, inOrigin } from '../diagnostics/origin.ts'
import { param, withContext } from '../graph/build.ts'
import type { Graph, Node, NodeOf, OpName } from '../graph/node.ts'
import { isRegion, type RegionOp, regionResults } from '../graph/ops/region.ts'
import { inlineOutputs } from '../graph/subgraph.ts'
import { topologicalOrder } from '../graph/traverse.ts'
import { sameShape, sizeOf } from '../types/shape.ts'
import { linearNodes } from './linear.ts'
import { operand } from './rule.ts'
import {
  type RegionTransposeRules,
  type RegionTransposition,
  regionTranspose,
  type TransposedGraph,
  type TransposeRules,
  type Transposition,
  transposeRules,
} from './transpose/index.ts'

/** A result that is linear in the inputs, and its cotangent. */
export interface LinearResult {
  readonly node: Node
  readonly cotangent: Node
}

function transposeNode<O extends Exclude<OpName, RegionOp | 'result'>>(
  node: NodeOf<O>,
  call: Omit<Transposition<O>, 'node'>,
): void {
  const rule = (transposeRules as TransposeRules)[node.op]
  if (rule === 'nonlinear') throw new InternalError(`${node.op} of ${node.origin.name} stands among tangents`)
  rule({ ...call, node })
}

function transposeRegion<O extends RegionOp>(node: NodeOf<O>, call: Omit<RegionTransposition<O>, 'node'>): void {
  const rule = (regionTranspose as RegionTransposeRules)[node.op]
  if (rule === 'nonlinear') throw new InternalError(`${node.op} of ${node.origin.name} stands among tangents`)
  rule({ ...call, node })
}

/** The transpose of a graph inside a region. */
function transposeInside(graph: Graph, linear: readonly boolean[], given: readonly boolean[]): TransposedGraph {
  return withContext(() => {
    const params = graph.params.map((p, i) => param(i, p.shape, p.dtype))
    const outputs = inlineOutputs(graph, params)
    const results = outputs.flatMap((node, i): LinearResult[] =>
      given[i] === true ? [{ node, cotangent: param(params.length + i, node.shape, node.dtype) }] : [],
    )
    const gradients = transposeLinear(
      results,
      params.filter((_, i) => linear[i]),
    )
    return {
      known: params.filter((_, i) => linear[i] !== true),
      cotangents: results.map((r) => r.cotangent),
      gradients,
    }
  })
}

/**
 * The cotangent of each input (undefined: zero), given linear results and theirs. Nodes are built in the current context, in
 * the backward part of the origins of what they transpose; several cotangents of one node add up in the order they arrive.
 */
export function transposeLinear(results: readonly LinearResult[], inputs: readonly Node[]): (Node | undefined)[] {
  const order = topologicalOrder(results.map((r) => r.node))
  const linear = linearNodes(order, inputs)
  const isLinear = (n: Node): boolean => linear.has(n)
  const cotangents = new Map<Node, Node>()
  /** Cotangents of the results of regions. */
  const ofResults = new Map<Node, (Node | undefined)[]>()
  const give = (to: Node, ct: Node): void => {
    if (!linear.has(to) || sizeOf(ct.shape) === 0) return
    invariant(to.dtype === ct.dtype && sameShape(to.shape, ct.shape), `a cotangent of another type for ${to.op}`)
    const have = cotangents.get(to)
    cotangents.set(to, have === undefined ? ct : add(have, ct))
  }
  /** A result's cotangent waits with its region until all results have theirs. */
  const giveResult = (node: NodeOf<'result'>, ct: Node): void => {
    const region = operand(node, 0)
    const all = ofResults.get(region) ?? regionResults(region).map(() => undefined)
    const have = all[node.attrs.index]
    all[node.attrs.index] = have === undefined ? ct : add(have, ct)
    ofResults.set(region, all)
  }
  for (const r of results) give(r.node, r.cotangent)
  const given = new Set(inputs)
  for (const node of order.toReversed()) {
    if (isRegion(node)) {
      const all = ofResults.get(node)
      if (all === undefined) continue
      inBackward(() =>
        inOrigin(node.origin, () =>
          transposeRegion(node, { cotangents: all, isLinear, give, inside: transposeInside }),
        ),
      )
      continue
    }
    const cotangent = cotangents.get(node)
    if (cotangent === undefined || given.has(node)) continue
    if (node.op === 'result') giveResult(node, cotangent)
    else inBackward(() => inOrigin(node.origin, () => transposeNode(node, { cotangent, isLinear, give })))
  }
  return inputs.map((n) => cotangents.get(n))
}
