/**
 * The greatest or least of windows that overlap, by windows of twice the length: the greatest of two windows that meet or overlap is that of both, so a window
 * of w taps takes as many steps as w has bits, whatever is computed of the operand is computed once, and windows over several axes go along one after
 * another. What each step makes stands in a tile. Sums of windows take their taps in order; where their operand is dear (16-bit
 * floats are converted), it is what stands in a tile.
 */
import * as ix from '../../affine/expr.ts'
import { startOf } from '../../kernel/axes.ts'
import type { KernelAxis, KernelPart, LetStmt, Stmt, ValueId } from '../../kernel/ir.ts'
import type { LoopMachine } from '../../target/loops.ts'
import { priceOf } from '../../target/prices.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import { foldsOf, type LoopSchedule } from './ir/schedule.ts'
import type { Fold } from './ir/steps.ts'
import { type Axes, readMargin, tileBytes } from './ir/tile.ts'
import { motionOf } from './nest/motion.ts'
import { bytePosition } from './nest/position.ts'
import { type Place, Terms } from './nest/terms.ts'
import { foldSeconds, loopStatementSeconds } from './price/terms.ts'
import type { KernelFacts } from './tiles/places.ts'

/** The operation that folds extremes; undefined of other folds. */
type Extreme = 'max' | 'min'
const extremeOf = ({ combiner }: Fold): Extreme | undefined =>
  combiner === 'max' || combiner === 'min' ? combiner : undefined

/** Windows along an axis: one begins `step` places after the one before, its taps are `apart` places from each other; one of these is 1. */
interface Windows {
  readonly axis: string
  readonly taps: string
  readonly count: number
  readonly length: number
  readonly step: number
  readonly apart: number
}

/** Part of its time that a sum takes at most once its operand stands in a tile: what is read there waits for what is written. */
const leastGain = 0.75

/** Places that so many windows go over whose taps reach so far. */
const placesOf = ({ count, step }: Windows, reach: number): number => step * (count - 1) + reach + 1

/** Steps of doubling before the last one, which joins two windows that overlap: each is of half the taps or more. */
const doublings = ({ length }: Windows): number => Math.max(0, Math.ceil(Math.log2(length)) - 1)

/** The part with its windows' extremes by doubling, where that takes less; undefined where there are none. */
export function doubledWindows({ part, axes, body }: LoopSchedule, facts: KernelFacts): KernelPart | undefined {
  const { loops } = facts.machine
  if (loops === undefined || part.body.some((s) => s.kind === 'loop')) return undefined
  const folds = body.steps
    .flatMap((s) => (s.kind === 'nest' && s.slide === undefined ? foldsOf(s) : []))
    .filter((fold) => extremeOf(fold) !== undefined)
  if (folds.length === 0) return undefined
  const doubler = new Doubler(part, axes, facts, loops)
  const made = new Map<ValueId, readonly LetStmt[]>()
  for (const fold of folds) {
    const stmts = doubler.of(fold)
    if (stmts !== undefined) made.set(fold.id, stmts)
  }
  return made.size === 0 ? undefined : withMade(part, made, doubler.axes)
}

/**
 * The part with operands of window sums in tiles, where computing them for each tap takes longer (16-bit floats are converted as they are read); undefined where
 * there are none. The sums and their order stay.
 */
export function stagedWindows({ part, axes, body }: LoopSchedule, facts: KernelFacts): KernelPart | undefined {
  const { loops } = facts.machine
  if (loops === undefined || part.body.some((s) => s.kind === 'loop')) return undefined
  const doubler = new Doubler(part, axes, facts, loops)
  const made = new Map<ValueId, readonly LetStmt[]>()
  for (const step of body.steps)
    for (const fold of step.kind === 'nest' ? foldsOf(step) : []) {
      const stmts = doubler.staged(fold)
      if (stmts !== undefined) made.set(fold.id, stmts)
    }
  return made.size === 0 ? undefined : withMade(part, made, doubler.axes)
}

const withMade = (
  part: KernelPart,
  made: ReadonlyMap<ValueId, readonly LetStmt[]>,
  axes: readonly KernelAxis[],
): KernelPart => ({
  ...part,
  axes: [...part.axes, ...axes],
  body: part.body.flatMap((s): readonly Stmt[] => (s.kind === 'let' ? (made.get(s.id) ?? [s]) : [s])),
})

class Doubler {
  /** Axes of places. */
  readonly axes: KernelAxis[] = []
  private readonly terms: Terms
  private readonly views: Axes
  private readonly facts: KernelFacts
  private readonly loops: LoopMachine

  constructor(part: KernelPart, views: Axes, facts: KernelFacts, loops: LoopMachine) {
    this.terms = new Terms(part, views)
    this.views = views
    this.facts = facts
    this.loops = loops
  }

  /** The statements that make a fold so; undefined where it is none of such windows, or they would take longer. */
  of(fold: Fold): LetStmt[] | undefined {
    const l = this.terms.lets.get(fold.id)
    if (l?.op.kind !== 'reduce' || l.dtype === 'bool' || this.terms.isStaged(fold.id)) return undefined
    const op = extremeOf(fold)
    if (op === undefined) return undefined
    const windows = this.windowsOf(fold)
    if (windows === undefined) return undefined
    const own = new Set<ValueId>()
    const along = windows.flatMap(({ axis, taps }) => [axis, taps])
    if (!this.terms.isInline(fold, along, own)) return undefined
    if (!this.mayPass(own, windows) || !this.pays(op, fold, windows, own)) return undefined
    return this.made(op, fold, l, windows)
  }

  /** The statements of a sum whose operand stands in a tile; undefined where it is none of windows, or that takes longer. */
  staged(fold: Fold): LetStmt[] | undefined {
    const l = this.terms.lets.get(fold.id)
    const [root] = fold.args
    const arg = root === undefined ? undefined : this.terms.lets.get(root)
    if (l?.op.kind !== 'reduce' || l.op.combiner !== 'sum' || fold.acc !== undefined || arg === undefined)
      return undefined
    if (arg.dtype === 'bool' || this.terms.isStaged(fold.id)) return undefined
    const windows = this.windowsOf(fold)
    const own = new Set<ValueId>()
    if (windows === undefined || windows.length !== 1) return undefined
    const along = windows.flatMap(({ axis, taps }) => [axis, taps])
    if (!this.terms.isInline(fold, along, own) || !this.mayPass(own, windows)) return undefined
    const { whole, lanes, entry, round, partial, own: near } = this.loops
    const others = this.terms.countOf(fold.kept.filter((a) => !windows.some((w) => w.axis === a)))
    // Most steps read without their masks.
    const each = this.secondsOf(own, false)
    const places = windows.reduce((n, w) => n * placesOf(w, w.apart * (w.length - 1)), others)
    const seconds = others * (entry + partial) + places * (each + (whole + round) / lanes)
    const read = this.folding(fold, windows, others, whole / lanes)
    if (seconds + read >= leastGain * this.folding(fold, windows, others, each)) return undefined
    if (places * tileBytes(arg.dtype) > near / 2) return undefined
    const { names, value, stmts } = this.placed(arg.id, windows)
    const [tile, element] = [this.terms.fresh(), this.terms.fresh()]
    const index = Object.fromEntries(
      windows.map((w): [string, ix.Expr] => {
        const first = ix.mul(this.views.relative(w.axis), w.step)
        const tap = ix.mul(ix.axis(w.taps, w.length), w.apart)
        return [names.get(w.axis) ?? '', ix.add(first, tap)]
      }),
    )
    const axes = l.axes.map((a) => names.get(a) ?? a)
    stmts.push({ ...arg, id: tile, axes, op: { kind: 'stage', of: value } })
    stmts.push({ ...arg, id: element, op: { kind: 'at', of: tile, index } })
    return [...stmts, { ...l, op: { ...l.op, arg: element } }]
  }

  /** A value at all places that windows go over, the statements that make it there, and the axes of places by those of the windows. */
  private placed(
    id: ValueId,
    windows: readonly Windows[],
  ): { readonly names: Map<string, string>; readonly value: ValueId; readonly stmts: LetStmt[] } {
    const names = new Map(windows.map((w) => [w.axis, this.named(w, 0, w.apart * (w.length - 1))]))
    const at: Place = new Map(windows.flatMap((w) => this.placeAt(w, this.places(names.get(w.axis) ?? ''))))
    const value = this.terms.at(id, at, new Map())
    const stmts = this.terms.take().map((s) => ({ ...s, axes: s.axes.filter((a) => startOf(a) === undefined) }))
    return { names, value, stmts }
  }

  /** Windows along each folded axis, the innermost first. */
  private windowsOf(fold: Fold): Windows[] | undefined {
    const found: Windows[] = []
    for (const taps of fold.axes.toReversed()) {
      if (!this.terms.isWhole(taps)) return undefined
      const windows = fold.kept.flatMap((axis): Windows[] => {
        if (found.some((w) => w.axis === axis) || this.views.view(axis).open !== undefined) return []
        const motion = motionOf(this.terms, fold, axis, taps)
        if (motion === undefined) return []
        // Windows that do not overlap share nothing.
        if (motion.stride >= this.views.view(taps).extent) return []
        const [count, length] = [this.views.view(axis).max, this.views.view(taps).extent]
        return [{ axis, taps, count, length, step: motion.stride, apart: motion.apart }]
      })
      if (windows[0] === undefined) return undefined
      found.push(windows[0])
    }
    return found
  }

  /** Where a window's first tap stands, in indices of its axis and its taps, for a place. */
  private placeAt({ axis, taps, step }: Windows, place: ix.Expr): [string, ix.Expr][] {
    const { moves, extent } = this.views.view(axis)
    const start = moves ? ix.axis(`${axis}.start`, extent) : ix.constant(0)
    return step === 1
      ? [
          [axis, ix.add(start, place)],
          [taps, ix.constant(0)],
        ]
      : [
          [axis, start],
          [taps, place],
        ]
  }

  /** Whether all that is read at places beyond the last window's, in a block that is not whole, lies in memory. */
  private mayPass(own: ReadonlySet<ValueId>, windows: readonly Windows[]): boolean {
    for (const id of own) {
      const op = this.terms.lets.get(id)?.op
      if (op?.kind !== 'load') continue
      const p = this.facts.params.get(op.param)
      if (p === undefined || p.format !== 'plain' || op.maskValue !== undefined) return false
      const position = bytePosition(p, op.index)
      if (ix.valuesOf(position).size > 0) return false
      const passed = windows.reduce((n, { axis }) => {
        const { extent, max } = this.views.view(axis)
        return n + (Math.ceil(extent / max) * max - extent) * Math.abs(ix.strideOf(position, axis) ?? 0)
      }, 0)
      const [{ lo, hi }, unit] = [ix.rangeOf(position), dtypeBytes(p.dtype)]
      if (passed - lo > readMargin || hi + passed + unit > sizeOf(p.shape) * unit + readMargin) return false
    }
    return true
  }

  /** Whether doubling takes less than folding all taps of each window, in tiles that stay beside the core. */
  private pays(op: Extreme, fold: Fold, windows: readonly Windows[], own: ReadonlySet<ValueId>): boolean {
    const others = this.terms.countOf(fold.kept.filter((a) => !windows.some((w) => w.axis === a)))
    const each = this.secondsOf(own)
    const { seconds, bytes } = this.doubling(op, fold, windows, others, each)
    return seconds < this.folding(fold, windows, others, each) && bytes <= this.loops.own / 2
  }

  /** Seconds of what is computed at a place: operations, reads, and asking what masks allow where these are `asked`. */
  private secondsOf(own: ReadonlySet<ValueId>, asked = true): number {
    const { lets } = this.terms
    const { prices } = this.facts.machine
    const { whole, masked, lanes } = this.loops
    return [...own].reduce((n, id) => {
      const l = lets.get(id)
      if (l === undefined) return n
      const seconds = n + loopStatementSeconds(l, (i) => lets.get(i) ?? l, prices)
      if (l.op.kind !== 'load') return seconds
      return seconds + (whole + (asked && l.op.mask.length > 0 ? masked : 0)) / lanes
    }, 0)
  }

  /** Seconds of folding every tap of every window: a loop for each axis of taps, inside the lanes. */
  private folding(fold: Fold, windows: readonly Windows[], others: number, each: number): number {
    const { lanes, entry, round } = this.loops
    const points = windows.reduce((n, w) => n * w.count, others)
    let [taps, loops] = [1, 0]
    for (const { length } of windows.toReversed()) {
      loops += taps * (entry + length * round)
      taps *= length
    }
    const step = each + foldSeconds(fold.combiner, fold.dtype, this.facts.machine.prices, false)
    return points * (taps * step + loops / lanes)
  }

  /** Seconds of the steps that double windows, and bytes of what they keep. */
  private doubling(
    op: Extreme,
    fold: Fold,
    windows: readonly Windows[],
    others: number,
    each: number,
  ): { readonly seconds: number; readonly bytes: number } {
    const { whole, lanes, entry, round, partial } = this.loops
    // Of each window the places that steps before leave, then those of windows.
    const sizes = windows.map((w) => placesOf(w, w.apart * (w.length - 1)))
    const join = priceOf(op, fold.dtype, this.facts.machine.prices) + (2 * whole) / lanes
    let [seconds, bytes] = [0, 0]
    const pass = (point: number): void => {
      const [points, rows] = [sizes.reduce((n, s) => n * s, others), sizes.slice(1).reduce((n, s) => n * s, others)]
      seconds += rows * (entry + partial) + points * (point + (whole + round) / lanes)
      bytes += points * tileBytes(fold.dtype)
    }
    pass(each)
    windows.forEach((w, i) => {
      for (let k = 0; k < doublings(w); k++) {
        sizes[i] = placesOf(w, w.apart * (w.length - 2 ** (k + 1)))
        pass(join)
      }
      sizes[i] = w.count
      pass(join)
    })
    return { seconds, bytes }
  }

  private made(op: Extreme, fold: Fold, l: LetStmt, windows: readonly Windows[]): LetStmt[] {
    const { terms } = this
    const [arg = fold.id] = fold.args
    const { names, value: operand, stmts } = this.placed(arg, windows)
    let value = operand
    const emit = (axes: readonly string[], o: LetStmt['op']): ValueId => {
      const id = terms.fresh()
      stmts.push({ ...l, id, axes, op: o })
      return id
    }
    const axesOf = (): string[] => l.axes.map((a) => names.get(a) ?? a)
    for (const w of windows) {
      let [have, from] = [1, names.get(w.axis) ?? '']
      const joined = (tile: ValueId, first: ix.Expr, second: ix.Expr): ValueId => {
        const [x, y] = [first, second].map((e) => emit(axesOf(), { kind: 'at', of: tile, index: { [from]: e } }))
        return emit(axesOf(), { kind: 'scalar', op, args: [x ?? tile, y ?? tile] })
      }
      for (let k = 0; k < doublings(w); k++) {
        const tile = emit(axesOf(), { kind: 'stage', of: value })
        const next = this.named(w, k + 1, w.apart * (w.length - 2 * have))
        names.set(w.axis, next)
        value = joined(tile, this.places(next), ix.addConst(this.places(next), w.apart * have))
        from = next
        have *= 2
      }
      const tile = emit(axesOf(), { kind: 'stage', of: value })
      names.delete(w.axis)
      const first = ix.mul(this.views.relative(w.axis), w.step)
      value = joined(tile, first, ix.addConst(first, w.apart * (w.length - have)))
    }
    const last = stmts.pop()
    return last === undefined ? [] : [...stmts, { ...last, id: fold.id }]
  }

  private places(name: string): ix.Expr {
    return ix.axis(name, this.axes.find((a) => a.name === name)?.extent ?? 1)
  }

  /** An axis of the places of windows whose taps reach so far, after so many doublings. */
  private named(w: Windows, times: number, reach: number): string {
    let name = `${w.axis}_${w.taps}_${2 ** times}`
    while (this.views.views.has(name) || this.axes.some((a) => a.name === name)) name += '_'
    this.axes.push({ name, extent: placesOf(w, reach) })
    return name
  }
}
