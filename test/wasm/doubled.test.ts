/** Extremes of windows on WebAssembly, bit for bit those of the reference: NaN, infinities and signed zeros among what is read, beside other folds, behind and before functions. */
import { afterAll, expect, test } from 'vitest'
import * as s from '../../src/index.ts'
import type { DType } from '../../src/types/dtype.ts'
import { makeRng } from '../random/rng.ts'
import { some } from '../support/nightly.ts'

afterAll(() => s.setDevice('reference'))

const programs: Record<string, (x: s.Tensor) => s.Tensor> = {
  'greatest of 5 x 5': (x) => s.maxPool(x, [5, 5], { stride: 1, padding: 2 }),
  'greatest of 9 x 3, behind a product': (x) => s.maxPool(x.mul(2), [9, 3], { stride: 1 }),
  'greatest of 6 x 6, two apart': (x) => s.maxPool(x, [6, 6], { stride: 2 }),
  'least of windows of windows': (x) =>
    s
      .slidingWindow(s.slidingWindow(x, 3, 7), 2, 4)
      .min([3, 5])
      .sub(x.slice(null, null, [0, 20], [0, 23])),
  'greatest less least': (x) =>
    s
      .slidingWindow(x, 3, 12)
      .max(-1)
      .sub(s.slidingWindow(x, 3, 12).min(-1)),
  'windows that go back': (x) => s.slidingWindow(x.flip(3), 3, 11).max(-1),
}

/** One in thirty is none, infinite, or a zero of either sign. */
function draw(seed: number, dtype: DType): s.Tensor {
  const rng = makeRng(seed)
  const wild = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, -0]
  const one = (): number => (dtype !== 'i32' && rng.chance(0.03) ? rng.pick(wild) : rng.int(-9, 9))
  return s.tensor(Array.from({ length: 2 * 3 * 23 * 29 }, one), { shape: [2, 3, 23, 29], dtype })
}

for (const dtype of ['f32', 'f16', 'bf16', 'i32'] as const)
  test.each(Object.entries(programs))(`%s of ${dtype}`, (_, f) => {
    for (const seed of some([1, 2, 3], 3)) {
      const x = draw(seed, dtype)
      const want = s.jit(f, { device: 'reference' })(x).dataSync()
      s.setDevice('wasm', { threads: 1 })
      for (const mode of ['fast', 'strict'] as const) expect(s.jit(f, { mode })(x).dataSync(), mode).toEqual(want)
    }
  })
