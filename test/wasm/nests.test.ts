/** Nests of every shape against the kernel interpreter: extents, tails, strides, masks, dtypes, packed formats, both modes. */
import { describe, test } from 'vitest'
import { some, turn } from '../support/nightly.ts'
import { compare } from './compare.ts'

const extents = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67]
const dtypes = ['f32', 'f64', 'f16', 'bf16', 'i8', 'i16', 'i32', 'i64', 'u8', 'u16', 'u32', 'u64'] as const

describe.each(some(extents, 4))('extent %i', (n) => {
  const k = (body: string, params: string, axes: string, grid: string): string =>
    `kernel t {\n${params}\n axes ${axes}\n grid ${grid}\n${body}\n}`

  test('elementwise, blocked and whole', () => {
    for (const grid of ['1', 'i/4', 'i/8', 'i/64', 'i/5', 'i'])
      compare(
        k(
          ' %0 f32{i} = load x[i]\n %1 f32{i} = load y[i]\n %2 f32{i} = mul %0, %1\n %3 f32{i} = add %2, %0\n store z[i] = %3',
          ` param x: f32[${n}] read\n param y: f32[${n}] read\n param z: f32[${n}] write`,
          `i: ${n}`,
          grid,
        ),
      )
  })

  test('transposed, reversed, strided, broadcast', () => {
    for (const grid of ['a', 'b', 'a/2, b/4', '1'])
      compare(
        k(
          ` %0 f32{a, b} = load x[b, a]\n %1 f32{a, b} = load y[a, ${n - 1} - b]\n %2 f32{b} = load z[2*b + 1]\n %3 f32{a} = load u[a]
 %4 f32{a, b} = mul %0, %1\n %5 f32{a, b} = add %4, %2\n %6 f32{a, b} = sub %5, %3\n store w[a, b] = %6\n store v[b, a] = %5`,
          ` param x: f32[${n}, 6] read\n param y: f32[6, ${n}] read\n param z: f32[${2 * n}] read\n param u: f32[6] read
 param w: f32[6, ${n}] write\n param v: f32[${n}, 6] write`,
          `a: 6, b: ${n}`,
          grid,
        ),
      )
  })

  test('row reductions that depend on one another', () => {
    for (const grid of ['r', '1', 'r/2'])
      compare(
        k(
          ` %0 f32{r, c} = load x[r, c]\n %1 f32{r} = reduce max %0 over c\n %2 f32{r, c} = sub %0, %1\n %3 f32{r, c} = exp %2
 %4 f32{r} = reduce sum %3 over c\n %5 f32{r, c} = div %3, %4\n store y[r, c] = %5\n store m[r] = %1`,
          ` param x: f32[5, ${n}] read\n param y: f32[5, ${n}] write\n param m: f32[5] write`,
          `r: 5, c: ${n}`,
          grid,
        ),
      )
  })

  test('functions of functions, stored and folded', () => {
    for (const grid of ['r', '1', 'r/2, c'])
      compare(
        k(
          ` %0 f32{r, c} = load x[r, c]\n %1 f32{r, c} = tanh %0\n %2 f32{c} = load w[c]\n %3 f32{r, c} = mul %1, %2\n %4 f32{r, c} = exp %3
 %5 f32{r, c} = sin %4\n %6 f32{r, c} = add %5, %4\n store y[r, c] = %6`,
          ` param x: f32[5, ${n}] read\n param w: f32[${n}] read\n param y: f32[5, ${n}] write`,
          `r: 5, c: ${n}`,
          grid,
        ),
      )
    for (const grid of ['r', '1'])
      compare(
        k(
          ` %0 f32{r, c} = load x[r, c]\n %1 f32{r, c} = tanh %0\n %2 f32{r, c} = exp %1\n %3 f32{r, c} = exp %2
 %4 f32{r} = reduce sum %3 over c\n %5 f32{r} = reduce max %2 over c\n store y[r] = %4\n store m[r] = %5`,
          ` param x: f32[5, ${n}] read\n param y: f32[5] write\n param m: f32[5] write`,
          `r: 5, c: ${n}`,
          grid,
        ),
      )
  })

  test('column reductions, and both ways at once', () => {
    for (const grid of ['c/4', 'c/64', '1'])
      compare(
        k(
          ` %0 f32{r, c} = load x[r, c]\n %1 f32{c} = reduce sum %0 over r\n %2 f32{c} = reduce min %0 over r\n store y[c] = %1\n store z[c] = %2`,
          ` param x: f32[7, ${n}] read\n param y: f32[${n}] write\n param z: f32[${n}] write`,
          `r: 7, c: ${n}`,
          grid,
        ),
      )
    compare(
      k(
        ` %0 f32{r, c} = load x[r, c]\n %1 f32{c} = reduce sum %0 over r\n %2 f32{r} = reduce prod %0 over c\n %3 f32 = reduce sum %0 over r, c
 store y[c] = %1\n store z[r] = %2\n store u[0] = %3`,
        ` param x: f32[7, ${n}] read\n param y: f32[${n}] write\n param z: f32[7] write\n param u: f32[1] write`,
        `r: 7, c: ${n}`,
        '1',
      ),
    )
  })

  test('arg-reductions', () => {
    for (const [grid, order] of [
      ['r', 'first'],
      ['1', 'last'],
    ] as const)
      compare(
        k(
          ` %0 f32{r, c} = load x[r, c]\n %1 i32{r} = reduce argmax %0 over c ${order}\n %2 i64{c} = reduce argmin %0 over r position r ${order}
 store y[r] = %1${grid === '1' ? '\n store z[c] = %2' : ''}`.replace(grid === '1' ? '' : /\n? %2.*$/m, ''),
          ` param x: f32[6, ${n}] read\n param y: i32[6] write${grid === '1' ? `\n param z: i64[${n}] write` : ''}`,
          `r: 6, c: ${n}`,
          grid,
        ),
      )
  })

  test('padded, concatenated, reshaped', () => {
    compare(
      k(
        ` %0 f32{i} = load x[i - 3] where 0 <= i - 3 < ${n} else 7\n store y[i] = %0`,
        ` param x: f32[${n}] read\n param y: f32[${n + 8}] write`,
        `i: ${n + 8}`,
        'i/16',
      ),
    )
    compare(
      k(
        ` %0 f32{i} = load x[i] where 0 <= i < ${n}\n %1 f32{i} = load z[i - ${n}] where ${n} <= i < ${n + 5}\n %2 bool{i} = holds 0 <= i < ${n}
 %3 f32{i} = select %2, %0, %1\n store y[i] = %3`,
        ` param x: f32[${n}] read\n param z: f32[5] read\n param y: f32[${n + 5}] write`,
        `i: ${n + 5}`,
        '1',
      ),
    )
    compare(
      k(
        ` %0 f32{i} = load x[i % 6, i/6]\n store y[i] = %0\n store u[i/3, i % 3] = %0`,
        ` param x: f32[6, ${n}] read\n param y: f32[${6 * n}] write\n param u: f32[${2 * n}, 3] write`,
        `i: ${6 * n}`,
        'i/8',
      ),
    )
    compare(
      k(
        ` %0 f32{i} = load x[i/8, i % 8]\n store y[i] = %0`,
        ` param x: f32[${n}, 8] read\n param y: f32[${8 * n}] write`,
        `i: ${8 * n}`,
        'i/16',
      ),
    )
  })

  test('gathers and scatters', () => {
    compare(
      k(
        ` %0 i32{i} = load index[i]\n %1 f32{i, c} = load x[%0:5, c]\n store y[i, c] = %1\n %2 f32{i} = load u[%0:5]\n store z[i] = %2`,
        ` param index: i32[${n}] read\n param x: f32[5, 9] read\n param u: f32[5] read\n param y: f32[${n}, 9] write\n param z: f32[${n}] write`,
        `i: ${n}, c: 9`,
        '1',
      ),
    )
    compare(
      k(
        ` %0 i64{i} = load index[i]\n %1 f32{i} = load x[i]\n store y[%0:401] += %1`,
        ` param index: i64[${n}] read\n param x: f32[${n}] read\n param y: f32[401] update`,
        `i: ${n}`,
        '1',
      ),
    )
  })

  test('rows combined with rows that meet', () => {
    for (const [i, dtype] of dtypes.entries())
      for (const combiner of turn(['+', '*', 'max', 'min'], i + extents.indexOf(n)))
        compare(
          k(
            ` %0 i32{i} = load index[i]\n %1 ${dtype}{i, c} = load x[i, c]\n %2 bool{i} = load b[i]\n store y[%0:5, c] ${combiner}= %1 where %2`,
            ` param index: i32[9] read\n param x: ${dtype}[9, ${n}] read\n param b: bool[9] read\n param y: ${dtype}[5, ${n}] update`,
            `i: 9, c: ${n}`,
            '1',
          ),
        )
  })

  test('scans', () => {
    compare(
      k(
        ` %0 f32{r, c} = load x[r, c]\n %1 f32{r, c} = scan sum %0 along c\n %2 f32{r, c} = scan max %0 along c reverse\n %3 f32{r, c} = scan sum %0 along r exclusive
 %4 f32{r, c} = add %1, %2\n store y[r, c] = %4\n store z[r, c] = %3`,
        ` param x: f32[4, ${n}] read\n param y: f32[4, ${n}] write\n param z: f32[4, ${n}] write`,
        `r: 4, c: ${n}`,
        '1',
      ),
    )
  })

  test('packed formats', () => {
    compare(
      k(
        ` %0 bool{i} = load b[i]\n %1 i8{i} = load q[i + 1]\n %2 f32{i} = cast %1\n %3 f32{i} = cast %0\n %4 f32{i} = add %2, %3\n store y[i] = %4
 %5 f32{i} = const 0\n %6 bool{i} = lt %2, %5\n store o[i] = %6`,
        ` param b: bool[${n}] read bits\n param q: i8[${n + 1}] read int4\n param y: f32[${n}] write\n param o: bool[${n}] write bits`,
        `i: ${n}`,
        'i/8',
      ),
    )
  })

  test('blocked loops with carried state', () => {
    for (const block of [1, 3, 8, 64])
      compare(
        k(
          ` %0 f32{c} = const 0\n %1 f32 = const 1\n %8, %9 = loop k/${block} {\n carry %2 f32{c} = %0\n carry %3 f32 = %1\n %4 f32{k, c} = load x[k, c]
 %5 f32{c} = reduce sum %4 over k\n %6 f32{c} = add %2, %5\n %7 f32 = reduce max %5 over c\n next %6, %7\n }
 store y[c] = %8\n store z[0] = %9`,
          ` param x: f32[${n}, 6] read\n param y: f32[6] write\n param z: f32[1] write`,
          `k: ${n}, c: 6`,
          '1',
        ),
      )
  })
})

describe.each(some(dtypes, 2))('%s', (d) => {
  test('loads, stores, arithmetic and reductions with tails', () => {
    for (const n of [3, 8, 13])
      compare(
        `kernel t {\n param x: ${d}[4, ${n}] read\n param y: ${d}[4, ${n}] write\n param s: ${d}[4] write\n param t: ${d}[${n}] write
 axes r: 4, c: ${n}\n grid 1\n %0 ${d}{r, c} = load x[r, c]\n %1 ${d}{r, c} = add %0, %0\n store y[r, c] = %1
 %2 ${d}{r} = reduce sum %0 over c\n store s[r] = %2\n %3 ${d}{c} = reduce max %0 over r\n store t[c] = %3\n}`,
      )
  })

  test('strided, gathered and kept in scratch', () => {
    compare(
      `kernel t {\n param x: ${d}[9, 4] read\n param y: ${d}[4, 9] write\n param index: i32[9] read\n param z: ${d}[9] write
 axes r: 4, c: 9\n grid 1\n %0 ${d}{r, c} = load x[c, r]\n %1 ${d}{r, c} = stage %0\n %2 ${d}{r, c} = at %1[c: 8 - c]\n store y[r, c] = %2
 %3 i32{c} = load index[c]\n %4 ${d}{c} = load x[%3:9, 1]\n store z[c] = %4\n}`,
    )
  })
})

describe.each(some(['f32', 'f16', 'i32', 'f64'], 3))('columns of rows far apart, %s', (d) => {
  const width = d === 'f16' ? 1100 : 530
  test.each(some([37, 64, 512], 3))('blocks of %i columns', (block) => {
    compare(
      `kernel t {
  param x: ${d}[70, ${width}] read
  param w: ${d}[70] read
  param s: ${d}[${width}] write
  param m: ${d}[${width}] write
  param p: ${d}[${width}] write
  param y: ${d}[70, ${width}] write
  axes r: 70, c: ${width}
  grid c/${block}
  %0 ${d}{r, c} = load x[r, c]
  %1 ${d}{r} = load w[r]
  %2 ${d}{c} = reduce sum %0 over r
  %3 ${d}{c} = reduce max %0 over r
  %4 ${d}{c} = dot %0, %1 over r
  %5 ${d}{r, c} = add %0, %1
  store s[c] = %2
  store m[c] = %3
  store p[c] = %4
  store y[r, c] = %5
}`,
      d === 'f32' ? { tolerance: 2e-5 } : d === 'f16' ? { tolerance: 4e-3 } : {},
    )
  })
})
