/** Partial results of reductions that are cut: the main kernel leaves them, its finishing stage folds them. */
import { invariant } from '../../diagnostics/errors.ts'
import { foldAxes } from '../../kernel/folds.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { type DType, dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import type { DepthParts } from './fusedReductions.ts'
import type { Blocked } from './matrixBlocks.ts'
import type { RowSplit } from './split.ts'

/** A buffer that lives for one launch. */
export interface PartialResult {
  readonly shape: readonly number[]
  readonly dtype: DType
}

export const partialBytes = ({ shape, dtype }: PartialResult): number => sizeOf(shape) * dtypeBytes(dtype)

/** The statements of a body and the extents of its axes. */
interface Facts {
  readonly lets: ReadonlyMap<ValueId, LetStmt>
  readonly extents: ReadonlyMap<string, number>
}

const shapeOf = ({ extents }: Facts, axes: readonly string[]): number[] => axes.map((a) => extents.get(a) ?? 1)

/** What a reduction leaves that is cut: every element that it folds, or a result for every block of the axis it is cut along. */
export function partialOf(facts: Facts, l: LetStmt, splitBy: RowSplit): PartialResult {
  if (splitBy !== 'every-index') {
    const blocks = Math.ceil((facts.extents.get(splitBy.axis) ?? 1) / splitBy.block)
    return { shape: [blocks, ...shapeOf(facts, l.axes)], dtype: l.dtype }
  }
  const operand = l.op.kind === 'reduce' ? facts.lets.get(l.op.arg) : undefined
  invariant(operand !== undefined, 'products are cut along an axis')
  return { shape: shapeOf(facts, [...foldAxes(l), ...l.axes]), dtype: operand.dtype }
}

/** What a fold of a product's results leaves: one for each block along the axes it folds, at every index of those it keeps. */
export interface BlockPartial extends PartialResult {
  readonly parts: readonly (Blocked & { readonly count: number })[]
  readonly kept: readonly string[]
}

/** Partial results at a product's blocks; axes that are kept stand in some order. */
export function partialOfBlocks(
  facts: Facts,
  l: LetStmt,
  blocks: readonly Blocked[],
  inOrder: (axes: readonly string[]) => readonly string[] = (axes) => axes,
): BlockPartial {
  invariant(l.op.kind === 'reduce', 'only reductions end at the blocks of a product')
  const folded = l.op.axes
  const parts = blocks
    .filter((b) => folded.includes(b.axis))
    .map((b) => ({ ...b, count: Math.ceil((facts.extents.get(b.axis) ?? 1) / b.block) }))
  const kept = inOrder((facts.lets.get(l.op.arg)?.axes ?? []).filter((a) => !folded.includes(a)))
  return { shape: [...parts.map((p) => p.count), ...shapeOf(facts, kept)], dtype: l.dtype, parts, kept }
}

/** What a product leaves whose depth is cut: its results, for each part. */
export const partialOfDepth = (facts: Facts, product: LetStmt, { parts }: DepthParts): PartialResult => ({
  shape: [parts, ...shapeOf(facts, product.axes)],
  dtype: product.dtype,
})
