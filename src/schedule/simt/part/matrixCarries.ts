/** What loops carry in matrices of subgroups (subgroupMatrices.ts), from zeros to the end. */
import { type Carry, type LoopStmt, operandsOf, type ValueId } from '../../../kernel/ir.ts'
import { storeValues } from './facts.ts'
import type { Part } from './part.ts'
import type { VectorProduct } from './vectorProduct.ts'

/** What a loop carries so, and the product that adds to it. */
export interface MatrixCarry {
  readonly carry: Carry
  readonly product: VectorProduct
}

export const matrixCarries = ({ vectorProducts }: Part, { carries }: LoopStmt): readonly MatrixCarry[] =>
  carries.flatMap((carry) => {
    const product = vectorProducts.get(carry.next)
    return product?.onMatrices ? [{ carry, product }] : []
  })

/** Whether what a loop carries stands in matrices until its end. */
export const isOnMatrices = ({ vectorProducts }: Part, { next }: Carry): boolean =>
  vectorProducts.get(next)?.onMatrices === true

/** Whether a value says what such matrices begin as, and nothing else. */
export function isMatrixStart(part: Part, id: ValueId): boolean {
  const carries = part.loops.flatMap((l) => l.carries)
  const isRead =
    [...part.lets.values()].some((l) => operandsOf(l.op).includes(id)) ||
    part.stores.some((s) => storeValues(s).includes(id)) ||
    carries.some((c) => c.next === id || (c.init === id && !isOnMatrices(part, c)))
  return !isRead && carries.some((c) => c.init === id)
}
