/** Loops over the chunks of axes that registers do not hold at once. */

import { spanOf } from '../../../schedule/simt/layout/layout.ts'
import type { Item, WalkEntry } from '../../../schedule/simt/sequence/sequence.ts'
import { add, type Block, type Ex, forLoop, indexConstantOf, int, sub, v } from '../ir/ir.ts'
import { type Course, openRegisters } from '../memory/prefetch.ts'
import { eachKept } from '../reduce/fold.ts'
import type { Accumulator } from '../reduce/open.ts'
import { closeRound, type Elements, type Running } from '../reduce/running.ts'
import { emitFiltered } from './filtered.ts'
import type { EmitSequence } from './loop.ts'
import type { Scope } from './scope.ts'

/** Loops over chunks, outermost first; `over`: those that are not open yet. */
export function emitWalk(
  scope: Scope,
  walk: WalkEntry,
  emit: EmitSequence,
  out: Block,
  over = walk.over,
  rounds = openRounds(scope, walk.items, out),
): void {
  const [axis, ...rest] = over
  if (axis === undefined) {
    emit(scope, walk.body, out)
    return
  }
  if (walk.filter?.axis === axis) {
    emitFiltered(scope, walk.filter, (at, body) => emitWalk(at, walk, emit, body, rest, rounds), out)
    return
  }
  const a = scope.layout.axis(axis)
  const span = spanOf(a)
  const { start } = scope.range(axis)
  // A product reads the whole depth of its tiles: what lies beyond the range has to be filled with zeros.
  const end = fillsDepth(walk, axis) ? add(start, int(a.size)) : scope.range(axis).end
  const { type } = scope.part.axis(axis)
  const name = scope.unit.name(`${axis}_at`)
  const chunkAt = (at: Ex, isWhole: boolean, to: Block): Scope => {
    const bases = new Map(scope.bases)
    bases.set(axis, scope.baseOf(a, at, to))
    return scope.child({ bases, exact: isWhole ? new Set([...scope.exact, axis]) : scope.exact })
  }
  const isInner = rest.length === 0
  const whole = isInner && walk.wholeUntil !== undefined ? int(walk.wholeUntil) : undefined
  const isWhole = span === 1 || whole !== undefined
  const body: Block = []
  const last = walk.isBackward ? lastChunk(start, whole ?? end, span) : undefined
  const from = (at: Ex): Ex => (last === undefined ? at : sub(add(last, start), at))
  const tail = (): void => {
    if (whole === undefined || walk.tail === undefined) return
    emit(chunkAt(whole, false, out), walk.tail, out)
    if (last !== undefined) rounds.close(out)
  }
  const course: Course = {
    from: start,
    to: whole ?? end,
    start: v(type, name),
    step: span,
    scopeAt: (at, to) => chunkAt(from(at), isWhole, to),
  }
  if (last !== undefined) tail()
  const early =
    isInner && walk.prefetch !== undefined
      ? openRegisters(scope, course, [{ layout: scope.layout, loads: walk.prefetch }], out, body)
      : undefined
  const { unit } = scope
  if (early?.words !== undefined) unit.wordsAhead = early.words
  emitWalk(course.scopeAt(course.start, body), walk, emit, body, rest, rounds)
  if (early !== undefined) unit.wordsAhead = new Map()
  if (isInner) rounds.close(body)
  out.push(forLoop(type, { name, from: start, to: course.to, step: span, body }))
  if (last === undefined) tail()
}

/** Whether chunks of an axis are those of the depth of a product's tile. */
const fillsDepth = ({ items }: WalkEntry, axis: string): boolean =>
  items.some((x) => x.kind === 'fill' && x.tile.form.kind === 'halves' && x.tile.form.product.depth === axis)

/** Where the last chunk of a range begins, if that is known. */
function lastChunk(start: Ex, end: Ex, span: number): Ex | undefined {
  const [from, to] = [indexConstantOf(start), indexConstantOf(end)]
  return from === undefined || to === undefined ? undefined : int(from + (Math.ceil((to - from) / span) - 1) * span)
}

/** The rounds of a loop's sums and products. */
interface Rounds {
  close(out: Block): void
}

/** Begins to count rounds, where anything ends with them. */
function openRounds(scope: Scope, items: readonly Item[], out: Block): Rounds {
  const running = items.flatMap((x) => runningIn(scope, x)).filter(({ of }) => of.totals.length > 0)
  if (running.length === 0) return { close: () => undefined }
  const name = scope.unit.name('rounds')
  const count = v('i32', name)
  out.push({ k: 'var', name, type: 'i32', value: int(0) })
  const close = (to: Block): void => {
    to.push({ k: 'assign', to: count, value: add(count, int(1)) })
    closeRound(running, count, to)
  }
  return { close }
}

/** What an item folds. */
function runningIn(scope: Scope, item: Item): Elements[] {
  const of = (acc: Accumulator, all: Iterable<Running>): Elements[] =>
    Array.from(all, (r) => ({ of: r, each: eachKept(scope, acc.kept) }))
  const own = (acc: Accumulator | undefined): Elements[] => (acc?.running === undefined ? [] : of(acc, [acc.running]))
  if (item.kind === 'accumulate') return own(scope.accumulators.get(item.let.id))
  if (item.kind === 'stream') return own(scope.accumulators.get(item.stream.anchor.id))
  if (item.kind !== 'moments') return []
  const { mean } = scope.openStream(item.stream)
  return (mean?.carried ?? []).flatMap((c) => (c.acc.let.id === item.let.id ? of(c.acc, c.sums.values()) : []))
}
