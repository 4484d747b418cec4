/**
 * Axes of chained products in whole grains of a matrix unit: heads of 40 columns are heads of 48, whose last eight hold zeros that nothing stores. Rows and
 * the shared axis have blocks that may end beyond them; the depth of a tile and the columns of a sum a program holds whole.
 */
import * as ix from '../../affine/expr.ts'
import { always, type Bound, conjoin } from '../../affine/predicate.ts'
import type { LetStmt, TileOp, ValueId } from '../../kernel/ir.ts'
import { ancestorsOf, mapExpressions } from '../../kernel/walk.ts'
import { combinerIdentity, combinerOp } from '../../scalar/ops.ts'
import type { Machine } from '../../target/machine.ts'
import type { DType } from '../../types/dtype.ts'
import { type Body, mapStore } from '../body/body.ts'
import { isForMatrixUnit } from './matrixRole.ts'

/** What the extent is a multiple of, so that copies end where it does. */
const copy = 8
/** The most that an axis may grow by. */
const most = 1.5

/** The whole grains of a matrix unit that so many columns take. */
export function wholeWidth(extent: number, chains: Machine['chains']): number {
  const { grain = 1, wide } = chains ?? {}
  const step = wide !== undefined && extent > wide.beyond ? wide.grain : grain
  return Math.ceil(extent / step) * step
}

type Dot = Extract<TileOp, { kind: 'dot' }>

/** Of axes that grow: what they count, and the whole grains that hold it. */
type Widths = Map<string, { readonly extent: number; readonly whole: number }>

/** The body with such axes widened; itself where there are none. */
export function inWholeGrains(body: Body, { chains }: Machine): Body {
  const grain = chains?.grain
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const dots = body.lets.flatMap((l) => (l.op.kind === 'dot' ? [{ let: l, op: l.op }] : []))
  // A unit takes chains of 16 bits alone.
  const isForUnit = ({ op }: (typeof dots)[number]): boolean => op.precision === undefined && isForMatrixUnit(op, lets)
  if (grain === undefined || !dots.every(isForUnit)) return body
  const widths: Widths = new Map()
  for (const axis of heldAxes(dots, lets)) {
    const extent = body.axes.find((a) => a.name === axis)?.extent ?? 1
    const whole = wholeWidth(extent, chains)
    if (extent === whole) continue
    if (extent % copy !== 0 || whole > most * extent) return body
    widths.set(axis, { extent, whole })
  }
  if (widths.size === 0 || !body.lets.every((l) => mayWiden(l, widths))) return body
  return widened(body, widths)
}

/** Depths of products of loaded operands, and columns of those of what the former give; none where no product is made of another. */
function heldAxes(
  dots: readonly { readonly let: LetStmt; readonly op: Dot }[],
  lets: ReadonlyMap<ValueId, LetStmt>,
): Set<string> {
  const isDot = (id: ValueId): boolean => lets.get(id)?.op.kind === 'dot'
  const isOwn = (id: ValueId): boolean => [...ancestorsOf([id], lets)].some(isDot)
  const tiles = dots.filter(({ op }) => !isOwn(op.a) && !isOwn(op.b))
  if (tiles.length === dots.length) return new Set()
  const ofTiles = new Set(tiles.flatMap((d) => d.let.axes))
  const out = new Set(tiles.flatMap((d) => d.op.axes))
  for (const { op } of dots)
    if (isOwn(op.a) !== isOwn(op.b))
      for (const t of lets.get(isOwn(op.a) ? op.b : op.a)?.axes ?? []) if (!ofTiles.has(t)) out.add(t)
  return out
}

type Plain = keyof typeof combinerOp

/** Whether a statement has a value for places beyond an axis: loads that are zero elsewhere, too, and folds that some value leaves as they are. */
function mayWiden({ axes, op }: LetStmt, widths: Widths): boolean {
  const along = op.kind === 'reduce' || op.kind === 'dot' ? [...axes, ...op.axes] : axes
  if (!along.some((t) => widths.has(t))) return true
  if (op.kind === 'load') return op.mask.length === 0 || Number(op.other) === 0
  if (op.kind === 'reduce') return op.combiner in combinerOp
  return op.kind !== 'random' && op.kind !== 'scan' && op.kind !== 'at'
}

function widened(body: Body, widths: Widths): Body {
  const inside = (axes: Iterable<string>): Bound[] =>
    [...axes].flatMap((t) => {
      const width = widths.get(t)
      return width === undefined ? [] : [{ expr: ix.axis(t, width.whole), lo: 0, hi: width.extent }]
    })
  const map = (e: ix.Expr): ix.Expr =>
    ix.substitute(e, (a) => {
      const width = a.kind === 'axis' ? widths.get(a.name) : undefined
      return a.kind === 'axis' && width !== undefined ? ix.axis(a.name, width.whole) : undefined
    })
  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const lets: LetStmt[] = []
  const emit = (dtype: DType, axes: readonly string[], op: TileOp): ValueId => {
    lets.push({ kind: 'let', id: next, dtype, axes, op })
    return next++
  }
  const given = new Map(body.lets.map((l) => [l.id, l]))
  /** What a fold over axes takes of a value: beyond them, what changes nothing. */
  const folded = (id: ValueId, over: readonly string[], combiner: Plain): ValueId => {
    const of = given.get(id)
    const own = over.filter((t) => widths.has(t) && of?.axes.includes(t) === true)
    if (of === undefined || own.length === 0 || (combiner === 'sum' && of.op.kind === 'load')) return id
    const holds = emit('bool', own, { kind: 'predicate', predicate: conjoin(always, ...inside(own)) })
    const beyond = emit(of.dtype, [], { kind: 'const', value: combinerIdentity(combiner, of.dtype) })
    return emit(of.dtype, of.axes, { kind: 'scalar', op: 'select', args: [holds, id, beyond] })
  }
  const moved = (op: TileOp, axes: readonly string[]): TileOp => {
    switch (op.kind) {
      case 'load':
        return { ...op, mask: conjoin(op.mask, ...inside(axes)) }
      case 'dot':
        return { ...op, a: folded(op.a, op.axes, 'sum'), b: folded(op.b, op.axes, 'sum') }
      case 'reduce':
        return { ...op, arg: folded(op.arg, op.axes, op.combiner as Plain) }
      default:
        return op
    }
  }
  for (const l of body.lets) lets.push({ ...l, op: moved(mapExpressions(l.op, map), l.axes) })
  const stores = body.stores.map((s) => {
    const at = mapStore(s, map)
    const bounds = inside(new Set(s.index.flatMap((e) => [...ix.axesOf(e)])))
    return bounds.length === 0 ? at : { ...at, mask: conjoin(at.mask ?? always, ...bounds) }
  })
  return {
    ...body,
    axes: body.axes.map((a) => ({ ...a, extent: widths.get(a.name)?.whole ?? a.extent })),
    lets,
    stores,
  }
}
