/**
 * Stages that only copy, and which of their copies are one. A product reads a tile along its rows or across them, so where two stages of a loop copy the same elements under other names
 * of axes (what a product takes the depth of, and another sums over) one tile serves both.
 */
import * as ix from '../../../affine/expr.ts'
import { mapPredicate, predicateKey } from '../../../affine/predicate.ts'
import type { LetStmt } from '../../../kernel/ir.ts'
import type { LoadStmt } from '../access/loadPlan.ts'
import type { TilePlan } from '../access/tiles.ts'
import type { Layout } from '../layout/layout.ts'
import type { Part } from '../part/part.ts'

/** A stage that only copies a parameter: groups of 16 bytes, or single f32 elements, wherever they are. */
export interface CopiedStage {
  readonly bytes: 4 | 16
  /** The axis whose end may lie inside a group: what is beyond is not read, and zeros stand for it. */
  readonly cut?: string
  /** Elements are read several times (windows overlap): soon after one another, so the nearest cache keeps them. */
  readonly isAgain: boolean
  readonly let: LetStmt
  readonly load: LoadStmt
  readonly layout: Layout
  readonly tile: TilePlan
  /** Tiles of other stages that this one is as well, under other names of axes. */
  readonly also: readonly TilePlan[]
}

/** The tiles of a stage that is copied, its own first. */
export const tilesOf = ({ tile, also }: CopiedStage): readonly TilePlan[] => [tile, ...also]

/** Stages that are copied, each with the tiles of those that would copy the same to the same places. */
export function sameCopies(part: Part, copied: readonly CopiedStage[]): CopiedStage[] {
  const out: CopiedStage[] = []
  for (const c of copied) {
    const i = out.findIndex((o) => isSame(part, o, c))
    const have = out[i]
    if (have === undefined) out.push(c)
    else out[i] = { ...have, also: [...have.also, c.tile] }
  }
  return out
}

function isSame(part: Part, x: CopiedStage, y: CopiedStage): boolean {
  const cutOf = ({ cut, tile }: CopiedStage): number => (cut === undefined ? -1 : tile.axes.indexOf(cut))
  if (cutOf(x) !== cutOf(y) || x.bytes !== y.bytes || x.load.dtype !== y.load.dtype || !isSameTile(x.tile, y.tile))
    return false
  const names = new Map(y.tile.axes.map((a, i) => [a, x.tile.axes[i] ?? a]))
  for (const [from, to] of names) {
    if (from === to) continue
    const [a, b] = [part.axis(from), part.axis(to)]
    // Another name of an axis that is held whole: of a grid's or a loop's the range would differ.
    if (a.role !== 'local' || b.role !== 'local' || a.extent !== b.extent || a.size !== b.size) return false
    if (a.open !== undefined || b.open !== undefined) return false
  }
  const renamed = (e: ix.Expr): ix.Expr =>
    ix.substitute(e, (atom) => {
      const to = atom.kind === 'axis' ? names.get(atom.name) : undefined
      return to === undefined ? undefined : ix.axis(to, part.axis(to).extent)
    })
  const [a, b] = [x.load.op, y.load.op]
  return (
    a.param === b.param &&
    a.maskValue === b.maskValue &&
    a.index.length === b.index.length &&
    a.index.every((e, i) => e.key === renamed(b.index[i] ?? ix.zero).key) &&
    predicateKey(a.mask) === predicateKey(mapPredicate(b.mask, renamed))
  )
}

/** Whether elements stand at the same places in two tiles, by their indices along the first axis and the second. */
function isSameTile(x: TilePlan, y: TilePlan): boolean {
  if (x.form.kind !== 'halves' || y.form.kind !== 'halves' || x.length !== y.length) return false
  const [s, t] = [x.form.swizzle, y.form.swizzle]
  return x.strides.every((n, i) => n === y.strides[i]) && JSON.stringify(s) === JSON.stringify(t)
}
