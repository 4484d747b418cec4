/** Threefry-2x32-20 against the known-answer vectors published with Random123 (kat_vectors, "threefry2x32 20"). */
import { expect, it } from 'vitest'
import { randomWord, threefry2x32 } from '../../src/scalar/threefry.ts'

it.each([
  { key: [0, 0], counter: [0, 0], words: [0x6b200159, 0x99ba4efe] },
  { key: [0xffffffff, 0xffffffff], counter: [0xffffffff, 0xffffffff], words: [0x1cb996fc, 0xbb002be7] },
  { key: [0x13198a2e, 0x03707344], counter: [0x243f6a88, 0x85a308d3], words: [0xc4923a9c, 0x483df7a0] },
])('key $key counter $counter', ({ key, counter, words }) => {
  const [k0 = 0, k1 = 0] = key
  const [c0 = 0, c1 = 0] = counter
  expect(threefry2x32(k0, k1, c0, c1)).toEqual(words)
})

it('counts with the index, high word first', () => {
  expect(randomWord(7, 9, 5)).toBe(threefry2x32(7, 9, 0, 5)[0])
  expect(randomWord(7, 9, 2 ** 32 * 3 + 11)).toBe(threefry2x32(7, 9, 3, 11)[0])
})
