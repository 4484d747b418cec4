/** Walks over the points that a program keeps of an axis (src/schedule/simt/part/filter.ts): found by all threads, queued in order, taken one by one. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import { type Filter, filterArrays, filterGroup } from '../../../schedule/simt/part/filter.ts'
import {
  add,
  and,
  type Block,
  bin,
  cast,
  type Ex,
  forLoop,
  int,
  least,
  lt,
  mul,
  regType,
  type S,
  type SharedArray,
  shared,
  sub,
  uint,
  v,
  when,
  yes,
} from '../ir/ir.ts'
import { declare, type Registers, registerAt } from '../ir/registers.ts'
import { loadElement, otherOf } from '../memory/memory.ts'
import type { Unit } from '../unit.ts'
import { Point } from './point.ts'
import { type Scope, tid } from './scope.ts'

/** Shared memory of a filter. */
interface Queue {
  readonly found: SharedArray
  readonly totals: SharedArray
  readonly points: SharedArray
  /** By queued value. */
  readonly places: ReadonlyMap<ValueId, SharedArray>
}

function shareQueue(unit: Unit, threads: number, filter: Filter): Queue {
  const [found, totals, points, ...places] = filterArrays(threads, filter).map(({ type, length }, i) =>
    unit.share(['found', 'totals', 'queue'][i] ?? 'queued', type, length),
  )
  invariant(found !== undefined && totals !== undefined && points !== undefined, 'a filter without arrays')
  const named = filter.queued.flatMap((l, i): [ValueId, SharedArray][] => {
    const array = places[i]
    return array === undefined ? [] : [[l.id, array]]
  })
  return { found, totals, points, places: new Map(named) }
}

/** What a thread found among the points that it looked at in a round. */
interface Looked {
  /** By point. */
  readonly kept: Registers
  /** By queued value, the coordinates of each point. */
  readonly places: ReadonlyMap<ValueId, Registers>
  /** How many it keeps. */
  readonly count: Ex
}

/** `body` is emitted in the scope of one point. */
export function emitFiltered(scope: Scope, filter: Filter, body: (at: Scope, out: Block) => void, out: Block): void {
  const { unit, layout } = scope
  const { axis, each } = filter
  const { threads } = layout
  const queue = shareQueue(unit, threads, filter)
  const { start, end } = scope.range(axis)
  const round = unit.name(`${axis}_from`)
  const first = add(v('i32', round), mul(tid, int(each)))
  const rounds: Block = []
  const looked = look(scope, filter, first, end, rounds)
  const { before, all } = countBefore(unit, queue, looked.count, threads, rounds)
  enqueue(unit, filter, queue, looked, first, before, rounds)
  const number = unit.name('own_number')
  rounds.push(
    forLoop('i32', { name: number, from: int(0), to: all, step: 1, body: take(scope, filter, queue, number, body) }),
    { k: 'barrier' },
  )
  out.push(forLoop('i32', { name: round, from: start, to: end, step: threads * each, body: rounds }))
}

/** The scope of a point. */
const pointOf = (scope: Scope, axis: string, at: Ex, out: Block): Scope =>
  scope.child({
    bases: new Map([...scope.bases, [axis, scope.baseOf(scope.layout.axis(axis), at, out)]]),
    exact: new Set([...scope.exact, axis]),
  })

const variable = (unit: Unit, wish: string, value: Ex, out: Block): Ex => {
  const name = unit.name(wish)
  out.push({ k: 'var', name, type: value.type, value })
  return v(value.type, name)
}

const assign = (to: Ex, value: Ex): S => ({ k: 'assign', to, value })

const unrolled = (name: string, count: number, body: Block): S => ({
  k: 'for',
  name,
  from: int(0),
  to: int(count),
  step: 1,
  unroll: true,
  body,
})

/** A thread's look at its points. Those behind the end are looked at as the last one is: loads without conditions are made together. */
function look(scope: Scope, filter: Filter, first: Ex, end: Ex, out: Block): Looked {
  const { axis, each, bounds, maskValue, lets, queued } = filter
  const { unit, part } = scope
  const kept: Registers = { name: unit.name('own_kept'), type: 'bool', length: each }
  const places = new Map(
    queued.map((l): [ValueId, Registers] => [
      l.id,
      { name: unit.name(`own_${l.id}`), type: regType(l.dtype), length: each },
    ]),
  )
  for (const r of [kept, ...places.values()]) declare(r, out)
  const count = variable(unit, 'own_count', int(0), out)
  const i = unit.name('own_i')
  const at = add(first, v('i32', i))
  const body: Block = []
  const inner = pointOf(scope, axis, least(at, sub(end, int(1))), body)
  const p = new Point(inner, new Map())
  for (const l of lets) {
    const value = l.op.kind === 'load' ? loadElement(p, l, l.op, part.axesOf(l.id), otherOf(l), body) : p.pointwise(l)
    const name = unit.name(`own_${l.id}`)
    body.push({ k: 'let', name, value })
    inner.held.set(l.id, { kind: 'scalar', value: v(value.type, name) })
    const to = places.get(l.id)
    if (to !== undefined) body.push(assign(registerAt(to, v('i32', i)), v(value.type, name)))
  }
  const isKept = and(lt(at, end), maskValue === undefined ? undefined : p.read(maskValue), p.predicate(bounds))
  const own = registerAt(kept, v('i32', i))
  body.push(assign(own, isKept), assign(count, add(count, cast('i32', own))))
  out.push(unrolled(i, each, body))
  return { kept, places, count }
}

/** How many points the threads before this one found, and how many all did: sums of groups of threads, then of what is before in the own one. */
function countBefore(
  unit: Unit,
  { found, totals }: Queue,
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
function enqueue(unit: Unit, { each }: Filter, queue: Queue, looked: Looked, first: Ex, before: Ex, out: Block): void {
  const i = unit.name('own_i')
  const at = v('i32', i)
  const put: Block = [assign(shared(queue.points, before), add(first, at))]
  for (const [id, registers] of looked.places) {
    const array = queue.places.get(id)
    if (array !== undefined) put.push(assign(shared(array, before), registerAt(registers, at)))
  }
  put.push(assign(before, add(before, int(1))))
  out.push(unrolled(i, each, [{ k: 'if', cond: registerAt(looked.kept, at), body: put, otherwise: [] }]), {
    k: 'barrier',
  })
}

/** What is done with a point of the queue. */
function take(
  scope: Scope,
  { axis, maskValue }: Filter,
  queue: Queue,
  number: string,
  body: (at: Scope, out: Block) => void,
): Block {
  const { unit } = scope
  const out: Block = []
  const at = v('i32', number)
  const point = unit.name(axis)
  out.push({ k: 'let', name: point, value: shared(queue.points, at) })
  const inner = pointOf(scope, axis, v('i32', point), out)
  for (const [id, array] of queue.places) {
    const name = unit.name(`own_${id}`)
    out.push({ k: 'let', name, value: shared(array, at) })
    inner.held.set(id, { kind: 'scalar', value: v(array.type, name) })
  }
  if (maskValue !== undefined) inner.held.set(maskValue, { kind: 'scalar', value: yes })
  body(inner, out)
  return out
}
