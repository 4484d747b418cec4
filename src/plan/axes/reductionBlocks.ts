/** How many rows or columns a program of a reduction takes, whole, in parts, or of strict scans. */
import * as ix from '../../affine/expr.ts'
import { isFoldOrScan } from '../../kernel/folds.ts'
import { operandsOf, type ValueId } from '../../kernel/ir.ts'
import { transposedTile } from '../../schedule/loop/nest/transposed.ts'
import { tapAxes } from '../../schedule/simt/part/taps.ts'
import { cacheLine } from '../../target/loops.ts'
import type { Machine } from '../../target/machine.ts'
import { type DType, dtypeBytes } from '../../types/dtype.ts'
import { type Body, heldPoints, pointsOf } from '../body/body.ts'
import { byStoreStride } from './gridAxes.ts'
import { positionOfLoad } from './positions.ts'
import { type Roles, unitAxis } from './roles.ts'
import type { RowSplit } from './split.ts'

/**
 * Short rows of a program, of which there would be `rows`: more of them where they share much of what they read, so that it is
 * read for many at once; all of the next axis, or parts of one length.
 */
function withShared(body: Body, roles: Roles, target: Machine, rows: number): number {
  const { sharing } = target.shortRows
  const [next] = byStoreStride(body, roles.parallel)
  if (next === undefined) return rows
  const bytes = (l: { readonly dtype: DType; readonly axes: readonly string[] }): number =>
    pointsOf(
      roles.extents,
      l.axes.filter((a) => !roles.parallel.has(a)),
    ) * dtypeBytes(l.dtype)
  let shared = 0
  let own = 0
  for (const l of body.lets)
    if (l.op.kind === 'load') {
      if (l.axes.includes(next)) own += bytes(l)
      else shared += bytes(l)
    }
  const extent = roles.extents.get(next) ?? 1
  if (shared < own || rows >= extent || sharing === 1) return rows
  const parts = Math.ceil(extent / (sharing * rows))
  const isBusy = (pointsOf(roles.extents, roles.parallel) / extent) * parts >= target.minPrograms
  return isBusy ? Math.ceil(extent / parts) : rows
}

/** Columns of a program that reads whole lines from memory. */
export const lineColumns = 64

/** Columns of a program that holds them, if they fit, where a row of them is on a page of its own. */
const heldColumns = 128

/** Lines that a program of strict scans holds at most in the memory its block shares; undefined without any. */
export function mostLines(body: Body, roles: Roles, { lineBytes }: Machine): number | undefined {
  let most: number | undefined
  if (lineBytes === undefined) return most
  for (const l of body.lets) {
    if (l.op.kind !== 'scan') continue
    const length = 2 ** Math.ceil(Math.log2(roles.extents.get(l.op.axis) ?? 1))
    const lines = lineBytes.strict / (Math.max(4, dtypeBytes(l.dtype)) * length)
    most = Math.min(most ?? lines, Math.max(1, 2 ** Math.floor(Math.log2(lines))))
  }
  return most
}

/** Whether rows are needed again along a parallel axis: something follows a fold over what all its indices share alone where they are not. */
function holdsRowsOf(body: Body, { row }: Roles, parallel: string): boolean {
  const after = new Set<ValueId>()
  for (const l of row.size === 0 ? [] : body.lets) {
    const follows = operandsOf(l.op).some((id) => after.has(id))
    // A scan's own results stand along its row.
    if ((follows || l.op.kind === 'scan') && l.axes.includes(parallel) && l.axes.some((a) => row.has(a))) return true
    if (follows || isFoldOrScan(l)) after.add(l.id)
  }
  return false
}

/** Rows that a program goes through at a time where its share of `axis` has a loop: as many as it holds, with all that it holds whole besides. */
export function rowsOfStep(
  body: Body,
  { extents, row, reduced }: Roles,
  { axis, block }: Exclude<RowSplit, 'every-index'>,
  { rowsAtOnce }: Machine,
): number {
  const held = new Set([...row, ...reduced].filter((a) => a !== axis))
  return Math.max(1, Math.min(block, Math.floor(rowsAtOnce / heldPoints(body, extents, held))))
}

/** Rows of so many points that a program takes: several only of short ones. */
export const rowsOf = (local: number, { shortRows: { below, points } }: Machine): number =>
  local >= below ? 1 : Math.max(1, Math.floor(points / local))

/** Programs that remain at least where they take several rows for what they read across. */
const fewestAcross = 8

/**
 * Rows of `local` points that a program takes on machines of loops where it reads something across them, so that lines of that are read whole: as many as a
 * line holds, if a tile of them stays near.
 */
function rowsAcross(body: Body, { row, reduced, parallel, extents }: Roles, local: number, { loops }: Machine): number {
  const [first] = byStoreStride(body, parallel)
  if (loops === undefined || first === undefined) return 1
  const all = pointsOf(extents, new Set([...row, ...reduced, ...parallel]))
  for (const l of body.lets) {
    if (l.op.kind !== 'load' || pointsOf(extents, l.axes) < all) continue
    const position = positionOfLoad(body, l.op)
    const isOver = l.axes.some((a) => !parallel.has(a) && Math.abs(ix.strideOf(position, a) ?? 0) > 1)
    if (!isOver || ix.strideOf(position, first) !== 1) continue
    let rows = Math.min(cacheLine / dtypeBytes(l.dtype), 2 ** Math.floor(Math.log2(transposedTile / (4 * local))))
    while (rows > 1 && pointsOf(extents, parallel) / rows < fewestAcross) rows /= 2
    return rows >= 8 ? rows : 1
  }
  return 1
}

/** Bytes of an element of what is read most of, with neighbours along an axis. */
function bytesAlong(body: Body, unit: string): number | undefined {
  let most = 0
  let found: number | undefined
  for (const l of body.lets) {
    if (l.op.kind !== 'load' || !l.axes.includes(unit)) continue
    const flat = ix.flatten(l.op.index, body.loads.get(l.op.param)?.shape ?? [])
    const bytes = dtypeBytes(l.dtype)
    const all = bytes * l.axes.reduce((n, a) => n * (body.axes.find((x) => x.name === a)?.extent ?? 1), 1)
    if (ix.strideOf(flat, unit) !== 1 || all <= most) continue
    most = all
    found = bytes
  }
  return found
}

/** Columns of a program whose rows no line of memory says otherwise of. */
const fewColumns = 16

/** Columns along an axis that a line of memory holds; bytes take longer to convert than to read. */
function columnsOfLine(body: Body, unit: string, { memoryLine }: Machine): number {
  if (memoryLine === undefined) return fewColumns
  const bytes = bytesAlong(body, unit) ?? 1
  return bytes === 1 ? fewColumns : Math.max(fewColumns, memoryLine / bytes)
}

/**
 * Columns of rows of `local` points that a program holds: fewer, down to a sector of memory, where those alone stay resident and programs of more
 * columns would be too few to use half of the bandwidth, each going through its rows by itself.
 */
function residentColumns(body: Body, unit: string, local: number, points: number, target: Machine): number {
  const { memorySector, rowBytes, programShare } = target
  const fits = (columns: number): boolean => columns * local * 4 <= rowBytes
  const share = Math.ceil(points / fewColumns) * (programShare?.moving ?? 1)
  if (memorySector === undefined || fits(fewColumns) || share > 1 / 2) return fewColumns
  const least = memorySector / (bytesAlong(body, unit) ?? 4)
  for (let columns = fewColumns / 2; columns >= least; columns /= 2) if (fits(columns)) return columns
  return fewColumns
}

/** The axis that most of what a body reads and stores is contiguous along, but no short one for the taps of windows, where threads go by them: a line goes on along the positions. */
function lineAxis(body: Body, { parallel, reduced, extents }: Roles, { slidingWindows }: Machine): string | undefined {
  if (slidingWindows === undefined) return unitAxis(body)
  const reads = body.lets.flatMap(({ op }) => (op.kind === 'load' ? [op] : []))
  const taps = tapAxes(reads, parallel, reduced, (a) => extents.get(a) ?? 1)
  return taps.length === 0 ? unitAxis(body) : unitAxis(body, (a) => !taps.includes(a))
}

/** Points of the parallel axes a program of a reduction covers; `partial`: what it reduces are partial results just written. */
export function reductionPoints(body: Body, roles: Roles, target: Machine, partial = false): number {
  const size = (axes: Iterable<string>): number => pointsOf(roles.extents, axes)
  const local = heldPoints(body, roles.extents, new Set([...roles.row, ...roles.reduced]))
  const unit = lineAxis(body, roles, target)
  const share = Math.ceil(size(roles.parallel) / target.minPrograms)
  // Rows contiguous along what is reduced: one at a time, unless they are short.
  if (unit === undefined || !roles.parallel.has(unit)) {
    const across = rowsAcross(body, roles, local, target)
    return Math.max(
      across,
      local >= target.shortRows.below ? 1 : withShared(body, roles, target, rowsOf(local, target)),
    )
  }
  // Nothing stays resident: wide blocks read whole lines.
  const least = partial ? target.partialColumns : lineColumns
  if (roles.row.size === 0) return Math.max(least, Math.min(512, share))
  // Its columns pass by what all share: whole lines of them, where some programs remain.
  if (!holdsRowsOf(body, roles, unit)) {
    let columns = columnsOfLine(body, unit, target)
    while (columns > fewColumns && size(roles.parallel) / columns < target.minPrograms / 16) columns /= 2
    return Math.max(columns, Math.min(512, columns * Math.ceil(share / columns)))
  }
  const fit = Math.floor((8 * target.elementBlock) / local)
  // Rows that nothing reads again stand in scratch: of very long ones a program takes fewer.
  const fewest =
    target.rereadShare === undefined
      ? Math.min(16, Math.floor((4 * target.rowBytes) / local))
      : residentColumns(body, unit, local, size(roles.parallel), target)
  const floor = target.rereadShare === undefined ? Math.max(fewest, heldColumns) : fewest
  const columns = Math.max(1, fewest, Math.min(fit, 512, Math.max(floor, share)))
  return target.loops === undefined ? withoutRest(roles.extents.get(unit) ?? 1, columns) : columns
}

/** Of a last program's columns, what may be missing of all programs' (its threads compute all the same). */
const mostMissing = 1 / 4

/** Columns of a program, halved while too few are left for the last one of an axis, down to whole lines. */
function withoutRest(extent: number, columns: number): number {
  const missing = (n: number): number => (Math.ceil(extent / n) * n) / extent - 1
  for (let n = columns; n >= lineColumns; n = Math.floor(n / 2)) if (n <= extent && missing(n) <= mostMissing) return n
  return columns
}

/** Points of the parallel axes that a program covers of reductions cut along an axis: where no lines lie along them, few enough for many programs. */
export function partialPoints(
  body: Body,
  roles: Roles,
  splitBy: Exclude<RowSplit, 'every-index'>,
  target: Machine,
): number {
  const { axis, block } = splitBy
  const wide = Math.max(target.columnBlock, target.elementBlock / block)
  const unit = lineAxis(body, roles, target)
  if (unit !== undefined && roles.parallel.has(unit)) return wide
  const all = pointsOf(roles.extents, roles.parallel)
  const parts = Math.ceil((roles.extents.get(axis) ?? 1) / block)
  return Math.max(1, Math.min(wide, Math.floor((all * parts) / (4 * target.minPrograms))))
}
