/** The op table: the single place that knows an op. Every pass asks it for properties; no pass keeps a list of op names. */
import { type ScalarInfo, type ScalarOp, scalarInfo, scalarOps } from '../scalar/ops.ts'
import type { Node, OpName } from './node.ts'
import type { OpDef, OpFamily } from './op.ts'
import { boundaryOps } from './ops/boundary.ts'
import { contractionOps } from './ops/contraction.ts'
import { elementwiseOps } from './ops/elementwise.ts'
import { indexingOps } from './ops/indexing.ts'
import { reductionOps } from './ops/reduction.ts'
import { regionOps } from './ops/region.ts'
import { sourceOps } from './ops/source.ts'
import { viewOps } from './ops/view.ts'

export type { OpDef, OpFamily } from './op.ts'

export type OpTable = { readonly [O in OpName]: OpDef<O> }

export const opTable: OpTable = {
  ...elementwiseOps,
  ...sourceOps,
  ...viewOps,
  ...indexingOps,
  ...reductionOps,
  ...contractionOps,
  ...boundaryOps,
  ...regionOps,
}

/** The definition of a node's op, with its attribute type forgotten. */
export interface AnyOpDef {
  readonly family: OpFamily
  readonly arity: number | { readonly atLeast: number }
  readonly scalar?: ScalarOp
  readonly boundary?: 'opaque' | 'effect' | 'scatter' | 'region'
}
export const opDef = (node: Node): AnyOpDef => opTable[node.op]
/** A node's attributes as text: equal texts mean equal attributes. */
export const attrsKey = (node: Node): string => (opTable[node.op] as unknown as OpDef<OpName>).key(node.attrs as never)
export const familyOf = (node: Node): OpFamily => opTable[node.op].family

type ScalarProperties = ScalarInfo & { readonly op: ScalarOp }

const scalarProperties = new Map<OpName, ScalarProperties>()

/** Scalar properties of an elementwise node, undefined for other families. */
export function scalarOf(node: Node): ScalarProperties | undefined {
  const have = scalarProperties.get(node.op)
  if (have !== undefined) return have
  const op = opTable[node.op].scalar
  if (op === undefined) return undefined
  const made = { ...scalarInfo(op), op }
  scalarProperties.set(node.op, made)
  return made
}
export { scalarOps }
