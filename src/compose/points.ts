/**
 * Parts of a tensor at places that may be known on the device alone: reading and updating them. What a part is, each axis says: the
 * whole, a range from a start, or indices (NumPy's advanced ones). Out of range, reads clamp and updates drop (docs/numerics.md, "Indices").
 */
import { UserError } from '../diagnostics/errors.ts'
import { makeNode } from '../graph/build.ts'
import type { IndexSource, Node } from '../graph/node.ts'
import { positionDType } from '../types/dtype.ts'
import { broadcastShapes, type Shape, showShape } from '../types/shape.ts'
import { broadcastTo, reshape } from './broadcast.ts'
import { add, asNode, cast, clip, mul } from './elementwise.ts'
import { asIndex, type ScatterCombiner } from './indexing.ts'
import { iota, positionsIn } from './source.ts'
import { type SliceSpec, slice } from './views.ts'

/** What of one axis a part is: indices that broadcast with those of other axes, or `count` elements `step` apart from a scalar start. */
export type AxisPart =
  | 'whole'
  | { readonly at: Node }
  | { readonly from: Node | number; readonly count: number; readonly step: number }

/** A range that lies within its axis. */
interface KnownRange {
  readonly from: number
  readonly count: number
  readonly step: number
}

/** The points of a part: the shape of what stands there, index tensors of that shape, and where each axis gets its coordinate. */
interface Points {
  readonly shape: Shape
  readonly indices: Node[]
  readonly sources: IndexSource[]
}

const isAt = (p: AxisPart): p is { readonly at: Node } => typeof p === 'object' && 'at' in p

/** An index of a start and steps, in which no sum wraps. */
function ranged(from: Node | number, count: number, step: number, extent: number): Node {
  const dtype = positionDType({ lo: -extent, hi: positionsIn(Math.max(extent, count * Math.abs(step))).hi })
  const start = typeof from === 'number' ? from : cast(from, from.dtype === 'i64' ? 'i64' : dtype)
  return add(mul(iota([count], 0, dtype), step), start)
}

/**
 * The points of a part with one entry an axis. Axes of indices give way to the axes that these have in common: where the first of them
 * stood if they are neighbours, else in front (NumPy). Throws E_SHAPE, E_DTYPE.
 */
function pointsOf(x: Node, parts: readonly AxisPart[]): Points {
  const list: AxisPart[] = x.shape.map((_, i) => parts[i] ?? 'whole')
  const advanced = list.flatMap((p, i) => (isAt(p) ? [i] : []))
  const together = list.filter(isAt).reduce<Shape>((s, p) => broadcastShapes(s, p.at.shape), [])
  const first = advanced[0] ?? 0
  const adjacent = advanced.every((a, i) => a === first + i)
  const front = adjacent ? first : 0
  const rest = list.flatMap((p, i) => (isAt(p) ? [] : [p === 'whole' ? (x.shape[i] ?? 0) : p.count]))
  const shape = [...rest.slice(0, front), ...together, ...rest.slice(front)]
  const indices: Node[] = []
  const placed = (index: Node, at: number): IndexSource => {
    const tail = shape.length - at - index.shape.length
    indices.push(broadcastTo(reshape(index, [...index.shape, ...new Array<number>(tail).fill(1)]), shape))
    return { input: indices.length - 1 }
  }
  let next = 0
  const sources = list.map((p, i): IndexSource => {
    const extent = x.shape[i] ?? 0
    if (isAt(p)) return placed(broadcastTo(asIndex(p.at, extent), together), front)
    const axis = next < front ? next : next + together.length
    next++
    return p === 'whole' ? { axis } : placed(ranged(p.from, p.count, p.step, extent), axis)
  })
  return { shape, indices, sources }
}

/** The elements at a part; coordinates out of range clamp. Ranges that are known are views. */
export function gatherPart(x: Node, parts: readonly AxisPart[]): Node {
  const isKnown = (p: AxisPart): p is KnownRange => typeof p === 'object' && 'from' in p && typeof p.from === 'number'
  const seen = slice(
    x,
    parts.map((p): SliceSpec | undefined => {
      if (!isKnown(p)) return undefined
      const stop = p.from + p.count * p.step
      return { start: p.from, step: p.step, stop: p.step < 0 && stop < 0 ? undefined : stop }
    }),
  )
  const { shape, indices, sources } = pointsOf(
    seen,
    parts.map((p) => (isKnown(p) ? 'whole' : p)),
  )
  return indices.length === 0 ? seen : makeNode('gather', [seen, ...indices], { shape, sources })
}

/** x with values, which broadcast, combined in at a part in row-major order; those out of range drop. */
export function updatePart(x: Node, parts: readonly AxisPart[], values: Node, combiner: ScatterCombiner): Node {
  const { shape, indices, sources } = pointsOf(x, parts)
  return makeNode('scatter', [x, broadcastTo(cast(values, x.dtype), shape), ...indices], { sources, combiner })
}

/** Ranges of given sizes whose starts are clamped so that they lie within x; negative starts count from the end. Throws E_ARGUMENT, E_SHAPE, E_DTYPE. */
function clamped(x: Node, starts: readonly (Node | number)[], sizes: Shape): AxisPart[] {
  if (starts.length !== x.shape.length || sizes.length !== x.shape.length)
    throw new UserError(
      'E_ARGUMENT',
      `${starts.length} starts and ${sizes.length} sizes for a tensor of shape ${showShape(x.shape)}`,
      { help: 'give a start and a size for each axis' },
    )
  return x.shape.map((extent, i): AxisPart => {
    const count = sizes[i] ?? 0
    if (count > extent)
      throw new UserError('E_SHAPE', `a slice of ${showShape(sizes)} from a tensor of shape ${showShape(x.shape)}`, {
        help: 'the slice is at most as large as the tensor, along each axis',
      })
    if (count === extent) return 'whole'
    const start = starts[i] ?? 0
    const most = extent - count
    if (typeof start === 'number')
      return { from: Math.min(Math.max(start < 0 ? start + extent : start, 0), most), count, step: 1 }
    return { from: clip(asIndex(start, extent), 0, most), count, step: 1 }
  })
}

/** `sizes` elements of x from starts that may be known on the device alone; starts are clamped so that the slice lies within x. */
export const dynamicSlice = (x: Node, starts: readonly (Node | number)[], sizes: Shape): Node =>
  gatherPart(x, clamped(x, starts, sizes))

/** x with `update` written over it from starts, clamped in the same way. */
export const dynamicUpdateSlice = (x: Node, update: Node, starts: readonly (Node | number)[]): Node =>
  updatePart(x, clamped(x, starts, update.shape), asNode(update), 'set')
