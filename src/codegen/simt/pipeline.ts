/**
 * Loops that load while they compute: where an iteration meets at barriers, its loads would wait for the iteration before and all of
 * the block for them. What a later iteration loads is therefore on its way while this one computes: copied in the background into
 * a ring of shared memory, or, where nothing copies in the background, loaded into registers one iteration early, packed as it
 * stands in memory. A thread reads only words that it loaded itself, so that none of this needs a barrier.
 */
import { axesOf as axesIn, valuesOf } from '../../index/expr.ts'
import { foldAxes } from '../../kernel/folds.ts'
import { type LetStmt, type LoopStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { allStmts } from '../../schedule/simt/facts.ts'
import {
  forGroups,
  groupNumber,
  type LoadPlan,
  loadPlanOf,
  readGroups,
  shareCopies,
  startAhead,
  threadBytes,
  type WideRead,
} from './ahead.ts'
import { wordType } from './fields.ts'
import { add, type Block, bin, cast, type Ex, indexConstantOf, int, isYes, least, lit, lt, mul, sub, v } from './ir.ts'
import { positionOf } from './memory.ts'
import { quotient } from './quotient.ts'
import { declare, type Registers, registerAt } from './registers.ts'
import type { Scope } from './scope.ts'
import { placeShared } from './shared.ts'
import type { LoadsAhead, WordsAhead } from './unit.ts'

/** Iterations from which a loop is worth it. */
const fewestIterations = 4

/** Bytes of shared memory that rings may take: of a thread, and of a block with everything else it has there. */
const mostThreadBytes = 256
const mostBlockBytes = 72 << 10

/** Registers that a loop may hold, words loaded early included, where nothing bounds what its compiler takes. */
const mostRegisters = 120

/** Bytes that a thread loads for a chunk, up to which its loads leave memory idle. */
const mostChunkBytes = 64

/** Where a loop begins, ends, and stands now, in steps of so many indices. */
export interface Course {
  readonly from: Ex
  readonly to: Ex
  readonly start: Ex
  readonly step: number
  /** The scope of the iteration that begins at a place. */
  readonly scopeAt: (at: Ex, out: Block) => Scope
}

/**
 * Begins the loads of a loop's first iterations, before it, and those of later ones, at its body's head. Returns what the body's
 * loads are read from; undefined where the loop loads as it goes.
 */
export function openPipeline(
  scope: Scope,
  loop: LoopStmt,
  range: Pick<Course, 'from' | 'to' | 'start'>,
  out: Block,
  body: Block,
): Pipeline | undefined {
  const { unit } = scope
  const course: Course = {
    ...range,
    step: loop.block,
    scopeAt: (at) => iterationScope(scope, loop, range.to, at),
  }
  if (!isWorthwhile(scope, loop, range)) return undefined
  const plans = loop.body.flatMap((t) => (t.kind === 'let' ? (planOf(scope, loop.axis, t) ?? []) : []))
  if (plans.length === 0) return undefined
  return unit.machine.hasAsyncCopy
    ? openRing(scope, course, plans, out, body)
    : openRegisters(scope, course, plans, heldBy(scope, loop), out, body)
}

/**
 * The same of a loop over the chunks of an axis, whose statements are `lets`, where nothing copies in the background and registers
 * are what a driver gives: its threads wait for what each chunk loads.
 */
export function openChunkPipeline(
  scope: Scope,
  axis: string,
  lets: readonly LetStmt[],
  course: Course,
  out: Block,
  body: Block,
): Pipeline | undefined {
  const { unit } = scope
  if (!unit.loadsAhead || unit.machine.boundsRegisters || unit.wordsAhead.size > 0) return undefined
  if (scope.layout.axis(axis).size < fewestIterations * course.step) return undefined
  const plans = lets.flatMap((l) => planOf(scope, axis, l) ?? [])
  if (plans.length === 0 || threadBytes(plans) > mostChunkBytes) return undefined
  const loads = new Set(lets.flatMap((l) => (l.op.kind === 'load' ? l.id : [])))
  const ids = new Set([...loads, ...lets.flatMap((l) => operandsOf(l.op))])
  const held = [...ids].filter((id) => scope.held.get(id)?.kind === 'registers' || loads.has(id))
  return openRegisters(scope, course, plans, registersOf(scope, held), out, body)
}

/** What the loads of a loop's body are read from. */
export interface Pipeline {
  readonly ring?: LoadsAhead
  readonly words?: ReadonlyMap<ValueId, WordsAhead>
}

/** Whether threads of several warps meet in each of some iterations, and the loop is no product's. */
function isWorthwhile(
  { part, layout, unit }: Scope,
  loop: LoopStmt,
  { from, to }: Pick<Course, 'from' | 'to'>,
): boolean {
  if (!unit.loadsAhead || unit.cluster > 1 || [...layout.axes.values()].some((a) => a.chunks > 1)) return false
  const extent = (indexConstantOf(to) ?? part.axis(loop.axis).extent) - (indexConstantOf(from) ?? 0)
  if (extent < fewestIterations * loop.block) return false
  const inside = [...allStmts(loop.body)]
  if (inside.some((t) => t.kind === 'loop' || (t.kind === 'let' && t.op.kind === 'stage'))) return false
  return inside.some((t) => t.kind === 'let' && layout.bitsOf(foldAxes(t)).some((b) => b >= unit.machine.laneBits))
}

/** A load of a loop's body that can be made early: nothing of its place is computed in the loop, and nobody writes there. */
function planOf(scope: Scope, axis: string, l: LetStmt): LoadPlan | undefined {
  const { part, unit } = scope
  if (l.op.kind !== 'load' || !part.isMain(l.id)) return undefined
  if (unit.param(l.op.param).access !== 'read' || unit.mayAlias(l.op.param)) return undefined
  const exprs = [...l.op.index, ...l.op.mask.map((b) => b.expr)]
  if (exprs.some((e) => valuesOf(e).size > 0) || !exprs.some((e) => axesIn(e).has(axis))) return undefined
  return loadPlanOf(scope, l)
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

/** As many loads as fit a number of bytes a thread. */
function fitting(plans: readonly LoadPlan[], bytes: number): LoadPlan[] {
  let left = bytes
  return plans.filter((p) => {
    const own = threadBytes([p])
    if (own > left) return false
    left -= own
    return true
  })
}

function openRing(
  scope: Scope,
  course: Course,
  all: readonly LoadPlan[],
  out: Block,
  body: Block,
): Pipeline | undefined {
  const { unit, layout } = scope
  const { from, start } = course
  const room = Math.floor((mostBlockBytes - placeShared(unit.shared).bytes) / layout.threads)
  const bytes = Math.min(mostThreadBytes, room)
  const slots = 3 * threadBytes(all) <= bytes ? 3 : 2
  const plans = fitting(all, bytes / slots)
  if (plans.length === 0) return undefined
  const [laterName, nowName] = [unit.name('slot'), unit.name('slot')]
  const loads = shareCopies(scope, plans, layout, slots)
  const ring: LoadsAhead = { layout, loads, slot: v('i32', nowName) }
  const begin = (at: Ex, slot: Ex, to: Block): void => {
    whereThere(at, course, to, (there) => startAhead(course.scopeAt(at, there), ring, slot, there))
    to.push({ k: 'call', fn: 'copy_commit', args: [] })
  }
  for (let i = 0; i + 1 < slots; i++) begin(add(from, int(i * course.step)), int(i), out)
  const done = sub(start, from)
  const step = Number.isInteger(Math.log2(course.step)) ? quotient(done, course.step) : bin('/', done, int(course.step))
  const slot = (ahead: number): Ex => cast('i32', bin('%', add(step, int(ahead)), int(slots)))
  body.push({ k: 'call', fn: `copy_wait_${slots - 2}`, args: [] })
  body.push({ k: 'let', name: laterName, value: slot(slots - 1) }, { k: 'let', name: nowName, value: slot(0) })
  begin(add(start, int((slots - 1) * course.step)), v('i32', laterName), body)
  return { ring }
}

function openRegisters(
  scope: Scope,
  course: Course,
  all: readonly LoadPlan[],
  held: number,
  out: Block,
  body: Block,
): Pipeline | undefined {
  const { unit } = scope
  const plans = fitting(all, 4 * (mostRegisters - held))
  if (plans.length === 0) return undefined
  const words = new Map<ValueId, WordsAhead>()
  const early = plans.map((plan) => {
    const { param } = plan.let.op
    const type = wordType(unit.param(param))
    const length = plan.groups * plan.words
    const registers: Registers = { name: unit.name(`${param}_ahead`), type, length }
    const now: Registers = { name: unit.name(`${param}_now`), type, length }
    declare(registers, out)
    declare(now, body)
    for (let i = 0; i < length; i++)
      body.push({ k: 'assign', to: registerAt(now, int(i)), value: registerAt(registers, int(i)) })
    words.set(plan.let.id, { ...plan, registers: now })
    return { plan, registers }
  })
  const begin = (at: Ex, to: Block): void =>
    whereThere(at, course, to, (there) => {
      const inner = course.scopeAt(at, there)
      for (const { plan, registers } of early) loadWords(inner, plan, registers, there)
    })
  begin(course.from, out)
  begin(add(course.start, int(course.step)), body)
  return { words }
}

/** Registers of what a loop's body holds: what it carries, reads from outside, and loads. */
function heldBy(scope: Scope, loop: LoopStmt): number {
  const ids = new Set<ValueId>(loop.carries.map((c) => c.param))
  for (const t of allStmts(loop.body)) {
    if (t.kind !== 'let') continue
    if (t.op.kind === 'load') ids.add(t.id)
    for (const o of operandsOf(t.op)) if (scope.held.get(o)?.kind === 'registers') ids.add(o)
  }
  return registersOf(scope, ids)
}

const registersOf = (scope: Scope, ids: Iterable<ValueId>): number =>
  [...ids].reduce((n, id) => n + scope.registers(scope.part.axesOf(id)), 0)

/** Loads the words of an iteration's groups; what lies outside the range becomes zero. */
function loadWords(scope: Scope, plan: LoadPlan, to: Registers, out: Block): void {
  const { unit, part, layout } = scope
  const { op } = plan.let
  const { words } = plan
  const { type } = to
  const param = unit.param(op.param).name
  const axes = part.axesOf(plan.let.id)
  const all = Array.from({ length: words }, (_, i) => i)
  forGroups(scope, plan, out, (p, lanes, there, body) => {
    const name = unit.name(`${param}_w`)
    const first = mul(groupNumber(layout, plan, axes, lanes), int(words))
    const place = (i: number): Ex => registerAt(to, add(first, int(i)))
    const bits = (words * 32) / plan.n
    const load: Block = [{ k: 'vload', name, param, index: positionOf(p, op).at, bits, words, type }]
    for (const at of all) load.push({ k: 'assign', to: place(at), value: { k: 'comp', type, of: name, words, at } })
    if (isYes(there)) {
      body.push(...load)
      return
    }
    for (const i of all) body.push({ k: 'assign', to: place(i), value: lit(type, 0) })
    body.push({ k: 'if', cond: there, body: load, otherwise: [] })
  })
}

/** How a load is read whose words this thread loaded an iteration early; undefined where it did not. */
export function readWords(scope: Scope, id: ValueId): WideRead | undefined {
  const x = scope.unit.wordsAhead.get(id)
  if (x === undefined) return undefined
  return readGroups(scope, x, (lanes) => {
    const first = mul(groupNumber(scope.layout, x, scope.part.axesOf(id), lanes), int(x.words))
    return (i) => registerAt(x.registers, add(first, int(i)))
  })
}
