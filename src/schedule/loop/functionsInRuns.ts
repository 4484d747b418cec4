/**
 * Functions of short rows that get nests of their own because one loop may go along all of their rows there, where that takes less: rows end in steps that
 * are not whole and in groups that wait by themselves. What a function takes is kept too, where it follows from something that the rows lack.
 */
import { operandsOf, type Stmt, type ValueId } from '../../kernel/ir.ts'
import type { LoopMachine } from '../../target/loops.ts'
import { waitingSeconds } from '../price.ts'
import { foldOf, type LevelContext, type Nest, type Placement } from './ir/steps.ts'
import type { Tile } from './ir/tile.ts'
import { joinedOf, type Standing } from './nest/joined.ts'
import { isCall, loopStatementSeconds } from './price/terms.ts'
import { functionsOf, standsNear } from './tiles/functionsApart.ts'

/** Values that are kept so, given the steps of a level where none is, and the functions that are `apart` already. */
export function functionsInRuns(
  stmts: readonly Stmt[],
  ctx: LevelContext,
  p: Placement,
  apart: ReadonlySet<ValueId>,
): Set<ValueId> {
  const { loops } = ctx.machine
  const kept = new Set<ValueId>()
  if (loops === undefined) return kept
  const runs = new Runs(stmts, ctx, loops, new Set(apart))
  for (const step of p.steps) if (step.kind === 'nest') for (const id of runs.of(step)) kept.add(id)
  return kept
}

class Runs {
  private readonly ctx: LevelContext
  private readonly loops: LoopMachine
  /** What stands in tiles. */
  private readonly kept: Set<ValueId>
  private readonly own: ReadonlySet<ValueId>
  private readonly folds: ReadonlySet<ValueId>

  constructor(stmts: readonly Stmt[], ctx: LevelContext, loops: LoopMachine, kept: Set<ValueId>) {
    this.ctx = ctx
    this.loops = loops
    this.kept = kept
    const lets = stmts.filter((s) => s.kind === 'let')
    this.own = new Set(lets.map((l) => l.id))
    this.folds = new Set(lets.filter((l) => foldOf(l, ctx) !== undefined).map((l) => l.id))
  }

  /** What is kept of a nest that no loop goes along in one run. */
  *of(nest: Nest): Generator<ValueId> {
    const { ctx, own } = this
    const may = (id: ValueId): boolean => own.has(id) && standsNear(ctx.def(id), ctx)
    for (const id of functionsOf(nest.roots, ctx, may).reverse()) {
      if (isCall('exp', ctx.def(id).dtype)) continue
      const more = this.keptFor(id, nest)
      for (const m of more) {
        this.kept.add(m)
        yield m
      }
    }
  }

  private keptFor(id: ValueId, nest: Nest): readonly ValueId[] {
    const { ctx, loops } = this
    const { op, axes } = ctx.def(id)
    const row = ctx.axes.varying(axes).at(-1)
    if (op === undefined || row === undefined) return []
    if (this.isRun(nest, [])) return []
    const count = ctx.axes.view(row).max
    const wide = operandsOf(op).filter((o) => this.varies(o, axes) && !this.isRun(this.alone(o), [o]))
    if (!wide.every((o) => this.own.has(o) && standsNear(ctx.def(o), ctx))) return []
    if (!this.isRun(this.alone(id), [id, ...wide])) return []
    const inPlace = this.kept.has(id) || this.isRun(nest, wide)
    const more = inPlace ? wide : [...wide, id]
    // Where the rows are folded, lanes may go down them instead, reading at strides.
    const most = nest.folded.includes(row) ? count * loops.strided : Number.POSITIVE_INFINITY
    const again = inPlace || wide.length === 0 ? 0 : rowSeconds(count, loops)
    const spent = more.length * keepSeconds(count, loops) + again
    return Math.min(most, this.spared(id, count)) > spent ? more : []
  }

  /** Whether a value runs over all of these axes. */
  private varies(id: ValueId, axes: readonly string[]): boolean {
    const own = this.ctx.axes.varying(this.ctx.def(id).axes)
    return own.length > 0 && own.length === this.ctx.axes.varying(axes).length
  }

  /** A nest that keeps a value. */
  private alone(id: ValueId): Nest {
    const { axes, dtype } = this.ctx.def(id)
    const space = this.ctx.axes.varying(axes)
    return {
      kind: 'nest',
      space,
      folded: [],
      roots: [{ kind: 'keep', id, tile: this.tileOf(axes, dtype), axes: space, home: true }],
    }
  }

  private tileOf(axes: readonly string[], dtype: Parameters<LevelContext['makeTile']>[2]): Tile {
    return { ...this.ctx.axes.layout(axes, dtype), offset: 0 }
  }

  /** Whether one loop may go along rows of a nest while these values are kept, but for what the nest itself makes of them. */
  private isRun({ space, folded, roots }: Nest, kept: readonly ValueId[]): boolean {
    const { ctx } = this
    const made = new Set(roots.flatMap((r) => (r.kind === 'keep' ? [r.id] : [])))
    const stands = (id: ValueId): boolean =>
      this.folds.has(id) || (!made.has(id) && (this.kept.has(id) || kept.includes(id)))
    const at: Standing = {
      axes: ctx.axes,
      def: (id) => ctx.def(id),
      param: (name) => ctx.param(name),
      place: (id) => {
        if (ctx.hasHome(id) || !stands(id)) return ctx.place(id)
        const { axes, dtype } = ctx.def(id)
        return this.tileOf(axes, dtype)
      },
    }
    const results = roots.flatMap((r) => (r.kind === 'fold' ? [this.tileOf(r.fold.kept, r.fold.dtype)] : []))
    return joinedOf(at, { space, folded, roots, results }) !== undefined
  }

  /** Seconds that a function takes less in one run, of a row: lanes that are empty, and groups that wait by themselves. */
  private spared(id: ValueId, count: number): number {
    const { ctx, loops } = this
    const seconds = loopStatementSeconds(ctx.def(id), (o) => ctx.def(o), ctx.machine.prices)
    const left = count % (4 * loops.lanes)
    const groups = Math.ceil(left / loops.lanes)
    const group = loops.lanes * seconds
    const empty = groups * loops.lanes - left
    return empty * seconds + groups * waitingSeconds(group, 1, group, loops)
  }
}

/** Seconds of writing a row and reading it again; the last lanes are written one by one. */
const keepSeconds = (count: number, { lanes, whole, strided }: LoopMachine): number =>
  2 * Math.ceil(count / lanes) * whole + (count % lanes) * strided

/** Seconds of going along a row once more. */
const rowSeconds = (count: number, { lanes, entry, round, partial }: LoopMachine): number =>
  entry + Math.ceil(count / lanes) * round + (count % lanes === 0 ? 0 : partial)
