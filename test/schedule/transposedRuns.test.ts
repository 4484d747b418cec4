/** Loads across what is stored: a run of several short axes is transposed in registers as one long axis is. */
import { describe, expect, test } from 'vitest'
import { compare } from '../wasm/compare.ts'
import { linesOf } from './scheduled.ts'

const permuted = (a: number, b: number, c: number, grid: string, dtype = 'f32'): string =>
  `kernel t {
 param x: ${dtype}[${a}, ${b}, ${c}] read
 param y: ${dtype}[${c}, ${b}, ${a}] write
 axes k: ${c}, j: ${b}, i: ${a}
 grid ${grid}
 %0 ${dtype}{k, j, i} = load x[i, j, k]
 %1 ${dtype}{k, j, i} = add %0, %0
 store y[k, j, i] = %1
}`

describe('axes that are short', () => {
  test('go as one run into a tile, in the order of memory', () => {
    expect(linesOf(permuted(50, 5, 3, 'k/3, j/5, i/20'))).toMatch(
      /copy %0 = x into tile \d+ .*: transposing k j \(4 to \d+ bytes\) and i \(60 to 4 bytes\)/,
    )
    expect(linesOf(permuted(50, 9, 3, 'k/3, j/4, i/20'))).toContain('transposing k j')
  })

  test('are read where they stand if the run is shorter than a vector', () => {
    for (const text of [permuted(50, 5, 3, 'k/3, j, i/20'), permuted(50, 9, 3, 'k/1, j/9, i/20')])
      expect(linesOf(text)).not.toContain('copy')
  })

  test.each([
    [50, 5, 3, 'k/3, j/5, i/20'],
    [50, 9, 3, 'k/3, j/4, i/20'],
    [37, 4, 2, 'k/2, j/3, i/16'],
    [131, 2, 2, 'k/2, j/2, i/128'],
    [7, 11, 1, 'k/1, j/11, i/7'],
  ])('%i x %i x %i in blocks %s', (a, b, c, grid) => {
    compare(permuted(a, b, c, grid))
    compare(permuted(a, b, c, grid, 'i32'))
  })
})
