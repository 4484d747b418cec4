/** Loops that load for later iterations (src/schedule/simt/prefetch/prefetch.ts says which, and where to). */
import { invariant } from '../../../diagnostics/errors.ts'
import type { LoopStmt, ValueId } from '../../../kernel/ir.ts'
import type { LoadPlan } from '../../../schedule/simt/access/loadPlan.ts'
import type { LoadedEarly } from '../../../schedule/simt/access/place.ts'
import type { Layout } from '../../../schedule/simt/layout/layout.ts'
import type { Prefetch } from '../../../schedule/simt/prefetch/prefetch.ts'
import { elementBits } from '../../../schedule/simt/storage/words.ts'
import {
  add,
  type Block,
  bin,
  cast,
  type Ex,
  indexConstantOf,
  int,
  isYes,
  least,
  lit,
  lt,
  mul,
  sub,
  v,
} from '../ir/ir.ts'
import { declare, type Registers, registerAt } from '../ir/registers.ts'
import type { Scope } from '../nest/scope.ts'
import { divided } from '../scalar/quotient.ts'
import type { LoadsAhead, WordsAhead } from '../unit.ts'
import { forGroups, groupNumber, readGroups, shareCopies, startAhead, type WideRead } from './earlyLoads.ts'
import { openPlaces, plainSite, type SiteOf } from './loadPlaces.ts'
import { wordType } from './packedElements.ts'

/** Where a loop begins, ends, and stands now, in steps of so many indices. */
export interface Course {
  readonly from: Ex
  readonly to: Ex
  readonly start: Ex
  readonly step: number
  /** The axis, of a loop whose loads find their places before it. */
  readonly axis?: string
  /** The scope of the iteration that begins at a place. */
  readonly scopeAt: (at: Ex, out: Block) => Scope
}

/** What the loads of a loop's body are read from. */
export interface Pipeline {
  readonly ring?: LoadsAhead
  readonly words?: ReadonlyMap<ValueId, WordsAhead>
}

/** Begins the loads of a loop's first iterations, before it, and those of later ones, at its body's head. */
export function openPipeline(
  scope: Scope,
  loop: LoopStmt,
  prefetch: Prefetch,
  range: Pick<Course, 'from' | 'to' | 'start'>,
  out: Block,
  body: Block,
): Pipeline {
  const course: Course = {
    ...range,
    step: loop.block,
    ...(prefetch.ofStages?.findsPlaces === true ? { axis: loop.axis } : {}),
    scopeAt: (at) => iterationScope(scope, loop, range.to, at),
  }
  return prefetch.into === 'ring'
    ? openRing(scope, course, prefetch, out, body)
    : openRegisters(
        scope,
        course,
        [{ layout: scope.layout, loads: prefetch.loads }, ...(prefetch.ofStages?.of ?? [])],
        out,
        body,
        prefetch.ofStages?.during,
      )
}

/** The range of a loop's iteration that begins at a place, as a scope. */
function iterationScope(scope: Scope, loop: LoopStmt, to: Ex, at: Ex): Scope {
  const whole = indexConstantOf(to) !== undefined && scope.part.axis(loop.axis).extent % loop.block === 0
  const next = add(at, int(loop.block))
  const end = whole ? next : least(next, to)
  return scope.child({ ranges: new Map([...scope.ranges, [loop.axis, { start: at, end }]]), exact: new Set() })
}

/** Emits something for the iteration that begins at a place, if there is one. */
function whereThere(at: Ex, { to }: Course, out: Block, emit: (body: Block) => void): void {
  const there: Block = []
  emit(there)
  const exists = lt(at, to)
  if (exists.k !== 'lit') out.push({ k: 'if', cond: exists, body: there, otherwise: [] })
  else if (exists.value === true) out.push(...there)
}

function openRing(scope: Scope, course: Course, { slots, loads: plans }: Prefetch, out: Block, body: Block): Pipeline {
  const { unit, layout } = scope
  const { from, start } = course
  const [laterName, nowName] = [unit.name('slot'), unit.name('slot')]
  const loads = shareCopies(scope, plans, layout, slots)
  const ring: LoadsAhead = { layout, loads, slot: v('i32', nowName) }
  const begin = (at: Ex, slot: Ex, to: Block): void => {
    whereThere(at, course, to, (there) => startAhead(course.scopeAt(at, there), ring, slot, there))
    to.push({ k: 'call', fn: 'copy_commit', args: [] })
  }
  for (let i = 0; i + 1 < slots; i++) begin(add(from, int(i * course.step)), int(i), out)
  const done = sub(start, from)
  const step = divided(done, course.step)
  const slot = (ahead: number): Ex => cast('i32', bin('%', add(step, int(ahead)), int(slots)))
  body.push({ k: 'call', fn: `copy_wait_${slots - 2}`, args: [] })
  body.push({ k: 'let', name: laterName, value: slot(slots - 1) }, { k: 'let', name: nowName, value: slot(0) })
  begin(add(start, int((slots - 1) * course.step)), v('i32', laterName), body)
  return { ring }
}

/** The same into registers, one iteration early: of plans under one layout and another; `during` a product, or from the beginning of the body. */
export function openRegisters(
  scope: Scope,
  course: Course,
  plans: readonly LoadedEarly[],
  out: Block,
  body: Block,
  during?: ValueId,
): Pipeline {
  const { unit } = scope
  const words = new Map<ValueId, WordsAhead>()
  const all = plans.flatMap(({ layout, loads }) => loads.map((plan) => ({ layout, plan })))
  const early = all.map(({ layout, plan }) => {
    const { param } = plan.let.op
    const type = wordType(unit.param(param))
    const length = plan.groups * plan.words
    const registers: Registers = { name: unit.name(`${param}_ahead`), type, length }
    declare(registers, out)
    if (during !== undefined) {
      words.set(plan.let.id, { ...plan, registers })
      return { layout, plan, registers }
    }
    const now: Registers = { name: unit.name(`${param}_now`), type, length }
    declare(now, body)
    for (let i = 0; i < length; i++)
      body.push({ k: 'assign', to: registerAt(now, int(i)), value: registerAt(registers, int(i)) })
    words.set(plan.let.id, { ...plan, registers: now })
    return { layout, plan, registers }
  })
  const under = (inner: Scope, layout: Layout): Scope =>
    layout === inner.layout ? inner : inner.child({ layout, bases: new Map() })
  const { axis } = course
  const first = axis === undefined ? undefined : course.scopeAt(course.from, out)
  const sites = early.map(({ layout, plan }) =>
    axis === undefined || first === undefined
      ? plainSite(plan)
      : openPlaces(under(first, layout), plan, axis, course.from, out),
  )
  const begin = (at: Ex, to: Block): void =>
    whereThere(at, course, to, (there) => {
      const inner = course.scopeAt(at, there)
      early.forEach(({ layout, plan, registers }, i) => {
        loadWords(under(inner, layout), plan, registers, sites[i] ?? plainSite(plan), there)
      })
    })
  begin(course.from, out)
  const next: Block = []
  begin(add(course.start, int(course.step)), next)
  if (during === undefined) body.push(...next)
  else unit.meanwhile.set(during, next)
  return { words }
}

/** Loads the words of an iteration's groups; what lies outside the range becomes zero. */
function loadWords(scope: Scope, plan: LoadPlan, to: Registers, siteOf: SiteOf, out: Block): void {
  const { unit, part, layout } = scope
  const { op } = plan.let
  const { words } = plan
  const { type } = to
  const param = unit.param(op.param).name
  const axes = part.axesOf(plan.let.id)
  const all = Array.from({ length: words }, (_, i) => i)
  forGroups(scope, plan, out, (p, lanes, isInside, body) => {
    const { at: index, there } = siteOf(p, lanes, isInside)
    const name = unit.name(`${param}_w`)
    const first = mul(groupNumber(layout, plan, axes, lanes), int(words))
    const place = (i: number): Ex => registerAt(to, add(first, int(i)))
    const bits = elementBits(unit.param(op.param))
    const load: Block = [{ k: 'vload', name, param, index, bits, words, type }]
    for (const at of all) load.push({ k: 'assign', to: place(at), value: { k: 'comp', type, of: name, words, at } })
    if (isYes(there)) {
      body.push(...load)
      return
    }
    for (const i of all) body.push({ k: 'assign', to: place(i), value: lit(type, 0) })
    body.push({ k: 'if', cond: there, body: load, otherwise: [] })
  })
}

/** How a load is read whose words this thread loaded an iteration early. */
export function readWords(scope: Scope, id: ValueId): WideRead {
  const x = scope.unit.wordsAhead.get(id)
  invariant(x !== undefined, `the words of %${id} were not loaded`)
  return readGroups(scope, x, (lanes) => {
    const first = mul(groupNumber(scope.layout, x, scope.part.axesOf(id), lanes), int(x.words))
    return (i) => registerAt(x.registers, add(first, int(i)))
  })
}
