/** Finishing stages of folds that blocks of a matrix product's result cut: partial results are folded, what follows is computed. */
import * as ix from '../affine/expr.ts'
import type { LetStmt, NumericsMode, ValueId } from '../kernel/ir.ts'
import { liveLets } from '../kernel/walk.ts'
import type { BlockPartial } from '../plan/axes/partials.ts'
import { type Stages, storesByAxes } from '../plan/axes/stages.ts'
import type { Body } from '../plan/body/body.ts'
import { combinerIdentity } from '../scalar/ops.ts'
import type { Machine } from '../target/machine.ts'
import { kernelOf, zeroOf } from './kernelOf.ts'
import type { BoundKernel } from './launch.ts'
import { beforeEnd } from './openParts.ts'
import { Params } from './params.ts'
import { stageGrid } from './stageGrid.ts'

/** A fold whose axes are cut into blocks: partial result i of the launch, `shape` = blocks along each, then the axes kept. */
export interface BlockedFold extends BlockPartial {
  readonly fold: LetStmt
  readonly combiner: 'sum' | 'prod' | 'max' | 'min'
  readonly arg: ValueId
}

/** One kernel for the results that run over the same axes. */
export function finishingStages(
  name: string,
  body: Body,
  folds: readonly BlockedFold[],
  { late, again }: Stages,
  target: Machine,
  mode: NumericsMode,
): BoundKernel[] {
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const loads = new Map(body.loads)
  const replaced = new Map<ValueId, LetStmt[]>()
  folds.forEach((f, i) => {
    const over = f.parts.flatMap(({ axis, count }) => {
      const part = `${axis}_part`
      extents.set(part, count)
      return count === 1 ? [] : [part]
    })
    const at = (a: string): ix.Expr => ix.axis(a, extents.get(a) ?? 1)
    const index = [...f.parts.map((p) => (p.count === 1 ? ix.zero : at(`${p.axis}_part`))), ...f.kept.map(at)]
    const { dtype } = f.fold
    const mask = f.parts.flatMap((p) => beforeEnd(body, p.axis, ix.mul(at(`${p.axis}_part`), p.block)))
    const axes = [...over, ...f.kept]
    const load: LetStmt = {
      kind: 'let',
      id: next++,
      dtype,
      axes,
      op: {
        kind: 'load',
        param: `p${i}`,
        index,
        mask,
        other: mask.length === 0 ? zeroOf(f.fold) : combinerIdentity(f.combiner, dtype),
      },
    }
    replaced.set(f.fold.id, [
      load,
      { ...f.fold, op: { kind: 'reduce', combiner: f.combiner, arg: load.id, axes: over } },
    ])
    const node = body.origin.get(f.fold.id)
    if (node !== undefined) loads.set(`p${i}`, { node, shape: f.shape })
  })
  const after = body.lets.flatMap((l) => replaced.get(l.id) ?? (late.has(l.id) ? [l] : []))
  const all = [...body.lets.filter((l) => again.has(l.id)), ...after]
  return storesByAxes(body.stores.filter((s) => late.has(s.value))).map((stores, i) => {
    const lets = liveLets(
      all,
      stores.map((s) => s.value),
    )
    const used = new Set(lets.flatMap((l) => (l.op.kind === 'load' ? [l.op.param] : [])))
    const params = new Params()
    folds.forEach((f, j) => {
      if (used.has(`p${j}`)) params.add(`p${j}`, f.shape, f.fold.dtype, 'read', { kind: 'partial', index: j })
    })
    const stage: Body = {
      ...body,
      loads: new Map([...loads].filter(([p]) => used.has(p))),
      axes: [...extents].map(([axis, extent]) => body.axes.find((a) => a.name === axis) ?? { name: axis, extent }),
      lets,
      stores,
    }
    const named = stores.flatMap((s) => s.index.flatMap((e) => [...ix.axesOf(e)]))
    const suffix = i === 0 ? '' : `${i + 1}`
    return kernelOf(`${name}_finish${suffix}`, stage, stageGrid(stage, named, target), lets, mode, params, [])
  })
}
