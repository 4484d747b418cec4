/**
 * Scans in lanes, along the scanned axis and across it, against the kernel interpreter: every length around whole steps and chunks, from
 * the start and from the end, exclusive or not, by rows and by columns, every combiner and kind of number; and halves of every stride.
 */
import { describe, test } from 'vitest'
import { some, turn } from '../support/nightly.ts'
import { compare } from './compare.ts'

const lengths = [1, 2, 3, 4, 5, 7, 8, 13, 15, 16, 17, 31, 33, 64, 67, 130, 515, 1030]
const ways = ['', ' exclusive', ' reverse', ' reverse exclusive']

const rows = (n: number, dtype: string, combiner: string, way: string): string =>
  `kernel t {
 param x: ${dtype}[3, ${n}] read
 param y: ${dtype}[3, ${n}] write
 axes r: 3, c: ${n}
 grid r/3
 %0 ${dtype}{r, c} = load x[r, c]
 %1 ${dtype}{r, c} = scan ${combiner} %0 along c${way}
 %2 ${dtype}{r, c} = add %1, %0
 store y[r, c] = %2
}`

const columns = (n: number, way: string): string =>
  `kernel t {
 param x: f32[${n}, 21] read
 param y: f32[${n}, 21] write
 axes r: ${n}, c: 21
 grid c/21
 %0 f32{r, c} = load x[r, c]
 %1 f32{r, c} = scan sum %0 along r${way}
 store y[r, c] = %1
}`

describe.each(some(lengths, 3))('a line of %i', (n) => {
  test('sums of rows', () => {
    for (const way of ways) compare(rows(n, 'f32', 'sum', way))
  })
  test('sums of columns', () => {
    for (const way of ways) compare(columns(n, way))
  })
})

const dtypes = ['f32', 'f64', 'i32', 'u32', 'i64', 'i16']

describe.each(dtypes)('%s', (dtype) => {
  test('every combiner', () => {
    for (const n of turn([5, 67], dtypes.indexOf(dtype)))
      for (const combiner of ['sum', 'max', 'min']) for (const way of ways) compare(rows(n, dtype, combiner, way))
  })
})

describe.each(['f16', 'bf16', 'f32', 'i16', 'u8'])('%s, where lanes are not neighbours', (dtype) => {
  const strided = (n: number, stride: number, offset: number): string => {
    const size = Math.abs(stride) * n + 8
    const at = `${offset} ${stride < 0 ? '-' : '+'} ${Math.abs(stride)}*i`
    return `kernel t {
 param x: ${dtype}[${size}] read
 param y: ${dtype}[${n}] write
 param z: ${dtype}[${size}] write
 axes i: ${n}
 grid 1
 %0 ${dtype}{i} = load x[${at}]
 %1 ${dtype}{i} = add %0, %0
 store y[i] = %1
 store z[${at}] = %0
}`
  }
  test('read and written with a stride, from both ends', () => {
    for (const n of some([3, 4, 9, 32, 35], 2))
      for (const stride of n === 9 ? [1, 2, 3, 5] : some([2, 1, 5, 3], 2)) {
        compare(strided(n, stride, 1))
        compare(strided(n, -stride, stride * (n - 1) + 2))
      }
  })
})
