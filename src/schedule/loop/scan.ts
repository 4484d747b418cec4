/** The loops around a scan: the scanned axis inside all others, or inside the lanes of one. */
import { invariant } from '../../diagnostics/errors.ts'
import type { LetStmt } from '../../kernel/ir.ts'
import type { ScanSchedule } from './schedule.ts'
import type { Axes, Tile } from './tile.ts'

export function scheduleScan(axes: Axes, stmt: LetStmt, tile: Tile): ScanSchedule {
  const { op } = stmt
  invariant(op.kind === 'scan', 'not a scan')
  const varying = axes.varying(stmt.axes)
  const last = varying.at(-1)
  const vector = last !== undefined && last !== op.axis && axes.view(last).max >= 4 ? last : undefined
  return {
    kind: 'scan',
    stmt,
    tile,
    outer: varying.filter((a) => a !== op.axis && a !== vector),
    vector,
    copies: vector === undefined ? 1 : axes.view(vector).max >= 16 ? 4 : 1,
  }
}
