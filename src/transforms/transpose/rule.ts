/** The shape of a transpose rule. */
import type { Graph, Node, NodeOf, OpName } from '../../graph/node.ts'
import type { RegionOp } from '../../graph/ops/region.ts'

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

export type TransposeRules<O extends OpName = Exclude<OpName, RegionOp | 'result'>> = {
  readonly [K in O]: TransposeRule<K>
}

/** The transpose of a graph that is linear in some parameters: nodes of one program. */
export interface TransposedGraph {
  /** The parameters that are known, in order. */
  readonly known: readonly Node[]
  /** The cotangents of the outputs that have one, in order. */
  readonly cotangents: readonly Node[]
  /** The cotangent of each linear parameter, in order (undefined: zero). */
  readonly gradients: readonly (Node | undefined)[]
}

/** A linear region some of whose results have cotangents (in the order of its results; undefined: zero). */
export interface RegionTransposition<O extends RegionOp> extends Omit<Transposition<O>, 'cotangent'> {
  readonly cotangents: readonly (Node | undefined)[]
  /** Transposes a graph inside, given which parameters it is linear in and which outputs have cotangents. */
  readonly inside: (graph: Graph, linear: readonly boolean[], given: readonly boolean[]) => TransposedGraph
}

export type RegionTransposeRules = {
  readonly [O in RegionOp]: ((t: RegionTransposition<O>) => void) | 'nonlinear'
}
