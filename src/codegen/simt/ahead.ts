/**
 * Loads ahead of a loop: what a stage of a matrix product computes from is copied in the background, block after block, while earlier
 * blocks are multiplied. A thread copies what it will read itself, so its copies need no barrier.
 */

import { invariant } from '../../diagnostics/errors.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import type { Layout } from '../../schedule/simt/layout.ts'
import { stageLayout } from '../../schedule/simt/partLayout.ts'
import { elementBits } from '../../schedule/simt/words.ts'
import { takeFieldsOf, wordType } from './fields.ts'
import { add, and, type Block, type Ex, int, mul, select } from './ir.ts'
import { groupOf, positionOf } from './memory.ts'
import { Point } from './point.ts'
import { emitLoops, type Lanes, loopsOf, type Registers, withLane } from './registers.ts'
import { insideAlong, type Scope, tid } from './scope.ts'
import { isPlaced } from './stage.ts'
import type { Ahead, LoadAhead, LoadStmt, LoadsAhead } from './unit.ts'

/** A load that can be made before it is needed, its place for the words aside. */
export type LoadPlan = Omit<LoadAhead, 'array'>

export interface AheadPlan {
  readonly stage: LetStmt
  readonly layout: Layout
  readonly plans: readonly LoadPlan[]
  /** Bytes of a block's loads. */
  readonly bytes: number
}

/** Registers for the values of a stage that is loaded ahead. */
const mostRegisters = 64

/** What can be copied ahead for a stage of a loop over an axis, if all that varies along it can. */
export function aheadOf(scope: Scope, l: LetStmt, axis: string): AheadPlan | undefined {
  const { part, unit } = scope
  if (l.op.kind !== 'stage' || !part.ownStages.has(l.id) || part.productOn(l.id) === undefined) return undefined
  const layout = stageLayout(part, l, { ...unit.machine, registers: mostRegisters }, scope.layout.threads)
  if ([...layout.axes.values()].some((a) => a.chunks > 1)) return undefined
  const inner = scope.child({ layout, bases: new Map() })
  const loads: LoadPlan[] = []
  for (const x of part.closureOf([l.op.of]).lets) {
    if (x.op.kind !== 'load' || !part.axesOf(x.id).includes(axis)) continue
    const load = isPlaced(scope, x.op) ? loadPlanOf(inner, x) : undefined
    if (load === undefined) return undefined
    loads.push(load)
  }
  const bytes = threadBytes(loads) * layout.threads
  return loads.length === 0 ? undefined : { stage: l, layout, plans: loads, bytes }
}

/** How a load goes in whole groups of words, zeros where it has nothing to load; undefined where it does not. */
export function loadPlanOf(scope: Scope, l: LetStmt): LoadPlan | undefined {
  const { part, unit, layout } = scope
  if (!isLoad(l)) return undefined
  const { op } = l
  const axes = part.axesOf(l.id)
  const group = groupOf(scope, op, axes)
  const param = unit.param(op.param)
  if (op.maskValue !== undefined || !Object.is(op.other, 0) || param.format !== 'plain' || group?.whole !== true)
    return undefined
  const words = (group.n * elementBits(param)) / 32
  if (!Number.isInteger(words)) return undefined
  const elements = layout.spread(axes).reduce((n, a) => n * a.reps * a.vec, 1)
  return { let: l, axis: group.axis, n: group.n, words, groups: elements / group.n }
}

const isLoad = (l: LetStmt): l is LoadStmt => l.op.kind === 'load'

/** Bytes of a thread's words of some loads. */
export const threadBytes = (plans: readonly LoadPlan[]): number => plans.reduce((n, x) => n + x.groups * x.words * 4, 0)

/** Makes room for the copies of some blocks. */
export function shareCopies(scope: Scope, plans: readonly LoadPlan[], layout: Layout, copies: number): LoadAhead[] {
  return plans.map((x) => {
    const length = x.groups * x.words * layout.threads * copies
    return { ...x, array: scope.unit.share(`ahead_${x.let.id}`, 'u32', length) }
  })
}

export function makeAhead(scope: Scope, { stage, layout, plans }: AheadPlan, copies: number, slot: Ex): Ahead {
  return { stage, layout, loads: shareCopies(scope, plans, layout, copies), slot }
}

/** The number of a group among a thread's. */
export function groupNumber(
  layout: Layout,
  x: Pick<LoadPlan, 'axis' | 'n'>,
  axes: readonly string[],
  lanes: Lanes,
): Ex {
  let group: Ex = int(0)
  for (const a of layout.spread(axes)) {
    const at = lanes.get(a.name)
    const grouped = a.name === x.axis
    const within = grouped ? a.vec / x.n : a.vec
    const lane = at?.lane ?? int(0)
    invariant(!grouped || lane.k === 'lit', 'groups of lanes are written out')
    const piece = grouped && lane.k === 'lit' ? int(Number(lane.value) / x.n) : lane
    group = add(mul(group, int(a.reps * within)), add(mul(at?.rep ?? int(0), int(within)), piece))
  }
  return group
}

/** The word at which a thread's copy of a group begins. */
function wordOf(layout: Layout, x: LoadAhead, axes: readonly string[], slot: Ex, lanes: Lanes): Ex {
  const group = groupNumber(layout, x, axes, lanes)
  const place = add(mul(add(mul(slot, int(x.groups)), group), int(layout.threads)), tid)
  return mul(place, int(x.words))
}

/** Walks a load's groups: `emit` gets the point of each, its lanes, and whether there is something to load. */
export function forGroups(
  scope: Scope,
  plan: LoadPlan,
  out: Block,
  emit: (p: Point, lanes: Lanes, there: Ex, body: Block) => void,
): void {
  const { layout, part } = scope
  const axes = part.axesOf(plan.let.id)
  const inner = scope.openWhole(axes, out)
  const loops = layout.spread(axes).flatMap((a) => loopsOf(layout, a.name, plan.axis))
  const { vec } = layout.axis(plan.axis)
  emitLoops(inner, loops, out, (lanes, body) => {
    for (let lane = 0; lane < vec; lane += plan.n) {
      const at = withLane(lanes, plan.axis, lane)
      const p = new Point(inner, at)
      emit(p, at, and(...axes.map((a) => insideAlong(inner, a, at)), p.predicate(plan.let.op.mask)), body)
    }
  })
}

/** Starts the copies of a block; what lies outside the range becomes zero. */
export function startAhead(scope: Scope, { layout, loads }: LoadsAhead, slot: Ex, out: Block): void {
  for (const x of loads) {
    const axes = scope.part.axesOf(x.let.id)
    forGroups(scope.child({ layout }), x, out, (p, lanes, there, body) => {
      const { param, at: from } = positionOf(p, x.let.op)
      body.push({
        k: 'call',
        fn: `copy_words_${x.words}`,
        args: [
          { k: 'address', type: 'u32', of: x.array.name, index: wordOf(layout, x, axes, slot, lanes) },
          { k: 'address', type: 'u32', of: param, index: select(there, from, int(0)) },
          there,
        ],
      })
    })
  }
}

/** How a load is read, along an axis, into registers. */
export interface WideRead {
  readonly axis: string
  readonly emit: (p: Point, to: Registers, out: Block) => void
}

/** Reads a load's elements from words that the thread has already; `wordsAt` gives those of the group at a point, by number. */
export function readGroups(
  scope: Scope,
  plan: LoadPlan,
  wordsAt: (lanes: Lanes, out: Block) => (i: number) => Ex,
): WideRead {
  const { axis, n } = plan
  const param = scope.unit.param(plan.let.op.param)
  const axes = scope.part.axesOf(plan.let.id)
  const emit = (p: Point, to: Registers, out: Block): void => {
    for (const { first, points } of p.laneGroups(axis, n)) {
      const words = wordsAt(first.lanes, out)
      const targets = points.map((q) => q.registerOf(to, axes))
      takeFieldsOf(scope, param, words, targets, out)
    }
  }
  return { axis, emit }
}

/** The blocks' current copies, while a stage is computed under its layout. */
const copyOf = (scope: Scope, id: ValueId): LoadAhead | undefined =>
  scope.unit.ahead?.layout === scope.layout ? scope.unit.ahead.loads.find((l) => l.let.id === id) : undefined

/** How a load that was copied ahead is read from there; undefined where it was not. */
export function readAhead(scope: Scope, id: ValueId): WideRead | undefined {
  const { unit, layout, part } = scope
  const { ahead } = unit
  const x = copyOf(scope, id)
  if (ahead === undefined || x === undefined) return undefined
  const { words } = x
  const param = unit.param(x.let.op.param)
  const type = wordType(param)
  return readGroups(scope, x, (lanes, out) => {
    const name = unit.name(`${param.name}_w`)
    const index = wordOf(layout, x, part.axesOf(id), ahead.slot, lanes)
    out.push({ k: 'vload', name, param: x.array.name, index, bits: 32, words, type })
    return (at) => ({ k: 'comp', type, of: name, words, at })
  })
}
