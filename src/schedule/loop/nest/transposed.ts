/**
 * Loads across the results: an elementwise level stores along one axis while a load is contiguous along another. Such a load
 * is copied into a tile first, transposed in registers (a copy of `packing.ts`); the level then reads it along the results' axis.
 */
import { type Expr, strideOf, valuesOf } from '../../../affine/expr.ts'
import type { Stmt, ValueId } from '../../../kernel/ir.ts'
import { dtypeBytes } from '../../../types/dtype.ts'
import { rowLayout } from '../ir/product.ts'
import { type Axes, isScalarAxis, type Tile, tileDType } from '../ir/tile.ts'
import type { Places } from '../tiles/places.ts'
import { readAs } from './packing.ts'
import { bytePosition } from './position.ts'

/** Bytes of a tile that stays in the second cache. */
export const transposedTile = 256 * 1024

/** The layouts of the loads of a level that are to be copied. */
export function transposedLoads(places: Places, stmts: readonly Stmt[]): Map<ValueId, Omit<Tile, 'offset'>> {
  const { axes } = places
  const out = new Map<ValueId, Omit<Tile, 'offset'>>()
  const isPlain = stmts.every(
    (s) => s.kind === 'store' || (s.kind === 'let' && !['dot', 'scan', 'stage', 'at'].includes(s.op.kind)),
  )
  const folded = stmts.flatMap((s) => (s.kind === 'let' && s.op.kind === 'reduce' ? s.op.axes : []))
  const along = !isPlain
    ? undefined
    : folded.length === 0
      ? storedAlong(places, stmts)
      : readAlong(places, stmts, folded)
  if (along === undefined || axes.view(along).max < 4) return out
  for (const s of stmts) {
    if (s.kind !== 'let' || s.op.kind !== 'load' || s.op.maskValue !== undefined) continue
    const p = places.paramOf(s.op.param)
    const names = axes.varying(s.axes)
    if (p.format !== 'plain' || readAs(p.dtype, { dtype: tileDType(s.dtype) }) === undefined) continue
    const position = bytePosition(p, s.op.index)
    if (valuesOf(position).size > 0 || names.some((a) => strideOf(position, a) === undefined)) continue
    const step = strideOf(position, along)
    const unit = dtypeBytes(p.dtype)
    if (step === undefined || step === 0 || step === unit) continue
    // Rows in the order of memory, so that axes of which each goes on where the one inside it ends are one run.
    const rows = names
      .filter((a) => a !== along)
      .sort((a, b) => Math.abs(strideOf(position, b) ?? 0) - Math.abs(strideOf(position, a) ?? 0))
    if (sideBySide(position, unit, rows, axes) < 4) continue
    const layout = rowLayout([rows, [along]], s.dtype, axes)
    if (layout.bytes <= transposedTile) out.set(s.id, layout)
  }
  return out
}

/** How many elements of so many bytes stand side by side along axes, the one that moves least last. */
function sideBySide(position: Expr, bytes: number, rows: readonly string[], axes: Axes): number {
  let run = 1
  for (const a of rows.toReversed()) {
    if (strideOf(position, a) !== bytes * run) break
    run *= axes.view(a).max
    if (axes.view(a).counts?.length !== 1) break
  }
  return run
}

/** The axis all stores of several indices are contiguous along. */
function storedAlong(places: Places, stmts: readonly Stmt[]): string | undefined {
  const found = new Set<string | undefined>()
  for (const s of stmts) {
    if (s.kind !== 'store') continue
    const p = places.paramOf(s.param)
    if (p.format !== 'plain' || s.combiner !== undefined) return undefined
    const position = bytePosition(p, s.index)
    const unit = [...places.axes.views.values()].find(
      (v) => !isScalarAxis(v) && strideOf(position, v.name) === dtypeBytes(p.dtype),
    )
    found.add(unit?.name)
  }
  const [only, second] = [...found]
  return found.size === 1 && second === undefined ? only : undefined
}

/** Fewer indices of a folded axis are no row. */
const shortest = 96

/** The axis of rows that are folded and that something read is contiguous along. */
function readAlong(places: Places, stmts: readonly Stmt[], folded: readonly string[]): string | undefined {
  return folded.find(
    (a) =>
      places.axes.view(a).max >= shortest &&
      stmts.some((s) => {
        if (s.kind !== 'let' || s.op.kind !== 'load') return false
        const p = places.paramOf(s.op.param)
        return p.format === 'plain' && strideOf(bytePosition(p, s.op.index), a) === dtypeBytes(p.dtype)
      }),
  )
}
