/** What the parts of a chain's shared axis leave, and the finishing stage that combines it (src/plan/axes/chainParts.ts). */
import * as ix from '../affine/expr.ts'
import { invariant } from '../diagnostics/errors.ts'
import type { LetStmt, StoreStmt, ValueId } from '../kernel/ir.ts'
import type { ChainFold, ChainRole } from '../plan/axes/chain.ts'
import { partAxis, stateAxes } from '../plan/axes/chainParts.ts'
import type { DepthParts } from '../plan/axes/fusedReductions.ts'
import type { PartialResult } from '../plan/axes/partials.ts'
import type { Roles } from '../plan/axes/roles.ts'
import type { Body } from '../plan/body/body.ts'
import type { Machine } from '../target/machine.ts'
import type { LoopState } from './depthLoops.ts'
import { axesUsed, kernelOf } from './kernelOf.ts'
import type { BoundKernel } from './launch.ts'
import { Params } from './params.ts'
import { stageGrid } from './stageGrid.ts'

/** A state of the loop, and the fold that it is of. */
export interface FoldState extends LoopState {
  readonly fold: ValueId
}

/** A state as it passes from the parts to the finishing stage. */
export interface ChainState {
  readonly fold: ChainFold
  readonly param: string
  readonly partial: PartialResult
  /** The axis over the parts, and the state of each along it. */
  readonly over: string
  readonly load: LetStmt
  /** Binds the partial result and stores it. */
  readonly store: (params: Params) => StoreStmt
}

/** The states that a loop leaves, by their folds; `first` is a number for statements that no other has. */
export function chainStates(
  folds: readonly ChainFold[],
  role: ChainRole,
  cut: DepthParts,
  states: readonly FoldState[],
  { extents, stages }: Roles,
  first: ValueId,
): ChainState[] {
  const over = partAxis(cut)
  return folds.map((fold, i): ChainState => {
    const { let: l } = fold
    const partial = stages.split.get(l.id)
    const result = states.find((s) => s.fold === l.id)?.result
    invariant(partial !== undefined && result !== undefined, 'a fold of a chain in parts leaves no state')
    const kept = stateAxes(role, l)
    const index = kept.map((a) => ix.axis(a, extents.get(a) ?? 1))
    const param = `p${i}`
    const load: LetStmt = {
      kind: 'let',
      id: first + i,
      dtype: l.dtype,
      axes: [over, ...kept],
      op: { kind: 'load', param, index: [ix.axis(over, cut.parts), ...index], mask: [], other: 0 },
    }
    const store = (params: Params): StoreStmt => {
      params.add(param, partial.shape, partial.dtype, 'write', { kind: 'partial', index: i })
      return { kind: 'store', param, index: [ix.axis(`${over}.start`, cut.parts), ...index], mask: [], value: result }
    }
    return { fold, param, partial, over, load, store }
  })
}

/** The kernel that combines states. */
export function finishChain(
  name: string,
  body: Body,
  lets: readonly LetStmt[],
  states: readonly ChainState[],
  target: Machine,
): BoundKernel {
  const params = new Params()
  const loads = new Map(body.loads)
  const axes = [...body.axes]
  states.forEach(({ param, partial, over, fold }, index) => {
    params.add(param, partial.shape, partial.dtype, 'read', { kind: 'partial', index })
    const node = body.origin.get(fold.let.id)
    if (node !== undefined) loads.set(param, { node, shape: partial.shape })
    if (!axes.some((a) => a.name === over)) axes.push({ name: over, extent: partial.shape[0] ?? 1 })
  })
  const stage: Body = { ...body, loads, axes, lets }
  return kernelOf(`${name}_finish`, stage, stageGrid(stage, axesUsed(lets, []), target), lets, 'fast', params, [])
}
