/** What statements fold and run along. */
import type { LetStmt } from './ir.ts'

/** Axes that a reduction or a product folds away. */
export const foldAxes = ({ op }: LetStmt): readonly string[] =>
  op.kind === 'reduce' || op.kind === 'dot' ? op.axes : []

/** The same, and the axis that a scan runs along. */
export const foldOrScanAxes = (l: LetStmt): readonly string[] => (l.op.kind === 'scan' ? [l.op.axis] : foldAxes(l))

/**
 * Whether a block of a product's results reads each operand less than once a result: both operands, of these axes, have some that the other
 * lacks. A row times a matrix reads the matrix once, however its results are blocked: it is folded as sums are.
 */
export function sharesOperands(a: readonly string[], b: readonly string[]): boolean {
  const hasOwn = (of: readonly string[], beside: readonly string[]): boolean =>
    of.some((axis) => !beside.includes(axis))
  return hasOwn(a, b) && hasOwn(b, a)
}

export const isFold = ({ op }: LetStmt): boolean => op.kind === 'reduce' || op.kind === 'dot'
export const isFoldOrScan = (l: LetStmt): boolean => isFold(l) || l.op.kind === 'scan'
