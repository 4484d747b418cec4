/** Grids of windows: what programs that go along them in loops take. */

import * as ix from '../../affine/expr.ts'
import { powerFrom } from '../../affine/powers.ts'
import { slideOf } from '../../affine/slide.ts'
import { foldAxes, isFold } from '../../kernel/folds.ts'
import type { GridAxis } from '../../kernel/ir.ts'
import { mostTaps, tapAxes } from '../../schedule/simt/part/taps.ts'
import { mostWindowPoints } from '../../schedule/simt/part/windows.ts'
import type { Machine } from '../../target/machine.ts'
import { type Body, pointsOf } from '../body/body.ts'
import { byStoreStride, lineElements } from './gridAxes.ts'
import { lineColumns } from './reductionBlocks.ts'
import type { Roles } from './roles.ts'

/**
 * The grid with all taps in a program, where sums over positions for each tap of a window stand alone and programs enough to use the machine are left: each would read the same
 * positions again.
 */
export function withTaps(body: Body, roles: Roles, target: Machine, grid: GridAxis[]): GridAxis[] {
  const { reduced, parallel, extents, row } = roles
  const { slidingWindows, programShare } = target
  if (slidingWindows === undefined || programShare === undefined || row.size > 0) return grid
  const folds = body.lets.filter(isFold)
  const isAlone = folds.length > 0 && folds.every((l) => l.op.kind === 'dot' && l.op.axes.length === reduced.size)
  if (!isAlone) return grid
  const extent = (a: string): number => extents.get(a) ?? 1
  const reads = body.lets.flatMap(({ op }) => (op.kind === 'load' ? [op] : []))
  let programs = grid.reduce((n, g) => n * Math.ceil(extent(g.axis) / g.block), 1)
  let taps = 1
  const whole = new Set<string>()
  for (const axis of tapAxes(reads, parallel, reduced, extent)) {
    const block = grid.find((g) => g.axis === axis)?.block ?? 1
    const left = programs / Math.ceil(extent(axis) / block)
    if (taps * extent(axis) > mostTaps || left * programShare.computing < 1) break
    whole.add(axis)
    taps *= extent(axis)
    programs = left
  }
  return grid.map((g) => (whole.has(g.axis) ? { axis: g.axis, block: extent(g.axis) } : g))
}

/** Windows that a program goes along at least, where there are so many: one after another shares with those before it. */
const leastRun = 16

/**
 * Grid of windows, on a machine whose programs go along them in loops: long runs along an axis that windows overlap on, in lanes along the contiguous one; blocks
 * are as even as they come. Undefined: no window moves along an axis beside the contiguous one.
 */
export function windowGrid(body: Body, roles: Roles, { windowPoints, minPrograms }: Machine): GridAxis[] | undefined {
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

/** Threads that read side by side at least. */
const fewestLanes = 32

/**
 * Grid of windows that overlap, on a machine whose threads go along them by themselves (src/schedule/simt/part/windows.ts): a program has some windows along the
 * axis on which they overlap for each of its threads, which lie along the contiguous axis, then along others. Undefined: no windows overlap along an
 * axis beside the contiguous one.
 */
export function slidingGrid(
  body: Body,
  roles: Roles,
  { slidingWindows, minPrograms }: Machine,
): GridAxis[] | undefined {
  if (slidingWindows === undefined || roles.row.size > 0 || !foldsWindows(body, roles)) return undefined
  const { most, threads } = slidingWindows
  const extent = (a: string): number => roles.extents.get(a) ?? 1
  const [lanes, ...others] = byStoreStride(body, roles.parallel)
  const run = others.find((a) => extent(a) > 1 && overlapsAlong(body, roles, a))
  if (lanes === undefined || run === undefined) return undefined
  const all = pointsOf(roles.extents, roles.parallel)
  let windows = Math.min(most, extent(run))
  while (windows > 2 && all / windows < minPrograms * threads) windows = Math.ceil(windows / 2)
  const columns = lanesOf(extent(lanes), threads)
  const blocks = new Map([
    [run, Math.ceil(extent(run) / Math.ceil(extent(run) / windows))],
    [lanes, columns],
  ])
  let left = threads / powerFrom(columns)
  for (const a of others.filter((x) => x !== run)) {
    const block = Math.max(1, Math.min(extent(a), Math.floor(left)))
    blocks.set(a, block)
    left /= powerFrom(block)
  }
  return [...roles.parallel].map((axis) => ({ axis, block: blocks.get(axis) ?? 1 }))
}

/** Of an axis that threads lie along, those of a program of which fewest have nothing to do. */
function lanesOf(extent: number, threads: number): number {
  if (extent <= fewestLanes) return extent
  let best = Math.min(threads, extent)
  const idle = (block: number): number => Math.ceil(extent / block) * powerFrom(block)
  for (let block = threads; block >= fewestLanes; block /= 2)
    if (block < extent && idle(block) < idle(best)) best = block
  return best
}

/** Whether all that a body folds are the same windows, few enough of points for a thread. */
function foldsWindows(body: Body, { reduced, extents }: Roles): boolean {
  const folds = body.lets.filter(isFold)
  return (
    pointsOf(extents, reduced) <= mostWindowPoints &&
    folds.length > 0 &&
    folds.every((l) => foldAxes(l).length === reduced.size) &&
    !body.lets.some(({ op }) => op.kind === 'scan' || op.kind === 'stage')
  )
}

/** Whether windows overlap along a parallel axis: a load moves along it by less than a window has. */
const overlapsAlong = (body: Body, { reduced, extents }: Roles, axis: string): boolean =>
  body.lets.some(
    ({ op }) =>
      op.kind === 'load' &&
      [...reduced].some((over) => {
        const slide = slideOf([...op.index, ...op.mask.map((b) => b.expr)], axis, over)
        return slide !== undefined && slide.step < (extents.get(over) ?? 1)
      }),
  )
