/**
 * Reductions that are cut: the kernel stores partial results and a finishing stage makes them whole. Needed where too few
 * programs would remain, or where rows stand below a reduction over rows.
 */

import { foldAxes, foldOrScanAxes, sharesOperands } from '../../kernel/folds.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { isArgCombiner } from '../../scalar/ops.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import { pointsOf } from '../body/body.ts'
import { type Refused, refuse } from '../refusal.ts'
import { type Analysis, isAligned } from './analysis.ts'

/**
 * Cut into blocks of an axis, into one part for every index of the reduced axes (rows stand below), or into the blocks of a
 * matrix product's result.
 */
export type SplitBy = { readonly axis: string; readonly block: number } | 'every-index' | 'result-blocks'

/** How reductions of a body without products are cut. */
export type RowSplit = Exclude<SplitBy, 'result-blocks'>

/** Elements below a cut reduction for each element of its partial results. */
const partialShare = 16

/** How partial results of a fold are combined; undefined for what cannot be cut: positions, running folds, what is no fold. */
export function cutCombiner({ op }: LetStmt): 'sum' | 'prod' | 'max' | 'min' | undefined {
  if (op.kind === 'dot') return op.acc === undefined ? 'sum' : undefined
  return op.kind === 'reduce' && !isArgCombiner(op.combiner) ? op.combiner : undefined
}

type Split = { readonly ok: true; readonly split: ReadonlySet<ValueId>; readonly splitBy: RowSplit | undefined }

const whole: Split = { ok: true, split: new Set(), splitBy: undefined }

/** The axis along which most bytes are contiguous, of those asked for. */
type UnitAxis = (among?: (axis: string) => boolean) => string | undefined

/**
 * `byColumns`: neighbours in memory lie along an axis that is not reduced, so a program takes blocks of columns. Without `alongAxes` only rows
 * below a reduction over rows are cut.
 */
export function splitReductions(
  a: Analysis,
  byColumns: boolean,
  alongAxes: boolean,
  unitAxis: UnitAxis,
): Split | Refused {
  const cut = alongAxes ? splitAxis(a, byColumns, unitAxis) : whole
  if (cut.split.size > 0 && canFinish(a, cut.split)) return cut
  // Short folds below others (windows) are no rows: where there are programs enough, each folds both.
  if (a.row.size === 0 && (!alongAxes || hasPrograms(a, byColumns))) return whole
  const rows = splitRows(a)
  if (!rows.ok || rows.split.size === 0 || canFinish(a, rows.split)) return rows
  return refuse('partials-too-large', 'the finishing stage would need rows of the main kernel')
}

/** Whether the finishing stage of cut reductions uses of the main kernel only what can be computed again without a fold. */
export function canFinish(a: Analysis, split: ReadonlySet<ValueId>): boolean {
  return a.body.lets.every(
    (l) =>
      split.has(l.id) ||
      !follows(l, split, a.lets) ||
      operandsOf(l.op).every((o) => {
        const dep = a.lets.get(o)
        return dep === undefined || !a.folds.has(o) || split.has(o) || follows(dep, split, a.lets)
      }),
  )
}

const size = (a: Analysis, axes: Iterable<string>): number => pointsOf(a.extents, axes)

/** Whether making the axes part of the grid leaves every other fold and store of the main kernel whole. */
function mayCut(a: Analysis, split: ReadonlySet<ValueId>, axes: ReadonlySet<string>): boolean {
  const later = (id: ValueId): boolean => {
    const l = a.lets.get(id)
    return split.has(id) || (l !== undefined && follows(l, split, a.lets))
  }
  return (
    a.body.lets.every((l) => later(l.id) || !foldOrScanAxes(l).some((x) => axes.has(x))) &&
    a.body.stores.every((s) => later(s.value) || isAligned(a, s, axes))
  )
}

/** Whether the parallel axes alone give a target programs enough. */
const hasPrograms = (a: Analysis, byColumns: boolean): boolean =>
  Math.ceil(size(a, a.parallel) / (byColumns ? a.target.columnBlock : 1)) >= a.target.minPrograms

/** Reductions over rows that are reduced themselves. */
function splitRows(a: Analysis): Split | Refused {
  const split = new Set<ValueId>()
  const axes = new Set<string>()
  let partial = 0
  for (const l of a.body.lets) {
    if (l.op.kind !== 'reduce' || l.op.axes.some((x) => a.row.has(x)) || !a.folds.has(l.op.arg)) continue
    if (follows(l, split, a.lets) || size(a, l.op.axes) * Math.max(1, size(a, a.row)) <= a.target.elementBlock) continue
    split.add(l.id)
    for (const x of l.op.axes) axes.add(x)
    partial += size(a, a.lets.get(l.op.arg)?.axes ?? []) * dtypeBytes(l.dtype)
  }
  if (split.size === 0) return whole
  const read = [...a.body.loads.values()].reduce((n, x) => n + sizeOf(x.shape) * dtypeBytes(x.node.dtype), 0)
  // What cannot be stored in parts either is folded by one program.
  if (partial > a.target.mostBytes.value) return whole
  if (partial * 8 > read)
    return refuse('partials-too-large', `${partial} bytes of partial results against ${read} read`)
  if (!mayCut(a, split, axes)) return refuse('unaligned-output', 'a result beside a cut reduction lacks its axes')
  return { ok: true, split, splitBy: 'every-index' }
}

/** Neighbours in memory of which a block of a cut axis has a multiple, on threads: what a few hundred of them load at once. */
const wholeLoads = 512

/** Rows down which columns are cut at least, on machines of loops: parts of fewer are read no better, and taps of windows would read the same elements. */
const fewestRows = 64

/**
 * Reductions over one long axis, where the parallel axes give too few programs. Rows may stand below them: a program holds
 * whole rows, and some of them. Strict mode keeps sums in one piece.
 */
function splitAxis(a: Analysis, byColumns: boolean, unitAxis: UnitAxis): Split {
  if (hasPrograms(a, byColumns)) return whole
  const { target } = a
  /** Programs that run at once, on machines of which they are shares; and where they go through rows, each row after the one before. */
  const atOnce = target.programShare === undefined ? undefined : 1 / target.programShare.computing
  const waiting = a.row.size > 0 ? atOnce : undefined
  const columns = byColumns ? target.columnBlock : 1
  const points = size(a, a.parallel)
  const programs = Math.ceil(points / columns)
  const axesOf = (id: ValueId): readonly string[] => a.lets.get(id)?.axes ?? []
  const pointsBelow = (l: LetStmt): number =>
    size(a, new Set([...a.parallel, ...foldAxes(l), ...operandsOf(l.op).flatMap(axesOf)]))
  const mayCutFold = (l: LetStmt): boolean => {
    const combiner = cutCombiner(l)
    if (combiner === undefined || foldAxes(l).some((x) => a.row.has(x))) return false
    // Blocks of a product's results are cut elsewhere; `rowLoop` cuts plain folds.
    if (l.op.kind === 'dot' && (a.row.size > 0 || sharesOperands(axesOf(l.op.a), axesOf(l.op.b)))) return false
    return !(a.mode === 'strict' && (combiner === 'sum' || combiner === 'prod'))
  }
  const long = a.body.lets.filter((l) => mayCutFold(l) && pointsBelow(l) > 16 * target.elementBlock)
  const extent = (x: string): number => a.extents.get(x) ?? 1
  const neighbours = atOnce === undefined || long.length === 0 ? undefined : unitAxis()
  const cutAlong = (axis: string): Split => {
    const split = new Set<ValueId>()
    for (const l of long) if (foldAxes(l).includes(axis) && !follows(l, split, a.lets)) split.add(l.id)
    if (!mayCut(a, split, new Set([axis]))) return whole
    // A program covers about a block of elements (by columns, less where programs would be too few), and partial results stay a small part of what is read.
    const inner = Math.max(...[...split].flatMap((id) => a.lets.get(id) ?? []).map(pointsBelow)) / extent(axis)
    const kept = [...split].reduce((n, id) => n + size(a, new Set([...a.parallel, ...axesOf(id)])), 0)
    const share = (n: number): number => Math.ceil((n * kept) / Math.max(1, inner))
    // Rows that one program after the other folds wait for each other: where programs would be fewer than run at once, partial results may be half of what is read.
    const fewest =
      waiting === undefined
        ? share(partialShare)
        : Math.min(share(partialShare), Math.max(share(2), Math.ceil((extent(axis) * programs) / waiting)))
    // By columns, as few partial results as keep the target busy to the end; rows, as many programs as run at once.
    const most = columns > 1 ? 4 * target.minPrograms : a.row.size > 0 ? target.rowPrograms : undefined
    const busy = most === undefined ? 1 : Math.ceil(extent(axis) / Math.max(1, Math.floor(most / programs)))
    const many = columns > 1 ? Math.floor((extent(axis) * programs) / target.minPrograms) : extent(axis)
    const elements = Math.min(Math.ceil(target.elementBlock / inner), many)
    const wanted = Math.max(1, elements, Math.ceil(extent(axis) / 1024), fewest, busy)
    // A step of fewer rows takes a program as long.
    const step = Math.max(1, Math.floor(target.rowsAtOnce / inner))
    const steps = waiting !== undefined && wanted > step ? Math.floor(wanted / step) * step : wanted
    // Where it is the axis of memory, blocks begin where a load of several elements may.
    const even = Math.ceil(steps / wholeLoads) * wholeLoads
    const block = axis === neighbours && steps > wholeLoads && even < extent(axis) ? even : steps
    return block < extent(axis) ? { ok: true, split, splitBy: { axis, block } } : whole
  }
  // Pieces of rows, each on another page, take a core several times as long as whole rows do: their axis is cut where no other gives programs enough.
  const unit = target.loops === undefined || byColumns ? undefined : unitAxis()
  const leavesRows = (y: string): boolean => y !== unit && unitAxis((x) => x === y) === undefined
  const isCutLast = (x: string, among: readonly string[]): boolean =>
    x === unit && among.some((y) => leavesRows(y) && extent(y) * programs >= target.minPrograms)
  const longestOf = (l: LetStmt): string | undefined => {
    const among = foldAxes(l)
    return [...among].filter((x) => !isCutLast(x, among)).sort((p, q) => extent(q) - extent(p))[0]
  }
  // A short fold below another (a pooling whose results are summed) leaves nothing to cut along its axes: the next one may.
  const axes = [...new Set(long.map(longestOf))]
  // On threads neighbours in memory stay side by side, where another axis has programs enough.
  const isEnough = (x: string | undefined): boolean =>
    x !== undefined && x !== neighbours && atOnce !== undefined && extent(x) * programs >= atOnce
  const isLong = neighbours !== undefined && extent(neighbours) > wholeLoads
  const last = isLong && axes.some(isEnough) ? neighbours : undefined
  for (const axis of axes.sort((x, y) => Number(x === last) - Number(y === last))) {
    if (axis === undefined || (byColumns && target.loops !== undefined && extent(axis) < fewestRows)) continue
    const cut = cutAlong(axis)
    if (cut !== whole) return cut
  }
  return whole
}

/** Whether a statement uses a cut reduction. */
export const follows = (l: LetStmt, split: ReadonlySet<ValueId>, lets: ReadonlyMap<ValueId, LetStmt>): boolean =>
  [...split].some((s) => dependsOn(l, s, lets))

/** Whether a statement uses a value, directly or through others. */
export function dependsOn(l: LetStmt, id: ValueId, lets: ReadonlyMap<ValueId, LetStmt>): boolean {
  const stack = [...operandsOf(l.op)]
  const seen = new Set<ValueId>()
  for (let o = stack.pop(); o !== undefined; o = stack.pop()) {
    if (o === id) return true
    if (seen.has(o) || o < id) continue
    seen.add(o)
    const dep = lets.get(o)
    if (dep !== undefined) stack.push(...operandsOf(dep.op))
  }
  return false
}
