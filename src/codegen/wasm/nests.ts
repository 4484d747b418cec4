/**
 * Partition of one level's statements into steps: loop nests that share their iteration space, matrix products, scans,
 * inner loops. Values are recomputed in every nest that needs them, unless that costs more than keeping them in scratch.
 */

import type { Expr } from '../../index/expr.ts'
import { type LetStmt, type LoopStmt, operandsOf, type Stmt, type StoreStmt, type ValueId } from '../../kernel/ir.ts'
import type { Combiner } from '../../scalar/ops.ts'
import { combinerOp, scalarInfo } from '../../scalar/ops.ts'
import type { DType } from '../../types/dtype.ts'
import type { Product } from './product.ts'
import { type Axes, type Def, namedAxes, type Tile, tileBytes } from './tile.ts'

/** A reduction, or a dot as the sum of a product of two operands. */
export interface Fold {
  readonly id: ValueId
  readonly dtype: DType
  readonly combiner: Combiner
  /** One operand, or the two factors of a dot. */
  readonly args: readonly ValueId[]
  readonly argDType: DType
  /** Folded axes of several indices, outermost first. */
  readonly axes: readonly string[]
  /** Axes of the result. */
  readonly kept: readonly string[]
  readonly acc?: ValueId
  readonly position?: Expr
  readonly last: boolean
}

export type Root =
  | { readonly kind: 'store'; readonly stmt: StoreStmt }
  | { readonly kind: 'fold'; readonly fold: Fold }
  /** Writes a value into a scratch tile; `undefined` writes zeros. */
  | {
      readonly kind: 'keep'
      readonly id: ValueId
      readonly tile: Tile
      readonly axes: readonly string[]
      readonly home: boolean
    }

export interface Nest {
  readonly kind: 'nest'
  readonly space: readonly string[]
  readonly folded: readonly string[]
  readonly roots: Root[]
}

export type Step =
  | Nest
  | { readonly kind: 'scan'; readonly stmt: LetStmt }
  | { readonly kind: 'product'; readonly product: Product }
  | { readonly kind: 'loop'; readonly stmt: LoopStmt }

/** What planning a level asks of its surroundings. */
export interface LevelContext {
  readonly axes: Axes
  readonly strict: boolean
  def(id: ValueId): Def
  /** Values that stand in locals or scratch already. */
  hasHome(id: ValueId): boolean
  /** Gives a value a scratch tile. */
  makeTile(id: ValueId, axes: readonly string[], dtype: DType): Tile
  /** Whether two parameters may share memory. */
  mayAlias(a: string, b: string): boolean
  /** The matrix products among the level's dots. */
  readonly products: ReadonlyMap<ValueId, Product>
  /** What fills a product's accumulator before it runs, if anything must. */
  productInit(product: Product): Root | undefined
  /** Whether anything but a product that reads around it uses a staged value. */
  needsStage(id: ValueId): boolean
  /** Loads that stand in scratch however cheap they are. */
  readonly copied: ReadonlySet<ValueId>
}

export const sameSet = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((x) => b.includes(x))

/** Axes over which a store runs. */
const storeAxes = (s: StoreStmt, ctx: LevelContext): string[] =>
  ctx.axes.varying([
    ...ctx.def(s.value).axes,
    ...(s.maskValue === undefined ? [] : ctx.def(s.maskValue).axes),
    ...namedAxes([...s.index, ...s.mask.map((b) => b.expr)]),
    ...operandAxes(s, ctx),
  ])

function operandAxes(s: StoreStmt, ctx: LevelContext): string[] {
  const ids = operandsOf({ kind: 'load', param: s.param, index: s.index, mask: s.mask, other: 0 })
  return ids.flatMap((id) => [...ctx.def(id).axes])
}

/** The fold a statement is, if it folds axes of several indices. */
export function foldOf(s: LetStmt, ctx: LevelContext): Fold | undefined {
  const { op } = s
  if (op.kind !== 'reduce' && op.kind !== 'dot') return undefined
  const axes = ctx.axes.varying(op.axes)
  if (axes.length === 0) return undefined
  const kept = ctx.axes.varying(s.axes)
  const args = op.kind === 'dot' ? [op.a, op.b] : [op.arg]
  const base = { id: s.id, dtype: s.dtype, args, argDType: ctx.def(args[0] ?? 0).dtype, axes, kept }
  if (op.kind === 'dot')
    return { ...base, combiner: 'sum', last: false, ...(op.acc === undefined ? {} : { acc: op.acc }) }
  return {
    ...base,
    combiner: op.combiner,
    last: op.last === true,
    ...(op.position === undefined ? {} : { position: op.position }),
  }
}

/** Instructions' worth of computing one element again, operands included; a read of scratch costs 1. */
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
    const { op } = this.ctx.def(id)
    const own = op === undefined || this.ctx.hasHome(id) || this.kept.has(id) ? 1 : this.own(op)
    const inputs = op === undefined || this.ctx.hasHome(id) || this.kept.has(id) ? [] : operandsOf(op)
    const cost = inputs.reduce((n, i) => n + this.of(i), own)
    this.memo.set(id, cost)
    return cost
  }

  private own(op: NonNullable<Def['op']>): number {
    switch (op.kind) {
      case 'const':
      case 'stage':
        return 0
      case 'load':
        return op.mask.length > 0 || op.maskValue !== undefined ? 4 : 1
      case 'random':
        return 30
      case 'scalar':
        return { free: 0, simple: 1, divide: 4, special: 12 }[scalarInfo(op.op).cost]
      default:
        return 1
    }
  }
}

/** Above this cost a value needed by several nests is kept in scratch. */
const keepAbove = 4
/** Larger tiles than this many bytes are recomputed unless that is dear. */
const largeTile = 256 * 1024
const keepLargeAbove = 24

export function planLevel(stmts: readonly Stmt[], ctx: LevelContext, finals: readonly Root[] = []): Step[] {
  const first = place(stmts, ctx, new Set(), finals)
  let kept = chooseKept(stmts, ctx, first)
  for (let round = 0; round < 8; round++) {
    const steps = place(stmts, ctx, kept, finals)
    const more = hazards(stmts, ctx, steps, kept)
    if (more.length === 0) return steps.steps
    kept = new Set([...kept, ...more])
  }
  return place(stmts, ctx, kept, finals).steps
}

interface Placement {
  readonly steps: Step[]
  /** Step number of each root's statement. */
  readonly at: Map<Root | LetStmt | LoopStmt, number>
  /** Direct users: root operands by step. */
  readonly uses: { readonly step: number; readonly ids: readonly ValueId[] }[]
}

/** Places roots in program order, each in the first step that may hold it; stores last. */
function place(
  stmts: readonly Stmt[],
  ctx: LevelContext,
  kept: ReadonlySet<ValueId>,
  finals: readonly Root[],
): Placement {
  const steps: Step[] = []
  const at = new Map<Root | LetStmt | LoopStmt, number>()
  const uses: { step: number; ids: readonly ValueId[] }[] = []
  /** First step in which a value can be used; `home` where it is computed in the nest `made` itself. */
  const ready = new Map<ValueId, number>()
  const madeIn = new Map<ValueId, number>()
  let floor = 0
  let deferred: StoreStmt[] = []

  const earliest = (ids: readonly ValueId[]): number => {
    let n = floor
    for (const id of ids) n = Math.max(n, ready.get(id) ?? 0)
    return n
  }
  /** A kept value counts as ready in its own nest (there it is recomputed in place). */
  const note = (id: ValueId, step: number): void => {
    ready.set(id, step)
  }
  const join = (
    root: Root,
    space: readonly string[],
    folded: readonly string[],
    ids: readonly ValueId[],
    late: boolean,
  ): number => {
    const from = earliest(ids)
    const fits = (s: Step, i: number): boolean =>
      i >= from &&
      s.kind === 'nest' &&
      sameSet(s.space, space) &&
      (folded.length === 0 || s.folded.length === 0 || sameSet(s.folded, folded)) &&
      keepersAgree(ids, i)
    let i = late ? steps.findLastIndex(fits) : steps.findIndex(fits)
    if (i < 0) {
      steps.push({ kind: 'nest', space, folded, roots: [root] })
      i = steps.length - 1
    } else {
      const s = steps[i]
      if (s?.kind === 'nest') {
        const nest: Nest = s.folded.length === 0 && folded.length > 0 ? { ...s, folded } : s
        nest.roots.push(root)
        steps[i] = nest
      }
    }
    at.set(root, i)
    uses.push({ step: i, ids })
    return i
  }
  const keepersAgree = (ids: readonly ValueId[], i: number): boolean => ids.every((id) => (ready.get(id) ?? 0) <= i)

  const flushStores = (): void => {
    for (const s of deferred) {
      const ids = [s.value, ...operandsOf({ kind: 'load', param: s.param, index: s.index, mask: s.mask, other: 0 })]
      if (s.maskValue !== undefined) ids.push(s.maskValue)
      join({ kind: 'store', stmt: s }, storeAxes(s, ctx), [], ids, true)
    }
    deferred = []
  }
  const own = (step: Step, key: LetStmt | LoopStmt, ids: readonly ValueId[]): number => {
    const i = Math.max(steps.length, earliest(ids))
    steps.push(step)
    at.set(key, i)
    uses.push({ step: i, ids })
    return i
  }

  for (const s of stmts) {
    if (s.kind === 'store') {
      deferred.push(s)
      continue
    }
    if (s.kind === 'loop') {
      flushStores()
      const ids = outerValues(s)
      const i = own({ kind: 'loop', stmt: s }, s, ids)
      floor = i + 1
      for (const c of s.carries) note(c.result, i + 1)
      continue
    }
    const ids = operandsOf(s.op)
    const product = ctx.products.get(s.id)
    if (product !== undefined) {
      const init = ctx.productInit(product)
      if (init?.kind === 'keep') join(init, init.axes, [], [init.id], false)
      note(s.id, own({ kind: 'product', product }, s, [product.a, product.b]) + 1)
      continue
    }
    if (s.op.kind === 'scan' && ctx.axes.varying([s.op.axis]).length > 0) {
      note(s.id, own({ kind: 'scan', stmt: s }, s, ids) + 1)
      continue
    }
    const fold = foldOf(s, ctx)
    if (fold !== undefined) {
      const space = ctx.axes.varying([...fold.kept, ...fold.args.flatMap((a) => [...ctx.def(a).axes]), ...fold.axes])
      note(s.id, join({ kind: 'fold', fold }, space, fold.axes, ids, false) + 1)
      continue
    }
    const varying = ctx.axes.varying(s.axes)
    const staged = s.op.kind === 'stage' && varying.length > 0 && ctx.needsStage(s.id)
    if (varying.length > 0 && (staged || kept.has(s.id))) {
      const tile = ctx.makeTile(s.id, s.axes, s.dtype)
      const i = join({ kind: 'keep', id: s.id, tile, axes: varying, home: true }, varying, [], ids, false)
      madeIn.set(s.id, i)
      note(s.id, staged ? i + 1 : i)
      continue
    }
    note(s.id, earliest(ids))
  }
  flushStores()
  for (const root of finals) {
    if (root.kind === 'keep') join(root, root.axes, [], [root.id], true)
  }
  return { steps, at, uses }
}

/** Values a loop takes from outside: initial states, bounds, and what its body names but does not define. */
export function outerValues(loop: LoopStmt): ValueId[] {
  const inside = new Set<ValueId>()
  const named: ValueId[] = []
  const walk = (stmts: readonly Stmt[]): void => {
    for (const s of stmts) {
      if (s.kind === 'let') {
        inside.add(s.id)
        named.push(...operandsOf(s.op))
      } else if (s.kind === 'store') {
        named.push(s.value, ...operandsOf({ kind: 'load', param: s.param, index: s.index, mask: s.mask, other: 0 }))
        if (s.maskValue !== undefined) named.push(s.maskValue)
      } else {
        enter(s)
      }
    }
  }
  const enter = (l: LoopStmt): void => {
    for (const c of l.carries) {
      inside.add(c.param)
      inside.add(c.result)
      named.push(c.init)
    }
    if (l.from !== undefined) named.push(l.from)
    if (l.to !== undefined) named.push(l.to)
    walk(l.body)
    for (const c of l.carries) named.push(c.next)
  }
  enter(loop)
  return [...new Set(named)].filter((id) => !inside.has(id))
}

/** Steps in which each inline value of the level is computed. */
function usingSteps(stmts: readonly Stmt[], ctx: LevelContext, p: Placement, kept: ReadonlySet<ValueId>): StepSets {
  const using = new StepSets(p.uses)
  for (const s of [...stmts].reverse())
    if (s.kind === 'let' && !p.at.has(s) && !kept.has(s.id) && !isFold(s, ctx)) using.pass(s, false)
  return using
}

const isFold = (s: LetStmt, ctx: LevelContext): boolean =>
  foldOf(s, ctx) !== undefined || (s.op.kind === 'stage' && ctx.axes.varying(s.axes).length > 0)

function chooseKept(stmts: readonly Stmt[], ctx: LevelContext, p: Placement): Set<ValueId> {
  const kept = new Set<ValueId>(ctx.copied)
  // Operands of products that are not read in place stand in scratch.
  for (const { a, b, directA, directB } of ctx.products.values()) {
    if (directA === undefined && !ctx.hasHome(a)) kept.add(a)
    if (directB === undefined && !ctx.hasHome(b)) kept.add(b)
  }
  const costs = new Costs(ctx, kept)
  const using = new StepSets(p.uses)
  for (const s of [...stmts].reverse()) {
    if (s.kind !== 'let' || isFold(s, ctx) || p.at.has(s) || ctx.hasHome(s.id)) continue
    const steps = using.of(s.id)
    const varying = ctx.axes.varying(s.axes)
    const inLoop = [...steps].some((i) => p.steps[i]?.kind === 'loop')
    if (varying.length > 0 && !kept.has(s.id) && (steps.size > 1 || inLoop)) {
      const bytes = varying.reduce((n, a) => n * ctx.axes.view(a).max, tileBytes(s.dtype))
      if (costs.of(s.id) > (bytes > largeTile ? keepLargeAbove : keepAbove)) kept.add(s.id)
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
function hazards(stmts: readonly Stmt[], ctx: LevelContext, p: Placement, kept: ReadonlySet<ValueId>): ValueId[] {
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

/** The operation a combiner folds with (arg-combiners have their own law). */
export const foldOp = (c: Combiner): 'add' | 'mul' | 'max' | 'min' | undefined =>
  c === 'argmax' || c === 'argmin' ? undefined : combinerOp[c]
