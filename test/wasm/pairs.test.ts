/** Windows side by side (a pooling, its mask, its adjoint) against the kernel interpreter: strides of two and three, pairs of axes. */
import { describe, test } from 'vitest'
import { some } from '../support/nightly.ts'
import { compare } from './compare.ts'

const k = (body: string, params: string, axes: string, grid: string): string =>
  `kernel t {\n${params}\n axes ${axes}\n grid ${grid}\n${body}\n}`

const windows = some([1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 14, 16, 17, 31, 32, 33, 64, 67], 6)

describe.each([2, 3, 4, 5])('windows of %i', (w) => {
  test.each(windows)('%i of them: maximum, mask and count', (n) => {
    for (const format of ['', 'bits'])
      for (const dtype of ['f32', 'i32', 'f64'])
        for (const grid of format === '' ? ['1', 'r', 'm/8'] : ['1'])
          compare(
            k(
              ` %0 ${dtype}{r, m, n} = load x[${w * n}*r + ${w}*m + n]\n %1 ${dtype}{r, m} = reduce max %0 over n\n %2 bool{r, m, n} = eq %0, %1
 %3 i32{r, m, n} = cast %2\n %4 i32{r, m} = reduce sum %3 over n\n store b[${w * n}*r + ${w}*m + n] = %2\n store y[r, m] = %1\n store c[r, m] = %4`,
              ` param x: ${dtype}[${3 * w * n}] read\n param b: bool[${3 * w * n}] write ${format}\n param y: ${dtype}[3, ${n}] write\n param c: i32[3, ${n}] write`,
              `r: 3, m: ${n}, n: ${w}`,
              grid,
            ),
          )
  })

  test.each(windows)('%i of them: adjoint and its sums', (n) => {
    for (const format of ['', 'bits'])
      for (const grid of ['1', 'r', 'm/4'])
        compare(
          k(
            ` %0 bool{r, m, n} = load b[r, m, n]\n %1 f32{r, m} = load g[r, m]\n %2 f32 = const 0\n %3 f32{r, m, n} = select %0, %1, %2
 %4 f32{r, m, n} = load x[r, ${w}*m + n]\n %5 f32{r, m, n} = mul %3, %4\n %6 f32{m} = exp %1\n store y[r, ${w}*m + n] = %5${grid === 'm/4' ? '' : `\n %7 f32{r} = reduce sum %5 over m, n\n store s[r] = %7`}
 %8 f32{r, n} = load x[r, n]\n store z[r, ${w}*m + n] = %8\n store u[r, ${w}*m + n] = %1`.replace(/\n %6 [^\n]*/, ''),
            ` param b: bool[3, ${n}, ${w}] read ${format}\n param g: f32[3, ${n}] read\n param x: f32[3, ${w * n}] read\n param y: f32[3, ${w * n}] write${grid === 'm/4' ? '' : '\n param s: f32[3] write'}
 param z: f32[3, ${w * n}] write\n param u: f32[3, ${w * n}] write`,
            `r: 3, m: ${n}, n: ${w}`,
            grid,
          ),
        )
  })

  test.each(windows)('%i of them: bits counted', (n) => {
    for (const grid of ['1', 'k', 'l/4'])
      compare(
        k(
          ` %0 bool{k, l, m, n} = load x[${2 * w * n}*k + ${w}*l + ${w * n}*m + n]\n %1 f32{k, l, m, n} = cast %0\n %2 f32{k, l} = reduce sum %1 over m, n\n store y[k, l] = %2`,
          ` param x: bool[${6 * w * n}] read bits\n param y: f32[3, ${n}] write`,
          `k: 3, l: ${n}, m: 2, n: ${w}`,
          grid,
        ),
      )
  })

  test.each(windows)('%i of them: computed values spread, sums of rows kept', (n) => {
    for (const grid of ['1', 'i/2'])
      compare(
        k(
          ` %0 f32{i, m} = load g[i, m]\n %1 f32{i, m} = exp %0\n %2 f32{i, m, n} = load x[i, ${w}*m + n] where 1 <= ${w}*m + n < ${w * n - 1} else 2
 %3 f32{i, m, n} = mul %1, %2\n %4 f32{i} = reduce max %2 over m, n\n %5 f32{i, m, n} = sub %3, %4\n store y[i, ${w}*m + n] = %5\n store v[i] = %4`,
          ` param g: f32[5, ${n}] read\n param x: f32[5, ${w * n}] read\n param y: f32[5, ${w * n}] write\n param v: f32[5] write`,
          `i: 5, m: ${n}, n: ${w}`,
          grid,
        ),
      )
  })
})
