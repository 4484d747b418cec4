/** NumPy's functions of arrays against plain loops, on the reference and on WebAssembly. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'

const t = s.tensor
const inf = Number.POSITIVE_INFINITY
const nan = Number.NaN
const close = (x: readonly number[], digits = 5): unknown[] =>
  x.map((v) => (Number.isFinite(v) ? expect.closeTo(v, digits) : v))
const count = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const wave = (n: number): number[] => count(n).map((i) => Math.sin(1.7 * i) * 3)

describe.each(['reference', 'wasm'] as const)('on %s', (device) => {
  beforeAll(() => chooseDevice(device, { threads: 1 }))
  afterAll(() => s.setDevice('reference'))

  describe('diagonals', () => {
    it.each([
      [4, 4],
      [3, 7],
      [7, 3],
      [1, 5],
      [5, 1],
      [0, 3],
    ])('of [%i, %i], at every offset', (rows, columns) => {
      const x = t(count(rows * columns)).reshape([rows, columns])
      for (let k = -rows - 1; k <= columns + 1; k++) {
        const want = count(rows)
          .filter((r) => r + k >= 0 && r + k < columns)
          .map((r) => r * columns + r + k)
        expect(s.diagonal(x, k).tolist()).toEqual(want)
        expect(s.trace(x, k).item()).toBe(want.reduce((a, b) => a + b, 0))
        expect(s.diag(x, k).tolist()).toEqual(want)
      }
    })
    it('make matrices', () => {
      for (const n of [0, 1, 3])
        for (const k of [-2, 0, 1]) {
          const m = n + Math.abs(k)
          const want = count(m).map((r) => count(m).map((c) => (c - r === k ? Math.min(r, c) + 1 : 0)))
          expect(s.diag(t(count(n).map((i) => i + 1)), k).tolist()).toEqual(want)
        }
      expect(s.diag(t([true, true])).tolist()).toEqual([
        [true, false],
        [false, true],
      ])
    })
    it('sum in the dtype of sums', () => {
      expect(
        s.trace(
          t([
            [true, false],
            [false, true],
          ]),
        ).dtype,
      ).toBe('i32')
      expect(s.trace(s.full([3, 3], 100, 'i8')).item()).toBe(300)
    })
  })

  it('diff', () => {
    const x = wave(9)
    const once = (v: readonly number[]): number[] => v.slice(1).map((y, i) => y - (v[i] ?? 0))
    expect(s.diff(t(x)).tolist()).toEqual(close(once(x)))
    expect(s.diff(t(x), 3).tolist()).toEqual(close(once(once(once(x)))))
    expect(s.diff(t(x), 0).tolist()).toEqual(close(x))
    expect(s.diff(t([1, 2]), 5).shape).toEqual([0])
    expect(s.diff(t([true, true, false])).tolist()).toEqual([false, true])
    expect(
      s
        .diff(
          t([
            [1, 2],
            [4, 8],
          ]),
          1,
          0,
        )
        .tolist(),
    ).toEqual([[3, 6]])
    expect(s.diff(t([3, 1], { dtype: 'u8' })).tolist()).toEqual([254])
  })

  it('inner, cross, kron', () => {
    const m = t([
      [1, 2, 3],
      [4, 5, 6],
    ])
    expect(s.inner(m, m).tolist()).toEqual([
      [14, 32],
      [32, 77],
    ])
    expect(s.inner(t([1, 2]), t([3, 4])).item()).toBe(11)
    expect(s.inner(s.ones([2, 3, 4]), s.ones([5, 4])).shape).toEqual([2, 3, 5])
    expect(s.inner(3, m).tolist()).toEqual([
      [3, 6, 9],
      [12, 15, 18],
    ])
    expect(s.cross(m, t([1, 0, 2])).tolist()).toEqual([
      [4, 1, -2],
      [10, -2, -5],
    ])
    expect(s.cross(m.T, t([[1], [0], [2]]), 0).T.tolist()).toEqual([
      [4, 1, -2],
      [10, -2, -5],
    ])
    expect(
      s
        .kron(
          t([
            [1, 2],
            [3, 4],
          ]),
          t([[0, 1]]),
        )
        .tolist(),
    ).toEqual([
      [0, 1, 0, 2],
      [0, 3, 0, 4],
    ])
    expect(s.kron(t([1, 2]), s.ones([2, 1])).tolist()).toEqual([
      [1, 2],
      [1, 2],
    ])
    expect(s.kron(2, t([1, 2])).tolist()).toEqual([2, 4])
  })

  it('cov', () => {
    const x = [wave(6), wave(12).slice(6)]
    const mean = (v: readonly number[]): number => v.reduce((a, b) => a + b, 0) / v.length
    const covariance = (a: readonly number[], b: readonly number[], less: number): number =>
      a.reduce((sum, v, i) => sum + (v - mean(a)) * ((b[i] ?? 0) - mean(b)), 0) / (a.length - less)
    const want = (less: number): unknown[] =>
      x.map((a) =>
        close(
          x.map((b) => covariance(a, b, less)),
          4,
        ),
      )
    expect(s.cov(t(x)).tolist()).toEqual(want(1))
    expect(s.cov(t(x).T, { rowvar: false, correction: 0 }).tolist()).toEqual(want(0))
    expect(s.cov(t([1, 2, 3])).item()).toBe(1)
    expect(s.cov(t([1, 2, 3], { dtype: 'i32' })).dtype).toBe('f32')
    expect(s.cov(t([5])).item()).toBe(nan)
    expect(s.cov(t([1, 2, 3]).astype('f16')).dtype).toBe('f16')
  })

  it('meshgrid', () => {
    const [x, y] = s.meshgrid([t([1, 2, 3]), t([true, false])])
    expect([x?.tolist(), y?.tolist()]).toEqual([
      [
        [1, 2, 3],
        [1, 2, 3],
      ],
      [
        [true, true, true],
        [false, false, false],
      ],
    ])
    const [a, b] = s.meshgrid([t([1, 2, 3]), t([4, 5])], { indexing: 'ij' })
    expect([a?.tolist(), b?.tolist()]).toEqual([
      [
        [1, 1],
        [2, 2],
        [3, 3],
      ],
      [
        [4, 5],
        [4, 5],
        [4, 5],
      ],
    ])
    expect(s.meshgrid([t([1, 2]), t([3]), t([4, 5, 6])]).map((v) => v.shape)).toEqual([
      [1, 2, 3],
      [1, 2, 3],
      [1, 2, 3],
    ])
    expect(s.meshgrid([])).toEqual([])
    expect(() => s.meshgrid([t([1])], { indexing: 'yx' as 'xy' })).toThrow('there is no indexing "yx"')
  })

  it('closeness', () => {
    const a = t([1, inf, -inf, nan, inf, 0])
    const b = t([1.000005, inf, inf, nan, 1, 1e-9])
    expect(s.isclose(a, b).tolist()).toEqual([true, true, false, false, false, true])
    expect(s.isclose(a, b, { equalNan: true }).tolist()).toEqual([true, true, false, true, false, true])
    expect(s.allclose(a, b).item()).toBe(false)
    expect(s.allclose(t([1, 2]), t([1.1, 2.2]), { rtol: 0.2 }).item()).toBe(true)
    expect(s.allclose(t([1, 2]), t([1.1, 2.2]), { atol: 0.1, rtol: 0 }).item()).toBe(false)
    expect(s.isclose(t([100, 200], { dtype: 'u8' }), 100).tolist()).toEqual([true, false])
    expect(s.isclose(t([1, 2]).astype('bf16'), t([1.001, 2.1])).tolist()).toEqual([false, false])
    expect(s.allclose(s.zeros([0]), s.zeros([0])).item()).toBe(true)
  })

  it('NaN and infinities', () => {
    const x = t([nan, inf, -inf, 2])
    const greatest = (2 - 2 ** -23) * 2 ** 127
    expect(s.nanToNum(x).tolist()).toEqual([0, greatest, -greatest, 2])
    expect(s.nanToNum(x, { nan: 7, posinf: inf, neginf: -1 }).tolist()).toEqual([7, inf, -1, 2])
    expect(s.nanToNum(x.astype('f16')).tolist()).toEqual([0, 65504, -65504, 2])
    expect(s.nanToNum(x.astype('bf16')).tolist()).toEqual([0, 2 ** 128 - 2 ** 120, -(2 ** 128 - 2 ** 120), 2])
    expect(s.nanToNum(t([1, 2], { dtype: 'i32' })).dtype).toBe('i32')
    expect(
      s
        .nansum(
          t([
            [1, nan],
            [nan, nan],
          ]),
          1,
        )
        .tolist(),
    ).toEqual([1, 0])
    expect(s.nansum(t([true, true])).item()).toBe(2)
    expect(s.countNonzero(t([0, -0, nan, 3])).item()).toBe(2)
    expect(
      s
        .countNonzero(
          t([
            [0, 1],
            [2, 3],
          ]),
          0,
          true,
        )
        .tolist(),
    ).toEqual([[1, 2]])
  })

  it('running extremes and sums of exponentials', () => {
    expect(s.cummax(t([1, 3, 2, nan, 5]), 0).tolist()).toEqual([1, 3, 3, nan, nan])
    expect(s.cummin(t([[3, 1, 2]]), 1, { reverse: true }).tolist()).toEqual([[1, 1, 2]])
    expect(s.cummax(t([3, 5], { dtype: 'i32' }), 0, { exclusive: true }).tolist()).toEqual([-(2 ** 31), 3])
    const x = wave(37)
    const want = x.map((_, i) => Math.log(x.slice(0, i + 1).reduce((a, v) => a + Math.exp(v), 0)))
    expect(s.logcumsumexp(t(x), 0).tolist()).toEqual(close(want))
    expect(s.logcumsumexp(t(x.toReversed()), 0, { reverse: true }).flip().tolist()).toEqual(close(want))
    expect(s.logcumsumexp(t([-1000, 0, 1000]), 0).tolist()).toEqual([-1000, 0, 1000])
    expect(s.logcumsumexp(t([-inf, -inf, 1, inf]), 0).tolist()).toEqual([-inf, -inf, 1, inf])
    expect(s.logcumsumexp(s.zeros([0, 2]), 0).shape).toEqual([0, 2])
    expect(s.logcumsumexp(t([0, 0], { dtype: 'i32' }), 0).tolist()).toEqual(close([0, Math.LN2]))
  })

  it('activations', () => {
    const x = [-1000, -2, 0, 3, 1000]
    const sigmoid = (v: number): number => 1 / (1 + Math.exp(-v))
    expect(s.logSigmoid(t(x)).tolist()).toEqual(
      close([-1000, Math.log(sigmoid(-2)), -Math.LN2, Math.log(sigmoid(3)), 0]),
    )
    expect(s.relu6(t([-1, 3, 9], { dtype: 'i32' })).tolist()).toEqual([0, 3, 6])
    expect(s.celu(t(x), 2).tolist()).toEqual(close([-2, 2 * Math.expm1(-1), 0, 3, 1000]))
    expect(s.glu(t([[1, 2, 0, 3]])).tolist()).toEqual([close([0.5, 2 * sigmoid(3)])])
    expect(
      s
        .glu(
          t([
            [1, 2],
            [0, 3],
          ]),
          0,
        )
        .tolist(),
    ).toEqual([close([0.5, 2 * sigmoid(3)])])
    expect(() => s.celu(t(x), 0)).toThrow('alpha is 0')
  })

  it('ravel', () => {
    expect(
      s
        .ravel(
          t([
            [1, 2],
            [3, 4],
          ]),
        )
        .tolist(),
    ).toEqual([1, 2, 3, 4])
    expect(s.ravel(7).tolist()).toEqual([7])
    expect(s.ravel(s.zeros([0, 3])).shape).toEqual([0])
  })
})
