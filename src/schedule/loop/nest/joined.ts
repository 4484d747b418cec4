/**
 * Axes of a nest that stand beside each other in all that it touches, so that one loop goes along them: rows that are shorter than a step, or end in a
 * partial one, are one long row then.
 */
import { type Expr, strideOf, valuesOf } from '../../../affine/expr.ts'
import type { KernelParam, StoreStmt, TileOp, ValueId } from '../../../kernel/ir.ts'
import { expressionsOf, storeOperands } from '../../../kernel/walk.ts'
import type { Joined } from '../ir/joined.ts'
import type { Root } from '../ir/steps.ts'
import { type Axes, type Def, namedAxes, type Place, type Tile } from '../ir/tile.ts'
import { inlineOperands, type Places } from '../tiles/places.ts'
import { bytePosition } from './position.ts'

/** What is asked of the surroundings of a nest. */
export interface Standing {
  readonly axes: Axes
  def(id: ValueId): Def
  place(id: ValueId): Place | undefined
  param(name: string): KernelParam
}

/** The surroundings of a nest while steps are made. */
export const standingOf = (places: Places): Standing => ({
  axes: places.axes,
  def: (id) => places.def(id),
  place: (id) => places.get(id),
  param: (name) => places.paramOf(name),
})

/** What a nest loops over, and what it writes: results of folds in their tiles. */
export interface Touching {
  readonly space: readonly string[]
  readonly folded: readonly string[]
  readonly roots: readonly Root[]
  readonly results: readonly Tile[]
}

/** The axes of a nest that one loop may go along, as many as there are; undefined of fewer than two. */
export function joinedOf(at: Standing, nest: Touching): Joined | undefined {
  const kept = nest.space.filter((a) => !nest.folded.includes(a))
  if (kept.length < 2) return undefined
  const touched = touchedBy(at, nest)
  if (touched === undefined) return undefined
  const { positions, elsewhere } = touched
  const may = kept.filter((a) => !elsewhere.has(a))
  let most: Joined | undefined
  for (const axis of may) {
    const joined: string[] = []
    let run = isWhole(at.axes, axis) ? at.axes.view(axis).max : 0
    while (run > 0) {
      const around = may.find((a) => a !== axis && !joined.includes(a) && positions.every(besides(a, axis, run)))
      if (around === undefined) break
      joined.unshift(around)
      run = isWhole(at.axes, around) ? run * at.axes.view(around).max : 0
    }
    if (joined.length > (most?.with.length ?? 0)) most = { axis, with: joined }
  }
  return most
}

/** Whether one loop may go along these axes of a nest. */
export function mayJoin(at: Standing, nest: Touching, { axis, with: around }: Joined): boolean {
  const touched = touchedBy(at, nest)
  if (touched === undefined || [axis, ...around].some((a) => touched.elsewhere.has(a) || nest.folded.includes(a)))
    return false
  let run = 1
  let inside = axis
  for (const a of around.toReversed()) {
    if (!isWhole(at.axes, inside)) return false
    run *= at.axes.view(inside).max
    if (!touched.positions.every(besides(a, axis, run))) return false
    inside = a
  }
  return around.length > 0
}

/** Whether a position moves along an axis as it does when so many indices of another have passed. */
const besides =
  (around: string, axis: string, run: number) =>
  (position: Expr): boolean => {
    const [outer, inner] = [strideOf(position, around), strideOf(position, axis)]
    return outer !== undefined && inner !== undefined && outer === run * inner
  }

/** Whether every program holds all of an axis. */
function isWhole(axes: Axes, axis: string): boolean {
  const { moves, counts, extent, open } = axes.view(axis)
  return !moves && open === undefined && counts?.length === 1 && counts[0] === extent
}

interface Touched {
  readonly positions: readonly Expr[]
  /** Axes that something follows otherwise than by its position: a mask, an index, bits of a word, what other values say. */
  readonly elsewhere: ReadonlySet<string>
}

/** What a nest touches; undefined where points must run in order. */
function touchedBy(at: Standing, { roots, results }: Touching): Touched | undefined {
  const positions: Expr[] = results.map((t) => at.axes.tileIndex(t))
  const elsewhere = new Set<string>()
  const apart = (exprs: Iterable<Expr>): void => {
    for (const a of namedAxes(exprs)) elsewhere.add(a)
  }
  const seen = new Set<ValueId>()
  const stack: ValueId[] = []
  const access = (param: string, { index, mask }: Pick<StoreStmt, 'index' | 'mask'>): boolean => {
    const p = at.param(param)
    if (index.some((e) => valuesOf(e).size > 0)) return false
    apart(mask.map((b) => b.expr))
    if (p.format === 'plain') positions.push(bytePosition(p, index))
    else apart(index)
    return true
  }
  for (const r of roots) {
    if (r.kind === 'fold') {
      stack.push(...r.fold.args, ...(r.fold.acc === undefined ? [] : [r.fold.acc]))
      if (r.fold.position !== undefined) apart([r.fold.position])
    } else if (r.kind === 'keep') {
      stack.push(r.id)
      positions.push(at.axes.tileIndex(r.tile))
    } else {
      if (r.stmt.combiner !== undefined || !access(r.stmt.param, r.stmt)) return undefined
      stack.push(...storeOperands(r.stmt))
    }
  }
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    if (seen.has(id)) continue
    seen.add(id)
    const place = at.place(id)
    if (place === 'register') continue
    if (place !== undefined) {
      positions.push(at.axes.tileIndex(place))
      continue
    }
    const { op } = at.def(id)
    if (op === undefined) return undefined
    if (op.kind === 'load') {
      if (!access(op.param, op)) return undefined
    } else if (op.kind === 'at') {
      const tile = at.place(op.of)
      if (tile === undefined || tile === 'register' || expressionsOf(op).some((e) => valuesOf(e).size > 0))
        return undefined
      positions.push(at.axes.tileIndex(tile, op.index))
    } else if (plain.has(op.kind)) apart(expressionsOf(op))
    else return undefined
    stack.push(...inlineOperands(op))
  }
  return { positions, elsewhere }
}

/** Operations at a point that read no other point. */
const plain: ReadonlySet<TileOp['kind']> = new Set<TileOp['kind']>([
  'scalar',
  'index',
  'predicate',
  'const',
  'random',
  'stage',
  'reduce',
])
