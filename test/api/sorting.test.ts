/** Sorts, greatest elements and quantiles against sorts of JavaScript, for every dtype, on the reference and on WebAssembly. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import { allDTypes } from '../../src/types/dtype.ts'
import { makeRng } from '../random/rng.ts'
import { chooseDevice } from '../support/device.ts'
import { nightly, some, turn } from '../support/nightly.ts'

const t = s.tensor
const nan = Number.NaN
const inf = Number.POSITIVE_INFINITY
type Value = number | bigint | boolean

/** NaN is last, zeros are equal. */
function compare(a: Value, b: Value): number {
  if (Number.isNaN(a)) return Number.isNaN(b) ? 0 : 1
  if (Number.isNaN(b)) return -1
  return a < b ? -1 : a > b ? 1 : 0
}

/** The stable order of a row. */
const orderOf = (row: readonly Value[], descending = false): number[] =>
  row.map((_, i) => i).sort((i, j) => (descending ? -1 : 1) * compare(row[i] ?? 0, row[j] ?? 0) || i - j)

/** Values of a dtype with ends, ties and what floats have besides numbers. */
function drawn(dtype: s.DType, n: number, seed: number): s.Tensor {
  const rng = makeRng(seed)
  const pick = (): number => rng.int(0, 40) - 20
  if (dtype === 'bool')
    return t(
      Array.from({ length: n }, () => pick() > 0),
      { dtype },
    )
  if (dtype === 'i64' || dtype === 'u64') {
    const wide = Array.from({ length: n }, (_, i) => (i % 3 === 0 ? BigInt(pick()) << 40n : BigInt(pick())))
    return t(dtype === 'u64' ? BigUint64Array.from(wide) : BigInt64Array.from(wide))
  }
  const special = [nan, inf, -inf, 0, -0, -nan, 1e-40, -1e-40, 65504]
  const isFloat = dtype.includes('f')
  const values = Array.from({ length: n }, (_, i) =>
    isFloat
      ? i % 5 === 4
        ? (special[rng.int(0, special.length - 1)] ?? 0)
        : pick() * 1.5
      : pick() * (i % 7 === 0 ? 1e8 : 3),
  )
  if (isFloat) return t(values).astype(dtype)
  return t(values, { dtype: 'f64' }).astype('i64').astype(dtype)
}

describe.each(['reference', 'wasm'] as const)('on %s', (device) => {
  beforeAll(() => chooseDevice(device, { threads: 1 }))
  afterAll(() => s.setDevice('reference'))

  describe.each(some(allDTypes, 3))('rows of %s', (dtype) => {
    // By day of the reference's one length, of the other's two, in turn.
    const lengths = [0, 1, 13, 128, 129].filter(
      (_, i) => nightly || (i + allDTypes.indexOf(dtype)) % (device === 'wasm' ? 4 : 5) === 0,
    )
    it.each(lengths)('of %i', (n) => {
      const x = drawn(dtype, 2 * n, n + 3).reshape([2, n])
      const rows = x.tolist() as Value[][]
      for (const descending of [false, true]) {
        const orders = rows.map((row) => orderOf(row, descending))
        expect(s.argsort(x, -1, { descending }).tolist()).toEqual(orders)
        const sorted = s.sort(x, -1, { descending })
        expect([sorted.dtype, sorted.shape]).toEqual([dtype, [2, n]])
        // Zeros of either sign are equal: adding 0 makes them one.
        const plain = (v: Value | undefined): Value | undefined => (typeof v === 'number' ? v + 0 : v)
        expect((sorted.tolist() as Value[][]).map((row) => row.map(plain))).toEqual(
          rows.map((row, r) => (orders[r] ?? []).map((i) => plain(row[i]))),
        )
      }
    })
  })

  it('sorts along any axis, and a scalar is refused', () => {
    const x = t([
      [
        [3, 1],
        [2, 2],
      ],
      [
        [1, 5],
        [0, 9],
      ],
    ])
    expect(s.sort(x, 0).tolist()).toEqual([
      [
        [1, 1],
        [0, 2],
      ],
      [
        [3, 5],
        [2, 9],
      ],
    ])
    expect(s.argsort(x, 1).tolist()).toEqual([
      [
        [1, 0],
        [0, 1],
      ],
      [
        [1, 0],
        [0, 1],
      ],
    ])
    expect(() => s.sort(t(3))).toThrow('axis -1 is out of range')
    expect(s.sort(s.zeros([0, 3])).shape).toEqual([0, 3])
    expect(s.argsort(s.zeros([3, 0])).shape).toEqual([3, 0])
  })

  it('sorts long rows whose length is no multiple of a block', () => {
    const x = drawn('f32', 3 * 1037, 5).reshape([3, 1037])
    expect(s.argsort(x).tolist()).toEqual((x.tolist() as number[][]).map((row) => orderOf(row)))
  })

  describe('topK', () => {
    const counts = [
      [5, 0],
      [5, 5],
      [5, 2],
      [128, 7],
      [200, 8],
      [200, 1],
      [200, 9],
      [200, 200],
    ] as const
    it.each(some(counts, 3))('of %i elements the first %i', (n, k) => {
      for (const [i, dtype] of (['f32', 'i32', 'u8'] as const).entries())
        for (const largest of turn([true, false], i)) {
          const x = drawn(dtype, 2 * n, k).reshape([2, n])
          const rows = x.tolist() as number[][]
          const orders = rows.map((row) => orderOf(row, largest).slice(0, k))
          const [values, indices] = s.topK(x, k, { largest })
          expect(indices.tolist()).toEqual(orders)
          expect(values.tolist()).toEqual(rows.map((row, r) => (orders[r] ?? []).map((i) => row[i])))
        }
    })
    it('where all are equal, or the last of the order', () => {
      expect(s.topK(s.full([200], -inf), 3)[1].tolist()).toEqual([0, 1, 2])
      expect(s.topK(s.zeros([200], 'u32'), 3)[1].tolist()).toEqual([0, 1, 2])
      expect(s.topK(s.full([200], nan), 3, { largest: false })[1].tolist()).toEqual([0, 1, 2])
      expect(
        s
          .topK(
            t([
              [1, 5],
              [7, 2],
            ]),
            1,
            { axis: 0 },
          )
          .map((v) => v.tolist()),
      ).toEqual([[[7, 5]], [[1, 0]]])
    })
  })

  describe('quantiles', () => {
    const row = (n: number): number[] => (drawn('i32', n, n).tolist() as number[]).map((v) => (v % 1000) / 8)
    const methods = ['linear', 'lower', 'higher', 'nearest', 'midpoint'] as const
    const even = (v: number): number => (Math.abs(v % 1) === 0.5 ? 2 * Math.round(v / 2) : Math.round(v))
    function want(values: readonly number[], q: number, method: (typeof methods)[number]): number {
      const sorted = values.toSorted((a, b) => a - b)
      const at = q * (values.length - 1)
      const [a = 0, b = 0, c = 0] = [Math.floor(at), Math.ceil(at), even(at)].map((i) => sorted[i])
      return { linear: a + (b - a) * (at % 1), lower: a, higher: b, nearest: c, midpoint: (a + b) / 2 }[method]
    }
    // By day all of them on the reference.
    it.each(device === 'wasm' ? some(methods, 2) : methods)('%s', (method) => {
      for (const n of some([8, 1, 2, 5, 150], 4))
        for (const q of some([0.625, 0, 0.25, 0.5, 1], 4)) {
          const values = row(n)
          const w = expect.closeTo(want(values, q, method), 3)
          expect(s.quantile(t(values), q, undefined, { method }).item()).toEqual(w)
          expect(s.quantile(t(values), t([q]), undefined, { method }).tolist()).toEqual([w])
        }
    })
    it('axes, shapes, dtypes, NaN and nothing', () => {
      const x = t([
        [1, 9, 2],
        [4, 4, nan],
      ])
      expect(s.median(x, 1).tolist()).toEqual([2, nan])
      expect(s.median(x, 0).tolist()).toEqual([2.5, 6.5, nan])
      expect(s.median(x, [0, 1], true).tolist()).toEqual([[nan]])
      expect(
        s.quantile(
          x,
          t([
            [0.5, 0],
            [1, 1],
          ]),
          0,
        ).shape,
      ).toEqual([2, 2, 3])
      expect(s.quantile(x, t([0.5]), 1, { keepdims: true }).tolist()).toEqual([[[2], [nan]]])
      expect(s.quantile(x, t([-1, 2]), 0).tolist()).toEqual([
        [1, 4, nan],
        [4, 9, nan],
      ])
      expect(s.median(t([1, 2], { dtype: 'i32' })).item()).toBe(1.5)
      expect(s.median(t([1, 2]).astype('f16')).dtype).toBe('f16')
      expect(s.median(s.zeros([2, 0]), 1).tolist()).toEqual([nan, nan])
      expect(s.median(t([inf, inf, 1])).item()).toBe(inf)
      expect(s.median(t([-inf, inf])).item()).toBe(nan)
      expect(() => s.quantile(x, 1.5)).toThrow('the quantile 1.5')
    })
  })

  it('derivatives go where elements go, through both ways to sort', () => {
    for (const n of [5, 200]) {
      const x = drawn('i32', n, 1)
        .astype('f32')
        .add(s.arange(0, n, 1, 'f32').mul(1e-3))
      const weights = s.arange(0, n, 1, 'f32')
      const g = s
        .grad((v: s.Tensor) => s.sort(v).mul(weights).sum())(x)
        .tolist() as number[]
      const order = orderOf(x.tolist() as number[])
      expect(order.map((i) => g[i])).toEqual(order.map((_, r) => r))
      const [y, dy] = s.jvp((v: s.Tensor) => s.sort(v), [x], [weights])
      expect([y.tolist(), dy.tolist()]).toEqual([s.sort(x).tolist(), order])
    }
  })
})

it('strict mode gives the same bits', () => {
  chooseDevice('wasm', { threads: 1 })
  const x = drawn('f32', 400, 9)
  const f = (v: s.Tensor): s.Tensor[] => [s.sort(v), s.argsort(v), ...s.topK(v, 3)]
  const bits = (list: readonly s.Tensor[]): unknown[] => list.map((y) => y.bitcast('i32').tolist())
  expect(bits(s.jit(f, { mode: 'strict' })(x))).toEqual(bits(s.jit(f)(x)))
  s.setDevice('reference')
})
