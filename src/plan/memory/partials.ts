/** Partial results of a kernel whose reductions are cut: the main kernel leaves them, its finishing stage folds them. */
import { invariant } from '../../diagnostics/errors.ts'
import { type DType, dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import type { Roles } from '../axes/roles.ts'
import type { Body } from '../body/body.ts'

/** A buffer that lives for one launch. */
export interface PartialResult {
  readonly shape: readonly number[]
  readonly dtype: DType
}

export const partialBytes = ({ shape, dtype }: PartialResult): number => sizeOf(shape) * dtypeBytes(dtype)

/**
 * Those of a body that holds no matrix product, one for every reduction that is split, in that order: every element that the reduction
 * folds, or a result for every block of the axis it is cut along. (Beside a product the blocks of its result decide, which the lowering chooses.)
 */
export function partialsOf(body: Body, { stages, splitBy, extents }: Roles): PartialResult[] {
  if (splitBy === undefined || splitBy === 'result-blocks') return []
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const shape = (axes: readonly string[]): number[] => axes.map((a) => extents.get(a) ?? 1)
  return [...stages.split].map((id) => {
    const l = lets.get(id)
    invariant(l !== undefined, 'a split fold without statement')
    if (splitBy !== 'every-index')
      return { shape: [Math.ceil((extents.get(splitBy.axis) ?? 1) / splitBy.block), ...shape(l.axes)], dtype: l.dtype }
    invariant(l.op.kind === 'reduce', 'products are cut along an axis')
    const operand = lets.get(l.op.arg)
    invariant(operand !== undefined, 'a reduction without operand')
    return { shape: shape([...l.op.axes, ...l.axes]), dtype: operand.dtype }
  })
}
