/** The shape of a JVP rule, and the few operations on tangents all rules are written with. */
import { add } from '../../compose/elementwise.ts'
import { zeros } from '../../compose/source.ts'
import type { Node, NodeOf, OpName } from '../../graph/node.ts'
import type { Unsupported } from '../rule.ts'

/** A tangent; undefined is a symbolic zero, which no operation materialises unless it must. */
export type Tangent = Node | undefined

/**
 * How a node's tangent follows from its inputs': linear in the tangents, so that it can be transposed. It is asked only when
 * the node is float and some input has a tangent. 'zero': the op is constant almost everywhere.
 */
export type JvpRule<O extends OpName> =
  | ((node: NodeOf<O>, tangents: readonly Tangent[]) => Tangent)
  | 'zero'
  | Unsupported

export type JvpRules<O extends OpName = OpName> = { readonly [K in O]: JvpRule<K> }

/** Sum of two tangents. */
export function addTangents(a: Tangent, b: Tangent): Tangent {
  if (a === undefined) return b
  return b === undefined ? a : add(a, b)
}

/** A tangent that must be a node. */
export const materialised = (t: Tangent, like: Node): Node => t ?? zeros(like.shape, like.dtype)
