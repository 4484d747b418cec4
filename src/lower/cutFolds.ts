/**
 * Lowering of a body whose reductions are cut: the main kernel stores partial results, a finishing stage folds them and computes what follows.
 * Results that need no cut reduction are stored by the main kernel.
 */
import type { Expr } from '../affine/expr.ts'
import * as ix from '../affine/expr.ts'
import { invariant } from '../diagnostics/errors.ts'
import type { GridAxis, LetStmt, NumericsMode, StoreStmt, ValueId } from '../kernel/ir.ts'
import { liveLets } from '../kernel/walk.ts'
import { partialsGrid } from '../plan/axes/blocks.ts'
import { programsOf } from '../plan/axes/gridAxes.ts'
import type { PartialResult } from '../plan/axes/partials.ts'
import type { Roles } from '../plan/axes/roles.ts'
import { cutCombiner, type RowSplit } from '../plan/axes/split.ts'
import { mainStage, storesByAxes } from '../plan/axes/stages.ts'
import type { Body, BodyStore } from '../plan/body/body.ts'
import { combinerIdentity } from '../scalar/ops.ts'
import type { Machine } from '../target/machine.ts'
import { computeDType } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { axesUsed, kernelOf, zeroOf } from './kernelOf.ts'
import type { BoundKernel, Launch } from './launch.ts'
import { beforeEnd } from './openParts.ts'
import { Params } from './params.ts'
import { rowLoop } from './rowLoop.ts'
import { stageGrid } from './stageGrid.ts'

/** A reduction that is cut, as its partial result `param` is handed from one kernel to the other. */
interface CutFold {
  readonly fold: LetStmt
  readonly param: string
  readonly partial: PartialResult
  /** What the main kernel stores. */
  readonly store: StoreStmt
  /** In the finishing stage: what loads the partial results, and the fold of them, under the name of the whole. */
  readonly load: LetStmt
  readonly whole: LetStmt
  /** The axis that the finishing stage runs over in place of one that is cut into blocks. */
  readonly parts?: { readonly name: string; readonly extent: number }
}

/** Makes the cut of the reductions of one body. */
interface Cutting {
  readonly body: Body
  readonly lets: ReadonlyMap<ValueId, LetStmt>
  readonly extents: ReadonlyMap<string, number>
  readonly fresh: () => ValueId
}

export function lowerCutFolds(name: string, body: Body, roles: Roles, target: Machine, mode: NumericsMode): Launch {
  const { splitBy } = roles
  invariant(splitBy !== undefined && splitBy !== 'result-blocks', 'a split without a way')
  const cuts = cutsOf(body, roles, splitBy)
  return {
    main: mainKernel(name, body, roles, splitBy, cuts, target, mode),
    finishing: finishingKernels(`${name}_finish`, body, roles, cuts, target, mode),
    partials: cuts.map((c) => c.partial),
  }
}

function cutsOf(body: Body, { stages, extents }: Roles, splitBy: RowSplit): CutFold[] {
  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const cutting: Cutting = { body, lets: new Map(body.lets.map((l) => [l.id, l])), extents, fresh: () => next++ }
  return [...stages.split].map(([id, partial], i) => {
    const fold = cutting.lets.get(id)
    invariant(fold !== undefined, 'a split fold without statement')
    return splitBy === 'every-index'
      ? cutAtEveryIndex(cutting, fold, `p${i}`, partial)
      : cutIntoBlocks(cutting, fold, `p${i}`, partial, splitBy)
  })
}

/** The operand is the partial result: its elements are handed over, and folded as they would have been. */
function cutAtEveryIndex(
  { lets, extents, fresh }: Cutting,
  fold: LetStmt,
  param: string,
  partial: PartialResult,
): CutFold {
  const { op } = fold
  invariant(op.kind === 'reduce', 'products are cut along an axis')
  const operand = lets.get(op.arg)
  invariant(operand !== undefined, 'a reduction without operand')
  const axes = [...op.axes, ...fold.axes]
  const index = indexOver(axes, extents)
  const load: LetStmt = {
    kind: 'let',
    id: fresh(),
    dtype: partial.dtype,
    axes,
    op: { kind: 'load', param, index, mask: [], other: zeroOf(operand) },
  }
  const store: StoreStmt = { kind: 'store', param, index, mask: [], value: op.arg }
  return { fold, param, partial, store, load, whole: { ...fold, op: { ...op, arg: load.id } } }
}

/** Every block of the axis is folded by itself, and the finishing stage combines their results. */
function cutIntoBlocks(
  { body, extents, fresh }: Cutting,
  fold: LetStmt,
  param: string,
  partial: PartialResult,
  { axis, block }: Exclude<RowSplit, string>,
): CutFold {
  const combiner = cutCombiner(fold)
  invariant(combiner !== undefined, 'only folds are split')
  const [count = 1] = partial.shape
  const kept = indexOver(fold.axes, extents)
  const parts = { name: `${axis}_part`, extent: count }
  const mask = beforeEnd(body, axis, ix.mul(ix.axis(parts.name, count), block))
  const load: LetStmt = {
    kind: 'let',
    id: fresh(),
    dtype: fold.dtype,
    axes: [parts.name, ...fold.axes],
    op: {
      kind: 'load',
      param,
      index: [ix.axis(parts.name, count), ...kept],
      mask,
      other: mask.length === 0 ? zeroOf(fold) : combinerIdentity(combiner, fold.dtype),
    },
  }
  const own = ix.div(ix.axis(`${axis}.start`, extents.get(axis) ?? 1), block)
  const store: StoreStmt = { kind: 'store', param, index: [own, ...kept], mask: [], value: fold.id }
  const whole: LetStmt = {
    ...fold,
    op: { kind: 'reduce', combiner, arg: load.id, axes: count === 1 ? [] : [parts.name] },
  }
  return { fold, param, partial, store, load, whole, parts }
}

const indexOver = (axes: readonly string[], extents: ReadonlyMap<string, number>): Expr[] =>
  axes.map((a) => ix.axis(a, extents.get(a) ?? 1))

const names = ({ index }: Pick<BodyStore, 'index'>, axis: string): boolean => index.some((e) => ix.axesOf(e).has(axis))

function mainKernel(
  name: string,
  body: Body,
  roles: Roles,
  splitBy: RowSplit,
  cuts: readonly CutFold[],
  target: Machine,
  mode: NumericsMode,
): BoundKernel {
  const params = new Params()
  cuts.forEach(({ param, partial }, index) => {
    params.add(param, partial.shape, partial.dtype, 'write', { kind: 'partial', index })
  })
  const { lets, stores } = mainStage(body, roles.stages)
  const handed = cuts.map((c) => c.store)
  // Partial results lack the axes that only what follows them has.
  const parallel = new Set([...roles.parallel].filter((a) => handed.every((s) => names(s, a))))
  if (splitBy === 'every-index') {
    const grid = partialsGrid(body, { ...roles, parallel }, splitBy, target)
    return kernelOf(name, body, grid, lets, mode, params, handed, stores)
  }
  const live = [...lets, ...cuts.map((c) => c.fold)]
  if (roles.row.size > 0 && cuts.every(({ partial: { dtype } }) => computeDType(dtype) === dtype))
    return rowLoop(name, { ...body, stores }, { ...roles, parallel }, splitBy, live, handed, mode, target, params)
  const reduced = new Set([...roles.reduced].filter((a) => a !== splitBy.axis))
  const grid = partialsGrid(body, { ...roles, parallel, reduced }, splitBy, target)
  return kernelOf(name, body, grid, live, mode, params, handed, stores)
}

/** The finishing stage: one kernel, but where results that lack axes of others would leave few programs for much, one for the results over the same axes. */
function finishingKernels(
  name: string,
  body: Body,
  roles: Roles,
  cuts: readonly CutFold[],
  target: Machine,
  mode: NumericsMode,
): BoundKernel[] {
  const late = body.stores.filter((s) => roles.stages.late.has(s.value))
  const whole = finishingStage(body, roles, cuts, late)
  const elements = cuts.reduce((n, c) => n + sizeOf(c.partial.shape), 0)
  const gridOf = (stage: Body): GridAxis[] => stageGrid(stage, axesUsed(stage.lets, []), target)
  const programs = programsOf(gridOf(whole.stage), new Map(body.axes.map((a) => [a.name, a.extent])))
  const isOne = target.programShare === undefined || elements <= programs * target.elementBlock
  const stages = isOne ? [whole] : storesByAxes(late).map((stores) => finishingStage(body, roles, cuts, stores))
  return stages.map(({ stage, params }, i) =>
    kernelOf(`${name}${i === 0 ? '' : i + 1}`, stage, gridOf(stage), stage.lets, mode, params, []),
  )
}

/** What makes the partial results whole and computes what follows, for some of the results. */
function finishingStage(
  body: Body,
  { stages: { late, again } }: Roles,
  cuts: readonly CutFold[],
  stores: readonly BodyStore[],
): { readonly stage: Body; readonly params: Params } {
  const params = new Params()
  const loads = new Map(body.loads)
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  const madeWhole = new Map(cuts.map((c) => [c.fold.id, [c.load, c.whole]]))
  const after = body.lets.flatMap((l) => madeWhole.get(l.id) ?? (late.has(l.id) ? [l] : []))
  const lets = liveLets(
    [...body.lets.filter((l) => again.has(l.id)), ...after],
    stores.map((s) => s.value),
  )
  const read = new Set(lets.flatMap((l) => (l.op.kind === 'load' ? [l.op.param] : [])))
  cuts.forEach(({ param, partial, fold, parts }, index) => {
    if (!read.has(param)) return
    params.add(param, partial.shape, partial.dtype, 'read', { kind: 'partial', index })
    if (parts !== undefined) extents.set(parts.name, parts.extent)
    const node = body.origin.get(fold.id)
    if (node !== undefined) loads.set(param, { node, shape: partial.shape })
  })
  const stage: Body = {
    ...body,
    loads,
    axes: [...extents].map(([axis, extent]) => body.axes.find((a) => a.name === axis) ?? { name: axis, extent }),
    lets,
    stores,
  }
  return { stage, params }
}
