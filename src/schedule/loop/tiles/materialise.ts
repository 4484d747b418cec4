/**
 * Which values of a level stand in scratch. A value is computed again in every nest that needs it, unless that costs more than
 * keeping it, or memory it is loaded from may be overwritten in between.
 */
import { type LetStmt, type LoopStmt, operandsOf, type Stmt, type TileOp, type ValueId } from '../../../kernel/ir.ts'
import { bandwidthOf, type Machine } from '../../../target/machine.ts'
import { priceOf } from '../../../target/prices.ts'
import type { DType } from '../../../types/dtype.ts'
import { statementSeconds } from '../../price.ts'
import { foldOf, type LevelContext, type Placement } from '../ir/steps.ts'
import { mostTile, tileBytes } from '../ir/tile.ts'

/** Seconds of computing one element again, operands included. */
class Costs {
  private readonly memo = new Map<ValueId, number>()
  private readonly ctx: LevelContext
  private readonly kept: ReadonlySet<ValueId>

  constructor(ctx: LevelContext, kept: ReadonlySet<ValueId>) {
    this.ctx = ctx
    this.kept = kept
  }

  of(id: ValueId): number {
    const known = this.memo.get(id)
    if (known !== undefined) return known
    const def = this.ctx.def(id)
    const { op } = def
    const { prices } = this.ctx.machine
    const addition = priceOf('add', 'f32', prices)
    const held = op === undefined || this.ctx.hasHome(id) || this.kept.has(id)
    const read = held ? addition : op.kind === 'load' ? (isMasked(op) ? 4 : 1) * addition : 0
    const own = held ? 0 : statementSeconds(def, (i) => this.ctx.def(i).dtype, prices)
    const inputs = held ? [] : operandsOf(op)
    const cost = inputs.reduce((n, i) => n + this.of(i), own + read)
    this.memo.set(id, cost)
    return cost
  }
}

const isMasked = (op: Extract<TileOp, { kind: 'load' }>): boolean => op.mask.length > 0 || op.maskValue !== undefined

/** Seconds an element of keeping a tile in scratch: it is written and read again in the memory that holds it. */
function keepSeconds(dtype: DType, bytes: number, machine: Machine): number {
  const one = tileBytes(dtype)
  const moved = (2 * one) / bandwidthOf(machine, bytes)
  return moved + leastKept * priceOf('add', 'f32', machine.prices)
}

/** Additions that a loop of its own costs a tile for each element, however near it stands. */
const leastKept = 2

/** Folds and stages have places of their own. */
const hasPlace = (s: LetStmt, ctx: LevelContext): boolean =>
  foldOf(s, ctx) !== undefined || (s.op.kind === 'stage' && ctx.axes.varying(s.axes).length > 0)

/** Steps in which each inline value of the level is computed. */
function usingSteps(stmts: readonly Stmt[], ctx: LevelContext, p: Placement, kept: ReadonlySet<ValueId>): StepSets {
  const using = new StepSets(p.uses)
  for (const s of [...stmts].reverse())
    if (s.kind === 'let' && !p.at.has(s) && !kept.has(s.id) && !hasPlace(s, ctx)) using.pass(s, false)
  return using
}

/** Values that are kept, given the steps of a level where none is but those `apart`. */
export function chooseMaterialised(
  stmts: readonly Stmt[],
  ctx: LevelContext,
  p: Placement,
  apart: ReadonlySet<ValueId>,
): Set<ValueId> {
  const kept = new Set<ValueId>([...ctx.copied, ...apart])
  // Operands of products that are not read in place stand in scratch.
  for (const { a, b, directA, directB } of ctx.products.values()) {
    if (directA === undefined && !ctx.hasHome(a)) kept.add(a)
    if (directB === undefined && !ctx.hasHome(b)) kept.add(b)
  }
  const costs = new Costs(ctx, kept)
  const using = new StepSets(p.uses)
  for (const s of [...stmts].reverse()) {
    if (s.kind !== 'let' || hasPlace(s, ctx) || p.at.has(s) || ctx.hasHome(s.id)) continue
    const steps = using.of(s.id)
    const varying = ctx.axes.varying(s.axes)
    const inLoop = [...steps].some((i) => p.steps[i]?.kind === 'loop')
    if (varying.length > 0 && !kept.has(s.id) && (steps.size > 1 || inLoop)) {
      const bytes = varying.reduce((n, a) => n * ctx.axes.view(a).max, tileBytes(s.dtype))
      if (bytes <= mostTile && costs.of(s.id) > keepSeconds(s.dtype, bytes, ctx.machine)) kept.add(s.id)
    }
    // What is kept is computed once, in the first step that needs it.
    using.pass(s, kept.has(s.id))
  }
  return kept
}

/** The steps that compute each value. */
class StepSets {
  private readonly sets = new Map<ValueId, Set<number>>()

  constructor(uses: Placement['uses']) {
    for (const u of uses) for (const id of u.ids) this.add(id, u.step)
  }

  private add(id: ValueId, step: number): void {
    const have = this.sets.get(id)
    if (have === undefined) this.sets.set(id, new Set([step]))
    else have.add(step)
  }

  of(id: ValueId): ReadonlySet<number> {
    return this.sets.get(id) ?? new Set()
  }

  /** A value's operands are computed where it is; consumers come first, so one pass from the end settles every value. */
  pass(s: LetStmt, once: boolean): void {
    const steps = [...this.of(s.id)]
    for (const id of operandsOf(s.op)) for (const step of once ? [Math.min(...steps)] : steps) this.add(id, step)
  }
}

/** Loads that would run after a store into memory they may share: those values must be kept before. */
export function hazards(
  stmts: readonly Stmt[],
  ctx: LevelContext,
  p: Placement,
  kept: ReadonlySet<ValueId>,
): ValueId[] {
  const storedAt: { param: string; step: number }[] = []
  p.steps.forEach((s, step) => {
    if (s.kind === 'nest') for (const r of s.roots) if (r.kind === 'store') storedAt.push({ param: r.stmt.param, step })
    if (s.kind === 'loop') for (const param of storesIn(s.stmt)) storedAt.push({ param, step })
  })
  if (storedAt.length === 0) return []
  const using = usingSteps(stmts, ctx, p, kept)
  const out: ValueId[] = []
  for (const s of stmts) {
    if (s.kind !== 'let' || s.op.kind !== 'load' || kept.has(s.id)) continue
    const { param } = s.op
    if (ctx.axes.varying(s.axes).length === 0) continue
    const last = Math.max(-1, ...using.of(s.id))
    if (storedAt.some((w) => w.step < last && ctx.mayAlias(w.param, param))) out.push(s.id)
  }
  return out
}

function storesIn(loop: LoopStmt): string[] {
  return loop.body.flatMap((s) => (s.kind === 'store' ? [s.param] : s.kind === 'loop' ? storesIn(s) : []))
}
