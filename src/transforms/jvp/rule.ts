/** The shape of a JVP rule, and the few operations on tangents all rules are written with. */
import { add } from '../../compose/elementwise.ts'
import { zeros } from '../../compose/source.ts'
import type { Graph, Node, NodeOf, OpName } from '../../graph/node.ts'
import type { RegionOp } from '../../graph/ops/region.ts'
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

export type JvpRules<O extends OpName = Exclude<OpName, RegionOp>> = { readonly [K in O]: JvpRule<K> }

/**
 * What becomes of a region. 'joint': one region computes values and tangents together, so nothing is kept from step to step.
 * 'linear': values and tangents in regions of their own, that of the tangents linear in them, so that it can be transposed;
 * what it needs of the values is handed over.
 */
export type Differentiation = 'joint' | 'linear'

/** A graph's outputs and their tangents over its parameters and a direction for some of them: nodes of one program. */
export interface Derivative {
  readonly params: readonly Node[]
  readonly directions: readonly Tangent[]
  readonly outputs: readonly Node[]
  readonly tangents: readonly Tangent[]
}

/** A region some of whose inputs have tangents. */
export interface RegionCall<O extends RegionOp> {
  readonly node: NodeOf<O>
  readonly tangents: readonly Tangent[]
  readonly mode: Differentiation
  /** The derivative of a graph inside, in the parameters chosen by position. */
  readonly derivative: (graph: Graph, tangentFor: readonly boolean[]) => Derivative
  /** A graph on arguments with its derivative, as `pushForward`. */
  readonly push: (graph: Graph, args: readonly Node[], tangents: readonly Tangent[]) => RegionDerivative
}

/** What stands in place of a region: its values and their tangents, in the order of its results. */
export interface RegionDerivative {
  readonly outputs: readonly Node[]
  readonly tangents: readonly Tangent[]
}

export type RegionJvpRules = { readonly [O in RegionOp]: (call: RegionCall<O>) => RegionDerivative }

/** Sum of two tangents. */
export function addTangents(a: Tangent, b: Tangent): Tangent {
  if (a === undefined) return b
  return b === undefined ? a : add(a, b)
}

/** A tangent that must be a node. */
export const materialised = (t: Tangent, like: Node): Node => t ?? zeros(like.shape, like.dtype)
