/**
 * Functions of many instructions that get a nest of their own. Several in one loop need more registers than there are, for their coefficients,
 * and engines move what nothing orders behind the branches of the next one: groups of lanes then wait for each other. Their results stand near between.
 */
import type { LetStmt, Stmt, ValueId } from '../../../kernel/ir.ts'
import { nearBytes } from '../../../target/loops.ts'
import { isFunction } from '../../price.ts'
import { type LevelContext, type Nest, operandsOfRoot, type Placement, type Root } from '../ir/steps.ts'
import { type Def, mostTile, tileBytes } from '../ir/tile.ts'
import { inlineOperands } from './places.ts'

/**
 * Values that are computed in nests of their own, given the steps of a level where none is: of each nest's functions all but the last of its
 * points, and those that only some of its loops vary, which other loops would compute again, or one element at a time; and those of running folds.
 */
export function functionsApart(stmts: readonly Stmt[], ctx: LevelContext, p: Placement): Set<ValueId> {
  const places = new Map(stmts.flatMap((s, i): [ValueId, number][] => (s.kind === 'let' ? [[s.id, i]] : [])))
  const apart = new Set<ValueId>()
  for (const step of p.steps) {
    if (step.kind === 'scan') for (const id of functionsOfScan(step.stmt, ctx, (i) => places.has(i))) apart.add(id)
    if (step.kind !== 'nest') continue
    const found = functionsOf(step.roots, ctx, (id) => places.has(id) && standsNear(ctx.def(id), ctx))
    const last = Math.max(...found.map((id) => (isOfEveryPoint(id, step, ctx) ? (places.get(id) ?? 0) : -1)))
    for (const id of found) if (places.get(id) !== last) apart.add(id)
  }
  return apart
}

/** The functions that a running fold along its lanes would compute one group at a time, each waiting for the one before: they are worth a tile of any size. */
function functionsOfScan({ op, axes }: LetStmt, ctx: LevelContext, isOwn: (id: ValueId) => boolean): ValueId[] {
  if (op.kind !== 'scan' || ctx.axes.varying(axes).at(-1) !== op.axis) return []
  return functionsUnder([op.arg], ctx, (id) => isOwn(id) && sizeOf(ctx.def(id), ctx) <= mostTile)
}

const isOfEveryPoint = (id: ValueId, { space }: Nest, ctx: LevelContext): boolean =>
  ctx.axes.varying(ctx.def(id).axes).length === space.length

/** Whether a value is worth lanes of its own and small enough to stand near. */
export function standsNear(def: Def, ctx: LevelContext): boolean {
  const { loops } = ctx.machine
  if (loops === undefined) return false
  const bytes = sizeOf(def, ctx)
  return bytes >= loops.lanes * tileBytes(def.dtype) && bytes <= nearBytes(loops)
}

/** Bytes of a value in a tile. */
const sizeOf = ({ axes: names, dtype }: Def, { axes }: LevelContext): number =>
  axes.varying(names).reduce((n, a) => n * axes.view(a).max, tileBytes(dtype))

/** The functions that a nest computes at its points. */
export const functionsOf = (roots: readonly Root[], ctx: LevelContext, may: (id: ValueId) => boolean): ValueId[] =>
  functionsUnder(roots.flatMap(operandsOfRoot), ctx, may)

/** The functions among what values are computed of where they are, themselves included. */
function functionsUnder(ids: readonly ValueId[], ctx: LevelContext, may: (id: ValueId) => boolean): ValueId[] {
  const { prices } = ctx.machine
  const found: ValueId[] = []
  const seen = new Set<ValueId>()
  const stack = [...ids]
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
