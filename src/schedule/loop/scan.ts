/**
 * The loops around a scan: the scanned axis inside all others, or inside the lanes of one, or in lanes itself. Lanes along the scanned
 * axis fold what stands before them in their group by two shuffles, so that four elements cost one step of the running fold; strict
 * sums have an order that allows none of that.
 */
import { invariant } from '../../diagnostics/errors.ts'
import type { LetStmt } from '../../kernel/ir.ts'
import { computeDType, type DType, isFloat } from '../../types/dtype.ts'
import type { ScanSchedule } from './ir/schedule.ts'
import type { Axes, Tile } from './ir/tile.ts'

export function scheduleScan(axes: Axes, stmt: LetStmt, tile: Tile, strict: boolean): ScanSchedule {
  const { op, dtype } = stmt
  invariant(op.kind === 'scan', 'not a scan')
  const varying = axes.varying(stmt.axes)
  const last = varying.at(-1)
  const view = axes.view(op.axis)
  const isWhole = !view.moves && view.counts?.length === 1
  const along = last === op.axis && view.max >= 4 && isWhole && foldsLanes(dtype) && !(strict && isFloat(dtype))
  const across = last !== undefined && last !== op.axis && axes.view(last).max >= 4
  const vector = along || across ? last : undefined
  const most = vector === undefined ? 0 : axes.view(vector).max
  return {
    kind: 'scan',
    stmt,
    tile,
    outer: varying.filter((a) => a !== op.axis && a !== vector),
    vector,
    copies: most >= 16 ? 4 : 1,
  }
}

/** Whether four elements stand in one vector. */
const foldsLanes = (dtype: DType): boolean => ['f32', 'i32', 'u32'].includes(computeDType(dtype))
