/** Folds down columns: rows that are far apart are brought into the cache one after another before lanes go down them. */
import { describe, expect, test } from 'vitest'
import { some, turn } from '../support/nightly.ts'
import { compare } from '../wasm/compare.ts'
import { linesOf } from './scheduled.ts'

const argmax = (rows: number, columns: number, block: number, dtype = 'f32'): string => `kernel columns {
  param x: ${dtype}[${rows}, ${columns}] read
  param y: i32[${columns}] write
  axes i: ${columns}, j: ${rows}
  grid i/${block}
  %0 ${dtype}{i, j} = load x[j, i]
  %1 i32{i} = reduce argmax %0 over j position j
  store y[i] = %1
}`

describe('folds down columns', () => {
  test('bring rows that are on pages of their own before lanes go down them', () => {
    expect(linesOf(argmax(128, 3000, 512))).toContain(
      'nest i(512 by 16) j(fold 128 chunks of 16 rounds): fetching x[4*i + 12000*j] row by row of j',
    )
  })

  test.each([
    ['rows near each other', argmax(128, 500, 500)],
    ['few rows, which lines of the nearest memory hold', argmax(21, 3000, 512)],
    ['few columns', argmax(128, 3000, 16)],
    ['more than stays in the cache', argmax(4096, 3000, 512)],
  ])('%s are not', (_, text) => {
    expect(linesOf(text)).not.toContain('fetching')
  })

  const dtypes = some(['f32', 'f64', 'bf16', 'i32'], 2)
  test.each(dtypes)('of %s, as the interpreter has it', async (dtype) => {
    for (const columns of turn([3000, 2053], dtypes.indexOf(dtype))) await compare(argmax(100, columns, 512, dtype))
  })
})
