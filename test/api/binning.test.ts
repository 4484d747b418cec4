/** Positions in sorted values, counts, histograms, sums of segments and interpolation against plain loops. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'

const t = s.tensor
const nan = Number.NaN
const inf = Number.POSITIVE_INFINITY
const i32 = (...values: number[]): s.Tensor => t(values, { dtype: 'i32' })
const count = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const wave = (n: number): number[] => count(n).map((i) => Math.fround(Math.sin(1.7 * i) * 3))
const close = (x: readonly number[], digits = 5): unknown[] =>
  x.map((v) => (Number.isFinite(v) ? expect.closeTo(v, digits) : v))

/** The order of floats with NaN last. */
const below = (a: number, b: number): boolean => a < b || (Number.isNaN(b) && !Number.isNaN(a))

describe.each(['reference', 'wasm'] as const)('on %s', (device) => {
  beforeAll(() => chooseDevice(device, { threads: 1 }))
  afterAll(() => s.setDevice('reference'))

  describe('searchsorted', () => {
    it.each([0, 1, 2, 7, 32, 33, 64, 100])('in %i values', (n) => {
      const sorted = [...wave(n).slice(0, n - 3), ...[inf, nan, nan].slice(0, n)].slice(0, n)
      sorted.sort((a, b) => (below(a, b) ? -1 : below(b, a) ? 1 : 0))
      const values = [...wave(n), -9, 9, 0.1, nan, inf, -inf]
      for (const side of ['left', 'right'] as const) {
        const want = values.map((v) => sorted.filter((e) => (side === 'left' ? below(e, v) : !below(v, e))).length)
        expect(s.searchsorted(t(sorted), t(values), { side }).tolist()).toEqual(want)
      }
    })
    it('of integers, scalars and shapes', () => {
      const a = t([1, 3, 3, 200], { dtype: 'u8' })
      expect(s.searchsorted(a, i32(-1, 3, 300)).tolist()).toEqual([0, 1, 4])
      expect(s.searchsorted(a, 3, { side: 'right' }).item()).toBe(3)
      expect(s.searchsorted(a, s.zeros([2, 0])).shape).toEqual([2, 0])
      expect(() => s.searchsorted(a, 3, { side: 'middle' as 'left' })).toThrow('there is no side "middle"')
    })
  })

  describe('bincount', () => {
    it.each([0, 1, 5, 32, 33, 70])('of %i numbers', (length) => {
      const x = count(200).map((i) => ((i * 37) % 81) - 5)
      const want = count(length).map((k) => x.filter((v) => v === k).length)
      expect(s.bincount(i32(...x), { length }).tolist()).toEqual(want)
      expect(
        s
          .bincount(
            i32(...x)
              .astype('i8')
              .reshape([10, 20]),
            { length },
          )
          .tolist(),
      ).toEqual(want)
      const weights = wave(200)
      const sums = count(length).map((k) => weights.reduce((n, w, i) => n + (x[i] === k ? w : 0), 0))
      expect(s.bincount(i32(...x), { length, weights: t(weights) }).tolist()).toEqual(close(sums, 4))
    })
    it('dtypes', () => {
      expect(
        s
          .bincount(t([255, 3], { dtype: 'u8' }), { length: 300 })
          .at(255)
          .get()
          .item(),
      ).toBe(1)
      expect(s.bincount(t([2n ** 40n, 1n]), { length: 2 }).tolist()).toEqual([0, 1])
      expect(
        s
          .bincount(t([4294967295, 1], { dtype: 'u32' }), { length: 40 })
          .sum()
          .item(),
      ).toBe(1)
      const half = s.bincount(s.zeros([3000], 'i32'), { length: 2, weights: s.ones([3000], 'f16') })
      expect([half.dtype, half.tolist()]).toEqual(['f16', [3000, 0]])
      expect(s.bincount(i32(), { length: 2 }).tolist()).toEqual([0, 0])
    })
  })

  describe('histogram', () => {
    const x = [...wave(100), 3, -3]
    const counted = (edges: readonly number[], values: readonly number[]): number[] =>
      edges.slice(1).map((right, i) => {
        const left = edges[i] ?? 0
        return values.filter((v) => v >= left && (v < right || (i === edges.length - 2 && v === right))).length
      })
    it.each([1, 2, 10, 31, 40])('of %i equal bins', (bins) => {
      const [counts, edges] = s.histogram(t(x), { bins })
      const have = edges.tolist() as number[]
      expect(have).toEqual(close(count(bins + 1).map((i) => -3 + (6 * i) / bins)))
      expect([have[0], have[bins]]).toEqual([-3, 3])
      expect(counts.tolist()).toEqual(counted(have, x))
      expect([counts.dtype, counts.sum().item()]).toEqual(['i32', x.length])
    })
    it('within a range, of NaN and infinities', () => {
      const [counts, edges] = s.histogram(t([0, 1, 2, 3, nan, inf, -1, 4]), { bins: 4, range: [0, 4] })
      expect([counts.tolist(), edges.tolist()]).toEqual([
        [1, 1, 1, 2],
        [0, 1, 2, 3, 4],
      ])
    })
    it('of edges, weights and densities', () => {
      const edges = [-2, -1, 0.5, 2]
      expect(s.histogram(t(x), { bins: t(edges) })[0].tolist()).toEqual(counted(edges, x))
      const [weighted] = s.histogram(i32(1, 2, 2), { bins: 2, weights: t([0.5, 1, 2]) })
      expect(weighted.tolist()).toEqual([0.5, 3])
      const [density] = s.histogram(t(x), { bins: t(edges), density: true })
      const counts = counted(edges, x)
      const all = counts.reduce((a, b) => a + b, 0)
      expect(density.tolist()).toEqual(close(counts.map((n, i) => n / all / ((edges[i + 1] ?? 0) - (edges[i] ?? 0)))))
    })
    it('of one value, and of none', () => {
      expect(s.histogram(t([2, 2]), { bins: 2 }).map((v) => v.tolist())).toEqual([
        [0, 2],
        [1.5, 2, 2.5],
      ])
      expect(s.histogram(t([]), { bins: 2 }).map((v) => v.tolist())).toEqual([
        [0, 0],
        [0, 0.5, 1],
      ])
      expect(() => s.histogram(t([1]), { range: [1, 0] })).toThrow('bins from 1 to 0')
      expect(() => s.histogram(t([1]), { bins: 0 })).toThrow('bins is 0')
    })
  })

  it('segmentSum', () => {
    const data = t(wave(12)).reshape([6, 2])
    const ids = [2, 0, 2, -1, 7, 0]
    const want = count(3).map((k) =>
      [0, 1].map((c) => ids.reduce((n, id, r) => n + (id === k ? (wave(12)[2 * r + c] ?? 0) : 0), 0)),
    )
    expect(s.segmentSum(data, i32(...ids), 3).tolist()).toEqual(want.map((row) => close(row)))
    expect(s.segmentSum(i32(1, 2, 3), t([1, 1, 255], { dtype: 'u8' }), 2).tolist()).toEqual([0, 3])
    expect(s.segmentSum(t([true, true]), i32(0, 0), 1).tolist()).toEqual([2])
    expect(s.segmentSum(s.ones([3000], 'f16'), s.zeros([3000], 'i32'), 1).tolist()).toEqual([3000])
    expect(s.segmentSum(s.ones([2, 3]), i32(0, 0), 0).shape).toEqual([0, 3])
  })

  it('interp', () => {
    const [xp, fp] = [
      [1, 2, 4],
      [10, 20, 0],
    ]
    const x = [-5, 1, 1.5, 2, 3, 4, 9, nan, inf, -inf]
    expect(s.interp(t(x), t(xp), t(fp)).tolist()).toEqual(close([10, 10, 15, 20, 10, 0, 0, nan, 0, 10]))
    expect(s.interp(t([0, 1, 9]), t(xp), t(fp), { left: -1, right: -2 }).tolist()).toEqual([-1, 10, -2])
    expect(s.interp(2, t([5]), t([7])).item()).toBe(7)
    expect(s.interp(t([1, 2, 3]), t([1, 2, 2, 3]), t([0, 1, 5, 6])).tolist()).toEqual([0, 5, 6])
    const samples = count(100)
    expect(s.interp(t([0.25, 50.5, 98.75]), t(samples), t(samples.map((v) => 2 * v))).tolist()).toEqual([
      0.5, 101, 197.5,
    ])
    expect(s.interp(i32(1), i32(0, 2), i32(0, 1)).tolist()).toEqual([0.5])
  })
})
