/** Kernel loops: an axis in blocks, in order, with tiles carried in registers. */

import type { LetStmt, LoopStmt, ValueId } from '../../../kernel/ir.ts'
import { allStmts } from '../../../kernel/walk.ts'
import type { LoadPlan } from '../access/loadPlan.ts'
import type { KnownRange, LoadedEarly, Place } from '../access/place.ts'
import { matrixArray } from '../access/tiles.ts'
import { carriedTotalsOf } from '../fold/carriedTotals.ts'
import { matrixCarries } from '../part/matrixCarries.ts'
import type { Part } from '../part/part.ts'
import { tilesOf } from '../prefetch/copiedStages.ts'
import { operandPrefetchOf } from '../prefetch/operandPrefetch.ts'
import { allLoads, besideOperands, prefetchOf } from '../prefetch/prefetch.ts'
import { registerType } from '../storage/registerType.ts'
import { itemsOf, type LoopWork, type Sequence } from './sequence.ts'
import type { PlanItems } from './walks.ts'

/** `before`: statements outside the loop that are computed inside. */
export function planLoop(at: Place, loop: LoopStmt, before: readonly LetStmt[], planItems: PlanItems): LoopWork {
  const { part } = at
  const { extent, open, multiple, type } = part.axis(loop.axis)
  const range: KnownRange = {
    start: loop.from === undefined ? 0 : undefined,
    end: loop.to === undefined && open === undefined ? extent : undefined,
  }
  const isKnown = range.start !== undefined && range.end !== undefined
  // A single block needs no loop.
  const isSingle = isKnown && extent > 0 && extent <= loop.block
  const isWhole =
    multiple % loop.block === 0 &&
    [loop.from, loop.to].every((id) => id === undefined || part.isMultiple(id, loop.block))
  for (const bound of [loop.from, loop.to]) if (bound !== undefined) at.shared.slots(type, 1, '_bound')
  const operands = isSingle ? undefined : operandPrefetchOf(at, loop, before)
  const prefetch =
    isSingle || before.length > 0
      ? undefined
      : operands === undefined
        ? prefetchOf(at, loop, range)
        : besideOperands(at, loop)
  const shares = loop.carries.filter((c) => part.products.get(c.next)?.warpsOfDepth !== undefined)
  for (const c of shares)
    at.shared.slots(registerType(c.dtype), at.registers(part.axesOf(c.param)) * at.layout.threads, '_depth')
  const onMatrices = matrixCarries(part, loop)
  for (const { product } of onMatrices) at.shared.share(matrixArray(product, part, at.layout))
  const now: KnownRange = isSingle ? range : { start: undefined, end: undefined }
  const ring: LoadedEarly | undefined =
    prefetch?.into === 'ring' ? { layout: at.layout, loads: prefetch.loads } : undefined
  const words = prefetch?.into === 'registers' ? allLoads(prefetch) : []
  const inner = at
    .inside({
      ranges: new Map([...at.ranges, [loop.axis, now]]),
      ...(prefetch === undefined ? {} : { copied: ring, words: byValue(words) }),
      stages: new Map((operands?.ahead ?? []).map((a): [ValueId, LoadedEarly] => [a.let.id, a])),
    })
    .openWhole([loop.axis])
  for (const t of (operands?.copied ?? []).flatMap(tilesOf)) inner.holds(t.let.id, 'shared')
  for (const c of loop.carries) inner.holds(c.param, 'registers')
  const meets =
    operands === undefined && [...allStmts(loop.body)].some((t) => t.kind === 'let' && t.op.kind === 'stage')
  const exports = new Set(loop.carries.map((c) => c.next))
  const planned = planItems(inner, itemsOf(part.inMain([...before, ...loop.body])), exports)
  // Behind the body, whose tiles come first.
  const totals = isSingle ? [] : carriedTotalsOf(at, loop)
  const body = operands?.meetsHalfway === true ? withHalfway(part, planned) : planned
  for (const c of loop.carries) at.holds(c.result, 'registers')
  return { kind: 'loop', loop, isSingle, isWhole, meets, operands, prefetch, totals, onMatrices, shares, body }
}

/** A loop's body in which threads say that they are halfway: behind the end of the last product that is a tile of the chain. */
function withHalfway({ chain }: Part, { prepare, entries }: Sequence): Sequence {
  const isTile = (l: LetStmt): boolean => chain?.tiles.some((p) => p.dot === l.id) === true
  const last = entries.findLastIndex((e) => e.kind === 'close' && e.folds.some(isTile))
  return { prepare, entries: entries.toSpliced(last + 1, 0, { kind: 'block', work: { kind: 'halfway' } }) }
}

const byValue = (loads: readonly LoadPlan[]): ReadonlyMap<ValueId, LoadPlan> => new Map(loads.map((p) => [p.let.id, p]))
