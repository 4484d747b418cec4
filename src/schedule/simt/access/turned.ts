/**
 * Accesses across the rows of a fragment: a thread holds two neighbours of a row, but what lies side by side in memory are neighbours of a column (the biases of an
 * attention's gradients by its keys). A warp moves blocks of 8 x 8 halves as they lie in memory, a word a thread, and a matrix unit's instruction turns them.
 */
import { isSideBySide } from '../part/contiguity.ts'
import { flatIndex } from '../part/facts.ts'
import { elementBits } from '../storage/words.ts'
import { type Access, isWhole } from './access.ts'
import type { Turned } from './loadPlan.ts'
import type { Place } from './place.ts'

/** Bits of the thread's number that tell columns and rows of a block of 8 x 8. */
const [columnBits, rowBits] = [
  [0, 1],
  [2, 3, 4],
]

/** How an access goes in blocks that are turned. */
export function turnedOf(at: Place, access: Access, axes: readonly string[]): Turned | undefined {
  const { part, layout, setting } = at
  const p = at.param(access.param)
  if (!setting.machine.hasMatrixUnit || access.maskValue !== undefined || elementBits(p) !== 16) return undefined
  const along = (wanted: readonly number[], wide: number): string | undefined =>
    axes.find((a) => {
      const { vec, bits, pairAbove = bits.length, chunks } = layout.find(a) ?? { vec: 0, bits: [], chunks: 1 }
      return vec === wide && chunks === 1 && pairAbove >= wanted.length && wanted.every((b, i) => bits[i] === b)
    })
  const [rows, columns] = [along(rowBits, 1), along(columnBits, 2)]
  if (rows === undefined || columns === undefined) return undefined
  const flat = flatIndex(access.index, p.shape)
  return isSideBySide(part, flat, access.mask, rows, 2) && isWhole(at, rows, 2) ? { rows, columns } : undefined
}
