/** Grids over parallel axes: blocks of about so many points, contiguous ones first. */
import * as ix from '../../affine/expr.ts'
import type { GridAxis } from '../../kernel/ir.ts'
import { type Body, pointsOf } from '../body/body.ts'
import { byStoreStride } from './gridAxes.ts'
import { type Roles, unitAxis } from './roles.ts'

interface GridOptions {
  /** Rows of a program, where it reads something that they share. */
  readonly rows?: number
  /** Programs that remain at least where short sides of squares are taken whole: no line of memory is then cut between two. Absent: none is. */
  readonly fewest?: number | undefined
}

/**
 * Grid over the parallel axes. A program covers about `points` points of them, contiguous ones first; where two axes are
 * contiguous in different tensors (a transpose), a square block of both; where something is read that all rows share, some rows.
 */
export function parallelGrid(
  body: Body,
  roles: Roles,
  points: number,
  { rows = 1, fewest = Number.POSITIVE_INFINITY }: GridOptions = {},
): GridAxis[] {
  const extent = (a: string): number => roles.extents.get(a) ?? 1
  const inner = byStoreStride(body, roles.parallel)
  const blocks = new Map<string, number>()
  const [first] = inner
  const read = axisAcross(body, roles, first) ?? unitAxis(body, (a) => roles.parallel.has(a))
  if (read !== undefined && first !== undefined && read !== first && points >= 64) {
    const side = Math.max(16, 2 ** Math.floor(Math.log2(Math.sqrt(points))))
    let programs = pointsOf(roles.extents, roles.parallel) / (extent(first) * extent(read))
    for (const a of [first, read]) {
      const isWhole = extent(a) <= 2 * side && programs >= fewest
      blocks.set(a, isWhole ? extent(a) : Math.min(side, extent(a)))
      programs *= Math.ceil(extent(a) / (blocks.get(a) ?? 1))
    }
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
