/**
 * Loads ahead of a loop: what a stage of a matrix product computes from is copied in the background, block after block, while earlier
 * blocks are multiplied. A thread copies what it will read itself, so its copies need no barrier.
 */
import { invariant } from '../../diagnostics/errors.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { takeFields, wordType } from './fields.ts'
import { add, and, type Block, type Ex, int, mul, select } from './ir.ts'
import type { Layout } from './layout.ts'
import { groupOf, positionOf } from './memory.ts'
import { Point } from './point.ts'
import {
  type Ahead,
  emitLoops,
  insideAlong,
  type Lanes,
  type LoadAhead,
  type LoadStmt,
  type LoadsAhead,
  loopsOf,
  type Registers,
  registerAt,
  registerIndex,
  type Scope,
  tid,
  withLane,
} from './scope.ts'
import { isPlaced } from './stage.ts'
import { elementBits } from './words.ts'

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
  const layout = part.stageLayout(l, { ...unit.limits, registers: mostRegisters }, scope.layout.threads)
  if ([...layout.axes.values()].some((a) => a.chunks > 1)) return undefined
  const inner = scope.child({ layout, bases: new Map() })
  const loads: LoadPlan[] = []
  for (const x of part.closureOf([l.op.of]).lets) {
    if (x.op.kind !== 'load' || !part.axesOf(x.id).includes(axis)) continue
    const load = isPlaced(scope, x.op) ? loadPlanOf(inner, x) : undefined
    if (load === undefined) return undefined
    loads.push(load)
  }
  const bytes = loads.reduce((n, x) => n + x.groups * x.words * 4, 0) * layout.threads
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

/** Makes room for the copies of some blocks. */
export function makeAhead(scope: Scope, plan: AheadPlan, copies: number, slot: Ex): Ahead {
  const loads = plan.plans.map((x) => {
    const length = x.groups * x.words * plan.layout.threads * copies
    return { ...x, array: scope.unit.share(`ahead_${x.let.id}`, 'u32', length) }
  })
  return { stage: plan.stage, layout: plan.layout, loads, slot }
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

/** Starts the copies of a block; what lies outside the range becomes zero. */
export function startAhead(scope: Scope, ahead: LoadsAhead, slot: Ex, out: Block): void {
  for (const x of ahead.loads) {
    const { op } = x.let
    invariant(op.kind === 'load', 'not a load')
    const axes = scope.part.axesOf(x.let.id)
    const inner = scope.child({ layout: ahead.layout, bases: new Map() }).openWhole(axes, out)
    const loops = ahead.layout.spread(axes).flatMap((a) => loopsOf(ahead.layout, a.name, x.axis))
    const { vec } = ahead.layout.axis(x.axis)
    emitLoops(inner, loops, out, (lanes, body) => {
      for (let lane = 0; lane < vec; lane += x.n) {
        const at = withLane(lanes, x.axis, lane)
        const p = new Point(inner, at)
        const there = and(...axes.map((a) => insideAlong(inner, a, at)), p.predicate(op.mask))
        const { param, at: from } = positionOf(p, op)
        const to = wordOf(ahead.layout, x, axes, slot, at)
        body.push({
          k: 'call',
          fn: `copy_words_${x.words}`,
          args: [
            { k: 'address', type: 'u32', of: x.array.name, index: to },
            { k: 'address', type: 'u32', of: param, index: select(there, from, int(0)) },
            there,
          ],
        })
      }
    })
  }
}

/** The blocks' current copies, while a stage is computed under its layout. */
const copyOf = (scope: Scope, id: ValueId): LoadAhead | undefined =>
  scope.unit.ahead?.layout === scope.layout ? scope.unit.ahead.loads.find((l) => l.let.id === id) : undefined

/** How a load that was copied ahead is read from there, into registers; undefined where it was not. */
export function readAhead(
  scope: Scope,
  id: ValueId,
): { readonly axis: string; readonly emit: (p: Point, to: Registers, out: Block) => void } | undefined {
  const { ahead } = scope.unit
  const x = copyOf(scope, id)
  if (ahead === undefined || x?.let.op.kind !== 'load') return undefined
  const { axis, n, words } = x
  const param = scope.unit.param(x.let.op.param)
  const axes = scope.part.axesOf(id)
  const emit = (p: Point, to: Registers, out: Block): void => {
    const { vec } = scope.layout.axis(axis)
    for (let lane = 0; lane < vec; lane += n) {
      const lanes = withLane(p.lanes, axis, lane)
      const name = scope.unit.name(`${param.name}_w`)
      const index = wordOf(ahead.layout, x, axes, ahead.slot, lanes)
      out.push({ k: 'vload', name, param: x.array.name, index, bits: 32, words, type: wordType(param) })
      const target = (i: number): Ex =>
        registerAt(to, registerIndex(scope.layout, axes, withLane(p.lanes, axis, lane + i)))
      takeFields(scope, param, name, n, target, out)
    }
  }
  return { axis, emit }
}
