/** Sums of windows whose operand is converted or computed once, in a tile, against the reference: dtypes, odd lengths, strides, dilations, paddings. */
import { describe, test } from 'vitest'
import * as s from '../../src/index.ts'
import { some } from '../support/nightly.ts'
import { agree } from './agree.ts'

/** Small whole numbers: their sums are exact in every dtype here. */
const numbers = (shape: number[], dtype: s.DType): s.Tensor => {
  const n = shape.reduce((a, b) => a * b, 1)
  return s.tensor(
    Array.from({ length: n }, (_, i) => (i * 7) % 5),
    { shape, dtype },
  )
}

const dtypes = ['f16', 'bf16', 'u8', 'i32', 'i8', 'u16', 'f32', 'i16'] as const

describe.each(some(dtypes, 3))('windows of %s', (dtype) => {
  test.each(some([2, 3, 5, 8, 13], 2))('%i taps', (taps) => {
    for (const n of some([taps, taps + 1, 61, 515, 1025], 2))
      agree((x) => s.slidingWindow(x, 0, taps).sum(-1), [numbers([n], dtype)], 1, `${n}`)
    agree((x) => s.slidingWindow(x, 1, taps).sum(-1), [numbers([7, 67], dtype)])
    agree((x) => s.slidingWindow(x, 0, taps).sum(1), [numbers([67, 7], dtype)])
    agree((x) => s.slidingWindow(x, 0, taps, 3).sum(-1), [numbers([1031], dtype)])
    agree((x) => s.slidingWindow(x, 0, taps, 1, 2).sum(-1), [numbers([1031], dtype)])
    agree((x) => s.slidingWindow(x.flip(0).mul(2), 0, taps).sum(-1), [numbers([1031], dtype)])
  })

  test('padded, and computed', () => {
    const x = numbers([5, 301], dtype)
    const padded = (y: s.Tensor): s.Tensor =>
      s.pad(y, [
        [0, 0],
        [3, 2],
      ])
    agree((y) => s.slidingWindow(padded(y), 1, 8).sum(-1), [x])
    agree(
      (y) =>
        s
          .slidingWindow(padded(y.mul(y).add(1)), 1, 8)
          .sum(-1)
          .add(1),
      [x],
    )
    agree((y) => s.slidingWindow(s.where(y.greater(2), y, s.zerosLike(y)), 1, 8).sum(-1), [x])
    agree((y) => s.slidingWindow(s.slidingWindow(y, 1, 3), 0, 2).sum([1, 3]), [x])
  })
})
