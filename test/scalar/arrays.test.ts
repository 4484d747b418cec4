/** Whole arrays convert as their elements do. */
import { describe, expect, test } from 'vitest'
import { decodeHalves, encodeHalves, fromNumbers, scalarsOf } from '../../src/scalar/arrays.ts'
import { castScalar } from '../../src/scalar/cast.ts'
import { bf16Values, f16Values, numberToBf16, numberToF16 } from '../../src/scalar/half.ts'
import { readElement, writeElement } from '../../src/scalar/host.ts'
import { allDTypes } from '../../src/types/dtype.ts'
import { hostArray } from '../../src/types/host.ts'

const halves = [
  { dtype: 'f16', values: f16Values, bitsOf: numberToF16 },
  { dtype: 'bf16', values: bf16Values, bitsOf: numberToBf16 },
] as const

describe.each(halves)('$dtype', ({ dtype, values, bitsOf }) => {
  test('all bits', () => {
    const all = Uint16Array.from({ length: 65536 }, (_, i) => i)
    expect(decodeHalves(all, dtype)).toEqual(values())
  })

  test('each number rounds once: halves, the middle between two, and numbers beside both by less than f32 tells', () => {
    const table = values()
    const near = (x: number): number[] => [x, x * (1 + 2 ** -40), x * (1 - 2 ** -40), x * (1 + 2 ** -20), -x]
    const numbers = Array.from({ length: 32768 }, (_, i) => i).flatMap((i) => {
      const [x = 0, next = 0] = [table[i], table[i + 1]]
      return [...near(x), ...near((x + next) / 2)]
    })
    const edges = [0, -0, Number.NaN, 1e300, -1e300, 1e-300, Number.POSITIVE_INFINITY, 65519.99, 65520, 3.3961e38]
    const all = new Float64Array([...edges, ...numbers])
    expect(encodeHalves(all, dtype)).toEqual(Uint16Array.from(all, bitsOf))
  })
})

const plain = [
  0, -0, 1, -1, 0.5, -1.5, 127.9, 128, 255, 256, -129, 70000, 4294967295, 4294967296, -2147483649, 1e20, -1e20,
]
const numbers = [...plain, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e-8, 2.71]

test.each(allDTypes)('numbers as %s', (dtype) => {
  const want = hostArray(dtype, numbers.length)
  numbers.forEach((v, i) => {
    writeElement(want, dtype, i, castScalar(v, 'f64', dtype))
  })
  expect(fromNumbers(numbers, dtype)).toEqual(want)
  expect(fromNumbers(Float64Array.from(numbers), dtype)).toEqual(want)
  expect(scalarsOf(want, dtype)).toEqual(numbers.map((_, i) => readElement(want, dtype, i)))
})
