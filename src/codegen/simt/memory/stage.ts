/** Staging: tiles in shared memory, and what fills them. */

import { invariant } from '../../../diagnostics/errors.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import { type TilePlan, tileArray } from '../../../schedule/simt/access/tiles.ts'
import type { PackedForm } from '../../../schedule/simt/part/packed.ts'
import type { Product } from '../../../schedule/simt/part/product.ts'
import type { CopiedStage } from '../../../schedule/simt/prefetch/copiedStages.ts'
import { dtypeBytes } from '../../../types/dtype.ts'
import {
  and,
  type Block,
  bitcast,
  call,
  cast,
  type Ex,
  int,
  least,
  lit,
  mul,
  select,
  shared,
  sub,
  when,
} from '../ir/ir.ts'
import { emitLoops, type Lanes, loopsOf, withLane } from '../ir/registers.ts'
import { Point } from '../nest/point.ts'
import { coordinate, inside, insideAlong, type Scope, type SharedTile, sharedIndex, withinTile } from '../nest/scope.ts'
import type { Unit } from '../unit.ts'
import { positionOf } from './memory.ts'
import { packedWord } from './packedPairs.ts'

/** Room for a tile, or for so many one after another. */
export function openTile(unit: Unit, tile: TilePlan, copies = 1): SharedTile {
  const { let: l, axes, strides, form } = tile
  if (form.kind === 'matrices') {
    const array = unit.matrices.get(form.product.dot)?.array
    invariant(array !== undefined, `the matrices of %${form.product.dot} are not open`)
    const { pitch, at, depthLast } = form
    return { kind: 'shared', array, axes, strides, offset: int(at), rows: { pitch, depthLast: depthLast === true } }
  }
  const { type, length, half, align } = tileArray(tile, copies)
  const array = unit.share(`tile_${l.id}`, type, length, {
    ...(half === true ? { half } : {}),
    ...(align === undefined ? {} : { align }),
    ...(form.kind === 'vectors' ? { pitch: form.pitch } : {}),
  })
  const swizzle = form.kind === 'halves' ? form.swizzle : undefined
  return {
    kind: 'shared',
    array,
    axes,
    strides,
    ...(swizzle === undefined ? {} : { swizzle }),
  }
}

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

/** Writes the vector (or element) of a product's tile at a point, two at a time where `packed` says how: what lies outside the range is zero. */
export function fillHalf(
  p: Point,
  of: ValueId,
  to: SharedTile,
  axis: string | undefined,
  { dtype, halves, split }: Product,
  packed: PackedForm | undefined,
  out: Block,
): void {
  const { scope, lanes } = p
  const at = (lane: number): Lanes => (axis === undefined ? lanes : withLane(lanes, axis, lane))
  const point = (lane: number): Point => new Point(scope, at(lane), p.here)
  const there = (lane: number): Ex => inside(scope, to.axes, at(lane))
  const value = (lane: number): Ex => select(there(lane), point(lane).read(of), lit('f32', 0))
  const n = axis === undefined ? 1 : scope.layout.axis(axis).vec
  const each = 2 / halves
  const single = (i: number): Ex => (split ? bitcast('u32', value(i)) : call('u32', `${dtype}_bits`, value(i)))
  const word = (i: number): Ex => {
    if (packed !== undefined && dtype !== 'tf32')
      return packedWord(packed, dtype, [point(i), point(i + 1)], [there(i), there(i + 1)])
    return each === 1 ? single(i) : call('u32', `${dtype}_pair`, value(i), value(i + 1))
  }
  const index = (lane: number): Ex => sharedIndex(scope, to, () => undefined, at(lane))
  const body: Block = []
  if (n < each) body.push({ k: 'assign', to: shared(to.array, index(0)), value: single(0) })
  else
    for (let i = 0; i < n; i += 4 * each) {
      const words = Array.from({ length: Math.min(4, (n - i) / each) }, (_, w) => word(i + w * each))
      body.push({ k: 'fill', array: to.array.name, index: index(i), words })
    }
  const cond = and(scope.owner(to.axes), ...to.axes.map((a) => withinTile(scope, a, at(0))))
  out.push(...when(cond, body))
}

/** Starts the copies of a tile; what lies outside the range becomes zero. */
export function startCopy(scope: Scope, copy: CopiedStage, to: SharedTile, out: Block): void {
  const { op } = copy.load
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
      fn: `copy_async${copy.bytes === 4 ? '_word' : copy.isAgain ? '_near' : ''}${copy.cut === undefined ? '' : '_cut'}`,
      args: [
        { k: 'address', type: 'u32', of: to.array.name, index },
        { k: 'address', type: 'u32', of: param, index: select(there, at, int(0)) },
        there,
        ...(copy.cut === undefined ? [] : [bytesUntilEnd(inner, copy.cut, lanes, dtypeBytes(copy.load.dtype))]),
      ],
    }
    const mine = and(inner.owner(to.axes), ...to.axes.map((a) => withinTile(inner, a, lanes)))
    body.push(...when(mine, [call_]))
  })
}

/** Bytes of a group of 16 that lie before the end of an axis inside it. */
function bytesUntilEnd(scope: Scope, axis: string, lanes: Lanes, each: number): Ex {
  const left = sub(scope.range(axis).end, coordinate(scope, axis, lanes))
  return cast('i32', mul(least(left, int(16 / each)), int(each)))
}

/** A ring of tiles for a copied stage. */
export function openRing(unit: Unit, { tile }: CopiedStage, copies: number): (slot: Ex) => SharedTile {
  const all = openTile(unit, tile, copies)
  return (slot) => ({ ...all, offset: mul(slot, int(tile.length)) })
}
