/** Where arrays in shared memory stand. */
import { type SharedArray, typeBytes } from './ir.ts'

/** Bytes of a shared array. */
const sharedBytes = (a: SharedArray): number =>
  Math.ceil((a.length * (a.half === true ? 2 : typeBytes(a.type))) / 16) * 16

/** Where shared arrays stand behind one another, and the bytes they take together. */
export function placeShared(arrays: readonly SharedArray[]): {
  readonly offsets: readonly number[]
  readonly bytes: number
} {
  let bytes = 0
  const offsets = arrays.map((a) => {
    const align = a.align ?? 16
    const at = Math.ceil(bytes / align) * align
    bytes = at + sharedBytes(a)
    return at
  })
  return { offsets, bytes }
}
