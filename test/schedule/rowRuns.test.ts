/** Folds down columns go through rows that are one run row by row, their accumulators in memory. */
import { describe, expect, test } from 'vitest'
import { verifyKernelSchedule } from '../../src/schedule/loop/scheduleKernel.ts'
import { compare } from '../wasm/compare.ts'
import { linesOf, scheduled } from './scheduled.ts'

interface Form {
  readonly rows: number
  readonly columns: number
  readonly block?: number
  readonly dtype?: string
  readonly combiner?: string
  readonly op?: string
}

/** What is stored of two tensors, and its sum down the columns, by so many columns a program. */
const stored = ({
  rows,
  columns,
  block = columns,
  dtype = 'f32',
  combiner = 'sum',
  op = 'max',
}: Form): string => `kernel t {
  param a: ${dtype}[${rows}, ${columns}] read
  param b: ${dtype}[${rows}, ${columns}] read
  param y: ${dtype}[${rows}, ${columns}] write
  param s: ${dtype}[${columns}] write
  axes i: ${rows}, j: ${columns}
  grid j/${block}
  %0 ${dtype}{i, j} = load a[i, j]
  %1 ${dtype}{i, j} = load b[i, j]
  %2 ${dtype}{i, j} = ${op} %0, %1
  %3 ${dtype}{j} = reduce ${combiner} %2 over i
  store y[i, j] = %2
  store s[j] = %3
}`

const alone = ({ rows, columns }: Form): string => `kernel t {
  param a: f32[${rows}, ${columns}] read
  param s: f32[${columns}] write
  axes i: ${rows}, j: ${columns}
  grid j/${columns}
  %0 f32{i, j} = load a[i, j]
  %1 f32{j} = reduce sum %0 over i
  store s[j] = %1
}`

const functions = (f: Form): string =>
  stored(f).replace('%2 f32{i, j} = max %0, %1', '%4 f32{i, j} = tanh %0\n  %2 f32{i, j} = max %4, %1')

describe('folds down columns', () => {
  test('of several tensors go row by row where a program has whole rows', () => {
    expect(linesOf(stored({ rows: 200, columns: 100 }))).toMatch(
      /nest i\(fold 200 .*\) j\(100 by \d+\): folding in memory/,
    )
    expect(linesOf(stored({ rows: 200, columns: 400, block: 64 }))).not.toContain('in memory')
    expect(linesOf(stored({ rows: 40, columns: 100 }))).not.toContain('in memory')
  })

  test('of one tensor do where its rows are long and it comes from far', () => {
    expect(linesOf(alone({ rows: 20000, columns: 128 }))).toContain('folding in memory')
    expect(linesOf(alone({ rows: 20000, columns: 60 }))).not.toContain('in memory')
    expect(linesOf(alone({ rows: 500, columns: 128 }))).not.toContain('in memory')
  })

  test('of functions, which groups of lanes compute in turn, do not', () => {
    expect(linesOf(functions({ rows: 200, columns: 100 }))).not.toContain('in memory')
  })

  test.each<Form>([
    { rows: 65, columns: 33 },
    { rows: 200, columns: 100 },
    { rows: 1100, columns: 45 },
    { rows: 130, columns: 35, dtype: 'f16' },
    { rows: 130, columns: 41, dtype: 'bf16' },
    { rows: 130, columns: 37, dtype: 'f64' },
    { rows: 130, columns: 39, dtype: 'i32', op: 'add' },
    { rows: 130, columns: 39, combiner: 'max', op: 'add' },
    { rows: 130, columns: 50, combiner: 'min', op: 'sub' },
  ])('%o, as the interpreter has it', (f) => {
    const text = stored(f)
    verifyKernelSchedule([scheduled(text)[0]], scheduled(text)[1])
    compare(text, f.dtype === 'f16' || f.dtype === 'bf16' ? { tolerance: 2e-2 } : {})
  })
})
