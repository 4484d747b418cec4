/** Blocks of products of few rows whose columns are computed from weights in few bits: warps share the depth of a step (`Machine.dotBlock.deep`). */
import { operandsOf, type TileOp } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import type { Machine } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { type Body, pointsOf } from '../body/body.ts'
import type { MatrixRole } from './fusedReductions.ts'
import { positionOfLoad, repeatsAlong } from './positions.ts'

/** Most bytes of memory for a number of the depth: what is wider is copied as it is. */
const mostBytes = 1
/** Bytes of a row that begin at whole words of copies. */
const together = 8

/**
 * Columns and depth of a deep block; undefined where it does not serve: of many rows or computed ones, columns that are read as they are or whose numbers
 * of the depth lie apart in memory (of rows, too), a depth of less than two steps.
 */
export function deepBlock(
  body: Body,
  op: Extract<TileOp, { kind: 'dot' }>,
  { m, n, k, swap }: MatrixRole,
  extents: ReadonlyMap<string, number>,
  { dotBlock: { deep }, minPrograms }: Machine,
): { readonly columns: number; readonly depth: number } | undefined {
  const [axis, another] = k
  if (deep === undefined || axis === undefined || another !== undefined) return undefined
  if (pointsOf(extents, m) > deep.rows || pointsOf(extents, n) <= deep.columns) return undefined
  // So few blocks would have their depth cut into parts of few steps.
  if (Math.ceil(pointsOf(extents, n) / deep.columns) < minPrograms / 16) return undefined
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const depthOf = pointsOf(extents, k)
  const isOpen = body.axes.some((a) => a.name === axis && a.open !== undefined)
  const rows = lets.get(swap ? op.b : op.a)
  // Rows are copied as they are, in groups along the depth.
  if (isOpen || rows?.op.kind !== 'load' || repeatsAlong(positionOfLoad(body, rows.op), axis) !== 1) return undefined
  if ((depthOf * dtypeBytes(rows.dtype)) % (2 * together) !== 0) return undefined
  let bytes = 0
  for (const id of ancestorsOf([swap ? op.a : op.b], lets)) {
    const l = lets.get(id)
    if (l?.op.kind !== 'load' || !l.axes.includes(axis)) continue
    const repeats = operandsOf(l.op).length > 0 ? undefined : repeatsAlong(positionOfLoad(body, l.op), axis)
    if (repeats === undefined) return undefined
    bytes = Math.max(bytes, dtypeBytes(l.dtype) / repeats)
  }
  if (bytes === 0 || bytes > mostBytes) return undefined
  const depth = deep.bytes / bytes
  return depthOf < 2 * depth || (depthOf * bytes) % together !== 0 ? undefined : { columns: deep.columns, depth }
}
