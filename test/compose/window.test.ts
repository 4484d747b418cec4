/** Convolutions, their transposes and pooling against direct loops. */
import { describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { lit, numbers, ramp } from './run.ts'

/** Direct 2-d cross-correlation by its definition. */
function directConv(
  x: number[],
  [n, ci, h, w]: number[],
  f: number[],
  [co, cg, kh, kw]: number[],
  s: number,
  p: number,
  d: number,
  g: number,
): number[] {
  const [N = 0, C = 0, H = 0, W = 0, M = 0, G = 0, KH = 0, KW = 0] = [n, ci, h, w, co, cg, kh, kw]
  const oh = Math.floor((H + 2 * p - (KH - 1) * d - 1) / s) + 1
  const ow = Math.floor((W + 2 * p - (KW - 1) * d - 1) / s) + 1
  const out: number[] = []
  for (let b = 0; b < N; b++)
    for (let m = 0; m < M; m++)
      for (let i = 0; i < oh; i++)
        for (let j = 0; j < ow; j++) {
          let sum = 0
          for (let q = 0; q < G; q++)
            for (let k = 0; k < KH; k++)
              for (let l = 0; l < KW; l++) {
                const at = [i * s + k * d - p, j * s + l * d - p]
                const [y = 0, z = 0] = at
                if (y < 0 || z < 0 || y >= H || z >= W) continue
                const channel = Math.floor(m / (M / g)) * G + q
                sum += (x[((b * C + channel) * H + y) * W + z] ?? 0) * (f[((m * G + q) * KH + k) * KW + l] ?? 0)
              }
          out.push(sum)
        }
  return out
}

describe('conv', () => {
  it.each([
    [[2, 3, 5, 6], [4, 3, 3, 2], 1, 0, 1, 1],
    [[1, 2, 7, 7], [2, 2, 3, 3], 2, 1, 1, 1],
    [[1, 4, 6, 6], [6, 2, 3, 3], 1, 1, 2, 2],
    [[1, 3, 5, 5], [3, 1, 3, 3], 1, 1, 1, 3],
  ])('%j * %j stride %i padding %i dilation %i groups %i', (xs, ws, s, p, d, g) => {
    const x = c.sub(ramp(xs), 7)
    const w = c.sub(ramp(ws), 5)
    const y = c.conv(x, w, { stride: s, padding: p, dilation: d, groups: g })
    expect(numbers(y)).toEqual(directConv(numbers(x), xs, numbers(w), ws, s, p, d, g))
  })
  it('same padding, bias, one and three axes', () => {
    const y = c.conv(ramp([1, 1, 5]), lit([1, 1, 1], [1, 1, 3]), { padding: 'same', stride: 2, bias: lit([10]) })
    expect(numbers(y)).toEqual([11, 16, 17])
    expect(numbers(c.conv(ramp([1, 1, 4]), lit([1, 1], [1, 1, 2]), { padding: 'same-lower' }))).toEqual([0, 1, 3, 5])
    expect(c.conv(ramp([1, 2, 3, 4, 5]), ramp([3, 2, 2, 2, 2])).shape).toEqual([1, 3, 2, 3, 4])
  })
  it('refuses shapes that do not fit', () => {
    expect(() => c.conv(ramp([1, 2, 5, 5]), ramp([1, 3, 3, 3]))).toThrow(/E_SHAPE.*convolution/)
    expect(() => c.conv(ramp([1, 1, 2]), ramp([1, 1, 3]))).toThrow(/E_SHAPE/)
  })
})

describe('convTranspose', () => {
  it('spreads the weights', () => {
    const y = c.convTranspose(lit([1, 2], [1, 1, 2]), lit([1, 10, 100], [1, 1, 3]), { stride: 2 })
    expect(numbers(y)).toEqual([1, 10, 102, 20, 200])
  })
  it('is the adjoint of conv', () => {
    const options = {
      stride: 2,
      padding: [
        [1, 0],
        [0, 2],
      ] as const,
      dilation: [1, 2],
      groups: 2,
    }
    const x = c.sub(ramp([1, 4, 5, 6]), 9)
    const w = c.sub(ramp([6, 2, 2, 3]), 5)
    const y = c.conv(x, w, options)
    const z = c.sub(ramp(y.shape), 3)
    const back = c.convTranspose(z, w, options)
    // Rows of x that no window reaches are not part of the transpose.
    const seen = c.slice(x, [{}, {}, { stop: back.shape[2] }, { stop: back.shape[3] }])
    expect(numbers(c.sum(c.mul(y, z)))).toEqual(numbers(c.sum(c.mul(seen, back))))
  })
  it('same padding multiplies the extent', () => {
    expect(c.convTranspose(ramp([1, 1, 4]), ramp([1, 2, 3]), { stride: 2, padding: 'same' }).shape).toEqual([1, 2, 8])
    expect(
      c.convTranspose(ramp([1, 1, 4]), ramp([1, 2, 3]), { stride: 2, padding: 1, outputPadding: 1 }).shape,
    ).toEqual([1, 2, 8])
    expect(c.convTranspose(ramp([1, 1, 4]), ramp([1, 1, 1]), { stride: 2, padding: 'same' }).shape).toEqual([1, 1, 8])
  })
})

describe('pooling', () => {
  const x = ramp([1, 1, 4, 4])
  it('max, average, ceil mode', () => {
    expect(numbers(c.maxPool(x, [2, 2]))).toEqual([5, 7, 13, 15])
    expect(numbers(c.averagePool(x, [2, 2]))).toEqual([2.5, 4.5, 10.5, 12.5])
    expect(numbers(c.maxPool(ramp([1, 1, 5]), [2], { ceilMode: true }))).toEqual([1, 3, 4])
    expect(numbers(c.averagePool(ramp([1, 1, 5]), [2], { ceilMode: true }))).toEqual([0.5, 2.5, 4])
    expect(numbers(c.maxPool(c.sub(ramp([1, 1, 3]), 9), [3], { stride: 1, padding: 1 }))).toEqual([-8, -7, -7])
  })
  it('counts padding when asked', () => {
    const ones = c.ones([1, 1, 3])
    expect(numbers(c.averagePool(ones, [3], { stride: 1, padding: 1 }))).toEqual([1, 1, 1])
    const counted = numbers(c.averagePool(ones, [3], { stride: 1, padding: 1, countIncludePad: true }))
    expect(counted.map((v) => Math.round(v * 3))).toEqual([2, 3, 2])
  })
  it('drops a window that starts in the padding behind (ceil mode)', () => {
    expect(c.maxPool(ramp([1, 1, 2]), [1], { stride: 2, padding: [[0, 1]], ceilMode: true }).shape).toEqual([1, 1, 1])
  })
  it('whole planes', () => {
    expect(c.globalAveragePool(x).shape).toEqual([1, 1, 1, 1])
    expect(numbers(c.globalAveragePool(x))).toEqual([7.5])
    expect(numbers(c.globalMaxPool(x))).toEqual([15])
  })
  it('depth and space', () => {
    const y = c.depthToSpace(ramp([1, 4, 1, 2]), 2)
    expect(numbers(y)).toEqual([0, 2, 1, 3, 4, 6, 5, 7])
    expect(numbers(c.spaceToDepth(y, 2))).toEqual(numbers(ramp([1, 4, 1, 2])))
    expect(numbers(c.depthToSpace(ramp([1, 8, 1, 1]), 2, 'CRD'))).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    expect(numbers(c.depthToSpace(ramp([1, 8, 1, 1]), 2))).toEqual([0, 2, 4, 6, 1, 3, 5, 7])
  })
})
