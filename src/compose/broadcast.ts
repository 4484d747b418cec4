/** Broadcasting by NumPy's rule, and the reshapes that add or drop axes of extent 1. */
import { UserError } from '../diagnostics/errors.ts'
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { axesOf, normaliseAxis, type Shape, sameShape, showShape, sizeOf } from '../types/shape.ts'

/** Repeats axes of extent 1 and adds leading ones. Throws E_SHAPE. */
export function broadcastTo(x: Node, shape: Shape): Node {
  if (sameShape(x.shape, shape)) return x
  const lead = shape.length - x.shape.length
  const fits = lead >= 0 && x.shape.every((d, i) => d === 1 || d === shape[lead + i])
  if (!fits)
    throw new UserError('E_SHAPE', `cannot broadcast ${showShape(x.shape)} to ${showShape(shape)}`, {
      help: 'each trailing extent must be equal to the target, or 1',
    })
  return makeNode('broadcast', [x], { shape, dims: x.shape.map((_, i) => lead + i) })
}

/** The same elements in row-major order in another shape; one extent may be -1. Throws E_SHAPE. */
export function reshape(x: Node, shape: Shape): Node {
  const free = shape.indexOf(-1)
  let to = shape
  if (free >= 0) {
    const rest = shape.reduce((n, d, i) => (i === free ? n : n * d), 1)
    const size = sizeOf(x.shape)
    if (rest === 0 || size % rest !== 0 || shape.indexOf(-1, free + 1) >= 0)
      throw new UserError('E_SHAPE', `cannot reshape ${showShape(x.shape)} to ${showShape(shape)}`, {
        help: 'one extent may be -1, and the others must divide the size',
      })
    to = shape.map((d, i) => (i === free ? size / rest : d))
  }
  return sameShape(x.shape, to) ? x : makeNode('reshape', [x], { shape: to })
}

/** Adds axes of extent 1: `axes` are positions in the result. Throws E_AXIS. */
export function expandDims(x: Node, axes: number | readonly number[]): Node {
  const list = axesOf(axes)
  const rank = x.shape.length + list.length
  const at = new Set(list.map((a) => normaliseAxis(a, rank)))
  if (at.size !== list.length)
    throw new UserError('E_AXIS', `an axis is named twice in [${list.join(', ')}]`, {
      help: 'name each axis once; negatives count from the end',
    })
  let from = 0
  const shape = Array.from({ length: rank }, (_, i) => (at.has(i) ? 1 : (x.shape[from++] ?? 1)))
  return reshape(x, shape)
}

/** Drops axes of extent 1: those named, or all. Throws E_SHAPE when a named axis is longer. */
export function squeeze(x: Node, axes?: number | readonly number[]): Node {
  const list = axes === undefined ? undefined : Array.from(axesOf(axes), (a) => normaliseAxis(a, x.shape.length))
  for (const a of list ?? [])
    if (x.shape[a] !== 1)
      throw new UserError('E_SHAPE', `cannot squeeze axis ${a} of ${showShape(x.shape)}: its extent is not 1`, {
        help: 'squeeze drops axes of extent 1 only: leave the others out, or reshape',
      })
  return reshape(
    x,
    x.shape.filter((d, i) => (list === undefined ? d !== 1 : !list.includes(i))),
  )
}
