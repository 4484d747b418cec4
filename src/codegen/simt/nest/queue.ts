/** The queue of a program's own points (filtered.ts, voted.ts): where it stands, how threads look at points, and the scope of one that is taken. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import { type Filter, type QueuePlan, queuePlan } from '../../../schedule/simt/part/filter.ts'
import {
  add,
  and,
  type Block,
  cast,
  type Ex,
  int,
  least,
  lt,
  regType,
  type S,
  type SharedArray,
  shared,
  sub,
  v,
  yes,
} from '../ir/ir.ts'
import { declare, type Registers, registerAt } from '../ir/registers.ts'
import { loadElement, otherOf } from '../memory/memory.ts'
import type { Unit } from '../unit.ts'
import { Point } from './point.ts'
import type { Scope } from './scope.ts'

/** Shared memory of a filter. */
export interface Queue {
  readonly plan: QueuePlan
  /** What finds are counted in. */
  readonly counts: readonly [SharedArray, SharedArray]
  readonly points: SharedArray
  /** By queued value. */
  readonly places: ReadonlyMap<ValueId, SharedArray>
}

export function shareQueue({ unit, layout, part }: Scope, filter: Filter): Queue {
  const plan = queuePlan(layout.threads, filter, part.axis(filter.axis).extent, unit.machine)
  const names = [...(plan.votes ? ['totals', 'waiting'] : ['found', 'totals']), 'queue']
  const [first, second, points, ...places] = plan.arrays.map(({ type, length }, i) =>
    unit.share(names[i] ?? 'queued', type, length),
  )
  invariant(first !== undefined && second !== undefined && points !== undefined, 'a filter without arrays')
  const named = filter.queued.flatMap((l, i): [ValueId, SharedArray][] => {
    const array = places[i]
    return array === undefined ? [] : [[l.id, array]]
  })
  return { plan, counts: [first, second], points, places: new Map(named) }
}

/** What a thread found among the points that it looked at in a round. */
export interface Looked {
  /** By point. */
  readonly kept: Registers
  /** By queued value, the coordinates of each point. */
  readonly places: ReadonlyMap<ValueId, Registers>
  /** How many it keeps. */
  readonly count: Ex
}

/** Emits what is done in the scope of a point. */
export type EmitAt = (at: Scope, out: Block) => void

/** The scope of a point. */
const pointOf = (scope: Scope, axis: string, at: Ex, out: Block): Scope =>
  scope.child({
    bases: new Map([...scope.bases, [axis, scope.baseOf(scope.layout.axis(axis), at, out)]]),
    exact: new Set([...scope.exact, axis]),
  })

export const variable = (unit: Unit, wish: string, value: Ex, out: Block): Ex => {
  const name = unit.name(wish)
  out.push({ k: 'var', name, type: value.type, value })
  return v(value.type, name)
}

export const assign = (to: Ex, value: Ex): S => ({ k: 'assign', to, value })

export const unrolled = (name: string, count: number, body: Block): S => ({
  k: 'for',
  name,
  from: int(0),
  to: int(count),
  step: 1,
  unroll: true,
  body,
})

/** A thread's look at its points. Those behind the end are looked at as the last one is: loads without conditions are made together. */
export function look(scope: Scope, filter: Filter, each: number, pointAt: (i: Ex) => Ex, end: Ex, out: Block): Looked {
  const { axis, bounds, maskValue, lets, queued } = filter
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
  const at = pointAt(v('i32', i))
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

/** The coordinates of a point of the queue. */
export function queuedPlaces(unit: Unit, queue: Queue, number: Ex, out: Block): Map<ValueId, Ex> {
  const places = new Map<ValueId, Ex>()
  for (const [id, array] of queue.places) {
    const name = unit.name(`own_${id}`)
    out.push({ k: 'let', name, value: shared(array, number) })
    places.set(id, v(array.type, name))
  }
  return places
}

/** The scope of a point of the queue, by its number there. */
export function queuedPoint(scope: Scope, { axis, maskValue }: Filter, queue: Queue, number: Ex, out: Block): Scope {
  const { unit } = scope
  const point = unit.name(axis)
  out.push({ k: 'let', name: point, value: shared(queue.points, number) })
  const inner = pointOf(scope, axis, v('i32', point), out)
  for (const [id, value] of queuedPlaces(unit, queue, number, out)) inner.held.set(id, { kind: 'scalar', value })
  if (maskValue !== undefined) inner.held.set(maskValue, { kind: 'scalar', value: yes })
  return inner
}
