/** Results whose number depends on data, against plain loops: on the reference and on WebAssembly, inside programs and batched. */
import { describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import { nightly, turn } from '../support/nightly.ts'

const list = (t: s.Tensor): number[] => Array.from(t.dataSync() as ArrayLike<number | bigint>, Number)
/** Numbers from 0 to `most` - 1 in a fixed disorder. */
const mixed = (n: number, most: number, seed = 1): number[] =>
  Array.from({ length: n }, (_, i) =>
    Math.floor((((i * 7919 + seed * 104729 + ((i * i) % 97) * 31) % 1009) / 1009) * most),
  )

describe.each(['reference', 'wasm'] as const)('on %s', (device) => {
  it('nonzero: coordinates in order, room, the number of all', () => {
    s.setDevice(device)
    for (const [shape, size] of [
      [[7], 7],
      [[4, 5], 3],
      [[3, 4, 5], 60],
      [[200], 90],
    ] as const) {
      const n = shape.reduce((a: number, b: number) => a * b, 1)
      const values = mixed(n, 3)
      const { indices, count } = s.nonzero(s.tensor(values).reshape([...shape]), { size, fillValue: -1 })
      const hits = values.flatMap((v, i) => (v === 0 ? [] : [i]))
      expect(count.item()).toBe(hits.length)
      let stride = n
      shape.forEach((d, a) => {
        stride /= d
        const wanted = hits.map((h) => Math.floor(h / stride) % d).slice(0, size)
        expect(list(indices[a] ?? s.zeros([0]))).toEqual([...wanted, ...new Array(size - wanted.length).fill(-1)])
      })
    }
    const nothing = s.nonzero(s.zeros([0]), { size: 2 })
    expect([nothing.count.item(), list(nothing.indices[0] ?? s.zeros([]))]).toEqual([0, [0, 0]])
    expect(s.nonzero(s.tensor(NaN), { size: 1 }).count.item()).toBe(1)
  })

  const sizes = [
    ['few', 9, 4, 9],
    ['less room than there are', 60, 20, 5],
    ['more room than elements', 12, 5, 20],
    ['rows that are sorted by radix', 300, 50, 80],
  ] as const
  // By day every other one on each, and sorted in turn.
  const own = sizes.flatMap((x, i) => (nightly || i % 2 === Number(device === 'wasm') ? [[...x, i] as const] : []))
  it.each(own)('unique: %s', (_, n, most, size, i) => {
    s.setDevice(device)
    const values = mixed(n, most).map((v) => v - 2)
    const ordered = [...new Set(values)].sort((a, b) => a - b)
    const met = [...new Set(values)]
    for (const sorted of turn([true, false], i >> 1)) {
      const wanted = sorted ? ordered : met
      const given = wanted.slice(0, size)
      const behind = size - given.length
      const r = s.unique(s.tensor(values), { size, fillValue: 99, sorted })
      expect(r.count.item()).toBe(wanted.length)
      expect(list(r.values)).toEqual([...given, ...new Array(behind).fill(99)])
      expect(list(r.indices)).toEqual([...given.map((v) => values.indexOf(v)), ...new Array(behind).fill(0)])
      const often = given.map((v) => values.filter((x) => x === v).length)
      expect(list(r.counts)).toEqual([...often, ...new Array(behind).fill(0)])
      expect(list(r.inverse)).toEqual(values.map((v) => wanted.indexOf(v)))
    }
  })

  it('unique: NaN once and last, zeros of either sign once, bools, and slices along an axis', () => {
    s.setDevice(device)
    const odd = s.unique(s.tensor([NaN, 0, 1, -0, NaN]), { size: 4 })
    expect(list(odd.values)).toEqual([0, 1, NaN, 0])
    expect([list(odd.counts), odd.count.item()]).toEqual([[2, 1, 2, 0], 3])
    const flags = s.unique(s.tensor([true, false, true]), { size: 2 })
    expect(list(flags.values)).toEqual([0, 1])
    const rows = s.tensor([
      [2, 1],
      [1, 9],
      [2, 0],
      [1, 9],
    ])
    const r = s.unique(rows, { size: 3, axis: 0 })
    expect(list(r.values)).toEqual([1, 9, 2, 0, 2, 1])
    expect([list(r.indices), list(r.counts), list(r.inverse)]).toEqual([
      [1, 2, 0],
      [2, 1, 1],
      [2, 0, 1, 0],
    ])
    const columns = s.unique(
      s.tensor([
        [1, 0, 1],
        [2, 3, 2],
      ]),
      { size: 2, axis: -1 },
    )
    expect(list(columns.values)).toEqual([0, 1, 3, 2])
    expect(columns.values.shape).toEqual([2, 2])
  })

  it('inside programs, and batched', () => {
    s.setDevice(device)
    const x = s.tensor([
      [0, 3, 3],
      [5, 0, 4],
    ])
    const distinct = s.jit((y: s.Tensor) => s.unique(y, { size: 3, fillValue: -1 }).values)
    expect(list(s.vmap(distinct)(x))).toEqual([0, 3, -1, 0, 4, 5])
    const where = s.vmap((y: s.Tensor) => s.nonzero(y, { size: 2 }).indices[0] ?? y)
    expect(list(where(x))).toEqual([1, 2, 0, 2])
    s.setDevice('wasm')
  })
})

it('no size, a size that is none', () => {
  for (const size of [undefined, -1, 1.5, '3']) {
    const call = (): unknown => s.nonzero(s.zeros([2]), { size } as unknown as s.NonzeroOptions)
    expect(call).toThrow('E_ARGUMENT')
    expect(() => s.unique(s.zeros([2]), { size } as unknown as s.UniqueOptions)).toThrow('E_ARGUMENT')
  }
})
