/** Indices and labels of 64 bits, far beyond 32 of them too, against the reference: gathers, scatters, comparisons with places, and conversions that hold to bounds. */
import { describe, test } from 'vitest'
import * as s from '../../src/index.ts'
import { atNight, nightly, some, turn } from '../support/nightly.ts'
import { agree } from './agree.ts'

const words = [2n ** 31n, 2n ** 32n, 2n ** 33n, 2n ** 40n, 2n ** 62n, 2n ** 63n - 8n]
const near = [-7n, -2n, -1n, 0n, 1n, 2n, 7n]

/** Numbers near 0, near both ends of an axis, and near powers of two of both signs. */
const extremes = (n: number): bigint[] => [
  ...near,
  ...[n, -n, 2 * n, -2 * n].flatMap((e) => near.map((d) => BigInt(e) + d)),
  ...words.flatMap((w) => near.flatMap((d) => [w + d, d - w, w + BigInt(n) + d, d - w - BigInt(n)])),
  2n ** 63n - 1n,
  -(2n ** 63n),
]

const dtypes = ['i64', 'u64', 'i32', 'u32'] as const

/** Extremes as many times as fill a shape, those that a dtype has. */
function indices(dtype: (typeof dtypes)[number], shape: number[], n: number): s.Tensor {
  const bits = Number(dtype.slice(1))
  const [lo, hi] = dtype.startsWith('u')
    ? [0n, 2n ** BigInt(bits)]
    : [-(2n ** BigInt(bits - 1)), 2n ** BigInt(bits - 1)]
  const have = extremes(n).filter((v) => v >= lo && v < hi)
  const count = shape.reduce((a, b) => a * b, 1)
  const values = Array.from({ length: count }, (_, i) => have[(i * 5) % have.length] ?? 0n)
  const data = {
    i64: () => BigInt64Array.from(values),
    u64: () => BigUint64Array.from(values),
    i32: () => Int32Array.from(values, Number),
    u32: () => Uint32Array.from(values, Number),
  }[dtype]()
  return s.tensor(data, { shape })
}

const counted = (shape: number[]): s.Tensor =>
  s.tensor(
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => i + 1),
    { shape },
  )

describe.each(dtypes)('indices of %s', (dtype) => {
  // By day every other one of each dtype, in turn.
  const turned = dtypes.indexOf(dtype) % 2
  const sizes = [
    [3, 1],
    [5, 13],
    [67, 130],
    [1, 0],
  ] as const
  test.each(sizes.filter((_, i) => nightly || i % 2 === turned))('along axes of [%i, %i]', (rows, n) => {
    const x = counted([rows, Math.max(1, n)])
    const at = indices(dtype, [rows, n === 0 ? 0 : n], Math.max(1, n))
    agree((a, i) => s.takeAlongAxis(a, i, 1), [x, at])
    agree((a, i) => s.takeAlongAxis(a, i, 1).mul(2).add(i.astype('f32')), [x, at])
    agree((a, i) => s.takeAlongAxis(a.transpose(), i.transpose(), 0), [x, at])
  })

  const byDay = turned === 0 ? test : atNight
  byDay('of rows, columns and points', () => {
    const x = counted([23, 37])
    agree((a, i) => s.take(a, i, 0), [x, indices(dtype, [41], 23)])
    agree((a, i) => s.take(a, i, 1), [x, indices(dtype, [7, 9], 37)])
    agree((a, i) => s.take(a, i.reshape([21, 3]).transpose(), 1), [x, indices(dtype, [63], 37)])
    agree((a, i) => s.gatherND(a, i), [x, indices(dtype, [211, 2], 23)])
    agree((a, i) => s.take(a, s.maximum(i, 3), 0), [x, indices(dtype, [41], 23)])
  })

  test('of scatters', () => {
    const x = counted([9, 31])
    const u = counted([9, 31])
    for (const combiner of turn(['set', 'sum', 'max'] as const, dtypes.indexOf(dtype))) {
      agree((a, i, v) => s.scatterAlongAxis(a, i, v, 1, combiner), [x, indices(dtype, [9, 31], 31), u])
      agree((a, i, v) => s.scatterAlongAxis(a, i, v, 0, combiner), [x, indices(dtype, [9, 31], 9), u])
      agree((a, i, v) => s.scatterND(a, i, v, combiner), [x, indices(dtype, [50, 2], 9), counted([50])])
    }
    const table = counted([19, 4])
    agree((a, i) => s.grad((t: s.Tensor) => s.take(t, i, 0).mul(2).sum())(a), [table, indices(dtype, [57], 19)])
  })
})

describe.each(['i64', 'u32'] as const)('%s', (dtype) => {
  test('as labels', () => {
    for (const n of some([10, 1, 65], 3)) {
      agree((i) => s.oneHot(i, n), [indices(dtype, [83], n)])
      agree((i) => s.oneHot(i, n, { axis: 0, dtype: 'i32' }), [indices(dtype, [83], n)])
    }
    const { equal, notEqual, less, lessEqual, greater, greaterEqual } = s
    for (const compare of some([equal, notEqual, less, lessEqual, greater, greaterEqual], dtype === 'i64' ? 2 : 3))
      agree(
        (i) => compare(i.astype('i64').reshape([-1, 1]), s.arange(0, 70, 1, 'i64').sub(35)).astype('f32'),
        [indices(dtype, [97], 35)],
      )
  })

  test('held to bounds as shorter integers', () => {
    const x = indices(dtype, [611], 100)
    const wide = (i: s.Tensor): s.Tensor => i.astype('i64')
    const held = (i: s.Tensor, lo: bigint, hi: bigint): s.Tensor => s.minimum(s.maximum(wide(i), lo), hi)
    agree((i) => held(i, -(2n ** 31n), 2n ** 31n - 1n).astype('i32'), [x])
    agree((i) => held(i, -3n, 2n ** 31n - 1n).astype('i32'), [x])
    agree((i) => held(i, -(2n ** 31n), 17n).astype('i32'), [x])
    agree((i) => held(i, 0n, 255n).astype('u8'), [x])
    agree((i) => held(i, -128n, 127n).astype('i8'), [x])
    // Bounds that the target has not, crossed ones, and what is used elsewhere too.
    agree((i) => held(i, 0n, 300n).astype('u8'), [x])
    agree((i) => held(i, 0n, 2n ** 32n - 1n).astype('u32'), [x])
    agree((i) => held(i, -(2n ** 31n) - 1n, 2n ** 31n).astype('i32'), [x])
    agree((i) => held(i, 5n, -5n).astype('i32'), [x])
    agree(
      (i) =>
        held(i, -9n, 9n)
          .astype('i32')
          .astype('f32')
          .add(held(i, -9n, 9n).astype('f32')),
      [x],
    )
  })
})

test('indices that floats become', () => {
  const at = [0, -1, 3.9, -0.5, 12, 13, 1e9, 3e9, -3e9, 1e19, -1e30, Number.NaN, Number.POSITIVE_INFINITY, -2147483649]
  const x = counted([13])
  agree((a, f) => s.take(a, f.astype('i64'), 0), [x, s.tensor(Float32Array.from(at), { shape: [at.length] })])
  agree((a, f) => s.take(a, f.astype('i64'), 0), [x, s.tensor(Float64Array.from(at), { shape: [at.length] })])
})
