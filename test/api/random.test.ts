/** Random tensors as users see them: the documented bits on the device of this run, and their distribution. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import {
  elementsPerCall,
  maskElement,
  randomDTypes,
  randomElement,
  randomWidth,
  secondFrom,
  sharedByMask,
} from '../../src/scalar/threefry.ts'
import { chooseDevice } from '../support/device.ts'

beforeAll(() => chooseDevice('wasm', { threads: 2, shareAbove: 0 }))
afterAll(() => s.setDevice('reference'))

const seed = (3n << 32n) | 9n
const key = (): s.Tensor => s.random.key(seed)
const numbers = (x: s.Tensor): number[] => [x.tolist()].flat(9).map(Number)
const elements = (dtype: (typeof randomDTypes)[number], n: number, from = 0): number[] =>
  Array.from({ length: n }, (_, i) => randomElement(dtype, 3, 9, from + i))

const mask = (chance: number, n: number): number[] =>
  Array.from({ length: n }, (_, i) => Number(maskElement(chance, 3, 9, i)))

/** Deviation of counts of outcomes from their probabilities. */
function chiSquare(counts: readonly number[], probabilities: readonly number[]): number {
  const total = counts.reduce((a, b) => a + b, 0)
  return probabilities.reduce((sum, q, i) => sum + ((counts[i] ?? 0) - q * total) ** 2 / (q * total), 0)
}

describe.each(randomDTypes)('bits of %s', (dtype) => {
  it.each([[[1]], [[7]], [[64]], [[3, 5]], [[33, 17]], [[8, 48]], [[2, 3, 129]], [[40000]]])('of shape %j', (shape) => {
    const n = shape.reduce((p, e) => p * e, 1)
    expect(numbers(s.jit((k: s.Tensor) => s.random.bits(k, shape, dtype))(key()))).toEqual(elements(dtype, n))
  })

  it('through views', () => {
    const all = elements(dtype, 37 * 41)
    const at = (r: number, c: number): number => (all[41 * r + c] ?? 0) + 1
    const f = s.jit((k: s.Tensor) => {
      const x = s.random.bits(k, [37, 41], dtype).astype('i64').add(1)
      return [x.slice([1, 36], [3, 40]), x.slice(null, [0, 41, 3]), x.flip(1), x.transpose()]
    })
    const [inner, third, flipped, turned] = f(key()).map(numbers)
    const grid = (rows: number, columns: number, g: (r: number, c: number) => number): number[] =>
      Array.from({ length: rows * columns }, (_, i) => g(Math.floor(i / columns), i % columns))
    expect(inner).toEqual(grid(35, 37, (r, c) => at(r + 1, c + 3)))
    expect(third).toEqual(grid(37, 14, (r, c) => at(r, 3 * c)))
    expect(flipped).toEqual(grid(37, 41, (r, c) => at(r, 40 - c)))
    expect(turned).toEqual(grid(41, 37, (r, c) => at(c, r)))
  })

  it('are uniform, also from one element of a call to the next', () => {
    const n = 1 << 18
    const width = randomWidth(dtype)
    const each = elementsPerCall(dtype)
    const values = numbers(s.random.bits(key(), [n], dtype)).map((v) => (v + 0.5) / 2 ** width)
    // 16 x 16 squares of neighbours, for each place in a call: chi-square of 255 degrees of freedom within five deviations.
    for (let place = 0; place < each; place++) {
      const counts = new Float64Array(256)
      for (let i = place; i + 1 < n; i += each) {
        const [a = 0, b = 0] = [values[i], values[i + 1]]
        const cell = 16 * Math.floor(16 * a) + Math.floor(16 * b)
        counts[cell] = (counts[cell] ?? 0) + 1
      }
      const mean = counts.reduce((p, v) => p + v, 0) / 256
      const chi = counts.reduce((p, v) => p + (v - mean) ** 2 / mean, 0)
      expect(Math.abs(chi - 255)).toBeLessThan(5 * Math.sqrt(2 * 255))
    }
  })

  it('of neighbouring keys and counters differ in half of their bits', () => {
    const n = 20000
    const [a, b] = [0, 1].map((k) => elements(dtype, n, 0).map((_, i) => randomElement(dtype, 0, k, i)))
    let ones = 0
    a?.forEach((v, i) => {
      for (let x = (v ^ (b?.[i] ?? 0)) >>> 0; x !== 0; x = (x & (x - 1)) >>> 0) ones++
    })
    const bits = n * randomWidth(dtype)
    expect(Math.abs(ones - bits / 2)).toBeLessThan(5 * Math.sqrt(bits / 4))
  })
})

describe('masks', () => {
  it.each([1e-9, 0.1, 0.25, 0.5, 0.9, 1 - 1e-9])('of probability %d', (p) => {
    const threshold = Math.min(65535, Math.max(1, Math.round(p * 65536)))
    expect(numbers(s.random.bernoulli(key(), p, [101, 53]))).toEqual(mask(threshold, 101 * 53))
  })

  it('hold for as many words in both of a pair, and in both at once for as many as if they were independent', () => {
    for (const chance of [1, 2, 66, 3277, 19661, 32768, 45875, 58982, 65470, 65535]) {
      const from = secondFrom(chance)
      const words = chance * 65536
      expect(from).toBeGreaterThanOrEqual(0)
      expect(from + words).toBeLessThanOrEqual(2 ** 32)
      expect(words - from).toBe(chance ** 2)
    }
  })

  it.each([0.1, 0.5, 0.9])('of probability %d are independent from one element to the next', (p) => {
    const n = 1 << 20
    const all = numbers(s.random.bernoulli(key(), p, [n]).astype('u8'))
    // From each place among those that share a word, at each distance: the four outcomes, chi-square of 3 degrees of freedom, below
    // its 1 - 1e-6 quantile.
    for (let from = 0; from < sharedByMask; from++)
      for (const distance of [1, 2, 3, 4, 5, 6, 7, 8, 16]) {
        const counts = [0, 0, 0, 0]
        for (let i = from; i + distance < n; i += sharedByMask) {
          const outcome = 2 * (all[i] ?? 0) + (all[i + distance] ?? 0)
          counts[outcome] = (counts[outcome] ?? 0) + 1
        }
        const expected = [(1 - p) ** 2, p * (1 - p), p * (1 - p), p * p]
        expect(chiSquare(counts, expected), `from ${from}, distance ${distance}`).toBeLessThan(30.7)
      }
  })

  it('of those that share a word are independent together', () => {
    const n = 1 << 21
    const all = numbers(s.random.bernoulli(key(), 0.5, [n]).astype('u8'))
    const counts = new Array<number>(256).fill(0)
    for (let i = 0; i < n; i += sharedByMask) {
      const outcome = Array.from({ length: sharedByMask }, (_, k) => all[i + k] ?? 0).reduce((o, b) => 2 * o + b, 0)
      counts[outcome] = (counts[outcome] ?? 0) + 1
    }
    const chi = chiSquare(counts, new Array<number>(256).fill(1 / 256))
    expect(Math.abs(chi - 255)).toBeLessThan(5 * Math.sqrt(2 * 255))
  })

  it('of probability 0 and 1 are exact, others are refused', () => {
    expect(s.random.bernoulli(key(), 0, [1000]).any().item()).toBe(false)
    expect(s.random.bernoulli(key(), 1, [1000]).all().item()).toBe(true)
    for (const p of [-0.1, 1.1, Number.NaN]) expect(() => s.random.bernoulli(key(), p, [2])).toThrow(/E_ARGUMENT/)
  })

  it.each([
    ['f32', 0.1],
    ['bf16', 0.1],
    ['f16', 0.5],
    ['f32', 1e-7],
  ] as const)('of dropout on %s at rate %d are scaled by what they keep', (dtype, rate) => {
    const threshold = Math.min(65535, Math.round((1 - rate) * 65536))
    const x = s.full([37, 67], 3, dtype)
    const out = s.jit((a: s.Tensor, k: s.Tensor) => s.nn.dropout(a, k, rate))(x, key())
    const kept = Number(s.tensor((3 * 65536) / threshold, { dtype }).item())
    const want = mask(threshold, 37 * 67).map((holds) => holds * kept)
    const wrong = numbers(out.astype('f32')).filter((v, i) => Math.abs(v - (want[i] ?? Number.NaN)) > 1e-5)
    expect(wrong).toEqual([])
  })

  it('of each key of a batch are those that the key gives alone', () => {
    const keys = s.tensor(Uint32Array.from([1, 2, 3, 4, 0xffffffff, 0]), { shape: [3, 2] })
    const x = s.ones([3, 29])
    const f = (a: s.Tensor, k: s.Tensor): s.Tensor => s.nn.dropout(a, k, 0.3)
    const batched = numbers(s.jit(s.vmap(f))(x, keys))
    const alone = [0, 1, 2].flatMap((i) => numbers(f(x.slice(i), keys.slice(i))))
    expect(batched).toEqual(alone)
  })

  it('are the same in strict mode, inside a row and beside its sums', () => {
    const f = (x: s.Tensor, k: s.Tensor): s.Tensor[] => {
      const d = s.nn.dropout(x, k, 0.25)
      return [d.notEqual(0).astype('i32').sum(1), s.nn.softmax(d, -1).notEqual(0).astype('i32').sum(1), d]
    }
    const x = s.full([13, 517], 2)
    const want = mask(49152, 13 * 517)
    for (const mode of ['fast', 'strict'] as const) {
      const [sums, , d] = s.jit(f, { mode })(x, key())
      expect(numbers(d ?? x).map((v) => Number(v !== 0))).toEqual(want)
      const rows = Array.from({ length: 13 }, (_, r) => want.slice(517 * r, 517 * (r + 1)).reduce((p, v) => p + v, 0))
      expect(numbers(sums ?? x)).toEqual(rows)
    }
  })
})
