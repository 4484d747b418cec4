/** What statements fold and run along. */
import type { LetStmt } from './ir.ts'

/** Axes that a reduction or a product folds away. */
export const foldAxes = ({ op }: LetStmt): readonly string[] =>
  op.kind === 'reduce' || op.kind === 'dot' ? op.axes : []

/** The same, and the axis that a scan runs along. */
export const foldOrScanAxes = (l: LetStmt): readonly string[] => (l.op.kind === 'scan' ? [l.op.axis] : foldAxes(l))

export const isFold = ({ op }: LetStmt): boolean => op.kind === 'reduce' || op.kind === 'dot'
export const isFoldOrScan = (l: LetStmt): boolean => isFold(l) || l.op.kind === 'scan'
