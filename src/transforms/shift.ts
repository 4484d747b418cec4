/** Views that move elements along one axis, used by rules of scans and windows. */
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import type { Scalar } from '../scalar/ops.ts'

/** One value an axis: `value` at `axis`, `rest` elsewhere. */
export const onAxis = (rank: number, axis: number, value: number, rest: number): number[] =>
  Array.from({ length: rank }, (_, i) => (i === axis ? value : rest))

export interface AxisPad {
  readonly low: number
  readonly high: number
  readonly interior?: number
  readonly value?: Scalar
}

/** Padding of one axis. */
export function padAxis(x: Node, axis: number, by: AxisPad): Node {
  const rank = x.shape.length
  const interior = by.interior ?? 0
  if (by.low === 0 && by.high === 0 && interior === 0) return x
  return makeNode('pad', [x], {
    low: onAxis(rank, axis, by.low, 0),
    high: onAxis(rank, axis, by.high, 0),
    interior: onAxis(rank, axis, interior, 0),
    value: by.value ?? 0,
  })
}

/** Elements start, start + step, ... below limit of one axis. */
export function sliceOne(x: Node, axis: number, start: number, limit: number, step = 1): Node {
  const n = x.shape[axis] ?? 0
  if (start === 0 && limit === n && step === 1) return x
  return makeNode('slice', [x], {
    start: onAxis(x.shape.length, axis, start, 0),
    limit: x.shape.map((d, i) => (i === axis ? limit : d)),
    step: onAxis(x.shape.length, axis, step, 1),
  })
}

/** Element i is element i - by of x; the first `by` are `value`. */
export function shiftUp(x: Node, axis: number, by: number, value: Scalar): Node {
  const n = x.shape[axis] ?? 0
  return padAxis(sliceOne(x, axis, 0, Math.max(0, n - by)), axis, { low: Math.min(by, n), high: 0, value })
}

export const flipAxis = (x: Node, axis: number): Node => makeNode('flip', [x], { axes: [axis] })
