/** Stores that merge into elements narrower than a word, several times at one place: bits are replaced beside other elements. */
import { describe, expect } from 'vitest'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { inBothDialects } from '../dialects/dialects.ts'

const places = [0, 3, 3, 8, 1, 0, 3, 12]
const updates = [2, 5, -7, 3, 9, -4, 6, 11]
const before = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]

const merges = {
  '+=': (a: number, b: number): number => a + b,
  '*=': (a: number, b: number): number => a * b,
  'max=': Math.max,
  'min=': Math.min,
}

const arrays = { i8: Int8Array, i16: Int16Array } as const

for (const dtype of ['i8', 'i16'] as const)
  describe(dtype, () => {
    for (const [sign, merge] of Object.entries(merges)) {
      const kernel = parseKernel(`kernel scattered {
  param at: i32[${places.length}] read
  param x: ${dtype}[${updates.length}] read
  param y: ${dtype}[${before.length}] update
  axes i: ${places.length}
  grid 1
  %0 i32{i} = load at[i]
  %1 ${dtype}{i} = load x[i]
  store y[%0:${before.length}] ${sign} %1
}`)
      const made = arrays[dtype]
      inBothDialects(
        sign,
        kernel,
        () => ({ at: Int32Array.from(places), x: made.from(updates), y: made.from(before) }),
        ({ y }) => {
          const want = made.from(before)
          places.forEach((at, i) => {
            want[at] = merge(want[at] ?? 0, updates[i] ?? 0)
          })
          expect(y).toEqual(want)
        },
      )
    }
  })
