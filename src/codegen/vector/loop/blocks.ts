/** Emission of a loop over blocks of an axis: its bounds, what it carries from one to the next, the totals of what it folds. */
import type { Carry, ValueId } from '../../../kernel/ir.ts'
import type { BlockSchedule } from '../../../schedule/loop/ir/schedule.ts'
import { definedIn } from '../../../schedule/loop/scheduleLoops.ts'
import * as X from '../ir/expr.ts'
import * as T from '../ir/types.ts'
import { assignReg, copyReg, type Reg } from '../value/lanes.ts'
import type { Index } from '../value/scope.ts'
import type { Values } from '../value/values.ts'
import { carriedInRegister, carriedInTile, countRounds } from './carriedTotals.ts'
import { bindBlock, endOf } from './loops.ts'
import { emitNest } from './nest.ts'
import { emitCopyStep } from './pack.ts'

/** Blocks of an axis in order; `body` emits one. */
export function emitBlocks(values: Values, step: BlockSchedule, body: () => void): void {
  const { scope, f } = values
  const { stmt: s, axes } = step
  const level = scope.depth
  const outer = values.axes
  const view = axes.view(s.axis)
  const whole = endOf(values, view)
  const from: Index = s.from === undefined ? 0 : bounded(values, s.from, 0, 'gt_s')
  const to: Index = s.to === undefined ? whole : bounded(values, s.to, whole, 'lt_s')
  const states = new Map<Carry, Reg>()
  for (const carry of step.registers) {
    const init = values.element(carry.init)
    scope.here(() => {
      states.set(carry, { ...copyReg(f, init), dtype: carry.dtype })
    })
  }
  for (const fill of step.fills) {
    if (fill.kind === 'copy') emitCopyStep(values, fill)
    else emitNest(values, fill)
  }
  const folds = carriedFolds(values, step, states)
  const counter = f.register(T.i32)
  scope.push()
  values.axes = axes
  bindBlock(values, view, s.block, counter, to)
  for (const [{ param }, reg] of states) values.setHome(param, { kind: 'register', reg, depth: scope.depth })
  for (const c of step.tiles)
    values.setHome(c.carry.param, { kind: 'tile', tile: c.tile, depth: scope.depth, round: false })
  body()
  const nexts = step.registers.map((c) => values.element(c.next))
  scope.here(() => {
    // All next states stand in registers of their own before any is overwritten.
    const copies = nexts.map((r) => copyReg(f, r))
    step.registers.forEach((c, i) => {
      const [state, next] = [states.get(c), copies[i]]
      if (state !== undefined && next !== undefined) assignReg(f, state, next)
    })
    for (const c of step.tiles) {
      if (c.write === undefined || c.write === c.tile) continue
      const [to, from] = [c.tile, c.write].map((t) => X.add(values.scratch, t.offset))
      if (to !== undefined && from !== undefined) f.copy(to, from, c.tile.bytes)
    }
    folds.close()
  })
  values.axes = outer
  const { block } = scope.pop()
  scope.here(() => {
    f.for(counter, from, to, s.block, () => f.splice(block))
    folds.finish()
  })
  for (const id of definedIn(s.body)) values.dropHome(id)
  for (const [{ param, result }, reg] of states) {
    values.dropHome(param)
    values.setHome(result, { kind: 'register', reg, depth: level })
  }
  for (const { carry, tile } of step.tiles) {
    values.dropHome(carry.param)
    values.setHome(carry.result, { kind: 'tile', tile, depth: level, round: false })
  }
}

/** A loop's bound: it narrows the axis, never widens it. */
function bounded(values: Values, id: ValueId, limit: Index, keeps: 'gt_s' | 'lt_s'): Index {
  const { scope, f } = values
  const x = scope.valueIndex(id)
  const out = f.register(T.i32)
  scope.here(() => f.assign(out, X.select(X.compare(keeps, x, limit), x, limit)))
  return out
}

/** Begins the totals of what a loop carries. */
function carriedFolds(
  values: Values,
  { carried, closes, tiles }: BlockSchedule,
  states: ReadonlyMap<Carry, Reg>,
): { readonly close: () => void; readonly finish: () => void } {
  const folds = carried.flatMap(({ carry, combiner, tiles: totals }) => {
    const tile = tiles.find((c) => c.carry === carry)?.tile
    if (tile !== undefined) return carriedInTile(values, combiner, [tile, ...(totals ?? [])])
    const state = states.get(carry)
    return state === undefined ? [] : carriedInRegister(values, combiner, state, closes.length)
  })
  if (folds.length === 0) return { close: () => undefined, finish: () => undefined }
  return {
    close: countRounds(values, closes, folds),
    finish: () => {
      for (const fold of folds) fold.finish()
    },
  }
}
