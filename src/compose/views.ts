/** Views: reorderings, slices, padding and joins of tensors, with NumPy's conventions for axes and negative indices. */
import { UserError } from '../diagnostics/errors.ts'
import { keepsViews, makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import type { Scalar } from '../scalar/ops.ts'
import { axesOf, normaliseAxis, type Shape, showShape, sizeOf } from '../types/shape.ts'
import { broadcastTo, expandDims, reshape } from './broadcast.ts'
import { cast, commonDType } from './elementwise.ts'
import { scalarOf } from './source.ts'

export { broadcastTo, expandDims, reshape, squeeze } from './broadcast.ts'

/** Output axis i is input axis perm[i]; without `perm`, all axes reversed. Throws E_AXIS. */
export function permute(x: Node, perm?: readonly number[]): Node {
  const rank = x.shape.length
  const p = perm === undefined ? x.shape.map((_, i) => rank - 1 - i) : perm.map((a) => normaliseAxis(a, rank))
  return p.length === rank && p.every((a, i) => a === i) ? x : makeNode('permute', [x], { perm: p })
}

/** NumPy's transpose: the same as `permute`. */
export const transpose = permute

/** Exchanges two axes. Throws E_AXIS. */
export function swapAxes(x: Node, a: number, b: number): Node {
  const i = normaliseAxis(a, x.shape.length)
  const j = normaliseAxis(b, x.shape.length)
  return permute(
    x,
    x.shape.map((_, k) => (k === i ? j : k === j ? i : k)),
  )
}

/** Moves one axis to another place; the others keep their order. Throws E_AXIS. */
export function moveAxis(x: Node, from: number, to: number): Node {
  const f = normaliseAxis(from, x.shape.length)
  const perm = x.shape.map((_, i) => i).filter((i) => i !== f)
  perm.splice(normaliseAxis(to, x.shape.length), 0, f)
  return permute(x, perm)
}

/** Axes [start, end] (inclusive, negatives from the end) as one. Throws E_AXIS. */
export function flatten(x: Node, start = 0, end = -1): Node {
  if (x.shape.length === 0) return reshape(x, [1])
  const s = normaliseAxis(start, x.shape.length)
  const e = normaliseAxis(end, x.shape.length)
  if (s > e)
    throw new UserError('E_AXIS', `flatten from axis ${s} to ${e}`, {
      help: 'the first axis stands before the last: negatives count from the end',
    })
  return reshape(x, [
    ...x.shape.slice(0, s),
    x.shape.slice(s, e + 1).reduce((n, d) => n * d, 1),
    ...x.shape.slice(e + 1),
  ])
}

/** Reverses axes. Throws E_AXIS. */
export function flip(x: Node, axes?: number | readonly number[]): Node {
  const list =
    axes === undefined ? x.shape.map((_, i) => i) : Array.from(axesOf(axes), (a) => normaliseAxis(a, x.shape.length))
  return list.length === 0 ? x : makeNode('flip', [x], { axes: [...new Set(list)].sort((a, b) => a - b) })
}

/** One axis of a slice as Python's `start:stop:step`; what is left out means the whole. */
export interface SliceSpec {
  readonly start?: number | undefined
  readonly stop?: number | undefined
  readonly step?: number | undefined
}

const clampTo = (v: number, lo: number, hi: number): number => Math.min(Math.max(v, lo), hi)

/**
 * Python's slicing of the leading axes: negatives count from the end, bounds clamp, a negative step walks backwards.
 * Throws E_ARGUMENT for a step of 0 or too many axes.
 */
export function slice(x: Node, specs: readonly (SliceSpec | undefined)[]): Node {
  if (specs.length > x.shape.length)
    throw new UserError('E_ARGUMENT', `${specs.length} slices for shape ${showShape(x.shape)}`, {
      help: 'give at most one slice for each axis',
    })
  const start: number[] = []
  const limit: number[] = []
  const step: number[] = []
  const reversed: number[] = []
  x.shape.forEach((n, i) => {
    const spec = specs[i] ?? {}
    const by = spec.step ?? 1
    if (by === 0 || !Number.isInteger(by))
      throw new UserError('E_ARGUMENT', `a slice step of ${by}`, { help: 'steps are whole and not 0' })
    const at = (v: number): number => (v < 0 ? v + n : v)
    if (by > 0) {
      const s = clampTo(at(spec.start ?? 0), 0, n)
      start.push(s)
      limit.push(Math.max(s, clampTo(spec.stop === undefined ? n : at(spec.stop), 0, n)))
      step.push(by)
      return
    }
    // Backwards from `first` down to, excluding, `last`: the same elements ascending, then flipped.
    const first = clampTo(at(spec.start ?? n - 1), -1, n - 1)
    const last = spec.stop === undefined ? -1 : clampTo(at(spec.stop), -1, n - 1)
    const count = Math.max(0, Math.ceil((first - last) / -by))
    const least = count === 0 ? 0 : first + (count - 1) * by
    start.push(least)
    limit.push(count === 0 ? 0 : first + 1)
    step.push(-by)
    reversed.push(i)
  })
  const whole = x.shape.every((n, i) => start[i] === 0 && limit[i] === n && step[i] === 1)
  return flip(whole && !keepsViews() ? x : makeNode('slice', [x], { start, limit, step }), reversed)
}

/** Elements start..stop (exclusive) of one axis. Throws E_AXIS. */
export function sliceAxis(x: Node, axis: number, start: number, stop: number, step = 1): Node {
  const a = normaliseAxis(axis, x.shape.length)
  return slice(
    x,
    x.shape.map((_, i) => (i === a ? { start, stop, step } : undefined)),
  )
}

/** Element `index` of an axis, which goes away; negatives count from the end. Throws E_INDEX. */
export function selectAt(x: Node, axis: number, index: number): Node {
  const a = normaliseAxis(axis, x.shape.length)
  const n = x.shape[a] ?? 0
  const i = index < 0 ? index + n : index
  if (!Number.isInteger(index) || i < 0 || i >= n)
    throw new UserError('E_INDEX', `index ${index} is out of range on axis ${a} of ${showShape(x.shape)}`, {
      help: 'indices count from 0; negatives count from the end',
    })
  return reshape(
    sliceAxis(x, a, i, i + 1),
    x.shape.filter((_, k) => k !== a),
  )
}

/** NumPy's padding modes. */
export type PadMode = 'constant' | 'edge' | 'reflect' | 'wrap'

/**
 * Adds `widths[i] = [before, after]` elements around axis i; negative widths crop. `reflect` leaves the border element
 * out of the mirror; widths longer than the axis go on mirroring. Throws E_SHAPE for padding an empty axis from itself.
 */
export function pad(
  x: Node,
  widths: readonly (readonly [number, number])[],
  mode: PadMode = 'constant',
  value: Scalar = 0,
): Node {
  if (widths.length !== x.shape.length)
    throw new UserError('E_ARGUMENT', `${widths.length} padding widths for shape ${showShape(x.shape)}`, {
      help: 'give a pair [before, after] for each axis',
    })
  const crops = widths.map(([b, a], i) => ({
    start: Math.max(0, -b),
    stop: Math.max(0, -b, (x.shape[i] ?? 0) - Math.max(0, -a)),
  }))
  const cropped = widths.every(([b, a]) => b >= 0 && a >= 0) ? x : slice(x, crops)
  const low = widths.map(([b]) => Math.max(0, b))
  const high = widths.map(([, a]) => Math.max(0, a))
  const isNothing = low.every((w) => w === 0) && high.every((w) => w === 0)
  if (isNothing && !(mode === 'constant' && keepsViews())) return cropped
  if (mode === 'constant')
    return makeNode('pad', [cropped], { low, high, interior: low.map(() => 0), value: scalarOf(value, x.dtype) })
  return low.reduce((y, b, i) => padFromItself(y, i, b, high[i] ?? 0, mode), cropped)
}

/** Periods written out one by one; more are one view. */
const mostPeriods = 8

function padFromItself(x: Node, axis: number, before: number, after: number, mode: Exclude<PadMode, 'constant'>): Node {
  if (before === 0 && after === 0) return x
  const n = x.shape[axis] ?? 0
  if (n === 0)
    throw new UserError('E_SHAPE', `cannot pad the empty axis ${axis} of ${showShape(x.shape)} with its own elements`, {
      help: 'pad it with a constant',
    })
  const run = (count: number): Shape => x.shape.map((d, i) => (i === axis ? count : d))
  if (mode === 'edge' || n === 1) {
    const parts = [x]
    if (before > 0) parts.unshift(broadcastTo(sliceAxis(x, axis, 0, 1), run(before)))
    if (after > 0) parts.push(broadcastTo(sliceAxis(x, axis, n - 1, n), run(after)))
    return concat(parts, axis)
  }
  // The extended signal is periodic: one period is the axis itself, or there and back without both borders.
  const back = mode === 'reflect' && n > 2 ? [flip(sliceAxis(x, axis, 1, n - 1), axis)] : []
  const period = mode === 'reflect' ? 2 * n - 2 : n
  const first = Math.floor(-before / period)
  const periods = Math.ceil((n + after) / period) - first
  if (periods > mostPeriods) {
    const all = tile(
      concat([x, ...back], axis),
      x.shape.map((_, i) => (i === axis ? periods : 1)),
    )
    return sliceAxis(all, axis, -before - first * period, n + after - first * period)
  }
  const parts: Node[] = []
  for (let at = Math.floor(-before / period) * period; at < n + after; at += period) {
    let offset = at
    for (const part of [x, ...back]) {
      const m = part.shape[axis] ?? 0
      const from = Math.max(0, -before - offset)
      const to = Math.min(m, n + after - offset)
      if (from < to) parts.push(sliceAxis(part, axis, from, to))
      offset += m
    }
  }
  return concat(parts, axis)
}

/** Padding with elements between neighbours too (dilation). All widths at least 0. */
export const padInterior = (
  x: Node,
  low: readonly number[],
  high: readonly number[],
  interior: readonly number[],
  value: Scalar = 0,
): Node =>
  [...low, ...high, ...interior].every((w) => w === 0)
    ? x
    : makeNode('pad', [x], { low, high, interior, value: scalarOf(value, x.dtype) })

/** Joins tensors along an existing axis after promotion. Throws E_SHAPE, E_ARGUMENT when there are none. */
export function concat(parts: readonly Node[], axis = 0): Node {
  const [first] = parts
  if (first === undefined) throw new UserError('E_ARGUMENT', 'concat of no tensors', { help: 'pass at least one' })
  const a = normaliseAxis(axis, first.shape.length)
  const dtype = commonDType(parts)
  const same = parts.map((p) => cast(p, dtype))
  const [only] = same
  return same.length === 1 && only !== undefined ? only : makeNode('concat', same, { axis: a })
}

/** Joins tensors of one shape along a new axis. Throws E_SHAPE. */
export function stack(parts: readonly Node[], axis = 0): Node {
  return concat(
    parts.map((p) => expandDims(p, axis)),
    axis,
  )
}

/** Cuts an axis into equal parts, or into parts of the given sizes. Throws E_SHAPE when they do not add up. */
export function split(x: Node, parts: number | readonly number[], axis = 0): Node[] {
  const a = normaliseAxis(axis, x.shape.length)
  const n = x.shape[a] ?? 0
  const sizes = typeof parts === 'number' ? Array.from({ length: parts }, () => n / parts) : parts
  if (sizes.some((s) => !Number.isInteger(s) || s < 0) || sizes.reduce((s, d) => s + d, 0) !== n)
    throw new UserError(
      'E_SHAPE',
      `cannot split axis ${a} of ${showShape(x.shape)} into ${typeof parts === 'number' ? `${parts} equal parts` : `${showShape(parts)}`}`,
      {
        help: 'give the sizes of the parts; they must add up to the extent',
      },
    )
  let at = 0
  return sizes.map((s) => {
    at += s
    return sliceAxis(x, a, at - s, at)
  })
}

/** Sliding windows: `axis` becomes (count, size), element [o, k] at o*stride + k*dilation. Throws E_SHAPE. */
export const slidingWindow = (x: Node, axis: number, size: number, stride = 1, dilation = 1): Node =>
  makeNode('window', [x], { axis: normaliseAxis(axis, x.shape.length), size, stride, dilation })

/** Repeats the whole tensor `reps[i]` times along axis i (NumPy's tile). */
export function tile(x: Node, reps: readonly number[]): Node {
  const rank = Math.max(reps.length, x.shape.length)
  const shape = [...new Array<number>(rank - x.shape.length).fill(1), ...x.shape]
  const times = [...new Array<number>(rank - reps.length).fill(1), ...reps]
  if (times.every((t) => t === 1)) return reshape(x, shape)
  const paired = shape.flatMap((d) => [1, d])
  const wide = shape.flatMap((d, i) => [times[i] ?? 1, d])
  return reshape(
    broadcastTo(reshape(x, paired), wide),
    shape.map((d, i) => d * (times[i] ?? 1)),
  )
}

/** Repeats each element along an axis (NumPy's repeat); without an axis, of the flattened tensor. */
export function repeat(x: Node, times: number, axis?: number): Node {
  const y = axis === undefined ? reshape(x, [sizeOf(x.shape)]) : x
  const a = normaliseAxis(axis ?? 0, y.shape.length)
  const n = y.shape[a] ?? 0
  const head = y.shape.slice(0, a)
  const tail = y.shape.slice(a + 1)
  return reshape(broadcastTo(reshape(y, [...head, n, 1, ...tail]), [...head, n, times, ...tail]), [
    ...head,
    n * times,
    ...tail,
  ])
}

/** Shifts elements along an axis, the last coming back first (NumPy's roll). */
export function roll(x: Node, shift: number, axis: number): Node {
  const a = normaliseAxis(axis, x.shape.length)
  const n = x.shape[a] ?? 0
  const by = n === 0 ? 0 : ((shift % n) + n) % n
  return by === 0 ? x : concat([sliceAxis(x, a, n - by, n), sliceAxis(x, a, 0, n - by)], a)
}

/** Coordinates over a grid: for each vector, its elements along an axis of its own, over the shape of all (NumPy's meshgrid). Throws E_SHAPE for what is no vector. */
export function meshgrid(vectors: readonly Node[], indexing: 'xy' | 'ij' = 'xy'): Node[] {
  const odd = vectors.find((v) => v.shape.length > 1)
  if (odd !== undefined)
    throw new UserError('E_SHAPE', `meshgrid of a tensor of shape ${showShape(odd.shape)}`, {
      help: 'give vectors: flatten makes one',
    })
  const swapped = indexing === 'xy' && vectors.length > 1
  const axisOf = (i: number): number => (swapped && i < 2 ? 1 - i : i)
  const shape = vectors.map((_, i) => vectors[axisOf(i)]?.shape[0] ?? 1)
  return vectors.map((v, i) =>
    broadcastTo(
      reshape(
        v,
        shape.map((d, a) => (a === axisOf(i) ? d : 1)),
      ),
      shape,
    ),
  )
}
