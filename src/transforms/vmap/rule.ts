/** The shape of a batching rule. Batched values have the batch as axis 0. */
import type { Node, NodeOf, OpName } from '../../graph/node.ts'
import type { Unsupported } from '../rule.ts'

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

export type BatchRules<O extends OpName = OpName> = { readonly [K in O]: BatchRule<K> }
