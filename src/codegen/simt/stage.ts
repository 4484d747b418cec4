/** Staging: tiles in shared memory, filled under the layout that suits their loads. */

import { invariant } from '../../diagnostics/errors.ts'
import { valuesOf } from '../../index/expr.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { type Layout, spanOf } from '../../schedule/simt/layout.ts'
import { stageLayout } from '../../schedule/simt/partLayout.ts'
import { type Product, swizzleOf } from '../../schedule/simt/product.ts'
import { operandOf } from '../../schedule/simt/vectorProduct.ts'
import { rowMajorStrides } from '../../types/shape.ts'
import { and, type Block, call, type Ex, int, lit, mul, regType, select, shared, when } from './ir.ts'
import { itemsOf, type LowerItems } from './items.ts'
import { type Access, groupOf, positionOf } from './memory.ts'
import { makeVectorStage } from './multiplyVectors.ts'
import { Point } from './point.ts'
import { emitLoops, type Lanes, loopsOf, withLane } from './registers.ts'
import { inside, insideAlong, type Scope, type SharedTile, sharedIndex, withinTile } from './scope.ts'

/** The shared array of a stage: row-major, with room behind it for what registers beyond the range may ask for. */
export function makeStage(scope: Scope, l: LetStmt): SharedTile {
  const { part, unit } = scope
  const axes = part.axesOf(l.id)
  const strides = rowMajorStrides(axes.map((a) => part.axis(a).size))
  const length = axes.reduce((n, name, i) => {
    const a = scope.layout.find(name)
    const most = Math.max(part.axis(name).size, a === undefined ? 1 : spanOf(a) * a.chunks)
    return n + (most - 1) * (strides[i] ?? 1)
  }, 1)
  const array = unit.share(`tile_${l.id}`, regType(l.dtype), length)
  return { kind: 'shared', array, axes, strides }
}

/** Swizzled tiles begin at multiples of what the swizzle permutes. */
const swizzleBytes = 1024

/** Elements that pad the rows of a tile of a product, against bank conflicts. */
const padding = 8

/** A tile of 16-bit elements for a product: the axis its loads are contiguous along comes last. `copies` tiles, one after another. */
function makeProductStage(scope: Scope, l: LetStmt, layout: Layout, product: Product, copies: number): SharedTile {
  const { part, unit } = scope
  const own = product.a === l.id ? product.rows : product.columns
  const vector = [...layout.axes.values()].find((a) => a.vec > 1)?.name
  const last = vector ?? (product.a === l.id ? product.depth : own)
  const axes = [last === own ? product.depth : own, last]
  const swizzle = swizzleOf(product, product.a === l.id, last === product.depth)
  const pitch = part.axis(last).size + (swizzle === undefined ? padding : 0)
  const like = { half: true, ...(swizzle === undefined ? {} : { align: swizzleBytes }) }
  const array = unit.share(`tile_${l.id}`, 'f32', part.axis(axes[0] ?? '').size * pitch * copies, like)
  return { kind: 'shared', array, axes, strides: [pitch, 1], ...(swizzle === undefined ? {} : { swizzle }) }
}

/** Elements of one of the tiles in an array of several. */
const tileLength = (tile: SharedTile, copies: number): number => tile.array.length / copies

/** Writes one point of a tile. */
export function fillPoint(p: Point, axes: readonly string[], of: ValueId, to: SharedTile, out: Block): void {
  const { scope, lanes } = p
  const cond = and(inside(scope, axes, lanes), scope.owner(axes))
  const place = shared(
    to.array,
    sharedIndex(scope, to, () => undefined, lanes),
  )
  const body: Block = [{ k: 'assign', to: place, value: p.read(of) }]
  out.push(...when(cond, body))
}

/** The lanes of a vector axis of a tile of 16-bit elements; undefined where it has none. */
export const fillVector = (scope: Scope, to: SharedTile): string | undefined => {
  const last = to.axes[1]
  return last !== undefined && (scope.layout.find(last)?.vec ?? 1) > 1 ? last : undefined
}

/** Writes the vector (or element) of a product's tile at a point: what lies outside the range is zero. */
export function fillHalf(p: Point, of: ValueId, to: SharedTile, dtype: 'bf16' | 'f16', out: Block): void {
  const { scope, lanes } = p
  const axis = fillVector(scope, to)
  const at = (lane: number): Lanes => (axis === undefined ? lanes : withLane(lanes, axis, lane))
  const value = (lane: number): Ex => {
    const point = new Point(scope, at(lane), p.here)
    return select(inside(scope, to.axes, at(lane)), point.read(of), lit('f32', 0))
  }
  const n = axis === undefined ? 1 : scope.layout.axis(axis).vec
  const words: Ex[] = []
  for (let i = 0; i < n; i += 2)
    words.push(n === 1 ? call('u32', `${dtype}_bits`, value(0)) : call('u32', `${dtype}_pair`, value(i), value(i + 1)))
  const index = sharedIndex(scope, to, () => undefined, at(0))
  const body: Block = []
  if (n === 1) body.push({ k: 'assign', to: shared(to.array, index), value: words[0] ?? int(0) })
  else
    for (let i = 0; i < words.length; i += 4)
      body.push({
        k: 'fill',
        array: to.array.name,
        index: i === 0 ? index : sharedIndex(scope, to, () => undefined, at(2 * i)),
        words: words.slice(i, i + 4),
      })
  const cond = and(scope.owner(to.axes), ...to.axes.map((a) => withinTile(scope, a, at(0))))
  out.push(...when(cond, body))
}

/** A stage that only copies 16-byte groups of a parameter: they can be copied in the background. */
export interface Copy {
  readonly let: LetStmt
  readonly load: LetStmt
  readonly layout: Layout
}

export function copyOf(scope: Scope, l: LetStmt): Copy | undefined {
  const { part, unit } = scope
  const product = part.productOn(l.id)
  if (l.op.kind !== 'stage' || product === undefined) return undefined
  const load = part.lets.get(l.op.of)
  if (load?.op.kind !== 'load' || !Object.is(load.op.other, 0) || unit.param(load.op.param).dtype !== product.dtype)
    return undefined
  if (unit.param(load.op.param).format !== 'plain' || !isPlaced(scope, load.op)) return undefined
  // What is copied needs no registers.
  const machine = { ...unit.machine, registers: Number.POSITIVE_INFINITY }
  const layout = stageLayout(part, l, machine, scope.layout.threads)
  if ([...layout.axes.values()].some((a) => a.chunks > 1)) return undefined
  const group = groupOf(scope.child({ layout, bases: new Map() }), load.op, part.axesOf(l.id))
  const whole = group?.n === 8 && group.whole && layout.axis(group.axis).vec === 8
  return whole ? { let: l, load, layout } : undefined
}

/** Whether where and when an access takes place is known before what varies inside the loop. */
export function isPlaced(scope: Scope, { index, mask, maskValue }: Access): boolean {
  const values = [...index, ...mask.map((b) => b.expr)].flatMap((e) => [...valuesOf(e)])
  if (maskValue !== undefined) values.push(maskValue)
  return values.every((id) => scope.part.axesOf(id).length === 0 && scope.held.has(id))
}

/** Starts the copies of a tile; what lies outside the range becomes zero. */
export function startCopy(scope: Scope, copy: Copy, to: SharedTile, out: Block): void {
  const { op } = copy.load
  invariant(op.kind === 'load', 'not a load')
  const inner = scope.child({ layout: copy.layout, bases: new Map() }).openWhole(copy.layout.axes.keys(), out)
  const axis = to.axes[1] ?? ''
  const loops = copy.layout.spread(to.axes).flatMap((a) => loopsOf(copy.layout, a.name, axis))
  emitLoops(inner, loops, out, (lanes, body) => {
    const p = new Point(inner, lanes)
    const there = and(
      ...to.axes.map((a) => insideAlong(inner, a, lanes)),
      op.maskValue === undefined ? undefined : p.read(op.maskValue),
      p.predicate(op.mask),
    )
    const index = sharedIndex(inner, to, () => undefined, lanes)
    const { param, at } = positionOf(p, op)
    const call_: Block[number] = {
      k: 'call',
      fn: 'copy_async',
      args: [
        { k: 'address', type: 'u32', of: to.array.name, index },
        { k: 'address', type: 'u32', of: param, index: select(there, at, int(0)) },
        there,
      ],
    }
    const mine = and(inner.owner(to.axes), ...to.axes.map((a) => withinTile(inner, a, lanes)))
    body.push(...when(mine, [call_]))
  })
}

/** Bytes of a copied stage's tile. */
export function copyBytes(scope: Scope, copy: Copy): number {
  const { part } = scope
  return 2 * part.axesOf(copy.let.id).reduce((n, a) => n * part.axis(a).size, 1)
}

/** A ring of tiles for a copied stage. */
export function makeRing(scope: Scope, copy: Copy, copies: number): (slot: Ex) => SharedTile {
  const product = scope.part.productOn(copy.let.id)
  invariant(product !== undefined, 'a copied stage without product')
  const tile = makeProductStage(scope, copy.let, copy.layout, product, copies)
  const length = tileLength(tile, copies)
  return (slot) => ({ ...tile, offset: mul(slot, int(length)) })
}

/** Fills a tile under a layout of its own: everything pure that it needs is computed there. */
export function lowerOwnStage(scope: Scope, l: LetStmt, lower: LowerItems, out: Block): SharedTile {
  invariant(l.op.kind === 'stage', 'not a stage')
  const { part, unit } = scope
  const ahead = unit.aheads.get(l.id)
  const layout = ahead?.layout ?? stageLayout(part, l, unit.machine, scope.layout.threads)
  const product = part.productOn(l.id)
  const { vectorProduct } = part
  const inVectors = vectorProduct !== undefined && operandOf(vectorProduct, l.id) !== undefined
  const to = inVectors
    ? makeVectorStage(scope, l, vectorProduct)
    : product === undefined
      ? makeStage(scope, l)
      : makeProductStage(scope, l, layout, product, 1)
  const { lets } = part.closureOf([l.op.of])
  const inner = scope.child({ layout, bases: new Map() })
  for (const x of lets) if (part.axesOf(x.id).length > 0) inner.held.delete(x.id)
  out.push({ k: 'comment', text: `stage %${l.id} {${l.axes.join(', ')}}` })
  const open = inner.openWhole(layout.axes.keys(), out)
  unit.ahead = ahead
  lower(open, [...itemsOf(lets), { kind: 'fill', let: l, to }], new Set(), out)
  unit.ahead = undefined
  if (to.swizzle !== undefined) out.push({ k: 'call', fn: 'tile_written', args: [] })
  // The product waits for both of its operands at once.
  if (!inVectors) out.push({ k: 'barrier' })
  return to
}
