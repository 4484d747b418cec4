/** Loops over the chunks of axes that registers do not hold at once. */
import type { LetStmt, Stmt, ValueId } from '../../../kernel/ir.ts'
import type { Place } from '../access/place.ts'
import { spanOf } from '../layout/layout.ts'
import { filterOf, queuePlan } from '../part/filter.ts'
import { chunkPrefetchOf } from '../prefetch/prefetch.ts'
import type { Item, Sequence, WalkEntry } from './sequence.ts'

/** Schedules a statement list; `exports` are values needed after it. */
export type PlanItems = (place: Place, items: readonly Item[], exports: ReadonlySet<ValueId>) => Sequence

const none: ReadonlySet<ValueId> = new Set()

/** A loop over the chunks of axes, outermost first, with items inside; `isBackward`: from the last chunk of the only axis. */
export function planWalk(
  place: Place,
  over: readonly string[],
  items: readonly Item[],
  isBackward: boolean,
  planItems: PlanItems,
): WalkEntry {
  const inner = over.at(-1) ?? ''
  // Inside the loops over all axes but the last, and inside that too: over whole chunks, or whatever they are.
  const isSingle = (axis: string): boolean => spanOf(place.layout.axis(axis)) === 1
  const outside = place.inside({
    open: new Set([...place.open, ...over.slice(0, -1)]),
    exact: new Set([...place.exact, ...over.slice(0, -1).filter(isSingle)]),
  })
  const wholeUntil = wholeChunks(outside, inner, items)
  const open = new Set([...outside.open, inner])
  const isWhole = wholeUntil !== undefined || isSingle(inner)
  const whole = outside.inside({ open, exact: isWhole ? new Set([...outside.exact, inner]) : outside.exact })
  const prefetch = chunkPrefetchOf(outside, inner, letsOf(items))
  const words = prefetch === undefined ? {} : { words: new Map(prefetch.map((p) => [p.let.id, p])) }
  const filter = items.flatMap((x) => (x.kind === 'ordered' ? (filterOf(place.part, x.store) ?? []) : []))[0]
  if (filter !== undefined) {
    const { layout, part, setting, shared } = place
    const { extent } = part.axis(filter.axis)
    const { arrays, votes } = queuePlan(layout.threads, filter, extent, setting.machine)
    for (const array of arrays) shared.share(array)
    if (!votes) shared.slots('i32', 1, '_bound')
  }
  const { start, end } = place.range(inner)
  const isKnown = start !== undefined && end !== undefined
  return {
    kind: 'walk',
    over,
    isBackward: isBackward && over.length === 1 && isKnown,
    phase: place.phase,
    items,
    wholeUntil,
    filter,
    prefetch,
    body: planItems(whole.inside(words), items, none),
    tail: wholeUntil === undefined ? undefined : planItems(outside.inside({ open }), items, none),
  }
}

const letsOf = (items: readonly Item[]): LetStmt[] =>
  items.flatMap((x) => (x.kind === 'stmt' && x.stmt.kind === 'let' ? x.stmt : []))

/** So many whole chunks pay for code of their own, without tests for the end, */
const fewestWhole = 4
/** and where it is there so many operations at most. */
const mostRepeated = 512

/** Where whole chunks end, if the last one is not whole and gets code of its own. */
function wholeChunks(place: Place, axis: string, items: readonly Item[]): number | undefined {
  const { start, end } = place.range(axis)
  const span = spanOf(place.layout.axis(axis))
  if (span === 1 || start === undefined || end === undefined || (end - start) % span === 0) return undefined
  const whole = Math.floor((end - start) / span)
  if (whole < fewestWhole) return undefined
  let operations = 0
  for (const item of items) {
    // What has tiles in shared memory is there once.
    if (item.kind === 'fill' || item.kind === 'ordered') return undefined
    if (item.kind === 'stmt' && !isPlain(item.stmt)) return undefined
    operations += place.registers(pointsOf(place, item))
  }
  return operations > mostRepeated ? undefined : start + whole * span
}

const isPlain = (s: Stmt): boolean =>
  s.kind === 'store' || (s.kind === 'let' && !['reduce', 'dot', 'scan', 'stage'].includes(s.op.kind))

/** The axes that an item runs over. */
function pointsOf({ part }: Place, item: Exclude<Item, { kind: 'fill' | 'ordered' }>): Iterable<string> {
  switch (item.kind) {
    case 'accumulate':
    case 'moments':
      return part.nestOf(item.let)
    case 'stream':
      return part.nestOf(item.stream.anchor)
    case 'stmt': {
      const s = item.stmt
      return s.kind === 'let' ? part.axesOf(s.id) : s.kind === 'store' ? part.storeAxes(s) : []
    }
  }
}
