/** Loads across what is stored: a run of several short axes is transposed in registers as one long axis is, and what is narrower than words too. */
import { describe, expect, test } from 'vitest'
import { some, turn } from '../support/nightly.ts'
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

  const shapes = [
    [50, 5, 3, 'k/3, j/5, i/20'],
    [50, 9, 3, 'k/3, j/4, i/20'],
    [37, 4, 2, 'k/2, j/3, i/16'],
    [131, 2, 2, 'k/2, j/2, i/128'],
    [7, 11, 1, 'k/1, j/11, i/7'],
  ] as const
  test.each(some(shapes, 2))('%i x %i x %i in blocks %s', (a, b, c, grid) => {
    compare(permuted(a, b, c, grid))
    compare(permuted(a, b, c, grid, 'i32'))
  })
})

describe('elements narrower than words', () => {
  const turned = (
    dtype: string,
    [rows, columns]: readonly [number, number],
    { place = 'x[j, i]', grid = 'i/32, j/32', value = ' %1 D{i, j} = add %0, %0' } = {},
  ): string =>
    `kernel t {
 param x: ${dtype}[${rows}, ${columns}] read
 param y: ${dtype}[${columns}, ${rows}] write
 axes i: ${columns}, j: ${rows}
 grid ${grid}
 %0 ${dtype}{i, j} = load ${place}
${value.replaceAll('D', dtype)}
 store y[i, j] = %${value === '' ? 0 : 1}
}`
  const narrow = ['f16', 'bf16', 'i16', 'u16', 'i8', 'u8'] as const

  test.each(narrow)('%s become words of a tile on the way', (dtype) => {
    const bytes = dtype.endsWith('8') ? 1 : 2
    const tile = { f16: 'f32', bf16: 'f32', i16: 'i32', i8: 'i32', u16: 'u32', u8: 'u32' }[dtype]
    const copy = new RegExp(`copy %0 = x into tile 64 \\S+ \\S+ ${tile}: transposing i \\(${bytes} to 192 bytes\\)`)
    expect(linesOf(turned(dtype, [100, 64]))).toMatch(copy)
  })

  test('that only move are bits there', () => {
    expect(linesOf(turned('f16', [100, 64], { value: '' }))).toMatch(/copy %0 = x into tile .* u32: transposing/)
  })

  test('that stand beside each other on both sides are converted in an ordinary nest', () => {
    expect(linesOf(turned('f16', [64, 64], { place: 'x[i, j]' }))).not.toContain('copy')
  })

  test.each(narrow)('%s, as the interpreter has it', (dtype) => {
    const sizes = [
      [37, 45],
      [64, 64],
      [6, 101],
      [101, 5],
      [7, 4],
    ] as const
    // By day of each dtype another shape.
    for (const [rows, columns] of turn(sizes, narrow.indexOf(dtype)))
      for (const value of ['', ' %1 D{i, j} = add %0, %0'])
        for (const place of ['x[j, i]', `x[${rows - 1} - j, i]`])
          for (const grid of ['i/32, j/32', 'i/12, j/7'])
            compare(turned(dtype, [rows, columns], { place, grid, value }))
  })

  test.each(['f16', 'bf16'] as const)('operands of products in %s, with padding', (dtype) => {
    const product = `kernel t {
 param x: ${dtype}[37, 45] read
 param w: ${dtype}[30, 40] read
 param y: f32[37, 33] write
 axes m: 37, n: 33, k: 45
 grid m/20
 %0 f32{m, n} = const 0
 %1 = loop k/45 {
  carry %2 f32{m, n} = %0
  %3 ${dtype}{m, k} = load x[m, k]
  %4 ${dtype}{n, k} = load w[n - 2, k - 3] where 0 <= n - 2 < 30 and 0 <= k - 3 < 40 else 0.5
  %5 ${dtype}{m, k} = stage %3
  %6 ${dtype}{k, n} = stage %4
  %7 f32{m, n} = dot %5, %6 over k acc %2
  next %7
 }
 store y[m, n] = %1
}`
    expect(linesOf(product)).toMatch(/copy %4 = w into tile .* f32: transposing k/)
    compare(product)
  })
})
