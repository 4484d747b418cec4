/**
 * Functions of many instructions that get a nest of their own. Several in one loop need more registers than there are, for their coefficients,
 * and engines move what nothing orders behind the branches of the next one: groups of lanes then wait for each other. Their results stand near between.
 */
import type { Stmt, ValueId } from '../../../kernel/ir.ts'
import { storeOperands } from '../../../kernel/walk.ts'
import { nearBytes } from '../../../target/loops.ts'
import { isFunction } from '../../price.ts'
import type { LevelContext, Nest, Placement, Root } from '../ir/steps.ts'
import { type Def, tileBytes } from '../ir/tile.ts'
import { inlineOperands } from './places.ts'

/**
 * Values that are computed in nests of their own, given the steps of a level where none is: of each nest's functions all but the last of its
 * points, and those that only some of its loops vary, which other loops would compute again, or one element at a time.
 */
export function functionsApart(stmts: readonly Stmt[], ctx: LevelContext, p: Placement): Set<ValueId> {
  const places = new Map(stmts.flatMap((s, i): [ValueId, number][] => (s.kind === 'let' ? [[s.id, i]] : [])))
  const apart = new Set<ValueId>()
  for (const step of p.steps) {
    if (step.kind !== 'nest') continue
    const found = functionsOf(step.roots, ctx, (id) => places.has(id) && standsNear(ctx.def(id), ctx))
    const last = Math.max(...found.map((id) => (isOfEveryPoint(id, step, ctx) ? (places.get(id) ?? 0) : -1)))
    for (const id of found) if (places.get(id) !== last) apart.add(id)
  }
  return apart
}

const isOfEveryPoint = (id: ValueId, { space }: Nest, ctx: LevelContext): boolean =>
  ctx.axes.varying(ctx.def(id).axes).length === space.length

/** Whether a value is worth lanes of its own and small enough to stand near. */
export function standsNear({ axes: names, dtype }: Def, { axes, machine: { loops } }: LevelContext): boolean {
  if (loops === undefined) return false
  const size = axes.varying(names).reduce((n, a) => n * axes.view(a).max, 1)
  return size >= loops.lanes && size * tileBytes(dtype) <= nearBytes(loops)
}

/** The functions that a nest computes at its points. */
export function functionsOf(roots: readonly Root[], ctx: LevelContext, may: (id: ValueId) => boolean): ValueId[] {
  const { prices } = ctx.machine
  const found: ValueId[] = []
  const seen = new Set<ValueId>()
  const stack = roots.flatMap((r) =>
    r.kind === 'fold' ? r.fold.args : r.kind === 'keep' ? [r.id] : storeOperands(r.stmt),
  )
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    if (seen.has(id) || ctx.hasHome(id)) continue
    seen.add(id)
    const def = ctx.def(id)
    if (def.op === undefined) continue
    if (isFunction(def, (i) => ctx.def(i).dtype, prices) && may(id)) found.push(id)
    if (def.op.kind !== 'reduce' && def.op.kind !== 'scan' && def.op.kind !== 'dot')
      stack.push(...inlineOperands(def.op))
  }
  return found
}
