/** Batching rules of elementwise operations: the operation itself, with operands that lack the batch repeated. */
import { makeNode } from '../../graph/build.ts'
import type { AttrsByOp, Node } from '../../graph/node.ts'
import { type BinaryName, scalarOps, type UnaryName } from '../../scalar/ops.ts'
import { allBatched } from './operand.ts'
import type { BatchRule, BatchRules } from './rule.ts'

type ElementwiseName = UnaryName | BinaryName | 'select' | 'cast' | 'bitcast'

const lift = <O extends ElementwiseName>(op: O): BatchRule<O> => {
  return (b) => makeNode(op, allBatched(b), b.node.attrs as AttrsByOp[O]) as Node
}

const names = Object.keys(scalarOps) as readonly ElementwiseName[]

/** One rule for all: nothing is written down for a new operation. */
export const elementwiseBatching = Object.fromEntries(
  names.map((op) => [op, lift(op)]),
) as unknown as BatchRules<ElementwiseName>
