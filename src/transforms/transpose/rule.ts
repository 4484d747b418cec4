/** The shape of a transpose rule. */
import type { Node, NodeOf, OpName } from '../../graph/node.ts'

/** A linear node whose cotangent is known. */
export interface Transposition<O extends OpName> {
  readonly node: NodeOf<O>
  readonly cotangent: Node
  /** Whether the node depends linearly on what is being transposed; other nodes are known. */
  readonly isLinear: (n: Node) => boolean
  /** Adds to the cotangent of a linear node, an input or something before it. */
  readonly give: (to: Node, cotangent: Node) => void
}

/** Gives cotangents to a node's linear inputs. 'nonlinear': no JVP rule leaves the op among tangents. */
export type TransposeRule<O extends OpName> = ((t: Transposition<O>) => void) | 'nonlinear'

export type TransposeRules<O extends OpName = OpName> = { readonly [K in O]: TransposeRule<K> }
