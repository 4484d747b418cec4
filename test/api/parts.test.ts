/** Parts of tensors, read and updated, at places known on the device: values against plain loops, out of range, in place. */
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import * as s from '../../src/index.ts'
import { chooseDevice } from '../support/device.ts'

const t = s.tensor
const i32 = (...values: number[]): s.Tensor => t(values, { dtype: 'i32' })
const count = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const grid = (): s.Tensor => s.arange(0, 12, 1, 'f32').reshape([3, 4])

describe.each(['reference', 'wasm'] as const)('on %s', (device) => {
  beforeAll(() => chooseDevice(device, { threads: 1 }))
  afterAll(() => s.setDevice('reference'))

  describe('dynamicSlice', () => {
    it.each([-9, -3, -1, 0, 1, 2, 3, 7])('from %i', (at) => {
      const from = Math.min(Math.max(at < 0 ? at + 5 : at, 0), 2)
      const want = [from, from + 1, from + 2]
      for (const start of [at, t(at, { dtype: 'i32' }), t(at, { dtype: 'i8' }), t(BigInt(at))])
        expect(s.dynamicSlice(s.arange(5), [start], [3]).tolist()).toEqual(want)
    })
    it('of several axes, whole ones, none and nothing', () => {
      const start = t(1, { dtype: 'i32' })
      expect(s.dynamicSlice(grid(), [start, 2], [2, 2]).tolist()).toEqual([
        [6, 7],
        [10, 11],
      ])
      expect(s.dynamicSlice(grid(), [start, start], [1, 4]).tolist()).toEqual([[4, 5, 6, 7]])
      expect(s.dynamicSlice(grid(), [start, start], [0, 2]).shape).toEqual([0, 2])
      expect(s.dynamicSlice(t(3), [], []).item()).toBe(3)
      expect(() => s.dynamicSlice(grid(), [start], [1, 1])).toThrow('1 starts and 2 sizes')
      expect(() => s.dynamicSlice(grid(), [i32(1), 0], [1, 1])).toThrow('a start of shape [1]')
    })
  })

  it('dynamicUpdateSlice clamps in the same way', () => {
    for (const at of [-9, -2, 0, 1, 2, 8]) {
      const from = Math.min(Math.max(at < 0 ? at + 4 : at, 0), 2)
      const want = [0, 4, 8].map((r, row) => count(4).map((c) => (row === 1 && c >= from && c < from + 2 ? -1 : r + c)))
      const starts = [1, t(at, { dtype: 'i32' })]
      expect(s.dynamicUpdateSlice(grid(), s.full([1, 2], -1), starts).tolist()).toEqual(want)
    }
    expect(s.dynamicUpdateSlice(s.zeros([2], 'i8'), t([1.5]), [1]).tolist()).toEqual([0, 1])
  })

  describe('parts', () => {
    const x = count(60).map((v) => v + 1)
    const cube = (): s.Tensor => t(x).reshape([3, 4, 5])
    const at = (a: number, b: number, c: number): number => x[a * 20 + b * 5 + c] ?? Number.NaN
    it('are read as NumPy reads them', () => {
      const rows = i32(2, 0)
      expect(cube().at(rows).get().shape).toEqual([2, 4, 5])
      expect(cube().at(null, rows, [1, 4, 2]).get().tolist()).toEqual(
        count(3).map((a) => [2, 0].map((b) => [1, 3].map((c) => at(a, b, c)))),
      )
      // Indices that are neighbours: their axes stand where the first stood; else in front.
      expect(cube().at(null, rows, i32(1, 4)).get().tolist()).toEqual(count(3).map((a) => [at(a, 2, 1), at(a, 0, 4)]))
      expect(cube().at(rows, null, i32(1, 4)).get().tolist()).toEqual(
        [0, 1].map((k) => count(4).map((b) => at([2, 0][k] ?? 0, b, [1, 4][k] ?? 0))),
      )
      expect(cube().at(1, null, rows).get().tolist()).toEqual([2, 0].map((c) => count(4).map((b) => at(1, b, c))))
      expect(
        cube()
          .at(rows.reshape([2, 1]), i32(0, 3))
          .get().shape,
      ).toEqual([2, 2, 5])
      expect(cube().at(-1, [null, null, -1], 0).get().tolist()).toEqual([3, 2, 1, 0].map((b) => at(2, b, 0)))
      expect(cube().at([5, 9]).get().shape).toEqual([0, 4, 5])
      expect(cube().at().get().tolist()).toEqual(cube().tolist())
      expect(t(7).at().set(3).item()).toBe(3)
    })
    it('clamp in reads, and drop in updates', () => {
      const v = t([1, 2, 3])
      expect(
        v
          .at(i32(-9, -1, 2, 9))
          .get()
          .tolist(),
      ).toEqual([1, 3, 3, 3])
      expect(v.at(9).get().item()).toBe(3)
      expect(
        v
          .at(i32(-9, -1, 9))
          .add(10)
          .tolist(),
      ).toEqual([1, 2, 13])
      expect(v.at(3).set(0).tolist()).toEqual([1, 2, 3])
    })
    it('are updated', () => {
      const v = (): s.Tensor => t([1, 2, 3, 4])
      const twice = i32(0, 2, 2)
      expect(
        v()
          .at(twice)
          .set(t([5, 6, 7]))
          .tolist(),
      ).toEqual([5, 2, 7, 4])
      expect(
        v()
          .at(twice)
          .add(t([5, 6, 7]))
          .tolist(),
      ).toEqual([6, 2, 16, 4])
      expect(
        v()
          .at(twice)
          .multiply(t([5, 6, 7]))
          .tolist(),
      ).toEqual([5, 2, 126, 4])
      expect(
        v()
          .at(twice)
          .min(t([0, 9, 2]))
          .tolist(),
      ).toEqual([0, 2, 2, 4])
      expect(
        v()
          .at(twice)
          .max(t([0, 9, 2]))
          .tolist(),
      ).toEqual([1, 2, 9, 4])
      expect(
        v()
          .at([null, null, -2])
          .set(t([10, 20]))
          .tolist(),
      ).toEqual([1, 20, 3, 10])
      expect(v().at([0, 0]).set(9).tolist()).toEqual([1, 2, 3, 4])
      expect(grid().at(null, 1).add(100).tolist()).toEqual([0, 4, 8].map((r) => [r, r + 101, r + 2, r + 3]))
      expect(
        grid()
          .at([0, 2], [1, 3])
          .set(t([[1], [2]]))
          .at(0)
          .get()
          .tolist(),
      ).toEqual([0, 1, 1, 3])
      expect(t([1, 2], { dtype: 'i32' }).at(0).set(2.9).tolist()).toEqual([2, 2])
      expect(t([true, false]).at(1).set(true).tolist()).toEqual([true, true])
    })
    it('have derivatives', () => {
      const places = i32(0, 2, 2, 9)
      const f = (v: s.Tensor, u: s.Tensor): s.Tensor =>
        v
          .at(places)
          .add(u)
          .mul(t([1, 2, 3]))
          .sum()
      const [dv, du] = s.grad(f, { argnums: [0, 1] })(t([1, 1, 1]), t([1, 1, 1, 1]))
      expect([dv.tolist(), du.tolist()]).toEqual([
        [1, 2, 3],
        [1, 3, 3, 0],
      ])
      const g = (v: s.Tensor, u: s.Tensor): s.Tensor =>
        v
          .at(places)
          .set(u)
          .mul(t([1, 2, 3]))
          .sum()
      const [ev, eu] = s.grad(g, { argnums: [0, 1] })(t([1, 1, 1]), t([1, 1, 1, 1]))
      expect([ev.tolist(), eu.tolist()]).toEqual([
        [0, 2, 0],
        [1, 0, 3, 0],
      ])
    })
    it('in batches', () => {
      const f = (v: s.Tensor, i: s.Tensor): s.Tensor => v.at(i).set(-1)
      expect(
        s
          .vmap(f)(grid(), i32(0, 3, 7))
          .tolist(),
      ).toEqual([
        [-1, 1, 2, 3],
        [4, 5, 6, -1],
        [8, 9, 10, 11],
      ])
      const slice = (v: s.Tensor, i: s.Tensor): s.Tensor => s.dynamicSlice(v, [i], [2])
      expect(
        s
          .vmap(slice)(grid(), i32(0, 3, 1))
          .tolist(),
      ).toEqual([
        [0, 1],
        [6, 7],
        [9, 10],
      ])
    })
  })
})

test('what is no index', () => {
  const v = s.ones([2])
  expect(() => v.at(0.5)).toThrow('an index is 0.5')
  expect(() => v.at([0, 0.5])).toThrow('a part whose stop is 0.5')
  expect(() => v.at([0, 2, 0])).toThrow('a step of 0')
  expect(() => v.at('x' as never)).toThrow('an index is a string')
})

describe('a step of a cache that is donated', () => {
  beforeAll(() => chooseDevice('wasm', { threads: 1 }))
  afterAll(() => s.setDevice('reference'))
  const [layers, positions, width] = [32, 4096, 8]
  const cache = s.spec([layers, positions, width])
  const row = s.spec([layers, 1, width])
  const start = s.spec([], 'i32')
  const step = (c: s.Tensor, u: s.Tensor, i: s.Tensor): s.Tensor => s.dynamicUpdateSlice(c, u, [0, i, 0])

  it('moves one position a layer', () => {
    const report = s.jit(step, { donate: [0] }).explain(cache, row, start)
    const bytes = layers * width * 4
    expect(report.memory.inPlace).toBe(1)
    expect(report.kernels.reduce((n, k) => n + k.bytesWritten, 0)).toBeLessThanOrEqual(bytes + 64)
    expect(report.kernels.reduce((n, k) => n + k.bytesRead, 0)).toBeLessThanOrEqual(2 * bytes + 64)
  })
  it('and one for x.at as well', () => {
    const set = (c: s.Tensor, u: s.Tensor, i: s.Tensor): s.Tensor => c.at(null, i).set(u)
    const report = s.jit(set, { donate: [0] }).explain(cache, s.spec([layers, width]), start)
    expect(report.kernels.reduce((n, k) => n + k.bytesWritten, 0)).toBeLessThanOrEqual(layers * width * 4 + 64)
  })
  it('gives what it gives without', () => {
    const run = s.jit(step, { donate: [0] })
    let c = s.zeros([2, 5, 3])
    for (const i of [0, 3, 4, 9]) c = run(c, s.full([2, 1, 3], i + 1), t(i, { dtype: 'i32' }))
    expect(c.at(0, null, 0).get().tolist()).toEqual([1, 0, 0, 4, 10])
  })
})
