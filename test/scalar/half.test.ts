/** Half-precision conversion, over all bit patterns. */
import { describe, expect, it } from 'vitest'
import {
  bf16ToNumber,
  bf16Values,
  f16ToNumber,
  f16Values,
  numberToBf16,
  numberToF16,
  roundBf16,
  roundF16,
} from '../../src/scalar/half.ts'

const formats = [
  {
    name: 'f16',
    to: numberToF16,
    from: f16ToNumber,
    round: roundF16,
    values: f16Values,
    infinity: 0x7c00,
    quiet: 0x7e00,
  },
  {
    name: 'bf16',
    to: numberToBf16,
    from: bf16ToNumber,
    round: roundBf16,
    values: bf16Values,
    infinity: 0x7f80,
    quiet: 0x7fc0,
  },
]

describe.each(formats)('$name', ({ to, from, round, values, infinity, quiet }) => {
  it('round-trips every pattern', () => {
    const table = values()
    const wrong: number[] = []
    for (let b = 0; b < 65536; b++) {
      const v = from(b)
      const isNaNPattern = (b & 0x7fff) > infinity
      const back = to(v)
      if (isNaNPattern ? !Number.isNaN(v) || back !== quiet : back !== b || !Object.is(round(v), v)) wrong.push(b)
      if (!Object.is(table[b], v)) wrong.push(b)
    }
    expect(wrong).toEqual([])
  })

  it('is increasing over positive patterns', () => {
    for (let b = 0; b < infinity; b++) expect(from(b + 1) > from(b)).toBe(true)
  })

  it('rounds halfway points to even and their neighbours to the nearest', () => {
    const wrong: number[] = []
    for (let b = 0; b < infinity - 1; b++) {
      const lower = from(b)
      const upper = from(b + 1)
      const middle = lower + (upper - lower) / 2
      const nudge = (upper - lower) / 1024
      for (const sign of [1, -1]) {
        const bit = sign < 0 ? 0x8000 : 0
        if (to(sign * middle) !== (bit | (b % 2 === 0 ? b : b + 1))) wrong.push(b)
        if (to(sign * (middle - nudge)) !== (bit | b)) wrong.push(b)
        if (to(sign * (middle + nudge)) !== (bit | (b + 1))) wrong.push(b)
        if (!Object.is(round(sign * middle), from(to(sign * middle)))) wrong.push(b)
        if (!Object.is(round(sign * (middle + nudge)), sign * upper)) wrong.push(b)
      }
    }
    expect(wrong).toEqual([])
  })

  it('overflows to infinity from half an ulp above the greatest', () => {
    const greatest = from(infinity - 1)
    const ulp = greatest - from(infinity - 2)
    expect(to(greatest + ulp * 0.499)).toBe(infinity - 1)
    expect(to(greatest + ulp / 2)).toBe(infinity)
    expect(to(-1e300)).toBe(0x8000 | infinity)
    expect(round(greatest + ulp / 2)).toBe(Number.POSITIVE_INFINITY)
    expect(to(Number.NEGATIVE_INFINITY)).toBe(0x8000 | infinity)
  })

  it('keeps the sign of zero and of what rounds to it', () => {
    expect(to(-0)).toBe(0x8000)
    expect(to(-1e-300)).toBe(0x8000)
    expect(Object.is(round(-1e-300), -0)).toBe(true)
    expect(to(5e-324)).toBe(0)
  })
})

it('pins known patterns', () => {
  expect([1, -2, 65504, 2 ** -24, 2 ** -14, 1 / 3].map(numberToF16)).toEqual([0x3c00, 0xc000, 0x7bff, 1, 0x400, 0x3555])
  expect([1, -2, Math.PI, 2 ** -133].map(numberToBf16)).toEqual([0x3f80, 0xc000, 0x4049, 1])
})
