/**
 * Nests that copy memory into a tile (operands of matrix products, loads across the results): runs that are contiguous on both sides move
 * in whole vectors, others are transposed in blocks of four by four, what is narrower than words converted on the way. Padding is filled in afterwards, so the copy itself has no masks: it
 * may read a little beyond the parameter, where other memory stands. Bytes and integers of 16 bits become a tile of 16 bits, eight a step; of every other element
 * where a run takes two steps in memory for one in the tile.
 */
import { asAxis, strideOf, valuesOf } from '../../../affine/expr.ts'
import { type DType, dtypeBytes, isHalf } from '../../../types/dtype.ts'
import { sizeOf } from '../../../types/shape.ts'
import type { CopyPiece, CopySchedule, Run } from '../ir/schedule.ts'
import { isShortForm, isShortTile, shortBytes } from '../ir/shortOperands.ts'
import type { Nest } from '../ir/steps.ts'
import { readMargin, type Tile, tileDType } from '../ir/tile.ts'
import type { Places } from '../tiles/places.ts'
import { positionsOf, sourceOf } from './pieces.ts'

/** Bytes of the elements that are copied as they are. */
export const word = 4

/** What memory of a dtype is read as where it stands in a tile of words: itself, or the bits of a half; undefined where it is no copy of it. */
export function readAs(dtype: DType, tile: Pick<Tile, 'dtype'>): DType | undefined {
  if (dtype === 'bool' || dtypeBytes(dtype) > word) return undefined
  if (tileDType(dtype) === tile.dtype) return dtype
  return isHalf(dtype) && tile.dtype === tileDType('u16') ? 'u16' : undefined
}

/** Whether a piece is read as elements of a tile of words (or, into 16 bits, as bytes and integers of 16 bits), all of it near its memory. */
function isCopied(piece: CopyPiece, tile: Tile): boolean {
  const { param, position } = piece
  const isShort = isShortTile(tile)
  if (param.format !== 'plain' || param.dtype === 'bool' || valuesOf(position).size > 0) return false
  const bytes = dtypeBytes(param.dtype)
  if (isShort ? !isShortForm(param.dtype) : readAs(param.dtype, tile) === undefined) return false
  const inMemory = positionsOf(piece)
  // Of two elements a step the one that is not taken is read too.
  const reads = isShort ? 2 * bytes : bytes
  return inMemory.lo >= -readMargin && inMemory.hi + reads <= sizeOf(param.shape) * bytes + readMargin
}

/** How the nest is a copy of memory into a tile, if it is one. */
export function copyOf(places: Places, nest: Nest): CopySchedule | undefined {
  const [root, second] = nest.roots
  if (root?.kind !== 'keep' || second !== undefined || nest.folded.length > 0) return
  const { tile } = root
  const isShort = isShortTile(tile)
  const source = sourceOf(places, root.id, isShort)
  const [leading] = source?.pieces ?? []
  if (source === undefined || leading === undefined || !source.pieces.every((p) => isCopied(p, tile))) return
  const { dtype } = leading.param
  const [bytes, unitTo] = [dtypeBytes(dtype), isShort ? shortBytes : word]
  if (source.mask.some((b) => valuesOf(b.expr).size > 0)) return
  const strides = new Map<string, { from: number; to: number }>()
  // Where pieces are joined each is read by itself: all alike, but along that axis.
  const joint = leading.where === undefined ? undefined : asAxis(leading.where.expr)?.name
  for (const a of nest.space) {
    const [from, ...others] = source.pieces.map((p) => strideOf(p.position, a))
    const to = tile.strides.get(a)
    if (from === undefined || to === undefined) return
    if (others.some((s) => s !== from && (a !== joint || s === undefined))) return
    if (source.pieces.some((p) => p.param.dtype !== dtype)) return
    strides.set(a, { from, to })
  }
  const runs = nest.space.filter((a) => a !== joint)
  const unit = (side: 'from' | 'to'): string | undefined =>
    runs
      .toSorted((a, b) => size(b) - size(a))
      .find((a) => strides.get(a)?.[side] === (side === 'from' ? bytes : unitTo))
  const size = (a: string): number => places.axes.view(a).max
  const first = unit('to')
  if (first === undefined || size(first) < 2) return
  const runFrom = (start: string, taken: readonly string[]): Run => {
    const { from, to } = strides.get(start) ?? { from: 0, to: 0 }
    const axes = [start]
    for (let n = size(start); ; ) {
      const inner = axes.at(-1) ?? start
      if (places.axes.view(inner).counts?.length !== 1) break
      const next = runs.find((a) => {
        const s = strides.get(a)
        return !axes.includes(a) && !taken.includes(a) && s?.from === n * from && s.to === n * to
      })
      if (next === undefined) break
      axes.push(next)
      n *= size(next)
    }
    return { axes, from, to }
  }
  const along = runFrom(first, [])
  // What is narrower than its tile and not transposed is converted in vectors of an ordinary nest.
  if ((along.from === bytes && (isShort || bytes === word)) || (isShort && along.from === 2 * bytes))
    return { kind: 'copy', root, source, space: nest.space, along, across: undefined }
  if (isShort || along.from === bytes) return
  const contiguous = unit('from')
  if (contiguous === undefined || along.axes.includes(contiguous)) return
  const across = runFrom(contiguous, along.axes)
  if (across.axes.reduce((n, a) => n * size(a), 1) < 4) return
  return { kind: 'copy', root, source, space: nest.space, along, across }
}
