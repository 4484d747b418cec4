/**
 * The same walks where lanes vote (filtered.ts): votes tell each of a warp's finds its place among them, and the queue is filled in several rounds before it is
 * walked. Then each warp goes through all that is queued, a point a lane, keeps the numbers of those that its threads are for, by votes again, and takes
 * several of them together: what they load is on its way before the first is stored. Places that meet are one thread's, which takes points in order.
 */
import { type Filter, filterGroup, waitingPoints } from '../../../schedule/simt/part/filter.ts'
import {
  add,
  and,
  type Block,
  bin,
  call,
  cast,
  type Ex,
  eq,
  forLoop,
  greatest,
  int,
  least,
  lt,
  mul,
  type S,
  select,
  shared,
  sub,
  uint,
  v,
  when,
  yes,
} from '../ir/ir.ts'
import { registerAt } from '../ir/registers.ts'
import { visitExpressions, visitStatements } from '../ir/walk.ts'
import type { Unit } from '../unit.ts'
import { type OwnPlace, ownPlace } from './ownPlace.ts'
import { Point } from './point.ts'
import { assign, type EmitAt, type Looked, look, type Queue, queuedPlaces, queuedPoint, variable } from './queue.ts'
import { type Scope, tid } from './scope.ts'

/** Points that a warp takes together, where what they load can be told from what they store. */
const together = 8

/** The thread's number in its warp, the warp's, and the lanes before this one. */
interface Lane {
  readonly lane: Ex
  readonly warp: Ex
  readonly below: Ex
}

const named = (unit: Unit, wish: string, value: Ex, out: Block): Ex => {
  const name = unit.name(wish)
  out.push({ k: 'let', name, value })
  return v(value.type, name)
}

const ones = (votes: Ex): Ex => call('i32', 'u32_ones', votes)
const vote = (holds: Ex): Ex => call('u32', 'lanes_vote', holds)
const meet: S = { k: 'call', fn: 'lanes_meet', args: [] }

export function emitVoted(scope: Scope, filter: Filter, queue: Queue, body: EmitAt, out: Block): void {
  const { unit, layout, part } = scope
  const { axis } = filter
  const { each, length } = queue.plan
  const { start, end } = scope.range(axis)
  const lane = named(unit, 'own_lane', bin('&', tid, int(filterGroup - 1)), out)
  const warp = named(unit, 'own_warp', bin('>>', tid, uint(Math.log2(filterGroup))), out)
  const below = named(unit, 'own_below', sub(bin('<<', uint(1), cast('u32', lane)), uint(1)), out)
  const at: Lane = { lane, warp, below }
  const queued = variable(unit, 'own_queued', int(0), out)
  const turn = variable(unit, 'own_turn', int(0), out)

  const round = unit.name(`${axis}_from`)
  const step = layout.threads * each
  const rounds: Block = []
  // Neighbouring lanes look at neighbouring points, each warp at a run of its own.
  const first = add(v('i32', round), add(mul(warp, int(each * filterGroup)), lane))
  const pointAt = (i: Ex): Ex => add(first, mul(i, int(filterGroup)))
  const looked = look(scope, filter, each, pointAt, end, rounds)
  enqueue(scope, { queue, looked, queued, turn, pointAt }, at, rounds)
  const walk: Block = [{ k: 'barrier' }]
  const own = filter.single === undefined ? undefined : ownPlace(scope, filter.single, axis)
  const isHeld = walkQueue(scope, filter, { queue, queued, own }, at, body, walk)
  if (own !== undefined && isHeld) out.push(...own.begin)
  const { extent } = part.axis(axis)
  const holdsAll = length >= extent
  if (!holdsAll) {
    const isLast = bin('>=', add(v('i32', round), int(step)), end)
    walk.push({ k: 'barrier' }, assign(queued, int(0)))
    const cond = bin('||', isLast, bin('>', queued, int(length - step)))
    rounds.push({ k: 'if', cond, body: walk, otherwise: [] })
  }
  out.push(forLoop('i32', { name: round, from: start, to: end, step, body: rounds }))
  if (holdsAll) out.push(...walk)
  if (own !== undefined && isHeld) out.push(...own.end)
}

/** The sum of what lanes hold. */
function sumOfLanes(unit: Unit, value: Ex, out: Block): Ex {
  const { laneBits, foldsLanes } = unit.machine
  if (foldsLanes) return named(unit, 'own_sum', call('i32', 'i32_lanes_sum', value), out)
  let sum = value
  for (let b = 0; b < laneBits; b++)
    sum = named(unit, 'own_sum', add(sum, { k: 'shuffle', type: 'i32', a: sum, mask: 2 ** b }), out)
  return sum
}

interface Found {
  readonly queue: Queue
  readonly looked: Looked
  /** Points that are queued. */
  readonly queued: Ex
  /** Where the warps' totals of this round stand: the other of two places may still be read. */
  readonly turn: Ex
  readonly pointAt: (i: Ex) => Ex
}

/** Writes what a thread keeps behind what stands before it: in the queue, of warps before its own, of its own warp. */
function enqueue(scope: Scope, found: Found, { lane, warp, below }: Lane, out: Block): void {
  const { unit, layout } = scope
  const { queue, looked, queued, turn, pointAt } = found
  const [totals] = queue.counts
  const warps = layout.threads / filterGroup
  const kept = Array.from({ length: queue.plan.each }, (_, i) => registerAt(looked.kept, int(i)))
  const votes = kept.map((k) => named(unit, 'own_votes', vote(k), out))
  const total = votes.map(ones).reduce(add)
  out.push(...when(eq(lane, int(0)), [assign(shared(totals, add(turn, warp)), total)]), { k: 'barrier' })
  const ofWarp = named(unit, 'own_total', shared(totals, add(turn, bin('&', lane, int(warps - 1)))), out)
  const before = sumOfLanes(unit, select(lt(lane, warp), ofWarp, int(0)), out)
  const all = sumOfLanes(unit, warps === filterGroup ? ofWarp : select(lt(lane, int(warps)), ofWarp, int(0)), out)
  let at: Ex = named(unit, 'own_before', add(queued, before), out)
  kept.forEach((k, i) => {
    const own = votes[i] ?? uint(0)
    const to = named(unit, 'own_at', add(at, ones(bin('&', own, below))), out)
    const put: Block = [assign(shared(queue.points, to), pointAt(int(i)))]
    for (const [id, registers] of looked.places) {
      const array = queue.places.get(id)
      if (array !== undefined) put.push(assign(shared(array, to), registerAt(registers, int(i))))
    }
    out.push(...when(k, put))
    at = named(unit, 'own_before', add(at, ones(own)), out)
  })
  out.push(assign(queued, add(queued, all)), assign(turn, sub(int(warps), turn)))
}

/** Whether a queued point is for threads of this warp; undefined where each is, or where that is not known of warps. */
function isForWarp(scope: Scope, { classes }: Filter, queue: Queue, number: Ex, out: Block): Ex | undefined {
  const own = classes === undefined ? undefined : scope.layout.find(classes.axis)
  if (classes === undefined || own === undefined || own.chunks * own.reps * own.vec !== 1) return undefined
  const bits = Math.log2(filterGroup)
  const inLane = own.bits.filter((b) => b < bits).length
  // Digits that lanes tell are the lowest: what is left of a class is one number for all lanes.
  if (own.bits.some((b, i) => b < bits !== i < inLane)) return undefined
  const inner = scope.child({})
  for (const [id, value] of queuedPlaces(scope.unit, queue, number, out)) inner.held.set(id, { kind: 'scalar', value })
  const point = new Point(inner, new Map())
  const base = scope.bases.get(classes.axis)
  if (base === undefined) return undefined
  const above = (x: Ex): Ex => bin('>>', cast('i32', x), uint(inLane))
  return eq(above(point.expr(classes.of)), above(base))
}

interface Walked {
  readonly queue: Queue
  readonly queued: Ex
  readonly own: OwnPlace | undefined
}

/** Walks what is queued; whether updates are combined in a register. */
function walkQueue(
  scope: Scope,
  filter: Filter,
  { queue, queued, own: place }: Walked,
  { lane, warp, below }: Lane,
  body: EmitAt,
  out: Block,
): boolean {
  const { unit } = scope
  const waiting = (i: Ex): Ex => shared(queue.counts[1], add(mul(warp, int(waitingPoints)), i))
  const count = variable(unit, 'own_waiting', int(0), out)
  const from = unit.name('own_from')
  const chunk: Block = []
  const number = named(unit, 'own_number', add(v('i32', from), lane), chunk)
  const there = lt(number, queued)
  const own = isForWarp(scope, filter, queue, least(number, sub(queued, int(1))), chunk)
  const isOwn = named(unit, 'own_here', and(there, own), chunk)
  const votes = named(unit, 'own_votes', vote(isOwn), chunk)
  chunk.push(...when(isOwn, [assign(waiting(add(count, ones(bin('&', votes, below)))), number)]))
  chunk.push(assign(count, add(count, ones(votes))), meet)
  // Few wait for more, but those behind which nothing is queued.
  const done = unit.name('own_done')
  const taken = variable(unit, 'own_taken', int(0), chunk)
  const steps: Block = []
  const taking = { first: v('i32', done), count, waiting, place }
  const { n, isHeld } = takePoints(scope, filter, queue, taking, body, steps)
  steps.push(assign(taken, add(v('i32', done), int(n))))
  const isLast = bin('>=', add(v('i32', from), int(filterGroup)), queued)
  const until = named(unit, 'own_until', select(isLast, count, sub(count, int(n - 1))), chunk)
  chunk.push(forLoop('i32', { name: done, from: int(0), to: until, step: n, body: steps }))
  const left = named(unit, 'own_left', greatest(sub(count, taken), int(0)), chunk)
  const moved = named(unit, 'own_moved', waiting(least(add(taken, lane), int(waitingPoints - 1))), chunk)
  chunk.push(meet, ...when(lt(lane, left), [assign(waiting(lane), moved)]), assign(count, left), meet)
  out.push(forLoop('i32', { name: from, from: int(0), to: queued, step: filterGroup, body: chunk }))
  return isHeld
}

interface Waiting {
  /** Of the points to be taken. */
  readonly first: Ex
  readonly count: Ex
  readonly waiting: (i: Ex) => Ex
  readonly place: OwnPlace | undefined
}

/** Takes some points that wait, in order; how many, and whether into a register. */
function takePoints(
  scope: Scope,
  filter: Filter,
  queue: Queue,
  { first, count, waiting, place }: Waiting,
  body: EmitAt,
  out: Block,
): { readonly n: number; readonly isHeld: boolean } {
  const { unit } = scope
  const stores: Block = []
  let n = 0
  do {
    const at = add(first, int(n))
    const made: Block = []
    const number = named(unit, 'own_number', waiting(least(at, sub(count, int(1)))), made)
    body(queuedPoint(scope, filter, queue, number, made), made)
    const store = made.findIndex(writes)
    const loads = made.slice(0, store)
    out.push(...loads)
    stores.push(...when(n === 0 ? yes : lt(at, count), made.slice(store)))
    n++
    if (!read(loads)) break
  } while (n < together)
  const held = place?.take(stores)
  out.push(...(held ?? stores))
  return { n, isHeld: held !== undefined }
}

/** Whether a statement writes to memory. */
function writes(s: S): boolean {
  let found = false
  visitStatements([s], ({ k }) => {
    found ||= k === 'store' || k === 'storeBits' || k === 'vstore'
  })
  return found
}

/** Whether statements read memory. */
function read(stmts: readonly S[]): boolean {
  let found = false
  visitStatements(stmts, ({ k }) => {
    found ||= k === 'vload'
  })
  visitExpressions(stmts, ({ k }) => {
    found ||= k === 'load' || k === 'word'
  })
  return found
}
