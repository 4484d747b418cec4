/** Grids of windows: what programs that go along them in loops take. */
import * as ix from '../../affine/expr.ts'
import type { GridAxis } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import { type Body, pointsOf } from '../body/body.ts'
import { byStoreStride, lineElements } from './gridAxes.ts'
import { lineColumns } from './reductionBlocks.ts'
import type { Roles } from './roles.ts'

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
