/** Transposing the linear part of a graph: cotangents from results back to what they are linear in. */
import { add } from '../compose/elementwise.ts'
import { InternalError, invariant } from '../diagnostics/errors.ts'
import { backwardOrigin, inOrigin } from '../diagnostics/origin.ts'
import type { Node, NodeOf, OpName } from '../graph/node.ts'
import { topologicalOrder } from '../graph/traverse.ts'
import { sameShape, sizeOf } from '../types/shape.ts'
import { linearNodes } from './linear.ts'
import { type TransposeRules, type Transposition, transposeRules } from './transpose/index.ts'

/** A result that is linear in the inputs, and its cotangent. */
export interface LinearResult {
  readonly node: Node
  readonly cotangent: Node
}

function transposeNode<O extends OpName>(node: NodeOf<O>, call: Omit<Transposition<O>, 'node'>): void {
  const rule = (transposeRules as TransposeRules)[node.op]
  if (rule === 'nonlinear') throw new InternalError(`${node.op} of ${node.origin.name} stands among tangents`)
  rule({ ...call, node })
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
  const give = (to: Node, ct: Node): void => {
    if (!linear.has(to) || sizeOf(ct.shape) === 0) return
    invariant(to.dtype === ct.dtype && sameShape(to.shape, ct.shape), `a cotangent of another type for ${to.op}`)
    const have = cotangents.get(to)
    cotangents.set(to, have === undefined ? ct : add(have, ct))
  }
  for (const r of results) give(r.node, r.cotangent)
  const given = new Set(inputs)
  for (const node of order.toReversed()) {
    const cotangent = cotangents.get(node)
    if (cotangent === undefined || given.has(node)) continue
    inOrigin(backwardOrigin(node.origin), () => transposeNode(node, { cotangent, isLinear, give }))
  }
  return inputs.map((n) => cotangents.get(n))
}
