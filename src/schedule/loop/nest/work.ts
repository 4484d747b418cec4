/** What one point of a nest computes, reads and writes. */
import { type Expr, flatten, strideOf, valuesOf } from '../../../affine/expr.ts'
import { drawsAt } from '../../../kernel/draws.ts'
import { type KernelParam, operandsOf, type ValueId } from '../../../kernel/ir.ts'
import { elementsPerCall, isRandomDType } from '../../../scalar/threefry.ts'
import { inAdditions } from '../../../target/prices.ts'
import type { dtypeClass } from '../../../types/dtype.ts'
import { isFunction, statementSeconds } from '../../price.ts'
import type { Nest } from '../ir/steps.ts'
import type { Tile } from '../ir/tile.ts'
import type { Places } from '../tiles/places.ts'
import { bytePosition, readsFreely } from './position.ts'

export interface Touch {
  readonly param?: string
  readonly position: Expr
  readonly masked: boolean
  /** Lanes of a mask are chosen after the read, which nothing is asked for. */
  readonly free?: boolean
  readonly write: boolean
  readonly unit: number
  /** Several elements a byte: `position` counts elements. */
  readonly packed?: boolean
}

export interface Work {
  readonly touches: readonly Touch[]
  /** Additions' worth of arithmetic a point, and of what is not random bits. */
  readonly arithmetic: number
  readonly besideRandom: number
  /** Additions' worth of converting what is read and written. */
  readonly conversions: number
  /** Copies whose random bits four calls side by side make. */
  readonly callCopies: number
  /** Copies that read one element of random bits. */
  readonly drawCopies: number
  /** Values of many instructions, operands first. */
  readonly long: readonly ValueId[]
  /** Seconds of the arithmetic of an element, and of its longest chain. */
  readonly seconds: number
  readonly chain: number
}

/** What one point of a nest touches and computes; what varies along none of its axes is computed outside. */
export function workOf(places: Places, { space, roots }: Nest): Work {
  const touches: Touch[] = []
  const { prices } = places.facts.machine
  let [arithmetic, random, conversions] = [0, 0, 0]
  let [callCopies, drawCopies] = [1, 1]
  let [spent, chain] = [0, 0]
  const long: ValueId[] = []
  const paths = new Map<ValueId, number>()
  const seen = new Set<ValueId>()
  const tile = (t: Tile, write: boolean): void => {
    touches.push({ position: places.axes.tileIndex(t), masked: false, write, unit: t.dtype === 'f64' ? 8 : 4 })
  }
  /** What waits for values takes so many seconds, and stands as `id`. */
  const takes = (id: ValueId | undefined, seconds: number, of: readonly ValueId[] = []): void => {
    spent += seconds
    const path = seconds + Math.max(0, ...of.map((i) => paths.get(i) ?? 0))
    if (id !== undefined) paths.set(id, path)
    chain = Math.max(chain, path)
  }
  const visit = (id: ValueId): void => {
    if (seen.has(id)) return
    seen.add(id)
    const place = places.get(id)
    if (place === 'register') return
    if (place !== undefined) {
      tile(place, false)
      return
    }
    const { op } = places.def(id)
    if (op === undefined) return
    if (op.kind === 'at') {
      touches.push({
        position: places.axes.tileIndex(places.tileOf(op.of), op.index),
        masked: false,
        write: false,
        unit: 4,
      })
      return
    }
    operandsOf(op).forEach(visit)
    if (op.kind === 'load') {
      const p = places.paramOf(op.param)
      const masked = op.mask.length > 0 || op.maskValue !== undefined
      const free = readsFreely(p, op)
      touches.push({ param: op.param, ...placeOf(p, op.index), masked, free, write: false })
      const seconds = prices.read[places.def(id).dtype]
      conversions += inAdditions(seconds, prices)
      takes(id, seconds)
      return
    }
    const reach = places.reachOf(id)
    if (!space.some((a) => reach.has(a))) return
    const seconds = statementSeconds(places.def(id), (i) => places.def(i).dtype, prices)
    takes(id, seconds, operandsOf(op))
    if (isFunction(places.def(id), (i) => places.def(i).dtype, prices)) long.push(id)
    if (op.kind === 'random') {
      random += inAdditions(seconds, prices)
      const { dtype } = places.def(id)
      const { repeat } = drawsAt(op.index)
      if (isRandomDType(dtype)) callCopies = Math.max(callCopies, elementsPerCall(dtype) * repeat)
      drawCopies = Math.max(drawCopies, repeat / 4)
    } else if (op.kind !== 'const') arithmetic += op.kind === 'scalar' ? inAdditions(seconds, prices) : 1
  }
  for (const r of roots) {
    if (r.kind === 'fold') {
      r.fold.args.forEach(visit)
      arithmetic += r.fold.args.length
    } else if (r.kind === 'keep') {
      visit(r.id)
      tile(r.tile, true)
    } else {
      const s = r.stmt
      visit(s.value)
      if (s.maskValue !== undefined) visit(s.maskValue)
      for (const e of s.index) valuesOf(e).forEach(visit)
      const p = places.paramOf(s.param)
      touches.push({ param: s.param, ...placeOf(p, s.index), masked: s.mask.length > 0, write: true })
      const seconds = prices.write[places.def(s.value).dtype]
      conversions += inAdditions(seconds, prices)
      takes(undefined, seconds, [s.value])
    }
  }
  const counts = { arithmetic: arithmetic + random, besideRandom: arithmetic, conversions, callCopies, drawCopies }
  return { touches, ...counts, long, seconds: spent, chain }
}

/** Where an access of a parameter stands, in bytes, or in elements of a packed format. */
const placeOf = (p: KernelParam, index: readonly Expr[]): Pick<Touch, 'position' | 'unit' | 'packed'> =>
  p.format === 'plain'
    ? { position: bytePosition(p, index), unit: bytesOf(p.dtype) }
    : { position: flatten(index, p.shape), unit: 1, packed: true }

const bytesOf = (d: Parameters<typeof dtypeClass>[0]): number =>
  ({ f32: 4, f64: 8, f16: 2, bf16: 2, i8: 1, i16: 2, i32: 4, i64: 8, u8: 1, u16: 2, u32: 4, u64: 8, bool: 1 })[d]

/** How far an axis moves through memory, over all accesses: far-moving axes go outside. */
export function strideSum(work: Work, a: string): number {
  return work.touches.reduce(
    (n, t) => n + Math.min(1e6, Math.abs(strideOf(t.position, a) ?? 16)) * (t.write ? 2 : 1),
    0,
  )
}

/** Rows this many bytes apart fall on different pages. */
export const farRows = 2048
