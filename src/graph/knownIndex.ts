/** Indices that are known before anything runs: the range of their elements, and the elements by the axes they vary along. */
import { overElements } from '../host/engine.ts'
import type { Range } from '../scalar/narrow.ts'
import { isInteger } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import type { Shape } from '../types/shape.ts'
import { sizeOf } from '../types/shape.ts'
import type { Node, NodeOf } from './node.ts'

const ranges = new WeakMap<NodeOf<'constant'>, Range>()

function rangeOfConstant(node: NodeOf<'constant'>): Range {
  const have = ranges.get(node)
  if (have !== undefined) return have
  let [lo, hi] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  overElements(() => {
    for (const v of node.attrs.data) {
      const n = Number(v)
      if (n < lo) lo = n
      if (n > hi) hi = n
    }
  })
  const range = { lo, hi }
  ranges.set(node, range)
  return range
}

/** Whether every element of an index tensor is known to lie in [0, n). */
export function isKnownWithin(index: Node, n: number): boolean {
  let x = index
  // A rearrangement has the elements of its input.
  while (x.op === 'reshape' || x.op === 'permute' || x.op === 'broadcast' || x.op === 'flip' || x.op === 'slice') {
    const [inner] = x.inputs
    if (inner === undefined) return false
    x = inner
  }
  if (x.op === 'full') return Number(x.attrs.value) >= 0 && Number(x.attrs.value) < n
  if (x.op === 'constant') {
    const { lo, hi } = rangeOfConstant(x)
    return lo >= 0 && hi < n
  }
  return x.op === 'iota' && (x.shape[x.attrs.axis] ?? 0) <= n
}

/** The elements of a tensor that is the same along all axes but some: row-major over `shape`, in which the other axes are 1. */
export interface KnownTable {
  readonly data: HostArray
  readonly shape: Shape
}

const isWide = (d: number): boolean => d !== 1

/** The elements of an index tensor that is a stored literal, perhaps spread over further axes or given another integer dtype that holds it. */
export function knownTable(index: Node): KnownTable | undefined {
  // Followed without recursion: the views on the way, then the literal under them.
  const views: Node[] = []
  let x = index
  while (x.op !== 'constant') {
    const [inner] = x.inputs
    const isCast = x.op === 'cast' && isInteger(x.dtype) && inner !== undefined && isInteger(inner.dtype)
    if (inner === undefined || !(isCast || x.op === 'reshape' || x.op === 'broadcast')) return undefined
    views.push(x)
    x = inner
  }
  if (!isInteger(x.dtype)) return undefined
  const range = rangeOfConstant(x)
  if (range.lo < -(2 ** 31) || range.hi >= 2 ** 31) return undefined
  let shape = x.shape
  let extents = x.shape
  for (const view of views.reverse()) {
    if (view.op === 'broadcast') {
      const wide = view.shape.map(() => 1)
      view.attrs.dims.forEach((d, i) => {
        wide[d] = shape[i] ?? 1
      })
      shape = wide
    } else if (view.op === 'reshape') {
      const moved = reshaped(shape, extents, view.shape)
      if (moved === undefined) return undefined
      shape = moved
    } else if (range.lo < 0 && view.dtype.startsWith('u')) return undefined
    extents = view.shape
  }
  return { data: x.attrs.data, shape }
}

/** The shape of a table after a reshape of its tensor: any where it varies along all axes, else one that adds or drops axes of extent 1. */
function reshaped(table: Shape, extents: Shape, to: Shape): Shape | undefined {
  if (sizeOf(table) === sizeOf(extents)) return to
  const before = extents.flatMap((d, i) => (isWide(d) ? [table[i] ?? 1] : []))
  const after = to.filter(isWide)
  const same = extents.filter(isWide)
  if (after.length !== same.length || after.some((d, i) => d !== same[i])) return undefined
  let next = 0
  return to.map((d) => (isWide(d) ? (before[next++] ?? 1) : 1))
}
