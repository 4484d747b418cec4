/** Batched operands: repeating what is not batched, and taking the batch apart. */
import { reshape } from '../../compose/views.ts'
import { makeNode } from '../../graph/build.ts'
import type { Node } from '../../graph/node.ts'
import { sliceOne } from '../shift.ts'

/** One value for every element of a batch. */
export const repeatBatch = (x: Node, size: number): Node =>
  makeNode('broadcast', [x], { shape: [size, ...x.shape], dims: x.shape.map((_, i) => i + 1) })

interface Operands {
  readonly inputs: readonly Node[]
  readonly batched: readonly boolean[]
  readonly size: number
}

/** All operands batched. */
export const allBatched = ({ inputs, batched, size }: Operands): Node[] =>
  inputs.map((x, i) => (batched[i] === true ? x : repeatBatch(x, size)))

/** Operands of element `b` of the batch. */
export const elementOf = ({ inputs, batched }: Operands, b: number): Node[] =>
  inputs.map((x, i) => (batched[i] === true ? reshape(sliceOne(x, 0, b, b + 1), x.shape.slice(1)) : x))
