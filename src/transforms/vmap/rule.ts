/** The shape of a batching rule. Batched values have the batch as axis 0. */
import type { Graph, Node, NodeOf, OpName } from '../../graph/node.ts'
import type { RegionOp } from '../../graph/ops/region.ts'
import type { Unsupported } from '../rule.ts'

/** A value with or without a leading batch axis. */
export interface BatchedNode {
  readonly node: Node
  readonly batched: boolean
}

/** A node to batch: its inputs stand in `inputs`, those of `batched` with a leading axis of extent `size`. */
export interface Batching<O extends OpName> {
  readonly node: NodeOf<O>
  readonly inputs: readonly Node[]
  readonly batched: readonly boolean[]
  readonly size: number
}

/**
 * The node's operation on every element of the batch, result batched. It is asked only when some input is batched.
 * 'constant': the op has no inputs.
 */
export type BatchRule<O extends OpName> = ((b: Batching<O>) => Node) | 'constant' | Unsupported

export type BatchRules<O extends OpName = Exclude<OpName, RegionOp | 'result'>> = { readonly [K in O]: BatchRule<K> }

/** A graph over a batch of some of its parameters: nodes of one program. */
export interface BatchedInside {
  readonly params: readonly Node[]
  readonly outputs: readonly BatchedNode[]
}

/** A region some of whose inputs are batched. */
export interface RegionBatching<O extends RegionOp> extends Batching<O> {
  /** A graph on arguments, in the current context. */
  readonly apply: (graph: Graph, args: readonly BatchedNode[]) => readonly BatchedNode[]
  /** A graph over parameters of its own, those marked batched. */
  readonly inside: (graph: Graph, batched: readonly boolean[]) => BatchedInside
}

/** The region's results over the batch. */
export type RegionBatchRules = { readonly [O in RegionOp]: (b: RegionBatching<O>) => readonly BatchedNode[] }
