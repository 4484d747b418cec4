/** Grids over parallel axes: blocks of about so many points, contiguous ones first. */
import * as ix from '../../affine/expr.ts'
import type { GridAxis } from '../../kernel/ir.ts'
import { cacheLine } from '../../target/loops.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { type Body, pointsOf } from '../body/body.ts'
import { byStoreStride, lineElements } from './gridAxes.ts'
import { positionOfLargestStore, positionOfLoad, strideAlong } from './positions.ts'
import { type Roles, unitAxis } from './roles.ts'

interface GridOptions {
  /** Rows of a program, where it reads something that they share. */
  readonly rows?: number
  /** On machines of loops. */
  readonly loops?: LoopGrid | undefined
}

export interface LoopGrid {
  /** Programs that remain at least where short sides of squares are taken whole, or these are as large as they may be. */
  readonly fewest: number
  /** Points of the largest square: shorter pieces of rows are dear, whatever a program computes of them, where they come from beyond so many bytes. */
  readonly most: number
  readonly own: number
}

/**
 * Grid over the parallel axes. A program covers about `points` points of them, contiguous ones first; where two axes are
 * contiguous in different tensors (a transpose), a block of both; where something is read that all rows share, some rows.
 */
export function parallelGrid(
  body: Body,
  roles: Roles,
  points: number,
  { rows = 1, loops }: GridOptions = {},
): GridAxis[] {
  const extent = (a: string): number => roles.extents.get(a) ?? 1
  const inner = byStoreStride(body, roles.parallel)
  const blocks = new Map<string, number>()
  const [first] = inner
  const across = loadAcross(body, roles, first)
  const read = across?.axis ?? unitAxis(body, (a) => roles.parallel.has(a))
  if (read !== undefined && first !== undefined && read !== first && points >= 64) {
    const fewest = loops?.fewest ?? Number.POSITIVE_INFINITY
    const all = pointsOf(roles.extents, roles.parallel) / (extent(first) * extent(read))
    const squares = (side: number): number => all * Math.ceil(extent(first) / side) * Math.ceil(extent(read) / side)
    let side = sideOf(points)
    if (across !== undefined && loops !== undefined && 2 * across.bytes > loops.own)
      while (2 * side <= sideOf(loops.most) && squares(2 * side) >= fewest) side *= 2
    let programs = all
    for (const a of [first, read]) {
      const isWhole = extent(a) <= 2 * side && programs >= fewest
      blocks.set(a, isWhole ? extent(a) : Math.min(side, extent(a)))
      programs *= Math.ceil(extent(a) / (blocks.get(a) ?? 1))
    }
    const stored = positionOfLargestStore(body)
    // Of a stored axis that is cut, a line for each index: where those stay in the core's own memory, what lies beside them is there when it is asked for.
    const isHeld =
      loops !== undefined && (blocks.get(first) ?? 1) < extent(first) && 2 * cacheLine * extent(first) <= loops.own
    if (across !== undefined && stored !== undefined && loops !== undefined)
      for (const position of isHeld ? [stored] : [across.position, stored])
        lengthenRun(position, { extents: roles.extents, parallel: inner, blocks, side, fewest })
    const isShort = [first, read].some((a) => extent(a) < side)
    // Elsewhere what is stored is cut into sectors that several programs would write.
    if (stored !== undefined && loops === undefined && across !== undefined && isShort)
      lengthenRun(stored, { extents: roles.extents, parallel: inner, blocks, side, fewest: 0 })
    if (loops === undefined && isShort)
      fillUp([read, first, ...inner.filter((a) => a !== first && a !== read)], extent, blocks, points)
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

/** Takes more of some axes, in their order, until a program has about so many points. */
function fillUp(
  axes: readonly string[],
  extent: (a: string) => number,
  blocks: Map<string, number>,
  points: number,
): void {
  const block = (a: string): number => blocks.get(a) ?? 1
  let held = axes.reduce((n, a) => n * block(a), 1)
  for (const a of axes) {
    const most = Math.min(extent(a), Math.floor((points * block(a)) / held))
    if (most <= block(a)) continue
    held *= most / block(a)
    blocks.set(a, most)
  }
}

/** The side of a square of about so many points. */
const sideOf = (points: number): number => Math.max(16, 2 ** Math.floor(Math.log2(Math.sqrt(points))))

/** Whether rows are long and the next axis has several of them that read something together. */
function sharesRows(body: Body, roles: Roles, [first, next]: readonly string[], points: number, rows: number): boolean {
  if (first === undefined || next === undefined) return false
  if ((roles.extents.get(first) ?? 1) < points || (roles.extents.get(next) ?? 1) < rows) return false
  return body.lets.some((l) => l.op.kind === 'load' && l.axes.includes(first) && !l.axes.includes(next))
}

/** A load of everything that is contiguous along another axis than stores are, which it strides over. */
interface Across {
  readonly axis: string
  readonly position: ix.Expr
  readonly bytes: number
}

function loadAcross(body: Body, roles: Roles, first: string | undefined): Across | undefined {
  if (roles.kind !== 'elementwise' || first === undefined) return undefined
  const points = pointsOf(roles.extents, roles.parallel)
  for (const l of body.lets) {
    if (l.op.kind !== 'load' || pointsOf(roles.extents, l.axes) < points) continue
    const position = positionOfLoad(body, l.op)
    const axis = l.axes.find((a) => a !== first && strideAlong(position, a) === 1)
    if (axis !== undefined && (ix.strideOf(position, first) ?? 1) > 1)
      return { axis, position, bytes: points * dtypeBytes(l.dtype) }
  }
  return undefined
}

/** Elements that lie side by side below which what follows them is worth taking: two lines of memory, which come together. */
const shortRun = 2 * lineElements

interface Lengthening {
  readonly extents: ReadonlyMap<string, number>
  readonly parallel: readonly string[]
  /** What a program has of the axes so far. */
  readonly blocks: Map<string, number>
  readonly side: number
  readonly fewest: number
}

/**
 * Where what lies side by side in a tensor is a few indices alone, a program takes some of the axis that goes on there: a line of memory would else be
 * brought again for every index of that.
 */
function lengthenRun(position: ix.Expr, { extents, parallel, blocks, side, fewest }: Lengthening): void {
  const extent = (a: string): number => extents.get(a) ?? 1
  const block = (a: string): number => blocks.get(a) ?? 1
  for (let run = 1; run < shortRun; ) {
    const next = parallel.find((a) => extent(a) > 1 && ix.strideOf(position, a) === run)
    if (next === undefined) return
    if (!blocks.has(next)) {
      const have = parallel.reduce((n, a) => n * block(a), 1)
      const most = Math.max(1, Math.min(extent(next), Math.floor(side / run), Math.floor((side * side) / have)))
      const even = Math.ceil(extent(next) / Math.ceil(extent(next) / most))
      const left = parallel.reduce((n, a) => n * Math.ceil(extent(a) / (a === next ? even : block(a))), 1)
      if (left >= fewest) blocks.set(next, even)
    }
    if (block(next) < extent(next)) return
    run *= extent(next)
  }
}
