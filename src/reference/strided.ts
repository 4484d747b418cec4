/** Strided copies: what every view, and the regrouping of reductions and contractions, comes to. */
import { type Shape, sizeOf } from '../types/shape.ts'
import { isNarrow, type RefData } from './tensor.ts'

/** A place in an array: element [i0, i1, ...] at offset + sum of i * stride. */
export interface Place {
  readonly offset: number
  readonly strides: readonly number[]
}

/** Offsets of all points of `shape` at two places, innermost axis as a run. */
function eachRun(
  shape: Shape,
  from: Place,
  to: Place,
  run: (fromAt: number, fromStep: number, toAt: number, toStep: number, n: number) => void,
): void {
  if (sizeOf(shape) === 0) return
  const outer = shape.slice(0, -1)
  const last = shape.length - 1
  const n = shape[last] ?? 1
  const fromStep = from.strides[last] ?? 0
  const toStep = to.strides[last] ?? 0
  const at = new Array<number>(outer.length).fill(0)
  let fromAt = from.offset
  let toAt = to.offset
  for (;;) {
    run(fromAt, fromStep, toAt, toStep, n)
    let axis = outer.length - 1
    for (; axis >= 0; axis--) {
      const extent = outer[axis] ?? 1
      const i = (at[axis] ?? 0) + 1
      fromAt += from.strides[axis] ?? 0
      toAt += to.strides[axis] ?? 0
      if (i < extent) {
        at[axis] = i
        break
      }
      at[axis] = 0
      fromAt -= (from.strides[axis] ?? 0) * extent
      toAt -= (to.strides[axis] ?? 0) * extent
    }
    if (axis < 0) return
  }
}

/** Copies every point of `shape` from one place to another. */
export function copyStrided(shape: Shape, src: RefData, from: Place, dst: RefData, to: Place): void {
  if (isNarrow(src) && isNarrow(dst))
    eachRun(shape, from, to, (a, da, b, db, n) => {
      for (let i = 0; i < n; i++) dst[b + i * db] = src[a + i * da] ?? 0
    })
  else if (!isNarrow(src) && !isNarrow(dst))
    eachRun(shape, from, to, (a, da, b, db, n) => {
      for (let i = 0; i < n; i++) dst[b + i * db] = src[a + i * da] ?? 0n
    })
}
