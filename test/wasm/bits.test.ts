/**
 * Bools stored one bit an element, against the kernel interpreter: rows of every length and alignment, whole bytes and bytes
 * shared between rows, transposed, sliced, broadcast, masked and gathered reads. Buffers are compared byte for byte, spare
 * bits and the bytes behind the last one included.
 */
import { describe, test } from 'vitest'
import { some } from '../support/nightly.ts'
import { compare } from './compare.ts'

const k = (body: string, params: string, axes: string, grid: string): string =>
  `kernel t {\n${params}\n axes ${axes}\n grid ${grid}\n${body}\n}`

const lengths = some(
  Array.from({ length: 70 }, (_, i) => i + 1),
  7,
)

describe('a row of bits', () => {
  test.each(lengths)('%i long', (n) => {
    for (const grid of ['1', 'i/8', 'i/16', 'i/24'])
      for (const step of [1, 1000])
        compare(
          k(
            ` %0 f32{i} = load x[i]\n %1 bool{i} = load m[i]\n %2 f32{i} = load y[i]\n %3 bool{i} = lt %0, %2\n %4 bool{i} = xor %3, %1\n store o[i] = %4
 %5 f32{i} = select %1, %0, %2\n store z[i] = %5`,
            ` param x: f32[${n}] read\n param m: bool[${n}] read bits\n param y: f32[${n}] read\n param o: bool[${n}] write bits\n param z: f32[${n}] write`,
            `i: ${n}`,
            grid,
          ),
          { step },
        )
  })

  test.each(some([5, 8, 31, 64, 67], 2))('%i long, after much arithmetic and of wide operands', (n) => {
    const steps = Array.from({ length: 12 }, (_, i) => ` %${i + 1} f32{i} = exp %${i === 0 ? 20 : i}`).join('\n')
    compare(
      k(
        ` %20 f32{i} = load x[i]\n %21 f32{i} = min %20, %22\n${steps.replace('exp %20', 'tanh %21')}\n %15 bool{i} = lt %12, %20\n store o[i] = %15`.replace(
          ' %21',
          ' %22 f32{i} = const 0.5\n %21',
        ),
        ` param x: f32[${n}] read\n param o: bool[${n}] write bits`,
        `i: ${n}`,
        '1',
      ),
    )
    for (const d of ['f64', 'i64', 'u8', 'f16'])
      compare(
        k(
          ` %0 ${d}{i} = load x[i]\n %1 ${d}{i} = load y[i]\n %2 bool{i} = ge %0, %1\n store o[i] = %2`,
          ` param x: ${d}[${n}] read\n param y: ${d}[${n}] read\n param o: bool[${n}] write bits`,
          `i: ${n}`,
          'i/8',
        ),
      )
  })
})

describe('rows of bits', () => {
  test.each(some([1, 2, 3, 5, 8, 7, 11, 13, 16, 17, 31, 24, 37, 29], 4))('%i long', (n) => {
    const rows = 11
    // Blocks of eight rows fill whole bytes; the transposed result is cut where its own bytes end.
    for (const [grid, step] of [
      ['1', 1],
      ['r/8', 1],
      ['r/8', 1000],
    ] as const)
      compare(
        k(
          ` %0 f32{r, c} = load x[r, c]\n %1 f32{r} = reduce max %0 over c\n %2 bool{r, c} = eq %0, %1\n store o[r, c] = %2
 %3 f32{r, c} = const 0\n %4 bool{r, c} = gt %0, %3\n store q[r, c] = %4`,
          ` param x: f32[${rows}, ${n}] read\n param o: bool[${rows}, ${n}] write bits\n param q: bool[${rows}, ${n}] write bits`,
          `r: ${rows}, c: ${n}`,
          grid,
        ),
        { step },
      )
    compare(
      k(
        ` %0 f32{r, c} = load x[r, c]\n %1 f32{r, c} = load y[c, r]\n %2 bool{r, c} = lt %0, %1\n store o[r, c] = %2\n store t[c, r] = %2`,
        ` param x: f32[${rows}, ${n}] read\n param y: f32[${n}, ${rows}] read\n param o: bool[${rows}, ${n}] write bits\n param t: bool[${n}, ${rows}] write bits`,
        `r: ${rows}, c: ${n}`,
        '1',
      ),
    )
  })

  test.each(some([1, 2, 3, 5, 8, 7, 11, 13, 16, 17, 31, 37], 4))('%i long, read in other orders', (n) => {
    for (const grid of ['r', 'r/3, c/4', 'r/2, c', '1'])
      compare(
        k(
          ` %0 bool{r, c} = load m[r, c]\n %1 bool{r, c} = load t[c, r]\n %2 bool{r, c} = load m[${6} - r, ${n - 1} - c]\n %3 bool{c} = load m[3, c]
 %4 bool{r} = load m[r, ${n >> 1}]\n %5 bool{r, c} = load u[2*r + 1, 3*c + 2]\n %6 bool{r, c} = xor %0, %1\n %7 bool{r, c} = xor %6, %2
 %8 bool{r, c} = xor %7, %3\n %9 bool{r, c} = xor %8, %4\n %10 bool{r, c} = xor %9, %5\n store o[r, c] = %10`,
          ` param m: bool[7, ${n}] read bits\n param t: bool[${n}, 7] read bits\n param u: bool[15, ${3 * n + 1}] read bits\n param o: bool[7, ${n}] write`,
          `r: 7, c: ${n}`,
          grid,
        ),
      )
  })

  test.each(some([1, 3, 8, 13, 17], 2))('%i long, padded, gathered and divided', (n) => {
    for (const grid of ['r', '1'])
      compare(
        k(
          ` %0 bool{r, c} = load m[r, c - 2] where 2 <= c < ${n + 2} else true\n %1 i32{c} = load index[c]\n %2 bool{r, c} = load m[r, %1:${n}] where 0 <= %1:${n} < ${n} else false
 %3 bool{r, c} = xor %0, %2\n %4 bool{r, c} = load f[(${n + 3}*r + c)/2]\n %5 bool{r, c} = xor %3, %4\n store o[r, c] = %5`,
          ` param m: bool[5, ${n}] read bits\n param index: i32[${n + 3}] read\n param f: bool[${5 * (n + 3)}] read bits\n param o: bool[5, ${n + 3}] write`,
          `r: 5, c: ${n + 3}`,
          grid,
        ),
      )
  })
})

describe('folds and products of bits', () => {
  test.each(some([1, 7, 8, 31, 64, 200, 67], 2))('%i rows', (n) => {
    for (const grid of ['1', 'c'])
      compare(
        k(
          ` %0 bool{r, c} = load m[r, c]\n %1 f32{r, c} = cast %0\n %2 f32{c} = reduce sum %1 over r\n store s[c] = %2\n %3 bool{c} = reduce max %0 over r\n store a[c] = %3`,
          ` param m: bool[${n}, 40] read bits\n param s: f32[40] write\n param a: bool[40] write`,
          `r: ${n}, c: 40`,
          grid,
        ),
      )
    compare(
      k(
        ` %0 bool{r, k} = load m[r, k]\n %1 f32{r, k} = load x[r, k]\n %2 f32{r, k} = const 0\n %3 f32{r, k} = select %0, %1, %2\n %4 f32{k, c} = load w[k, c]
 %5 f32{r, c} = dot %3, %4 over k\n store y[r, c] = %5\n %6 f32{r, c} = const 1\n %7 bool{r, c} = gt %5, %6\n store p[r, c] = %7`,
        ` param m: bool[${n}, 13] read bits\n param x: f32[${n}, 13] read\n param w: f32[13, 21] read\n param y: f32[${n}, 21] write\n param p: bool[${n}, 21] write bits`,
        `r: ${n}, k: 13, c: 21`,
        'r/8',
      ),
      { tolerance: 1e-4 },
    )
  })
})
