/** Choosing grids: which axes a program holds a block of, and how much. Below the cost model and lowering alike. */
import * as ix from '../../affine/expr.ts'
import { isFoldOrScan } from '../../kernel/folds.ts'
import { type GridAxis, type NumericsMode, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { dtypesIn, isFunction } from '../../schedule/price.ts'
import { nearBytes } from '../../target/loops.ts'
import type { Machine } from '../../target/machine.ts'
import { type DType, dtypeBytes } from '../../types/dtype.ts'
import { type Body, heldPoints, pointsOf } from '../body/body.ts'
import { byStoreStride } from './gridAxes.ts'
import { type Roles, unitAxis } from './roles.ts'
import type { RowSplit } from './split.ts'
import { splitAxes } from './stages.ts'

/**
 * Grid over the parallel axes. A program covers about `points` points of them, contiguous ones first; where two axes are
 * contiguous in different tensors (a transpose), a square block of both; where something is read that all rows share, `rows` rows.
 */
export function parallelGrid(body: Body, roles: Roles, points: number, rows = 1): GridAxis[] {
  const extent = (a: string): number => roles.extents.get(a) ?? 1
  const inner = byStoreStride(body, roles.parallel)
  const blocks = new Map<string, number>()
  const [first] = inner
  const read = axisAcross(body, roles, first) ?? unitAxis(body, (a) => roles.parallel.has(a))
  if (read !== undefined && first !== undefined && read !== first && points >= 64) {
    const side = Math.max(16, 2 ** Math.floor(Math.log2(Math.sqrt(points))))
    blocks.set(first, Math.min(side, extent(first)))
    blocks.set(read, Math.min(side, extent(read)))
  } else if (first !== undefined && rows > 1 && sharesRows(body, roles, inner, points, rows)) {
    blocks.set(first, points / rows)
    blocks.set(inner[1] ?? first, rows)
  } else {
    let left = points
    for (const a of inner) {
      const b = Math.max(1, Math.min(extent(a), Math.floor(left)))
      blocks.set(a, b)
      if (b < extent(a)) break
      left /= Math.max(1, extent(a))
    }
  }
  return [...roles.parallel].map((axis) => ({ axis, block: blocks.get(axis) ?? 1 }))
}

/**
 * Elements of a program at most on a machine of loops that has several functions to compute at every point: their results stand near between
 * loops of one each.
 */
function functionPoints(body: Body, { loops, prices }: Machine): number {
  if (loops === undefined) return Number.POSITIVE_INFINITY
  const dtypes = dtypesIn(body.lets)
  const every = Math.max(...body.lets.map((l) => l.axes.length))
  const functions = body.lets.filter(
    (l) => l.axes.length === every && isFunction(l, (id) => dtypes.get(id) ?? 'f32', prices),
  )
  return functions.length > 1 ? nearBytes(loops) / 8 : Number.POSITIVE_INFINITY
}

/** Elements of an elementwise program. */
export function elementPoints(body: Body, { parallel }: Roles, target: Machine): number {
  const { elementBytes = Number.POSITIVE_INFINITY } = target
  const elementBlock = Math.min(target.elementBlock, functionPoints(body, target))
  let bytes = 0
  for (const l of body.lets)
    if (l.op.kind === 'load' && [...parallel].every((a) => l.axes.includes(a))) bytes += dtypeBytes(l.dtype)
  const most = 2 ** Math.floor(Math.log2(elementBytes / Math.max(1, bytes)))
  return Math.min(elementBlock, Math.max(elementBlock / 4, most))
}

/** Whether rows are long and the next axis has several of them that read something together. */
function sharesRows(body: Body, roles: Roles, [first, next]: readonly string[], points: number, rows: number): boolean {
  if (first === undefined || next === undefined) return false
  if ((roles.extents.get(first) ?? 1) < points || (roles.extents.get(next) ?? 1) < rows) return false
  return body.lets.some((l) => l.op.kind === 'load' && l.axes.includes(first) && !l.axes.includes(next))
}

/** The axis that a load of everything is contiguous along, where stores are contiguous along another one it strides over. */
function axisAcross(body: Body, roles: Roles, first: string | undefined): string | undefined {
  if (roles.kind !== 'elementwise' || first === undefined) return undefined
  for (const l of body.lets) {
    if (l.op.kind !== 'load' || pointsOf(roles.extents, l.axes) < pointsOf(roles.extents, roles.parallel)) continue
    const flat = ix.flatten(l.op.index, body.loads.get(l.op.param)?.shape ?? [])
    const across = l.axes.find((a) => a !== first && ix.strideOf(flat, a) === 1)
    if (across !== undefined && (ix.strideOf(flat, first) ?? 1) > 1) return across
  }
  return undefined
}

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
const lineColumns = 64

/** Lines that a program of strict scans holds at most in the memory its block shares; undefined without any. */
function mostLines(body: Body, roles: Roles, { lineBytes }: Machine): number | undefined {
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

/** Rows of so many points that a program takes: several only of short ones. */
const rowsOf = (local: number, { shortRows: { below, points } }: Machine): number =>
  local >= below ? 1 : Math.max(1, Math.floor(points / local))

/** Columns along an axis that a line of memory holds of what is read most of along it; bytes take longer to convert than to read. */
function columnsOfLine(body: Body, unit: string, { memoryLine }: Machine): number {
  const fewest = 16
  if (memoryLine === undefined) return fewest
  let most = 0
  let columns = fewest
  for (const l of body.lets) {
    if (l.op.kind !== 'load' || !l.axes.includes(unit)) continue
    const flat = ix.flatten(l.op.index, body.loads.get(l.op.param)?.shape ?? [])
    const bytes = dtypeBytes(l.dtype)
    const all = bytes * l.axes.reduce((n, a) => n * (body.axes.find((x) => x.name === a)?.extent ?? 1), 1)
    if (ix.strideOf(flat, unit) !== 1 || all <= most) continue
    most = all
    columns = bytes === 1 ? fewest : Math.max(fewest, memoryLine / bytes)
  }
  return columns
}

/** Points of the parallel axes a program of a reduction covers; `partial`: what it reduces are partial results just written. */
export function reductionPoints(body: Body, roles: Roles, target: Machine, partial = false): number {
  const size = (axes: Iterable<string>): number => pointsOf(roles.extents, axes)
  const local = heldPoints(body, roles.extents, new Set([...roles.row, ...roles.reduced]))
  const unit = unitAxis(body)
  const share = Math.ceil(size(roles.parallel) / target.minPrograms)
  // Rows contiguous along what is reduced: one at a time, unless they are short.
  if (unit === undefined || !roles.parallel.has(unit)) {
    return local >= target.shortRows.below ? 1 : withShared(body, roles, target, rowsOf(local, target))
  }
  // Nothing stays resident: wide blocks read whole lines.
  const least = partial ? target.partialColumns : lineColumns
  if (roles.row.size === 0) return Math.max(least, Math.min(512, share))
  // Its columns pass by what all share: whole lines of them, where some programs remain.
  if (!holdsRowsOf(body, roles, unit)) {
    let columns = columnsOfLine(body, unit, target)
    while (columns > 16 && size(roles.parallel) / columns < target.minPrograms / 16) columns /= 2
    return Math.max(columns, Math.min(512, columns * Math.ceil(share / columns)))
  }
  const fit = Math.floor((8 * target.elementBlock) / local)
  // Rows that nothing reads again stand in scratch: of very long ones a program takes fewer.
  const fewest = target.rereadShare === undefined ? Math.min(16, Math.floor((4 * target.rowBytes) / local)) : 16
  return Math.max(1, fewest, Math.min(fit, 512, Math.max(fewest, share)))
}

/** Windows that a program goes along at least, where there are so many: one after another shares with those before it. */
const leastRun = 16
/** Elements of a line of the memory's, which lanes take whole. */
const lineElements = 16

/**
 * Grid of windows, on a machine whose programs go along them in loops: long runs along an axis that windows overlap on, in lanes along the contiguous one; blocks
 * are as even as they come. Undefined: no window moves along an axis beside the contiguous one.
 */
function windowGrid(body: Body, roles: Roles, { windowPoints, minPrograms }: Machine): GridAxis[] | undefined {
  if (windowPoints === undefined || roles.row.size > 0) return undefined
  const extent = (a: string): number => roles.extents.get(a) ?? 1
  const [lanes, ...others] = byStoreStride(body, roles.parallel)
  const run = others.find((a) => extent(a) > 1 && isMovedAlong(body, roles, a))
  if (lanes === undefined || run === undefined) return undefined
  const share = Math.ceil(pointsOf(roles.extents, roles.parallel) / minPrograms)
  const points = Math.max(lineColumns, Math.min(windowPoints, share))
  const even = (a: string, most: number): number => Math.ceil(extent(a) / Math.ceil(extent(a) / Math.max(1, most)))
  const beside = points / Math.min(extent(run), leastRun)
  const columns = beside >= extent(lanes) ? extent(lanes) : even(lanes, Math.max(lineElements, beside))
  const blocks = new Map([[lanes, Math.min(extent(lanes), lineElements * Math.ceil(columns / lineElements))]])
  let left = points / (blocks.get(lanes) ?? 1)
  for (const a of [run, ...others.filter((x) => x !== run)]) {
    blocks.set(a, even(a, Math.min(extent(a), Math.floor(left))))
    left /= extent(a)
  }
  return [...roles.parallel].map((axis) => ({ axis, block: blocks.get(axis) ?? 1 }))
}

/** Whether a load moves along a parallel axis as it does along one that is reduced. */
const isMovedAlong = (body: Body, roles: Roles, axis: string): boolean =>
  body.lets.some(
    ({ op }) =>
      op.kind === 'load' &&
      op.index.some((e) => {
        const axes = ix.axesOf(e)
        return axes.has(axis) && [...axes].some((a) => roles.reduced.has(a))
      }),
  )

/** Grid of the one kernel of a body without products, its reductions in one piece. */
export function straightGrid(body: Body, roles: Roles, target: Machine, mode: NumericsMode): GridAxis[] {
  const isElementwise = roles.kind === 'elementwise'
  const windows = isElementwise ? undefined : windowGrid(body, roles, target)
  if (windows !== undefined) return windows
  const wanted = isElementwise ? elementPoints(body, roles, target) : reductionPoints(body, roles, target)
  const most = mode === 'strict' ? mostLines(body, roles, target) : undefined
  return parallelGrid(body, roles, Math.min(wanted, most ?? wanted), isElementwise ? target.sharedRows : 1)
}

/** Points of the parallel axes that a program covers of reductions cut along an axis: where no lines lie along them, few enough for many programs. */
function partialPoints(body: Body, roles: Roles, splitBy: Exclude<RowSplit, 'every-index'>, target: Machine): number {
  const { axis, block } = splitBy
  const wide = Math.max(target.columnBlock, target.elementBlock / block)
  const unit = unitAxis(body)
  if (unit !== undefined && roles.parallel.has(unit)) return wide
  const all = pointsOf(roles.extents, roles.parallel)
  const parts = Math.ceil((roles.extents.get(axis) ?? 1) / block)
  return Math.max(1, Math.min(wide, Math.floor((all * parts) / (4 * target.minPrograms))))
}

/** Grid of the kernel that makes the partial results of reductions which the stages of a body without products split. */
export function partialsGrid(body: Body, roles: Roles, splitBy: RowSplit, target: Machine): GridAxis[] {
  if (splitBy !== 'every-index')
    return [splitBy, ...parallelGrid(body, roles, partialPoints(body, roles, splitBy, target))]
  const cut = [...splitAxes(body, roles.stages)]
  const local = heldPoints(
    body,
    roles.extents,
    new Set([...roles.row, ...roles.reduced].filter((a) => !cut.includes(a))),
  )
  const rows = rowsOf(local, target)
  const block = (axis: string): number => (axis === cut.at(-1) ? Math.min(rows, roles.extents.get(axis) ?? 1) : 1)
  return [...cut.map((axis) => ({ axis, block: block(axis) })), ...parallelGrid(body, roles, 1)]
}
