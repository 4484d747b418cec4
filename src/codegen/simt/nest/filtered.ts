/**
 * Walks over the points that a program keeps of an axis (src/schedule/simt/part/filter.ts): found by all threads, queued in order, taken one by one by all
 * of them; where lanes vote, by the threads that they are for (voted.ts).
 */
import { type Filter, filterGroup } from '../../../schedule/simt/part/filter.ts'
import {
  add,
  type Block,
  bin,
  type Ex,
  forLoop,
  int,
  lt,
  mul,
  type S,
  type SharedArray,
  shared,
  uint,
  v,
  when,
} from '../ir/ir.ts'
import { registerAt } from '../ir/registers.ts'
import type { Unit } from '../unit.ts'
import {
  assign,
  type EmitAt,
  type Looked,
  look,
  type Queue,
  queuedPoint,
  shareQueue,
  unrolled,
  variable,
} from './queue.ts'
import { type Scope, tid } from './scope.ts'
import { emitVoted } from './voted.ts'

/** `body` is emitted in the scope of one point. */
export function emitFiltered(scope: Scope, filter: Filter, body: EmitAt, out: Block): void {
  const { unit, layout } = scope
  const { axis } = filter
  const { threads } = layout
  const queue = shareQueue(scope, filter)
  if (queue.plan.votes) {
    emitVoted(scope, filter, queue, body, out)
    return
  }
  const { each } = queue.plan
  const { start, end } = scope.range(axis)
  const round = unit.name(`${axis}_from`)
  const first = add(v('i32', round), mul(tid, int(each)))
  const rounds: Block = []
  const looked = look(scope, filter, each, (i) => add(first, i), end, rounds)
  const { before, all } = countBefore(unit, queue, looked.count, threads, rounds)
  enqueue(unit, queue, looked, first, before, rounds)
  const number = unit.name('own_number')
  rounds.push(
    forLoop('i32', { name: number, from: int(0), to: all, step: 1, body: take(scope, filter, queue, number, body) }),
    { k: 'barrier' },
  )
  out.push(forLoop('i32', { name: round, from: start, to: end, step: threads * each, body: rounds }))
}

/** How many points the threads before this one found, and how many all did: sums of groups of threads, then of what is before in the own one. */
function countBefore(
  unit: Unit,
  { counts: [found, totals] }: Queue,
  count: Ex,
  threads: number,
  out: Block,
): { readonly before: Ex; readonly all: Ex } {
  const sumOf = (array: SharedArray, from: Ex, to: Ex, into: Ex): S => {
    const name = unit.name('own_i')
    return forLoop('i32', { name, from, to, step: 1, body: [assign(into, add(into, shared(array, v('i32', name))))] })
  }
  const groups = threads / filterGroup
  const groupName = unit.name('own_group')
  out.push({ k: 'let', name: groupName, value: bin('>>', tid, uint(Math.log2(filterGroup))) })
  const group = v('i32', groupName)
  const summed: Block = []
  const total = variable(unit, 'own_total', int(0), summed)
  const begin = mul(tid, int(filterGroup))
  summed.push(sumOf(found, begin, add(begin, int(filterGroup)), total), assign(shared(totals, tid), total))
  out.push(assign(shared(found, tid), count), { k: 'barrier' }, ...when(lt(tid, int(groups)), summed), { k: 'barrier' })
  const before = variable(unit, 'own_before', int(0), out)
  const last = variable(unit, 'own_all', int(0), out)
  out.push(
    sumOf(totals, int(0), group, before),
    sumOf(totals, int(0), int(groups), last),
    sumOf(found, mul(group, int(filterGroup)), tid, before),
  )
  const name = unit.name('own_all')
  out.push({ k: 'uniform', name, value: last, slot: unit.scratch('i32', 1, '_bound').name })
  return { before, all: v('i32', name) }
}

/** Writes what a thread keeps behind what those before it do. */
function enqueue(unit: Unit, queue: Queue, looked: Looked, first: Ex, before: Ex, out: Block): void {
  const i = unit.name('own_i')
  const at = v('i32', i)
  const put: Block = [assign(shared(queue.points, before), add(first, at))]
  for (const [id, registers] of looked.places) {
    const array = queue.places.get(id)
    if (array !== undefined) put.push(assign(shared(array, before), registerAt(registers, at)))
  }
  put.push(assign(before, add(before, int(1))))
  out.push(unrolled(i, queue.plan.each, [{ k: 'if', cond: registerAt(looked.kept, at), body: put, otherwise: [] }]), {
    k: 'barrier',
  })
}

/** What is done with a point of the queue. */
function take(scope: Scope, filter: Filter, queue: Queue, number: string, body: EmitAt): Block {
  const out: Block = []
  body(queuedPoint(scope, filter, queue, v('i32', number), out), out)
  return out
}
