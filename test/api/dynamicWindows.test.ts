/**
 * Windows over extents that vary: with strides their number is a quotient of an extent, and what follows has it as a dimension. One program serves
 * a range, whatever the strides leave over, and gives what the static program gives, in strict mode bit for bit.
 */
import { expect, test } from 'vitest'
import { averagePool, conv, dim, jit, maxPool, relu, setDevice, softmax, spec, type Tensor } from '../../src/index.ts'
import { nightly, some } from '../support/nightly.ts'
import { centred } from './numbers.ts'

setDevice('wasm', { threads: 1 })

const n = dim('width', 8, 96)
const image = spec([1, 3, 16, n])

const kernel = centred(1, [8, 3, 3, 3])
const second = centred(2, [8, 8, 3, 3])
const head = centred(3, [64, 20])

const strided = (x: Tensor): Tensor => relu(conv(x, kernel, { stride: 2, padding: 1 }))

/** Rows of features as a sequence, one element a column. */
function sequence(y: Tensor): Tensor {
  const [b = 1, c = 1, h = 1, q = 1] = y.shape
  return y.reshape([b, c * h, q]).swapaxes(1, 2)
}

const cases: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  'a stride of 2': strided,
  'padding that follows from the extent': (x) => relu(conv(x, kernel, { stride: 2, padding: 'same' })),
  'a stride of 3 without padding': (x) => conv(x, kernel, { stride: 3 }),
  'one stride after another': (x) => relu(conv(strided(x), second, { stride: 2, padding: 1 })),
  'the greatest of windows that leave a rest': (x) => maxPool(x, [2, 2]),
  'the greatest of windows that overlap': (x) => maxPool(x, [3, 3], { stride: 2, padding: 1 }),
  'the mean of windows that leave a rest': (x) => averagePool(x, [2, 2]),
  'the mean of what windows hold of the data': (x) => averagePool(x, [3, 3], { stride: 2, padding: 1 }),
  'windows that begin inside and end outside': (x) => maxPool(x, [2, 2], { stride: 2, ceilMode: true }),
  'the mean of windows that end outside': (x) =>
    averagePool(x, [3, 3], { stride: 2, padding: 1, ceilMode: true, countIncludePad: true }),
  'padding that is none at even extents': (x) =>
    conv(x, kernel.slice(null, null, [0, 2], [0, 2]), { stride: 2, padding: 'same' }),
  'padding behind that windows reach at some extents': (x) =>
    maxPool(x, [2, 2], {
      stride: 3,
      padding: [
        [0, 0],
        [0, 1],
      ],
    }),
  'a sequence of columns and its head': (x) => softmax(sequence(strided(x)).matmul(head), -1),
  'attention over columns': (x) => {
    const s = sequence(strided(x))
    return softmax(s.matmul(s.swapaxes(1, 2)), -1).matmul(s)
  },
  'channels times their mean': (x) => {
    const y = strided(x)
    return y.mul(y.mean([2, 3], { keepdims: true }))
  },
}

const lengths = [95, 17, 40, 23, 64, 18, 21, 60, 59, 96, 33]

// By day every other case, in one of the modes.
for (const [k, mode] of (['fast', 'strict'] as const).entries())
  test.for(Object.entries(cases).filter((_, i) => nightly || i % 4 === k))(`%s, ${mode}`, ([, f]) => {
    const [varying, closed] = [jit(f, { dynamic: [image], mode }), jit(f, { mode })]
    for (const k of some(lengths, 2)) {
      const x = centred(k, [1, 3, 16, k])
      const [got, want] = [varying(x), closed(x)]
      const [a, b] = [got.dataSync() as Float32Array, want.dataSync() as Float32Array]
      expect(got.shape).toEqual(want.shape)
      if (mode === 'strict') expect(a, `at ${k}`).toEqual(b)
      else expect(a.reduce((m, v, i) => Math.max(m, Math.abs(v - (b[i] ?? Number.NaN))), 0)).toBeLessThan(1e-5)
      const { closed: why, open } = varying.explain(x)
      expect(why, `at ${k}`).toBeUndefined()
      expect(open?.map((d) => d.name)).toEqual(['width'])
    }
    varying.dispose()
    closed.dispose()
  })
