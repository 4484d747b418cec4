/** Extremes of windows that overlap: by windows of twice the length where that takes less, and what they come to. */
import { describe, expect, test } from 'vitest'
import { verifyKernelSchedule } from '../../src/schedule/loop/scheduleKernel.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { compare } from '../wasm/compare.ts'
import { linesOf, scheduled } from './scheduled.ts'

interface Row {
  readonly windows?: number
  readonly length: number
  readonly step?: number
  readonly apart?: number
  readonly block?: number
  readonly dtype?: string
  readonly combiner?: string
}

/** Windows along a row, in blocks of which the last is not whole. */
function row({ windows = 300, length, step = 1, apart = 1, block = 128, dtype = 'f32', combiner = 'max' }: Row) {
  const size = step * (windows - 1) + apart * (length - 1) + 1
  return `kernel t {
 param x: ${dtype}[${size}] read
 param y: ${dtype}[${windows}] write
 axes i: ${windows}, t: ${length}
 grid i/${block}
 %0 ${dtype}{i, t} = load x[${step}*i + ${apart}*t]
 %1 ${dtype}{i} = reduce ${combiner} %0 over t
 store y[i] = %1
}`
}
/** Windows over rows and columns, padded. */
const pooled = (
  size: number,
  length: number,
  step: number,
  dtype = 'f32',
  grid = `c, i/${size}, j/${size}`,
): string => {
  const n = Math.floor((size - 1) / step) + 1
  const half = length >> 1
  return `kernel t {
 param x: ${dtype}[3, ${size}, ${size}] read
 param y: ${dtype}[3, ${n}, ${n}] write
 axes c: 3, i: ${n}, j: ${n}, l: ${length}, m: ${length}
 grid ${grid}
 %0 ${dtype}{c, i, j, l, m} = load x[c, ${step}*i + l - ${half}, ${step}*j + m - ${half}] where 0 <= ${step}*i + l - ${half} < ${size} and 0 <= ${step}*j + m - ${half} < ${size} else -20
 %1 ${dtype}{c, i, j} = reduce max %0 over l, m
 store y[c, i, j] = %1
}`
}

/** Steps that go over places of windows. */
const stepsOf = (text: string): number => linesOf(text).match(/(copy %\d+ = x|_[tlm]_\d+\()/g)?.length ?? 0

describe('windows along a row', () => {
  test.each([
    // What is read, then 2, 4, 8 and 16 of it; the last step joins two of 16.
    [31, 5],
    [32, 5],
    [33, 6],
    [12, 4],
    [8, 3],
  ])('of %i: %i steps before the last', (length, steps) => {
    const text = row({ length })
    expect(stepsOf(text)).toBe(steps)
    expect(linesOf(text)).not.toContain('fold %')
  })

  test('hold places for all of a block', () => {
    const lines = linesOf(row({ length: 12 }))
    for (const places of ['138', '136', '132']) expect(lines).toMatch(new RegExp(`nest i_t_\\d+\\(${places} by`))
  })

  test('are folded where they share nothing, are sums, or would take longer', () => {
    for (const r of [{ length: 8, step: 8 }, { length: 12, combiner: 'sum' }, { length: 3 }, { length: 5, step: 4 }])
      expect(stepsOf(row({ ...r })), JSON.stringify(r)).toBe(0)
  })

  test('are folded where what they keep would not stay beside the core', () => {
    const own = { ...wasmTarget, loops: { ...(wasmTarget.loops ?? expect.fail()), own: 1024 } }
    expect(linesOf(row({ length: 31 }), own)).toContain('fold %1 = max')
  })

  test.each<Row>([
    { length: 31 },
    { length: 16 },
    { length: 9, combiner: 'min' },
    { length: 12, dtype: 'i32' },
    { length: 13, dtype: 'f16' },
    { length: 13, dtype: 'bf16', combiner: 'min' },
    { length: 20, dtype: 'u8' },
    { length: 20, dtype: 'f64' },
    { length: 20, dtype: 'i64' },
    { length: 17, apart: 3 },
    { length: 17, step: 2 },
    { length: 40, step: 5, dtype: 'f16' },
    { length: 31, windows: 7, block: 7 },
    { length: 9, windows: 130, block: 1 },
  ])('%o', (r) => {
    const text = row({ ...r })
    verifyKernelSchedule([scheduled(text)[0]], scheduled(text)[1])
    compare(text)
  })
})

describe('windows over rows and columns', () => {
  test('go along one after the other', () => {
    // Places of both axes, of one, of the other: windows of 3 are two of 2 that overlap.
    expect(stepsOf(pooled(40, 3, 1))).toBe(4)
    expect(stepsOf(pooled(40, 13, 1))).toBe(8)
    expect(stepsOf(pooled(40, 2, 2))).toBe(0)
  })

  test.each([
    [19, 3, 1, 'f32'],
    [23, 5, 1, 'f32'],
    [23, 5, 2, 'f32'],
    [17, 13, 1, 'f16'],
    [18, 9, 1, 'bf16'],
    [31, 7, 3, 'i32'],
  ] as const)('%i: windows of %i, %i apart, %s', (size, length, step, dtype) => {
    compare(pooled(size, length, step, dtype))
    compare(pooled(size, length, step, dtype, 'c, i/7, j/9'))
  })
})
