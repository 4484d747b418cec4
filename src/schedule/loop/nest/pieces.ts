/** Where the elements of a copy stand: in one parameter, or in several that are joined along an axis, each with a part of its indices. */
import { addConst, asAxis, axis, type Expr, rangeOf, substitute } from '../../../affine/expr.ts'
import { always, type Bound, conjoin, predicateKey } from '../../../affine/predicate.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import { isFloat } from '../../../types/dtype.ts'
import type { CopyPiece, CopySource } from '../ir/schedule.ts'
import type { Places } from '../tiles/places.ts'
import { bytePosition } from './position.ts'

/**
 * The loads a value is, a selection by a predicate of their own padding taken with them; where integers are widened, the loads of what is. `stretch`:
 * the value is asked where an axis is within that bound.
 */
export function sourceOf(places: Places, id: ValueId, widened: boolean, stretch?: Bound): CopySource | undefined {
  if (places.has(id)) return undefined
  const { op } = places.def(id)
  const under = (of: ValueId | undefined, within = stretch): CopySource | undefined =>
    of === undefined ? undefined : sourceOf(places, of, widened, within)
  if (op?.kind === 'stage') return under(op.of)
  if (widened && op?.kind === 'scalar' && op.op === 'cast')
    return isFloat(places.def(op.args[0] ?? id).dtype) ? undefined : under(op.args[0])
  if (op?.kind === 'load') {
    if (op.maskValue !== undefined) return undefined
    const param = places.paramOf(op.param)
    const piece = { param, position: bytePosition(param, op.index), where: undefined }
    return { pieces: [piece], mask: op.mask, other: op.other }
  }
  if (op?.kind !== 'scalar' || op.op !== 'select') return undefined
  const [condition, , other] = op.args.map((a) => places.def(a).op)
  const [, chosen, rest] = op.args
  if (condition?.kind !== 'predicate') return undefined
  if (other?.kind !== 'const') {
    const parts = partsOf(condition.predicate, stretch)
    return parts === undefined ? undefined : joined(parts, under(chosen, parts[0]), under(rest, parts[1]))
  }
  const source = under(chosen)
  if (source === undefined || (source.mask.length > 0 && !Object.is(source.other, other.value))) return undefined
  return { ...source, mask: conjoin(always, ...source.mask, ...condition.predicate), other: other.value }
}

/** The two parts that a bound on an axis makes of its indices, or of a stretch of them; undefined where what it leaves is no stretch. */
function partsOf(
  [bound, ...others]: readonly Bound[],
  stretch: Bound | undefined,
): readonly [Bound, Bound] | undefined {
  if (bound === undefined || others.length > 0 || asAxis(bound.expr) === undefined) return undefined
  if (stretch !== undefined && stretch.expr.key !== bound.expr.key) return undefined
  const { lo, hi } = stretch ?? { lo: 0, hi: rangeOf(bound.expr).hi + 1 }
  const within = { ...bound, lo: Math.max(lo, bound.lo), hi: Math.min(hi, bound.hi) }
  if (within.lo >= within.hi) return undefined
  if (within.lo === lo) return [within, { ...bound, lo: within.hi, hi }]
  return within.hi === hi ? [within, { ...bound, lo, hi: within.lo }] : undefined
}

/** Two sources as one, each where its part is. */
function joined(
  [within, beyond]: readonly [Bound, Bound],
  first: CopySource | undefined,
  second: CopySource | undefined,
): CopySource | undefined {
  const [a, b] = [first && cut(first, within), second && cut(second, beyond)]
  if (a === undefined || b === undefined || predicateKey(a.mask) !== predicateKey(b.mask)) return undefined
  if (a.mask.length > 0 && !Object.is(a.other, b.other)) return undefined
  return { ...a, pieces: [...a.pieces, ...b.pieces] }
}

/** A source where an axis is within a bound: what holds in all of it asks nothing there. */
function cut({ pieces, mask, other }: CopySource, bound: Bound): CopySource {
  const left = mask.filter((b) => !(b.expr.key === bound.expr.key && b.lo <= bound.lo && b.hi >= bound.hi))
  return { pieces: pieces.map((p) => ({ ...p, where: p.where ?? bound })), mask: conjoin(always, ...left), other }
}

/** The positions of a piece: those of the indices it has. */
export function positionsOf({ position, where }: CopyPiece): ReturnType<typeof rangeOf> {
  const own = where === undefined ? undefined : asAxis(where.expr)
  if (where === undefined || own === undefined) return rangeOf(position)
  const stretch: Expr = addConst(axis(own.name, where.hi - where.lo), where.lo)
  return rangeOf(substitute(position, (a) => (a.kind === 'axis' && a.name === own.name ? stretch : undefined)))
}
