/** Tensors as users make, read, print and slice them, and how methods and functions agree. */
import { beforeAll, describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import { messageOf } from './messages.ts'

beforeAll(() => s.setDevice('reference'))

const { tensor } = s

describe('making and reading', () => {
  it('infers dtype and shape', () => {
    const of = (x: s.Tensor): string => `${x.dtype}[${x.shape.join()}]`
    expect(of(tensor(3))).toBe('f32[]')
    expect(
      of(
        tensor([
          [1, 2],
          [3, 4],
        ]),
      ),
    ).toBe('f32[2,2]')
    expect(of(tensor([true, false]))).toBe('bool[2]')
    expect(of(tensor([1n]))).toBe('i64[1]')
    expect(of(tensor(Int16Array.of(1, 2)))).toBe('i16[2]')
    expect(of(tensor([1, 2, 3, 4], { shape: [2, 2], dtype: 'f16' }))).toBe('f16[2,2]')
    expect(of(tensor([]))).toBe('f32[0]')
    expect(of(tensor([Float32Array.of(1, 2), Float32Array.of(3, 4)]))).toBe('f32[2,2]')
  })
  it('reads back what was written', async () => {
    expect(await tensor([1.5, -2]).data()).toEqual(Float32Array.of(1.5, -2))
    expect(tensor([1, 0], { dtype: 'bool' }).dataSync()).toEqual(Uint8Array.of(1, 0))
    expect(tensor([1.5, 65504], { dtype: 'f16' }).dataSync()).toEqual(Float32Array.of(1.5, 65504))
    expect(tensor([300, -1], { dtype: 'u8' }).dataSync()).toEqual(Uint8Array.of(255, 0))
    expect(tensor([1.9, Number.NaN], { dtype: 'i64' }).tolist()).toEqual([1n, 0n])
    expect(
      tensor([
        [1, 2],
        [3, 4],
      ]).tolist(),
    ).toEqual([
      [1, 2],
      [3, 4],
    ])
    expect(tensor([true]).item()).toBe(true)
    expect(() => tensor([1, 2]).item()).toThrow(/E_SHAPE/)
  })
  it('copies the data', () => {
    const mine = Float32Array.of(1, 2)
    const x = tensor(mine)
    mine[0] = 9
    x.dataSync()[1] = 9
    expect(x.tolist()).toEqual([1, 2])
  })
  it('refuses ragged lists and wrong sizes', () => {
    expect(messageOf(() => tensor([[1, 2], [3]]))).toMatchInlineSnapshot(`
      "UserError: [E_SHAPE] tensor: ragged lists: the first rows give shape [2, 2], others differ
        at test/api/tensor.test.ts
        help: pad the rows to one length"
    `)
    expect(() => tensor([[1, 2], 3])).toThrow(/E_SHAPE.*ragged/)
    expect(() => tensor([1, [2]])).toThrow(/E_SHAPE.*ragged/)
    expect(() => tensor([1, 2], { shape: [3] })).toThrow(/E_SHAPE/)
  })
  it('prints like NumPy', () => {
    expect(
      String(
        tensor([
          [1, 2.5],
          [3, Number.NaN],
        ]),
      ),
    ).toMatchInlineSnapshot(`
      "Tensor(f32[2, 2])
      [[1.0, 2.5],
       [3.0, NaN]]"
    `)
    expect(String(s.arange(300))).toMatchInlineSnapshot(`
      "Tensor(i32[300])
      [0, 1, 2, ..., 297, 298, 299]"
    `)
    expect(String(tensor(7, { dtype: 'i32' }))).toMatchInlineSnapshot(`
      "Tensor(i32[])
      7"
    `)
  })
  it('ranges', () => {
    expect(s.arange(3).tolist()).toEqual([0, 1, 2])
    expect(s.arange(3).dtype).toBe('i32')
    expect(s.arange(5, 0, -2).tolist()).toEqual([5, 3, 1])
    expect(s.arange(0, 1, 0.25).tolist()).toEqual([0, 0.25, 0.5, 0.75])
    expect(s.linspace(0, 1, 5).tolist()).toEqual([0, 0.25, 0.5, 0.75, 1])
    expect(() => s.arange(0, 1, 0)).toThrow(/E_ARGUMENT/)
    expect(s.eye(2).tolist()).toEqual([
      [1, 0],
      [0, 1],
    ])
    expect(s.full([2], 3).tolist()).toEqual([3, 3])
    expect(s.zerosLike(tensor([1n])).tolist()).toEqual([0n])
  })
})

describe('operations', () => {
  const x = tensor([
    [1, 2, 3],
    [4, 5, 6],
  ])
  it('methods and functions agree', () => {
    expect(x.add(1).mul(x).sum(0).tolist()).toEqual(s.sum(s.mul(s.add(x, 1), x), 0).tolist())
    expect(s.sub(10, x).tolist()).toEqual([
      [9, 8, 7],
      [6, 5, 4],
    ])
    expect(x.T.shape).toEqual([3, 2])
    expect(x.matmul(x.T).tolist()).toEqual([
      [14, 32],
      [32, 77],
    ])
    expect(s.einsum('ij,kj->ik', x, x).tolist()).toEqual([
      [14, 32],
      [32, 77],
    ])
  })
  it('slices by triples, indices and null', () => {
    expect(x.slice(1).tolist()).toEqual([4, 5, 6])
    expect(x.slice(null, [0, 2]).tolist()).toEqual([
      [1, 2],
      [4, 5],
    ])
    expect(x.slice([null, null, -1], -1).tolist()).toEqual([6, 3])
    expect(x.slice(0, 1).item()).toBe(2)
  })
  it('optional operands reach their place', () => {
    expect(s.clip(x, undefined, 2).max().item()).toBe(2)
    expect(s.clip(x, 2).min().item()).toBe(2)
    const n = s.layerNorm(x, { bias: tensor([1, 1, 1]), epsilon: 0 })
    expect(n.mean().item()).toBeCloseTo(1, 5)
    expect(
      s
        .layerNorm(x, { scale: tensor([0, 0, 0]) })
        .add(0)
        .tolist(),
    ).toEqual([
      [0, 0, 0],
      [0, 0, 0],
    ])
    const img = s.ones([1, 1, 3, 3])
    expect(s.conv2d(img, s.ones([1, 1, 2, 2]), { bias: tensor([1]) }).tolist()).toEqual([
      [
        [
          [5, 5],
          [5, 5],
        ],
      ],
    ])
    const [q, k] = [s.ones([2, 4]), s.ones([3, 4])]
    expect(s.attention(q, k, k, { mask: s.ones([2, 3], 'bool') }).shape).toEqual([2, 4])
  })
  it('errors name the operation, the place and the remedy', () => {
    expect(messageOf(() => x.matmul(x))).toMatchInlineSnapshot(`
      "UserError: [E_SHAPE] matmul of shapes [2, 3] and [2, 3]: inner extents 3 and 2 differ
        at test/api/tensor.test.ts
        help: the last extent of the first must equal the next-to-last of the second"
    `)
  })
  it('split and batchNormTraining give several tensors', () => {
    expect(x.split(3, 1).map((t) => t.tolist())).toEqual([
      [[1], [4]],
      [[2], [5]],
      [[3], [6]],
    ])
    const r = s.batchNormTraining(s.reshape(x, [2, 3, 1]))
    expect(r.mean.tolist()).toEqual([2.5, 3.5, 4.5])
  })
  it('random tensors are functions of their keys', () => {
    const k = s.random.key(1)
    const [a, b] = s.random.split(k)
    expect(s.random.uniform(k, [3]).tolist()).toEqual(s.random.uniform(k, [3]).tolist())
    expect(a?.tolist()).not.toEqual(b?.tolist())
    expect(s.random.foldIn(k, 3).tolist()).not.toEqual(s.random.foldIn(k, 4).tolist())
    expect(s.random.normal(k, [2, 2]).shape).toEqual([2, 2])
    expect(s.random.bernoulli(k, 1, [2]).tolist()).toEqual([true, true])
  })
})
