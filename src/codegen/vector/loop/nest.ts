/** Emission of a loop nest: loops in the scheduled order, the vector axis in whole and partial steps, folds, stores. */

import { axis as axisExpr, constant, substitute } from '../../../affine/expr.ts'
import { invariant } from '../../../diagnostics/errors.ts'
import { type Fetch, foldsOf, type InnerSteps, type NestSchedule } from '../../../schedule/loop/ir/schedule.ts'
import type { Fold, Root } from '../../../schedule/loop/ir/steps.ts'
import type { Tile } from '../../../schedule/loop/ir/tile.ts'
import { cacheLine } from '../../../target/loops.ts'
import { computeDType } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import * as T from '../ir/types.ts'
import { addressOf, depthOf, predicateElement } from '../value/laneIndex.ts'
import type { Reg } from '../value/lanes.ts'
import { part } from '../value/reg.ts'
import type { Index } from '../value/scope.ts'
import { emitStore, emitTileStore } from '../value/store.ts'
import type { Values } from '../value/values.ts'
import { Accumulator } from './fold.ts'
import { startOfFold, stepInTile, TotalsInMemory } from './foldInMemory.ts'
import { emitJoined } from './joined.ts'
import { axisBounds, type Blocks, countedLoop } from './loops.ts'
import { emitSlide } from './slide.ts'
import { vectorLoop, wholeSteps } from './vectorLoop.ts'

export function emitNest(values: Values, schedule: NestSchedule): void {
  new NestEmitter(values, schedule).emit()
}

class NestEmitter {
  private readonly values: Values
  private readonly schedule: NestSchedule
  private readonly folds: readonly Fold[]
  private readonly keptCount: number
  private readonly accumulators: Accumulator[] = []
  /** Those that the innermost loop takes. */
  private running: readonly Accumulator[] = []
  /** A register result of a fold without kept axes. */
  private readonly results = new Map<number, Reg>()

  constructor(values: Values, schedule: NestSchedule) {
    this.values = values
    this.schedule = schedule
    this.folds = foldsOf(schedule)
    this.keptCount = schedule.order.length - schedule.folded.length
  }

  emit(): void {
    const { values } = this
    const level = values.scope.depth
    if (this.schedule.joined === undefined) this.loops()
    else emitJoined(values, this.schedule.joined, () => this.loops())
    for (const r of this.schedule.roots) {
      if (r.kind === 'keep' && r.home) values.setHome(r.id, { kind: 'tile', tile: r.tile, depth: level, round: false })
      if (r.kind !== 'fold') continue
      const { id } = r.fold
      if (this.schedule.slide !== undefined && this.schedule.roots.length > 1) continue
      const reg = this.results.get(id)
      if (reg !== undefined) values.setHome(id, { kind: 'register', reg, depth: level })
      else values.setHome(id, { kind: 'tile', tile: this.tileOf(id), depth: level, round: this.roundsLate(r.fold) })
    }
  }

  private loops(): void {
    if (this.schedule.inMemory) this.loopInMemory(0)
    else this.loop(0)
  }

  private tileOf(id: number): Tile {
    const tile = this.schedule.results.get(id)
    invariant(tile !== undefined, `fold %${id} has no result`)
    return tile
  }

  /** Accumulators in memory hold half precision unrounded. */
  private roundsLate(fold: Fold): boolean {
    return this.schedule.inMemory && this.values.env.mode === 'strict' && computeDType(fold.dtype) !== fold.dtype
  }

  private loop(d: number): void {
    const { slide, order } = this.schedule
    const [fold] = this.folds
    if (slide !== undefined && fold !== undefined && order[d] === slide.axis) {
      emitSlide(this.values, fold, slide, (sum) => this.leave(fold, sum))
      return
    }
    if (d === this.keptCount && this.schedule.folded.length > 0) {
      this.folded(d)
      return
    }
    this.inner(d)
  }

  /** A window's sum: kept in its tile, or what follows is computed from it. */
  private leave(fold: Fold, sum: Reg): void {
    const { values, schedule } = this
    const [, ...then] = schedule.roots
    if (then.length === 0) {
      emitTileStore(values, this.tileOf(fold.id), sum, 0)
      return
    }
    const tile = { ...values.axes.layout(fold.kept, fold.dtype), offset: 0 }
    values.setHome(fold.id, { kind: 'lanes', reg: sum, depth: values.scope.depth, tile })
    const writes: (() => void)[] = []
    for (const r of then) this.compute(r, 0, writes)
    for (const write of writes) write()
    values.dropHome(fold.id)
  }

  private inner(d: number): void {
    const axis = this.schedule.order[d]
    if (axis === undefined) this.body()
    else if (axis === this.schedule.vector) {
      for (const fetch of this.schedule.fetch) {
        const { rows } = fetch
        if (rows === undefined) emitFetch(this.values, fetch, axis)
        else countedLoop(this.values, rows, () => emitFetch(this.values, fetch, axis))
      }
      this.vectorLoops(d, axis)
    } else countedLoop(this.values, axis, () => this.loop(d + 1), false, this.blocksAt(d))
  }

  /** The loop over the lanes' axis; several, one after another, where one does not take all folds. */
  private vectorLoops(d: number, axis: string): void {
    const { copies, slide, inner, foldsAtOnce } = this.schedule
    const all = this.accumulators
    const each = foldsAtOnce ?? Math.max(1, all.length)
    for (let i = 0; i === 0 || i < all.length; i += each) {
      this.running = all.slice(i, i + each)
      if (inner !== undefined) this.innerSteps(axis, inner)
      else vectorLoop(this.values, axis, copies, () => this.loop(d + 1), this.blocksAt(d), slide?.overlaps)
    }
    this.running = all
  }

  /** The innermost loop with its inner steps apart from those before and after, which all are where no inner ones may be. */
  private innerSteps(axis: string, { from, to, where, operands }: InnerSteps): void {
    const { values } = this
    const { copies } = this.schedule
    const { extent } = values.axes.view(axis)
    const whole = extent - (extent % (4 * copies))
    const { scope } = values
    const at = (index: number, name: string): Index => {
      if (where.length === 0 || index === whole) return index
      const holds = part(predicateElement(values, where, depthOf(values, where)), 0)
      return scope.once(scope.depth, name, () => X.select(holds, index, whole))
    }
    const [begin, last] = [at(from, 'inner-from'), at(to, 'inner-to')]
    const all = (): void => this.body()
    if (begin !== 0) wholeSteps(values, axis, copies, all, 0, begin)
    wholeSteps(values, axis, copies, () => this.body(operands), begin, last)
    if (last !== extent) vectorLoop(values, axis, copies, all, undefined, false, last)
  }

  /** The blocks of a folded loop at whose ends chunks end. */
  private blocksAt(d: number): Blocks | undefined {
    const { cut } = this.schedule
    const { running } = this
    if (cut?.depth !== d || !running.some((a) => a.isCut)) return undefined
    const after = (): void => {
      for (const a of running) a.closeChunk()
    }
    return { rounds: cut.rounds, after }
  }

  /** The folded loops between the accumulators' start and finish. */
  private folded(d: number): void {
    const { values, schedule } = this
    const across = schedule.vector !== undefined && this.schedule.folded.includes(schedule.vector)
    const lanes = across || values.vector !== undefined ? 4 : 1
    const copies = across ? schedule.copies : (values.vector?.copies ?? 1)
    const outer = this.accumulators.splice(0)
    const indices = schedule.folded.reduce((n, a) => n * values.axes.view(a).max, 1)
    for (const fold of this.folds) {
      const a = new Accumulator(values, fold, lanes, copies, { indices, pushes: schedule.cut?.pushes ?? 0 }, across)
      a.start()
      this.accumulators.push(a)
    }
    this.running = this.accumulators
    this.inner(d)
    for (const a of this.accumulators) {
      const n = across || values.vector === undefined ? 1 : copies
      for (let j = 0; j < n; j++) {
        const r = a.finish(across, j)
        if (this.keptCount === 0) this.results.set(a.fold.id, r)
        else emitTileStore(values, this.tileOf(a.fold.id), r, j)
      }
    }
    this.accumulators.splice(0, Infinity, ...outer)
    this.running = this.accumulators
  }

  /** Folds accumulate in their results' tiles: filled before the folded loops, which run outside the vector axis. */
  private loopInMemory(d: number): void {
    const { values, schedule } = this
    const axis = schedule.order[d]
    invariant(axis !== undefined, 'a nest without a vector axis')
    if (!schedule.folded.includes(axis)) {
      countedLoop(values, axis, () => this.loopInMemory(d + 1))
      return
    }
    const vector = schedule.vector ?? axis
    const copies = (each: (j: number) => void): void => {
      for (let j = 0; j < (values.vector?.copies ?? 1); j++) each(j)
    }
    vectorLoop(values, vector, schedule.copies, () =>
      copies((j) => {
        for (const fold of this.folds) emitTileStore(values, this.tileOf(fold.id), startOfFold(values, fold, j), j)
      }),
    )
    const { cut } = schedule
    const totals = this.folds.flatMap((fold) => this.totalsInMemory(fold))
    const pushAll = (): void => {
      for (const t of totals) t.push()
    }
    const blocksAt = (i: number): Blocks | undefined =>
      cut?.depth !== i || totals.length === 0 ? undefined : { rounds: cut.rounds, after: pushAll }
    const rows = (i: number): void => {
      const folded = schedule.order[i]
      if (folded === undefined || folded === vector)
        vectorLoop(values, vector, schedule.copies, () =>
          copies((j) => {
            const writes: (() => void)[] = []
            for (const r of schedule.roots) this.compute(r, j, writes)
            for (const fold of this.folds) stepInTile(values, fold, this.tileOf(fold.id), j)
            for (const write of writes) write()
          }),
        )
      else countedLoop(values, folded, () => rows(i + 1), false, blocksAt(i))
    }
    rows(d)
    for (const t of totals) t.finish()
  }

  private totalsInMemory(fold: Fold): TotalsInMemory[] {
    const { values, schedule } = this
    const places = schedule.totals.get(fold.id)
    if (places === undefined) return []
    const columns = (body: (j: number) => void): void =>
      vectorLoop(values, schedule.vector ?? '', schedule.copies, () => {
        for (let j = 0; j < (values.vector?.copies ?? 1); j++) body(j)
      })
    return [new TotalsInMemory(values, fold, this.tileOf(fold.id), places, columns)]
  }

  /** A point: with other operands for its folds where they are given. */
  private body(operands?: ReadonlyMap<number, readonly number[]>): void {
    const { values } = this
    const copies = values.vector?.copies ?? 1
    if (copies > 1) for (const id of this.schedule.inTurn) for (let j = 0; j < copies; j++) values.at(id, j)
    for (let j = 0; j < copies; j++) {
      // All of a point's values stand in registers before any of its stores: outputs may be inputs' memory.
      const writes: (() => void)[] = []
      for (const r of this.schedule.roots) this.compute(r, j, writes)
      for (const a of this.running) a.step(j, j, operands?.get(a.fold.id))
      for (const write of writes) write()
    }
    for (const a of this.running) a.tick()
  }

  private compute(r: Root, j: number, writes: (() => void)[]): void {
    const { values } = this
    if (r.kind === 'store') {
      values.at(r.stmt.value, j)
      writes.push(() => emitStore(values, r.stmt, j))
    } else if (r.kind === 'keep') {
      const v = values.at(r.id, j)
      writes.push(() => emitTileStore(values, r.tile, v, j))
    }
  }
}

/** Loads a word of every cache line of a row. */
function emitFetch(values: Values, fetch: Fetch, axis: string): void {
  const { f, scope } = values
  const { start, count } = axisBounds(values, axis)
  const position = substitute(fetch.position, (a) => {
    if (a.kind !== 'axis' || a.name !== axis) return undefined
    return typeof start === 'number' ? constant(start) : axisExpr(`${axis}.start`, a.extent)
  })
  const at = addressOf(values, values.baseOf(fetch.param), position, 0)
  scope.here(() => {
    const line = f.register(T.i32)
    const end = f.register(T.i32)
    const seen = f.register(T.i32)
    f.assign(end, X.add(at.local, X.mul(count, fetch.unit)))
    f.assign(seen, X.undefinedOf(T.i32))
    f.for(line, at.local, end, cacheLine, () => f.assign(seen, X.or(X.load(T.i32, line, at.offset, 1), seen)))
    // The store keeps the loads alive.
    f.store(values.scratch, seen, 0, 4)
    f.release(line, end, seen)
  })
}
