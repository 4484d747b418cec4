/** Partition of one level's statements into steps: each root goes into the first nest that may hold it, stores last. */
import { valuesOf } from '../../affine/expr.ts'
import { type LetStmt, type LoopStmt, operandsOf, type Stmt, type StoreStmt, type ValueId } from '../../kernel/ir.ts'
import { storeOperands } from '../../kernel/walk.ts'
import { functionsInRuns } from './functionsInRuns.ts'
import { foldOf, type LevelContext, type Nest, outerValues, type Placement, type Root, type Step } from './ir/steps.ts'
import { namedAxes } from './ir/tile.ts'
import { functionsApart } from './tiles/functionsApart.ts'
import { chooseMaterialised, hazards } from './tiles/materialise.ts'

export function planLevel(stmts: readonly Stmt[], ctx: LevelContext, finals: readonly Root[] = []): Step[] {
  const together = place(stmts, ctx, new Set(), new Set(), finals)
  const functions = functionsApart(stmts, ctx, together)
  const apart = new Set([...functions, ...functionsInRuns(stmts, ctx, together, functions)])
  const first = apart.size === 0 ? together : place(stmts, ctx, apart, apart, finals)
  let kept = chooseMaterialised(stmts, ctx, first, apart)
  for (let round = 0; round < 8; round++) {
    const steps = place(stmts, ctx, kept, apart, finals)
    const more = hazards(stmts, ctx, steps, kept)
    if (more.length === 0) return steps.steps
    kept = new Set([...kept, ...more])
  }
  return place(stmts, ctx, kept, apart, finals).steps
}

const sameSet = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((x) => b.includes(x))

/** Axes over which a store runs. */
const storeAxes = (s: StoreStmt, ctx: LevelContext): string[] =>
  ctx.axes.varying([
    ...ctx.def(s.value).axes,
    ...(s.maskValue === undefined ? [] : ctx.def(s.maskValue).axes),
    ...namedAxes([...s.index, ...s.mask.map((b) => b.expr)]),
    ...storeOperands(s).flatMap((id) => [...ctx.def(id).axes]),
  ])

/** Places roots in program order, each in the first step that may hold it, what is kept `apart` in one that nothing joins; stores last. */
function place(
  stmts: readonly Stmt[],
  ctx: LevelContext,
  kept: ReadonlySet<ValueId>,
  apart: ReadonlySet<ValueId>,
  finals: readonly Root[],
): Placement {
  const steps: Step[] = []
  const at = new Map<Root | LetStmt | LoopStmt, number>()
  const uses: { step: number; ids: readonly ValueId[] }[] = []
  /** First step in which a value can be used: for a kept value its own nest, where it is recomputed in place. */
  const ready = new Map<ValueId, number>()
  /** Copies of memory and functions apart, which nothing joins. */
  const closed = new Set<number>()
  /** The nests of values that are kept apart. */
  const apartOf = new Map<ValueId, number>()
  let floor = 0
  let deferred: StoreStmt[] = []

  const earliest = (ids: readonly ValueId[]): number => {
    let n = floor
    for (const id of ids) n = Math.max(n, ready.get(id) ?? 0)
    return n
  }
  const join = (
    root: Root,
    space: readonly string[],
    folded: readonly string[],
    ids: readonly ValueId[],
    late: boolean,
  ): number => {
    const from = earliest(ids)
    const fits = (i: number): boolean => {
      const s = steps[i]
      return (
        s?.kind === 'nest' &&
        !closed.has(i) &&
        sameSet(s.space, space) &&
        (folded.length === 0 || s.folded.length === 0 || sameSet(s.folded, folded))
      )
    }
    // Steps before the earliest are not looked at: a chain of dependent folds has one for each.
    let i = late ? steps.length - 1 : from
    while (i >= from && i < steps.length && !fits(i)) i += late ? -1 : 1
    if (i < from || i >= steps.length) {
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

  /** Whether a value may be stored where it is computed apart: at the same points, into memory that nothing of the level loads. */
  const mayFollow = (s: StoreStmt): boolean =>
    s.combiner === undefined &&
    s.maskValue === undefined &&
    s.index.every((e) => valuesOf(e).size === 0) &&
    sameSet(storeAxes(s, ctx), ctx.axes.varying(ctx.def(s.value).axes)) &&
    stmts.every(
      (o) => o.kind === 'store' || (o.kind === 'let' && (o.op.kind !== 'load' || !ctx.mayAlias(s.param, o.op.param))),
    )

  const flushStores = (): void => {
    for (const s of deferred) {
      const i = apartOf.get(s.value)
      if (i !== undefined && mayFollow(s)) {
        const step = steps[i]
        const root: Root = { kind: 'store', stmt: s }
        if (step?.kind === 'nest') step.roots.push(root)
        at.set(root, i)
        uses.push({ step: i, ids: storeOperands(s) })
      } else join({ kind: 'store', stmt: s }, storeAxes(s, ctx), [], storeOperands(s), true)
    }
    deferred = []
  }
  const own = (step: Step, key: Root | LetStmt | LoopStmt, ids: readonly ValueId[]): number => {
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
      for (const c of s.carries) ready.set(c.result, i + 1)
      continue
    }
    const ids = operandsOf(s.op)
    const product = ctx.products.get(s.id)
    if (product !== undefined) {
      const init = ctx.productInit(product)
      if (init?.kind === 'keep') join(init, init.axes, [], [init.id], false)
      ready.set(s.id, own({ kind: 'product', product }, s, [product.a, product.b]) + 1)
      continue
    }
    if (s.op.kind === 'scan' && ctx.axes.varying([s.op.axis]).length > 0) {
      ready.set(s.id, own({ kind: 'scan', stmt: s }, s, ids) + 1)
      continue
    }
    const fold = foldOf(s, ctx)
    if (fold !== undefined) {
      const space = ctx.axes.varying([...fold.kept, ...fold.args.flatMap((a) => [...ctx.def(a).axes]), ...fold.axes])
      ready.set(s.id, join({ kind: 'fold', fold }, space, fold.axes, ids, false) + 1)
      continue
    }
    const varying = ctx.axes.varying(s.axes)
    const staged = s.op.kind === 'stage' && varying.length > 0 && ctx.needsStage(s.id)
    if (varying.length > 0 && (staged || kept.has(s.id))) {
      const tile = ctx.makeTile(s.id, s.axes, s.dtype)
      const root: Root = { kind: 'keep', id: s.id, tile, axes: varying, home: true }
      if (ctx.copied.has(s.id) || apart.has(s.id)) {
        const i = own({ kind: 'nest', space: varying, folded: [], roots: [root] }, root, ids)
        closed.add(i)
        if (!ctx.copied.has(s.id)) apartOf.set(s.id, i)
        ready.set(s.id, i + 1)
        continue
      }
      const i = join(root, varying, [], ids, false)
      ready.set(s.id, staged ? i + 1 : i)
      continue
    }
    ready.set(s.id, earliest(ids))
  }
  flushStores()
  for (const root of finals) {
    if (root.kind === 'keep') join(root, root.axes, [], [root.id], true)
  }
  return { steps, at, uses }
}
