/** Sums for each of a few taps in one loop along what they fold, and steps of it that ask for no bounds. */
import { describe, expect, test } from 'vitest'
import { interpretKernel } from '../../src/kernel/interpret.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { printLoopSchedule } from '../../src/schedule/loop/print.ts'
import { factsOf, scheduleKernel, verifyKernelSchedule } from '../../src/schedule/loop/scheduleKernel.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { compare } from '../wasm/compare.ts'
import { runKernels } from '../wasm/run.ts'
import { linesOf, scheduled } from './scheduled.ts'

interface Gradient {
  readonly images?: number
  readonly channels?: number
  readonly block?: number
  readonly size: readonly [number, number]
  readonly taps: readonly [number, number]
  readonly step?: number
  readonly apart?: number
  readonly pad?: readonly [number, number]
  readonly dtype?: string
  /** What is stored of the sum `%3`. */
  readonly after?: string
}

/** The gradient in the weights of windows over channels apart. */
function gradient(g: Gradient): string {
  const { images = 2, channels = 5, block = 3, step = 1, apart = 1, dtype = 'f32' } = g
  const [[h, w], [j, k]] = [g.size, g.taps]
  const [p, q] = g.pad ?? [j >> 1, k >> 1]
  const at = (i: string, m: string, pad: number): string => `${apart}*${i} + ${step}*${m} - ${pad}`
  const count = (n: number, taps: number, pad: number): number =>
    Math.floor((n + 2 * pad - apart * (taps - 1) - 1) / step) + 1
  const [y, x] = [count(h, j, p), count(w, k, q)]
  const [row, column] = [at('j', 'm', p), at('k', 'n', q)]
  return `kernel t {
 param x: ${dtype}[${images}, ${channels}, ${h}, ${w}] read
 param z: ${dtype}[${images}, ${channels}, ${y}, ${x}] read
 param w: ${dtype}[${channels}, ${j}, ${k}] read
 param y: ${dtype}[${channels}, ${j}, ${k}] write
 axes i: ${channels}, j: ${j}, k: ${k}, l: ${images}, m: ${y}, n: ${x}
 grid i/${block}, j/${j}, k/${k}
 %1 ${dtype}{i, j, k, l, m, n} = load x[l, i, ${row}, ${column}] where 0 <= ${row} < ${h} and 0 <= ${column} < ${w} else 0
 %2 ${dtype}{i, l, m, n} = load z[l, i, m, n]
 %3 ${dtype}{i, j, k} = dot %1, %2 over l, m, n
 ${g.after ?? 'store y[i, j, k] = %3'}
}`
}

const foldsOf = (lines: string): number => lines.match(/fold %\d+ = sum/g)?.length ?? 0

describe('sums of taps', () => {
  test.each([
    [{ size: [20, 24], taps: [3, 3] }, 9],
    [{ size: [20, 24], taps: [5, 5] }, 5],
    [{ size: [20, 24], taps: [1, 7] }, 7],
    [{ size: [20, 24], taps: [3, 3], step: 2 }, 9],
  ] as const)('%o: %i in a loop', (g, count) => {
    const lines = linesOf(gradient(g))
    expect(foldsOf(lines)).toBe(count)
    expect(lines).toMatch(/n\(fold \d+ by/)
  })

  test('are one where there are many of them, few terms, or none in common', () => {
    expect(foldsOf(linesOf(gradient({ size: [20, 24], taps: [3, 11] })))).toBe(1)
    expect(foldsOf(linesOf(gradient({ size: [4, 4], taps: [3, 3], images: 1 })))).toBe(1)
    const rows = gradient({ size: [20, 24], taps: [3, 3] })
      .replace(
        '%2 f32{i, l, m, n} = load z[l, i, m, n]',
        '%2 f32{i, j, k, l, m, n} = load z[l, i, m, n + k - 1] where 0 <= n + k - 1 < 24 else 0',
      )
      .replace('n + k', 'k + n')
    expect(foldsOf(linesOf(rows))).toBe(1)
  })

  test('ask for no bounds but in the first and last steps of a row, and its first and last rows', () => {
    const lines = linesOf(gradient({ size: [20, 24], taps: [3, 3] }))
    expect(lines).toContain('unmasked along n from 4 to 20 where')
    expect(linesOf(gradient({ size: [20, 24], taps: [3, 3], pad: [0, 0] }))).not.toContain('unmasked')
    // Nothing is between the first step and the last.
    expect(linesOf(gradient({ size: [20, 8], taps: [3, 3] }))).not.toContain('unmasked')
  })

  const descent =
    ' %4 f32{i, j, k} = load w[i, j, k]\n %5 f32 = const 0.125\n %6 f32{i, j, k} = mul %3, %5\n %7 f32{i, j, k} = sub %4, %6\n store y[i, j, k] = %7'
  test.each<Gradient>([
    { size: [9, 11], taps: [3, 3] },
    { size: [12, 16], taps: [3, 3] },
    { size: [7, 33], taps: [5, 5] },
    { size: [7, 35], taps: [3, 5], step: 2 },
    { size: [13, 37], taps: [3, 3], apart: 3, pad: [3, 3] },
    { size: [6, 40], taps: [1, 7], channels: 1, block: 1 },
    { size: [6, 41], taps: [2, 4], pad: [0, 3] },
    { size: [40, 6], taps: [7, 1] },
    { size: [5, 150], taps: [3, 3], channels: 2 },
    { size: [5, 523], taps: [1, 3], channels: 2 },
    { size: [8, 8], taps: [3, 3], images: 5, channels: 13, block: 4 },
    { size: [9, 21], taps: [3, 3], dtype: 'f16' },
    { size: [9, 21], taps: [3, 3], dtype: 'bf16' },
    { size: [9, 21], taps: [3, 3], dtype: 'f64' },
    { size: [9, 21], taps: [3, 3], dtype: 'i32' },
    { size: [9, 21], taps: [3, 3], after: descent },
  ])('%o', (g) => {
    const text = gradient(g)
    verifyKernelSchedule([scheduled(text)[0]], scheduled(text)[1])
    compare(text, g.dtype === 'f16' || g.dtype === 'bf16' ? { tolerance: 2e-2 } : {})
  })

  test('stand before stores into memory that what is stored follows from', () => {
    const kernel = parseKernel(gradient({ size: [9, 21], taps: [3, 3], after: descent }))
    const facts = factsOf(kernel, wasmTarget, () => true)
    const parts = scheduleKernel(kernel, facts)
    expect(foldsOf(printLoopSchedule('k', parts).join('\n'))).toBe(9)
    verifyKernelSchedule(parts, facts)
  })

  test.each([Number.NaN, Number.POSITIVE_INFINITY])('reads %d where it stands alone', (value) => {
    const kernel = { ...parseKernel(gradient({ size: [9, 21], taps: [3, 3] })), mode: 'fast' as const }
    const make = (): Record<'x' | 'z' | 'w' | 'y', Float32Array> => {
      const data = (n: number, k: number) => Float32Array.from({ length: n }, (_, i) => (((i * 7 + k) % 17) - 8) / 8)
      return { x: data(1890, 1), z: data(1890, 2), w: data(45, 3), y: new Float32Array(45) }
    }
    const [want, got] = [make(), make()]
    for (const { x, z } of [want, got]) {
      // In a corner, which four taps read, at the end of a row, and inside one.
      x[0] = value
      x[189 + 20] = value
      z[2 * 189 + 4 * 21 + 10] = value
    }
    interpretKernel(kernel, want)
    runKernels([kernel], got)
    expect(want.y.some((v) => !Number.isFinite(v)) && want.y.some(Number.isFinite)).toBe(true)
    for (const [i, v] of want.y.entries())
      if (Number.isFinite(v)) expect(got.y[i]).toBeCloseTo(v, 4)
      else expect(got.y[i]).toBe(v)
  })
})
