/** The points of gathers and scatters: which are in range, and the same points with every coordinate clamped. */
import { compare, logicalAnd, max, min } from '../compose/elementwise.ts'
import { iota } from '../compose/source.ts'
import { invariant } from '../diagnostics/errors.ts'
import { isKnownWithin } from '../graph/knownIndex.ts'
import type { IndexSource, Node } from '../graph/node.ts'
import type { Shape } from '../types/shape.ts'

/** Coordinates over points of one shape: a source for each axis of the tensor they point into. */
export interface Points {
  readonly shape: Shape
  readonly indices: readonly Node[]
  readonly sources: readonly IndexSource[]
}

function indexOf(points: Points, input: number): Node {
  const index = points.indices[input]
  invariant(index !== undefined, `no index ${input}`)
  return index
}

/** bool over the points: every coordinate in range; undefined when that is known of all. */
export function inRange(points: Points, extents: Shape): Node | undefined {
  let all: Node | undefined
  const also = (c: Node): void => {
    all = all === undefined ? c : logicalAnd(all, c)
  }
  points.sources.forEach((s, i) => {
    const n = extents[i] ?? 0
    if ('axis' in s) {
      if ((points.shape[s.axis] ?? 0) > n) also(compare('lt', iota(points.shape, s.axis), n))
      return
    }
    const index = indexOf(points, s.input)
    if (isKnownWithin(index, n)) return
    also(logicalAnd(compare('ge', index, 0), compare('lt', index, n)))
  })
  return all
}

/** Where a gather really reads: out-of-range coordinates at the nearest end. */
export function clampPoints(points: Points, extents: Shape): Points {
  const indices: Node[] = []
  const sources = points.sources.map((s, i): IndexSource => {
    const n = extents[i] ?? 0
    if ('axis' in s && (points.shape[s.axis] ?? 0) <= n) return s
    const index = 'axis' in s ? iota(points.shape, s.axis) : indexOf(points, s.input)
    indices.push(isKnownWithin(index, n) ? index : min(max(index, 0), n - 1))
    return { input: indices.length - 1 }
  })
  return { shape: points.shape, indices, sources }
}
