/**
 * Loads ahead of a loop: what a stage of a matrix product computes from is copied in the background, block after block, while earlier
 * blocks are multiplied. A thread copies what it will read itself, so its copies need no barrier.
 */

import { invariant } from '../../../diagnostics/errors.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import type { LoadPlan } from '../../../schedule/simt/access/loadPlan.ts'
import { copiesArray } from '../../../schedule/simt/access/loads.ts'
import type { Layout } from '../../../schedule/simt/layout/layout.ts'
import type { AheadStage } from '../../../schedule/simt/prefetch/operandPrefetch.ts'
import { elementBits } from '../../../schedule/simt/storage/words.ts'
import { add, and, type Block, bin, type Ex, int, mul, select, uint, v } from '../ir/ir.ts'
import { emitLoops, type Lanes, loopsOf, type Registers, withLane } from '../ir/registers.ts'
import { Point } from '../nest/point.ts'
import { insideAlong, type Scope, tid } from '../nest/scope.ts'
import type { Ahead, LoadAhead, LoadsAhead } from '../unit.ts'
import { positionOf, repeated } from './memory.ts'
import { fromField, shiftOf, takeFieldsOf, wordType } from './packedElements.ts'
import { isThere, moved } from './turned.ts'

/** Makes room for the copies of some blocks. */
export function shareCopies(scope: Scope, plans: readonly LoadPlan[], layout: Layout, copies: number): LoadAhead[] {
  return plans.map((x) => {
    const { type, length } = copiesArray(x, layout, copies)
    return { ...x, array: scope.unit.share(`ahead_${x.let.id}`, type, length) }
  })
}

export function makeAhead(scope: Scope, { let: stage, layout, loads }: AheadStage, copies: number, slot: Ex): Ahead {
  return { stage, layout, loads: shareCopies(scope, loads, layout, copies), slot }
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
      const own = new Point(inner, at)
      if (plan.turned === undefined)
        emit(own, at, and(...axes.map((a) => insideAlong(inner, a, at)), own.predicate(plan.let.op.mask)), body)
      else {
        const p = moved(own, plan.turned)
        emit(p, at, isThere(p, plan.let.op, axes), body)
      }
    }
  })
}

/** Starts the copies of a block; what lies outside the range becomes zero. */
export function startAhead(scope: Scope, { layout, loads }: LoadsAhead, slot: Ex, out: Block): void {
  for (const x of loads) {
    const axes = scope.part.axesOf(x.let.id)
    forGroups(scope.child({ layout }), x, out, (p, lanes, there, body) => {
      const { param, at } = positionOf(p, x.let.op)
      const shift = uint(Math.log2(32 / elementBits(scope.unit.param(param))))
      const from = x.isPart === true ? bin('<<', bin('>>', at, shift), shift) : at
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
  const { axis, n, repeats = 1 } = plan
  const param = scope.unit.param(plan.let.op.param)
  const axes = scope.part.axesOf(plan.let.id)
  const emit = (p: Point, to: Registers, out: Block): void => {
    for (const { first, points } of p.laneGroups(axis, n)) {
      const words = wordsAt(first.lanes, out)
      const all = points.map((q) => q.registerOf(to, axes))
      const targets = all.filter((_, i) => i % repeats === 0)
      const [only] = targets
      if (plan.isPart === true && only !== undefined) {
        const { at } = positionOf(first, plan.let.op)
        const value = fromField(param, bin('>>', words(0), shiftOf(at, elementBits(param))))
        out.push({ k: 'assign', to: only, value })
      } else if (plan.turned !== undefined) {
        const name = scope.unit.name(`${param.name}_turned`)
        out.push({ k: 'let', name, value: { k: 'turn', type: 'u32', a: words(0) } })
        takeFieldsOf(scope, param, () => v('u32', name), targets, out)
      } else takeFieldsOf(scope, param, words, targets, out)
      out.push(...repeated(all, repeats))
    }
  }
  return { axis, emit }
}

/** How a load that was copied ahead is read from there. */
export function readAhead(scope: Scope, id: ValueId): WideRead {
  const { unit, layout, part } = scope
  const { ahead } = unit
  const x = ahead?.loads.find((l) => l.let.id === id)
  invariant(ahead !== undefined && x !== undefined, `%${id} was not copied`)
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
