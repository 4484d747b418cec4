/** Rows that are folded and read something across: that goes through a tile, transposed in registers. */
import { describe, expect, test } from 'vitest'
import { compare } from '../wasm/compare.ts'
import { linesOf } from './scheduled.ts'

interface Form {
  readonly rows: number
  readonly columns: number
  readonly grid?: string
  readonly dtype?: string
  readonly combiner?: string
}

/** What two tensors, one of them across, give beside its fold along the rows. */
const folded = ({ rows, columns, grid = 'i/16', dtype = 'f32', combiner = 'max' }: Form): string => `kernel t {
  param a: ${dtype}[${rows}, ${columns}] read
  param b: ${dtype}[${columns}, ${rows}] read
  param y: ${dtype}[${rows}, ${columns}] write
  param s: ${dtype}[${rows}] write
  axes i: ${rows}, j: ${columns}
  grid ${grid}
  %0 ${dtype}{i, j} = load a[i, j]
  %1 ${dtype}{i, j} = load b[j, i]
  %2 ${dtype}{i, j} = add %0, %1
  %3 ${dtype}{i} = reduce ${combiner} %2 over j
  %4 ${dtype}{i, j} = sub %2, %3
  store y[i, j] = %4
  store s[i] = %3
}`

describe('what is read across rows that are folded', () => {
  test('is copied where a program has several rows, long ones', () => {
    expect(linesOf(folded({ rows: 64, columns: 300 }))).toMatch(/copy %1 = b into tile .*: transposing i .* and j/)
    expect(linesOf(folded({ rows: 64, columns: 300, grid: 'i' }))).not.toContain('copy')
    expect(linesOf(folded({ rows: 64, columns: 40 }))).not.toContain('copy')
    // No tile of the rows would stay near.
    expect(linesOf(folded({ rows: 64, columns: 9000 }))).not.toContain('copy')
  })

  test.each(['f32', 'i32', 'bf16', 'f16', 'u8'])('%s, as the interpreter has it', (dtype) => {
    for (const [rows, columns] of [
      [64, 128],
      [37, 101],
      [21, 300],
    ] as const)
      for (const combiner of ['max', 'sum']) compare(folded({ rows, columns, dtype, combiner }))
  })
})
