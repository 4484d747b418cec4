/** Loops over the chunks of axes that registers do not hold at once. */

import type { LetStmt, Stmt } from '../../kernel/ir.ts'
import { spanOf } from '../../schedule/simt/layout.ts'
import type { Accumulator } from './accumulator.ts'
import { eachKept } from './fold.ts'
import { add, type Block, type Ex, forLoop, indexConstantOf, int, sub, v } from './ir.ts'
import type { Item, LowerItems } from './items.ts'
import { type Course, openChunkPipeline } from './pipeline.ts'
import { closeRound, type Elements, type Running } from './running.ts'
import type { Scope } from './scope.ts'

/** Loops over the chunks of axes, outermost first, with items inside; `backward`: from the last chunk of the only axis. */
export function emitChunks(
  scope: Scope,
  over: readonly string[],
  items: readonly Item[],
  lower: LowerItems,
  out: Block,
  backward = false,
  rounds = openRounds(scope, items, out),
): void {
  const [axis, ...rest] = over
  if (axis === undefined) {
    lower(scope, items, new Set(), out)
    return
  }
  const a = scope.layout.axis(axis)
  const span = spanOf(a)
  const { start, end } = scope.range(axis)
  const { type } = scope.part.axis(axis)
  const name = scope.unit.name(`${axis}_at`)
  const chunkAt = (at: Ex, isWhole: boolean, to: Block): Scope => {
    const bases = new Map(scope.bases)
    bases.set(axis, scope.baseOf(a, at, to))
    return scope.child({ bases, exact: isWhole ? new Set([...scope.exact, axis]) : scope.exact })
  }
  const whole = rest.length === 0 ? wholeChunks(scope, axis, items) : undefined
  const isWhole = span === 1 || whole !== undefined
  const body: Block = []
  const last = backward && over.length === 1 ? lastChunk(start, whole ?? end, span) : undefined
  const from = (at: Ex): Ex => (last === undefined ? at : sub(add(last, start), at))
  const tail = (): void => {
    if (whole === undefined) return
    emitChunks(chunkAt(whole, false, out), rest, items, lower, out, false, rounds)
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
  const ahead = rest.length === 0 ? openChunkPipeline(scope, axis, letsOf(items), course, out, body) : undefined
  const { unit } = scope
  if (ahead?.words !== undefined) unit.wordsAhead = ahead.words
  emitChunks(course.scopeAt(course.start, body), rest, items, lower, body, false, rounds)
  if (ahead !== undefined) unit.wordsAhead = new Map()
  if (rest.length === 0) rounds.close(body)
  out.push(forLoop(type, { name, from: start, to: course.to, step: span, body }))
  if (last === undefined) tail()
}

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
  const own = (acc: Accumulator): Elements[] => (acc.running === undefined ? [] : of(acc, [acc.running]))
  if (item.kind === 'accumulate') return own(item.acc)
  if (item.kind === 'stream') return own(item.stream.anchor)
  return item.kind === 'moments' ? of(item.carried.acc, item.carried.sums.values()) : []
}

const letsOf = (items: readonly Item[]): LetStmt[] =>
  items.flatMap((x) => (x.kind === 'stmt' && x.stmt.kind === 'let' ? x.stmt : []))

/** So many whole chunks pay for code of their own, without tests for the end, */
const fewestWhole = 4
/** and where it is there so many operations at most. */
const mostRepeated = 512

/** Where whole chunks end, if the last one is not whole and gets code of its own. */
function wholeChunks(scope: Scope, axis: string, items: readonly Item[]): Ex | undefined {
  const range = scope.range(axis)
  const [start, end] = [indexConstantOf(range.start), indexConstantOf(range.end)]
  const span = spanOf(scope.layout.axis(axis))
  if (span === 1 || start === undefined || end === undefined || (end - start) % span === 0) return undefined
  const whole = Math.floor((end - start) / span)
  if (whole < fewestWhole) return undefined
  let operations = 0
  for (const item of items) {
    // What has tiles in shared memory is there once.
    if (item.kind === 'fill' || item.kind === 'ordered') return undefined
    if (item.kind === 'stmt' && !isPlain(item.stmt)) return undefined
    operations += scope.registers(pointsOf(scope, item))
  }
  return operations > mostRepeated ? undefined : int(start + whole * span)
}

const isPlain = (s: Stmt): boolean =>
  s.kind === 'store' || (s.kind === 'let' && !['reduce', 'dot', 'scan', 'stage'].includes(s.op.kind))

/** The axes that an item runs over. */
function pointsOf(scope: Scope, item: Exclude<Item, { kind: 'fill' | 'ordered' }>): Iterable<string> {
  const { part } = scope
  if (item.kind === 'accumulate') return part.nestOf(item.acc.let)
  if (item.kind === 'moments') return part.nestOf(item.carried.acc.let)
  if (item.kind === 'stream') return part.nestOf(item.stream.anchor.let)
  const s = item.stmt
  return s.kind === 'let' ? part.axesOf(s.id) : s.kind === 'store' ? part.storeAxes(s) : []
}
