/** Threefry-2x32 against the known-answer vectors published with Random123 (kat_vectors, "threefry2x32 13" and "... 20"). */
import { describe, expect, it } from 'vitest'
import {
  elementsPerCall,
  maskElement,
  randomDTypes,
  randomElement,
  randomWidth,
  threefry2x32,
} from '../../src/scalar/threefry.ts'

it.each([
  { rounds: 20, key: [0, 0], counter: [0, 0], words: [0x6b200159, 0x99ba4efe] },
  { rounds: 20, key: [0xffffffff, 0xffffffff], counter: [0xffffffff, 0xffffffff], words: [0x1cb996fc, 0xbb002be7] },
  { rounds: 20, key: [0x13198a2e, 0x03707344], counter: [0x243f6a88, 0x85a308d3], words: [0xc4923a9c, 0x483df7a0] },
  { rounds: 13, key: [0, 0], counter: [0, 0], words: [0x9d1c5ec6, 0x8bd50731] },
  { rounds: 13, key: [0xffffffff, 0xffffffff], counter: [0xffffffff, 0xffffffff], words: [0xfd36d048, 0x2d17272c] },
  { rounds: 13, key: [0x13198a2e, 0x03707344], counter: [0x243f6a88, 0x85a308d3], words: [0xba3e4725, 0xf27d669e] },
])('$rounds rounds, key $key, counter $counter', ({ rounds, key, counter, words }) => {
  const [k0 = 0, k1 = 0] = key
  const [c0 = 0, c1 = 0] = counter
  expect(threefry2x32(k0, k1, c0, c1, rounds)).toEqual(words)
})

describe('elements', () => {
  it('are the words of the known-answer calls, cut from the lowest bit up', () => {
    const drawn = (dtype: 'u8' | 'u16' | 'u32'): number[] =>
      Array.from({ length: elementsPerCall(dtype) }, (_, i) => randomElement(dtype, 0, 0, i))
    expect(drawn('u32')).toEqual([0x6b200159, 0x99ba4efe])
    expect(drawn('u16')).toEqual([0x0159, 0x6b20, 0x4efe, 0x99ba])
    expect(drawn('u8')).toEqual([0x59, 0x01, 0x20, 0x6b, 0xfe, 0x4e, 0xba, 0x99])
  })

  it('of masks: eight neighbours share a word of 13 rounds, pairs of them a multiple of it', () => {
    const words = [0x9d1c5ec6n, 0x8bd50731n]
    const multipliers = [1n, 1709988947n, 3969933621n, 1709988947n * 3969933621n]
    for (const t of [1, 0x1000, 0x8000, 0xe666, 0xffff]) {
      const [size, second] = [BigInt(t) << 16n, BigInt(t) * BigInt(65536 - t)]
      const want = words.flatMap((w) =>
        multipliers.flatMap((m) => {
          const drawn = BigInt.asUintN(32, w * m)
          return [drawn < size, drawn >= second && drawn < second + size]
        }),
      )
      expect(Array.from({ length: 16 }, (_, i) => maskElement(t, 0, 0, i))).toEqual(want)
    }
  })

  it('count calls in 64 bits, high word first', () => {
    for (const dtype of randomDTypes) {
      const each = elementsPerCall(dtype)
      const mask = 2 ** randomWidth(dtype) - 1
      const low = (c0: number, c1: number): number => (threefry2x32(7, 9, c0, c1)[0] & mask) >>> 0
      expect(randomElement(dtype, 7, 9, 5 * each)).toBe(low(0, 5))
      expect(randomElement(dtype, 7, 9, (2 ** 32 * 3 + 11) * each)).toBe(low(3, 11))
    }
  })
})
