/**
 * Nests that copy memory into a tile (operands of matrix products, loads across the results): runs that are contiguous on both sides move
 * in whole vectors, others are transposed in blocks of four by four. Padding is filled in afterwards, so the copy itself has no masks: it
 * may read a little beyond the parameter, where other memory stands. Bytes and integers of 16 bits become a tile of 16 bits, eight a step; of every other element
 * where a run takes two steps in memory for one in the tile.
 */
import { rangeOf, strideOf, valuesOf } from '../../../affine/expr.ts'
import { always, conjoin } from '../../../affine/predicate.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import { dtypeBytes, isFloat } from '../../../types/dtype.ts'
import { sizeOf } from '../../../types/shape.ts'
import type { CopySchedule, CopySource, Run } from '../ir/schedule.ts'
import { isShortForm, isShortTile, shortBytes } from '../ir/shortOperands.ts'
import type { Nest } from '../ir/steps.ts'
import { readMargin } from '../ir/tile.ts'
import type { Places } from '../tiles/places.ts'
import { bytePosition } from './position.ts'

/** Bytes of the elements that are copied as they are. */
export const word = 4

/** How the nest is a copy of memory into a tile, if it is one. */
export function copyOf(places: Places, nest: Nest): CopySchedule | undefined {
  const [root, second] = nest.roots
  if (root?.kind !== 'keep' || second !== undefined || nest.folded.length > 0) return
  const { tile } = root
  const isShort = isShortTile(tile)
  const source = sourceOf(places, root.id, isShort)
  if (source === undefined) return
  const { position, param } = source
  if (param.format !== 'plain' || param.dtype === 'bool' || valuesOf(position).size > 0) return
  if (isShort ? !isShortForm(param.dtype) : dtypeBytes(param.dtype) !== word || tile.dtype !== param.dtype) return
  const [bytes, unitTo] = [dtypeBytes(param.dtype), isShort ? shortBytes : word]
  const inMemory = rangeOf(position)
  // Of two elements a step the one that is not taken is read too.
  const reads = isShort ? 2 * bytes : bytes
  if (inMemory.lo < -readMargin || inMemory.hi + reads > sizeOf(param.shape) * bytes + readMargin) return
  if (source.mask.some((b) => valuesOf(b.expr).size > 0)) return
  const strides = new Map<string, { from: number; to: number }>()
  for (const a of nest.space) {
    const [from, to] = [strideOf(position, a), tile.strides.get(a)]
    if (from === undefined || to === undefined) return
    strides.set(a, { from, to })
  }
  const unit = (side: 'from' | 'to'): string | undefined =>
    [...nest.space]
      .sort((a, b) => size(b) - size(a))
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
      const next = nest.space.find((a) => {
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
  if (along.from === bytes || (isShort && along.from === 2 * bytes))
    return { kind: 'copy', root, source, space: nest.space, along, across: undefined }
  if (isShort) return
  const contiguous = unit('from')
  if (contiguous === undefined || along.axes.includes(contiguous)) return
  const across = runFrom(contiguous, along.axes)
  if (across.axes.reduce((n, a) => n * size(a), 1) < 4) return
  return { kind: 'copy', root, source, space: nest.space, along, across }
}

/** The load a value is, a selection by a predicate of a load's own padding taken with it; where integers are widened, the load of what is. */
function sourceOf(places: Places, id: ValueId, widened: boolean): CopySource | undefined {
  if (places.has(id)) return undefined
  const { op } = places.def(id)
  if (op?.kind === 'stage') return sourceOf(places, op.of, widened)
  if (widened && op?.kind === 'scalar' && op.op === 'cast' && op.args[0] !== undefined)
    return isFloat(places.def(op.args[0]).dtype) ? undefined : sourceOf(places, op.args[0], widened)
  if (op?.kind === 'load') {
    if (op.maskValue !== undefined) return undefined
    const param = places.paramOf(op.param)
    return { param, position: bytePosition(param, op.index), mask: op.mask, other: op.other }
  }
  if (op?.kind !== 'scalar' || op.op !== 'select') return undefined
  const [condition, chosen, other] = op.args.map((a) => places.def(a).op)
  const isSource = chosen?.kind === 'load' || (widened && chosen?.kind === 'scalar' && chosen.op === 'cast')
  if (condition?.kind !== 'predicate' || !isSource || other?.kind !== 'const') return undefined
  const source = sourceOf(places, op.args[1] ?? id, widened)
  const sameOther = source !== undefined && (source.mask.length === 0 || Object.is(source.other, other.value))
  if (!sameOther) return undefined
  return { ...source, mask: conjoin(always, ...source.mask, ...condition.predicate), other: other.value }
}
