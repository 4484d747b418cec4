/**
 * Sums, products and running ones of small integers are 32 bits wide, as in JAX, and `{ dtype }` chooses. Sites: `sum`, `prod`,
 * `cumsum`, `cumprod` as functions and methods. As in JAX a result keeps its dtype in what is no plain total: contractions, `einsum`,
 * `scatter`, sums of windows, `max` and `min`; `mean`, `var`, `std` and `norm` of integers were f32 before. The graph's operation and
 * ONNX keep the operand's dtype (`compose.sum`, `compose.scan`).
 */
import { describe, expect, it } from 'vitest'
import * as compose from '../../src/compose/index.ts'
import * as s from '../../src/index.ts'

const totals = {
  sum: (x: s.Tensor, o?: s.TotalOptions) => x.sum(undefined, o),
  prod: (x: s.Tensor, o?: s.TotalOptions) => x.prod(undefined, o),
  cumsum: (x: s.Tensor, o?: s.TotalOptions) => x.cumsum(0, o),
  cumprod: (x: s.Tensor, o?: s.TotalOptions) => x.cumprod(0, o),
} as const
const functions = {
  sum: (x: s.Tensor, o?: s.TotalOptions) => s.sum(x, undefined, o),
  prod: (x: s.Tensor, o?: s.TotalOptions) => s.prod(x, undefined, o),
  cumsum: (x: s.Tensor, o?: s.TotalOptions) => s.cumsum(x, 0, o),
  cumprod: (x: s.Tensor, o?: s.TotalOptions) => s.cumprod(x, 0, o),
} as const
const expected = { sum: 300, prod: 1_000_000, cumsum: [100, 200, 300], cumprod: [100, 10_000, 1_000_000] } as const
const names = ['sum', 'prod', 'cumsum', 'cumprod'] as const
const wide = { i8: 'i32', i16: 'i32', u8: 'u32', u16: 'u32', i32: 'i32', u32: 'u32' } as const

describe.each(names)('%s of small integers', (name) => {
  for (const [from, to] of Object.entries(wide))
    it(`${from} gives ${to}, and does not wrap`, () => {
      for (const call of [totals[name], functions[name], s.jit((x: s.Tensor) => totals[name](x))]) {
        const y = call(s.tensor([100, 100, 100], { dtype: from as s.DType }))
        expect(y.dtype).toBe(to)
        expect(y.tolist()).toEqual(expected[name])
      }
    })
  it('keeps floats and 64 bits', () => {
    for (const dtype of ['f16', 'bf16', 'f32', 'f64', 'i64', 'u64'] as const)
      expect(totals[name](s.ones([2], dtype)).dtype).toBe(dtype)
    expect(totals[name](s.tensor([true, true])).dtype).toBe('i32')
  })
  it('dtype chooses', () => {
    const x = s.tensor([100, 100, 100], { dtype: 'i8' })
    const narrow = totals[name](x, { dtype: 'i8' })
    expect(narrow.dtype).toBe('i8')
    expect(narrow.tolist()).toEqual(
      s
        .tensor(expected[name] as never, { dtype: 'i32' })
        .astype('i8')
        .tolist(),
    )
    const f = totals[name](x, { dtype: 'f32' })
    expect([f.dtype, f.tolist()]).toEqual(['f32', expected[name]])
    // Halves accumulate in f32 and round once.
    const h = functions[name](s.full([3000], 1, 'f16'), { dtype: 'f32' })
    expect(h.dtype).toBe('f32')
    expect(() => totals[name](x, { dtype: 'bool' })).toThrow(/E_DTYPE.*bool.*any or all/s)
    expect(() => totals[name](x, { dtype: 'int8' as never })).toThrow(/E_DTYPE/)
    expect(() => totals[name](x, { dtyp: 'i8' } as never)).toThrow(/dtype/)
  })
})

it('a sum of 4,096 bytes counts all', () => {
  const x = s.full([4096], 127, 'i8')
  expect(x.sum().item()).toBe(4096 * 127)
  expect(x.sum(0, { keepdims: true }).shape).toEqual([1])
  expect(x.cumsum(0).max().item()).toBe(4096 * 127)
  expect(s.sum(s.full([4096], 255, 'u8')).item()).toBe(4096 * 255)
})

it('the cast costs no kernel, in a batch neither', () => {
  const x = s.full([8, 4096], 127, 'i8')
  const rows = s.jit(s.vmap((r: s.Tensor) => r.sum()))
  expect(rows(x).tolist()).toEqual(s.full([8], 4096 * 127, 'i32').tolist())
  expect(rows.explain(x).kernels).toHaveLength(1)
})

it('dtype is followed by derivatives', () => {
  const f = (x: s.Tensor): s.Tensor => x.mul(x).sum(undefined, { dtype: 'f64' }).astype('f32')
  expect(
    s
      .grad(f)(s.tensor([1, 2, 3]))
      .tolist(),
  ).toEqual([2, 4, 6])
})

it('the graph keeps the dtype', () => {
  const x = compose.full([4], 100, 'i8')
  expect(compose.sum(x).dtype).toBe('i8')
  expect(compose.prod(x).dtype).toBe('i8')
  expect(compose.scan('sum', x, 0).dtype).toBe('i8')
  const y = s.ones([2, 2], 'i8')
  expect([y.matmul(y), s.einsum('ij->i', y), y.max()].map((t) => t.dtype)).toEqual(['i8', 'i8', 'i8'])
})
