/**
 * Folds over rows that a program holds whole, a few at a time: a loop over the program's share of the rows carries the partial
 * results, so that what stands between a row's own folds stays in the nearest memory.
 */

import * as ix from '../affine/expr.ts'
import { invariant } from '../diagnostics/errors.ts'
import { carriedFold } from '../kernel/carried.ts'
import {
  type Carry,
  type KernelPart,
  type LetStmt,
  type LoopStmt,
  type NumericsMode,
  operandsOf,
  type Stmt,
  type StoreStmt,
  type ValueId,
} from '../kernel/ir.ts'
import { parallelGrid } from '../plan/axes/parallelGrid.ts'
import { rowsOfStep } from '../plan/axes/reductionBlocks.ts'
import type { Roles } from '../plan/axes/roles.ts'
import type { Body } from '../plan/body/body.ts'
import { combinerOp } from '../scalar/ops.ts'
import type { Machine } from '../target/machine.ts'
import { positionDType } from '../types/dtype.ts'
import { axesUsed } from './kernelOf.ts'
import type { BoundKernel } from './launch.ts'
import type { Params } from './params.ts'

/** The statements in order, cut where they begin to depend on an axis: before it, and inside its loop. */
function cutAt(lets: readonly LetStmt[], axis: string): { readonly before: LetStmt[]; readonly inside: LetStmt[] } {
  const within = new Set<ValueId>()
  const before: LetStmt[] = []
  const inside: LetStmt[] = []
  for (const l of lets) {
    const folds = l.op.kind === 'reduce' && l.op.axes.includes(axis)
    if (folds || l.axes.includes(axis) || operandsOf(l.op).some((o) => within.has(o))) {
      within.add(l.id)
      inside.push(l)
    } else before.push(l)
  }
  return { before, inside }
}

/**
 * The main kernel of folds cut into `block` indices of `axis` a program. `partial`: the stores of partial results, by the fold
 * whose value they store; `body.stores`: the results that name the axis.
 */
export function rowLoop(
  name: string,
  body: Body,
  roles: Roles,
  { axis, block }: { readonly axis: string; readonly block: number },
  lets: readonly LetStmt[],
  partial: readonly StoreStmt[],
  mode: NumericsMode,
  target: Machine,
  params: Params,
): BoundKernel {
  const extent = roles.extents.get(axis) ?? 1
  const count = Math.ceil(extent / block)
  const program = `${axis}_program`
  let next = 1 + lets.reduce((n, l) => Math.max(n, l.id), 0)
  const { before, inside } = cutAt(lets, axis)
  const folded = new Map(partial.map((s) => [s.value, s]))
  const outer: LetStmt[] = [...before]
  const steps: LetStmt[] = []
  const carries: Carry[] = []
  const late: StoreStmt[] = []
  for (const l of inside) {
    steps.push(l)
    const store = folded.get(l.id)
    if (store === undefined) continue
    const { op } = l
    invariant(op.kind === 'reduce' && op.combiner in combinerOp, 'only plain folds are cut')
    const names = { init: next++, param: next++, next: next++, result: next++ }
    const { identity, step, carry } = carriedFold(op.combiner as keyof typeof combinerOp, l, names)
    outer.push(identity)
    steps.push(step)
    carries.push(carry)
    late.push({ ...store, index: [ix.axis(program, count), ...store.index.slice(1)], value: names.result })
  }
  const first = ix.mul(ix.axis(`${program}.start`, count), block)
  const bound = (at: ix.Expr): LetStmt => ({
    kind: 'let',
    id: next++,
    dtype: positionDType(ix.rangeOf(at)),
    axes: [],
    op: { kind: 'index', expr: at },
  })
  const from = bound(first)
  const to = bound(ix.addConst(first, block))
  const rows = rowsOfStep(body, roles, { axis, block }, target)
  params.loads(body, lets)
  const stores = body.stores.map(
    (s): StoreStmt => ({
      kind: 'store',
      param: params.stored(s),
      index: s.index,
      mask: s.mask ?? [],
      value: s.value,
    }),
  )
  const moving = new Set(inside.map((l) => l.id))
  const loop: LoopStmt = {
    kind: 'loop',
    axis,
    block: rows,
    ...(count === 1 ? {} : { from: from.id, to: to.id }),
    carries,
    body: [...steps, ...stores.filter((s) => moving.has(s.value))],
  }
  const rest = stores.filter((s) => !moving.has(s.value))
  const statements: Stmt[] = [...outer, ...(count === 1 ? [] : [from, to]), loop, ...late, ...rest]
  const named = axesUsed([...outer, ...steps], [...stores, ...late])
  const others = parallelGrid(body, { ...roles, parallel: new Set([...roles.parallel].filter((x) => x !== axis)) }, 1)
  const part: KernelPart = {
    axes: [...body.axes, { name: program, extent: count }].filter((x) => named.has(x.name) || x.name === program),
    grid: [{ axis: program, block: 1 }, ...others.filter((g) => named.has(g.axis))],
    body: statements,
  }
  return { kernel: { name, params: params.list, mode, parts: [part] }, bindings: params.bindings }
}
