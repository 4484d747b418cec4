/** What the op table says of one op: the entry type every family's file fills in. */
import type { ScalarOp } from '../scalar/ops.ts'
import type { DType } from '../types/dtype.ts'
import type { Shape } from '../types/shape.ts'
import type { AttrsByOp, Node, OpName } from './node.ts'

export type OpFamily =
  | 'elementwise'
  | 'source'
  | 'random'
  | 'view'
  | 'gather'
  | 'scatter'
  | 'reduction'
  | 'scan'
  | 'contraction'
  | 'boundary'
  | 'region'

/** What the table says of one op. */
export interface OpDef<O extends OpName> {
  readonly family: OpFamily
  /** Number of inputs: exact, or at least. */
  readonly arity: number | { readonly atLeast: number }
  /** Result shape and dtype; throws UserError on inputs the op is not defined on. */
  readonly infer: (inputs: readonly Node[], attrs: AttrsByOp[O]) => { readonly shape: Shape; readonly dtype: DType }
  /** Equal keys mean equal attributes (hash-consing). */
  readonly key: (attrs: AttrsByOp[O]) => string
  /** Elementwise ops: their scalar operation. */
  readonly scalar?: ScalarOp
  /** Ops no kernel may cross. */
  readonly boundary?: 'opaque' | 'effect' | 'scatter' | 'region'
}
