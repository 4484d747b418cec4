/** Kernels with sums against a mean, the rows they are tested on, and what their results are held to. */
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { readElement } from '../../../src/scalar/host.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { noise } from '../../kernel/hard-cases/case.ts'
import type { Buffers } from '../dialects/emulator/emulator.ts'
import { buffersOf, chunk, type Row, storedSums } from './longRows.ts'

const [inf, nan] = [Number.POSITIVE_INFINITY, Number.NaN]

export const rows: readonly Row[] = [
  { name: 'numbers about zero', at: (_, __, x) => 2 * x },
  { name: 'numbers about 1e4', at: (_, __, x) => 1e4 + 2 * x },
  { name: 'numbers about -1e6', at: (_, __, x) => -1e6 + 2 * x },
  { name: 'zeros', at: () => 0 },
  { name: 'alike', at: () => 3.7 },
  { name: 'alike, of a fraction that is rounded', at: () => 0.1 },
  { name: 'alike and large', at: () => 1e6 + 1 / 3 },
  { name: 'one outlier, first', at: (i, _, x) => (i === 0 ? 1e6 : x) },
  { name: 'one outlier, last', at: (i, n, x) => (i === n - 1 ? -1e6 : x) },
  { name: 'one outlier among equals', at: (i, n) => (i === n >> 1 ? 1e4 : 1) },
  { name: 'ascending', at: (i, n, x) => (1e3 * i) / n + x },
  { name: 'descending', at: (i, n, x) => 5e4 - (1e3 * i) / n + x },
  { name: 'far apart by turns', at: (i, _, x) => (i % 2 === 0 ? 1e4 : -1e4) + x },
  { name: 'another mean after a chunk', at: (i, _, x) => (i < chunk ? 1e5 : -1e2) + x },
  { name: 'small', at: (_, __, x) => 1e-9 * x },
  { name: 'large', at: (_, __, x) => 1e14 * (x + 1) },
  { name: 'NaN first', at: (i, _, x) => (i === 0 ? nan : x) },
  { name: 'NaN last', at: (i, n, x) => (i === n - 1 ? nan : x) },
  { name: 'one +infinity', at: (i, n, x) => (i === n >> 1 ? inf : x) },
  { name: 'one -infinity, last', at: (i, n, x) => (i === n - 1 ? -inf : x) },
  { name: 'both infinities', at: (i, n, x) => (i === 5 ? inf : i === n - 2 ? -inf : x) },
  { name: 'nothing but +infinity', at: () => inf },
]

/** A sum against the row's mean, as statements that give value 99; its terms, and what their errors are relative to. */
interface Sum {
  readonly text: string
  /** By x, w and the mean. */
  readonly term: (x: number, w: number, d: number) => number
  /** By the same and the row's deviation, or what an anchor is off by. */
  readonly size: (x: number, w: number, d: number, deviation: number) => number
}

export const sums = {
  squares: {
    text: `%10 f32{r, c} = mul %8, %8
  %99 f32{r} = reduce sum %10 over c`,
    term: (x, _, d) => (x - d) ** 2,
    size: (x, _, d) => (x - d) ** 2,
  },
  halves: {
    text: `%10 f32{r, c} = add %8, %8
  %11 f32 = const -4
  %12 f32{r, c} = div %8, %11
  %13 f32{r, c} = mul %10, %12
  %99 f32{r} = reduce sum %13 over c`,
    term: (x, _, d) => -((x - d) ** 2) / 2,
    size: (x, _, d) => (x - d) ** 2,
  },
  products: {
    text: `%10 f32{r, c} = mul %2, %8
  %99 f32{r} = reduce sum %10 over c`,
    term: (x, w, d) => w * (x - d),
    size: (x, w, d, deviation) => Math.abs(w) * (Math.abs(x - d) + deviation),
  },
  weighted: {
    text: `%10 f32{r, c} = mul %8, %2
  %11 f32{r, c} = mul %10, %8
  %99 f32{r} = reduce sum %11 over c`,
    term: (x, w, d) => w * (x - d) ** 2,
    size: (x, w, d, deviation) => Math.abs(w) * ((x - d) ** 2 + deviation ** 2),
  },
  mixed: {
    text: `%10 f32{r, c} = mul %8, %8
  %11 f32{r, c} = mul %2, %8
  %12 f32{r, c} = sub %10, %11
  %13 f32{r, c} = sub %12, %2
  %99 f32{r} = reduce sum %13 over c`,
    term: (x, w, d) => (x - d) ** 2 - w * (x - d) - w,
    size: (x, w, d, deviation) => (x - d) ** 2 + Math.abs(w) * (Math.abs(x - d) + deviation + 1),
  },
  far: {
    text: `%9 f32 = const 5
  %10 f32{r} = add %5, %9
  %11 f32{r, c} = sub %1, %10
  %12 f32{r, c} = mul %11, %11
  %99 f32{r} = reduce sum %12 over c`,
    term: (x, _, d) => (x - Math.fround(d + 5)) ** 2,
    size: (x, _, d) => (x - Math.fround(d + 5)) ** 2,
  },
  free: {
    text: `%10 f32{r, c} = mul %2, %1
  %99 f32{r} = reduce sum %10 over c`,
    term: (x, w) => w * x,
    size: (x, w) => Math.abs(w * x),
  },
} as const satisfies Record<string, Sum>

export type SumName = keyof typeof sums
export const all = Object.keys(sums).filter((s): s is SumName => s in sums)

/** The elements in f32; where they wait for a fold over the row (that changes nothing), the sums are of the second walk. */
const elements = (late: boolean): string =>
  late
    ? `%50 f32{r, c} = cast %0
  %51 f32 = reduce max %2 over c
  %52 f32 = const 0
  %53 f32 = mul %51, %52
  %1 f32{r, c} = add %50, %53`
    : '%1 f32{r, c} = cast %0'

/** A kernel of the mean of rows of n and some sums against it. */
export const centred = (which: readonly SumName[], n: number, dtype: DType, perProgram = 1, late = false): Kernel =>
  parseKernel(`kernel centred {
  param x: ${dtype}[${rows.length}, ${n}] read
  param w: f32[${n}] read
  param mean: f32[${rows.length}] write
${which.map((s) => `  param ${s}: f32[${rows.length}] write`).join('\n')}
  axes r: ${rows.length}, c: ${n}
  grid r${perProgram === 1 ? '' : `/${perProgram}`}
  %0 ${dtype}{r, c} = load x[r, c]
  %2 f32{c} = load w[c]
  ${elements(late)}
  %3 f32{r} = reduce sum %1 over c
  %4 f32 = const ${1 / n}
  %5 f32{r} = mul %3, %4
  %8 f32{r, c} = sub %1, %5
  store mean[r] = %5
${storedSums(which, (s) => sums[s].text)}
}`)

/** Layer normalisation, whose results take a walk of their own. */
export const normalised = (n: number, dtype: DType, mode: Kernel['mode'] = 'fast'): Kernel => ({
  ...parseKernel(`kernel normalised {
  param x: ${dtype}[${rows.length}, ${n}] read
  param mean: f32[${rows.length}] write
  param squares: f32[${rows.length}] write
  param y: f32[${rows.length}, ${n}] write
  axes r: ${rows.length}, c: ${n}
  grid r
  %0 ${dtype}{r, c} = load x[r, c]
  %1 f32{r, c} = cast %0
  %3 f32{r} = reduce sum %1 over c
  %4 f32 = const ${1 / n}
  %5 f32{r} = mul %3, %4
  %8 f32{r, c} = sub %1, %5
  %9 f32{r, c} = mul %8, %8
  %10 f32{r} = reduce sum %9 over c
  store mean[r] = %5
  store squares[r] = %10
  %11 f32{r} = mul %10, %4
  %12 f32 = const 0.00001
  %13 f32{r} = add %11, %12
  %14 f32{r} = rsqrt %13
  %15 f32{r, c} = mul %8, %14
  store y[r, c] = %15
}`),
  mode,
})

/** What cannot stream beside what can: the absolute differences, and what waits for them. */
export const others = (n: number): Kernel =>
  parseKernel(`kernel others {
  param x: f32[${rows.length}, ${n}] read
  param mean: f32[${rows.length}] write
  param distance: f32[${rows.length}] write
  param late: f32[${rows.length}] write
  axes r: ${rows.length}, c: ${n}
  grid r
  %0 f32{r, c} = load x[r, c]
  %3 f32{r} = reduce sum %0 over c
  %4 f32 = const ${1 / n}
  %5 f32{r} = mul %3, %4
  store mean[r] = %5
  %8 f32{r, c} = sub %0, %5
  %9 f32{r, c} = abs %8
  %10 f32{r} = reduce sum %9 over c
  store distance[r] = %10
  %11 f32{r, c} = mul %8, %10
  %12 f32{r} = reduce sum %11 over c
  store late[r] = %12
}`)

export function dataFor(k: Kernel, n: number): Buffers {
  const wide = noise(7, 2 * n)
  return buffersOf(k, ({ name }, i) => {
    const noisy = wide[(i * 31 + Math.floor(i / n)) % wide.length] ?? 0
    return name === 'w' ? noisy : (rows[Math.floor(i / n)]?.at(i % n, n, noisy) ?? 0)
  })
}

/**
 * Holds sums to the rounding of a sum of as many terms as a thread has, against the mean that was found; the mean to the rounding of the
 * sum it is of.
 */
export function check(k: Kernel, n: number, got: Buffers, threads: number): void {
  const most = (2 * (Math.ceil(n / threads) + 24)) / 2 ** 24
  const param = (name: string): readonly number[] => {
    const p = k.params.find((q) => q.name === name)
    const data = got[name]
    if (p === undefined || data === undefined) return []
    return Array.from({ length: data.length }, (_, i) => Number(readElement(data, p.dtype, i)))
  }
  const x = param('x')
  const w = param('w')
  const means = param('mean')
  const y = param('y')
  rows.forEach((row, r) => {
    const line = x.slice(r * n, (r + 1) * n)
    const d = means[r] ?? nan
    const hold = (name: string, value: number, expected: number, size: number): void => {
      if (Object.is(value, expected) || Math.abs(value - expected) <= most * size) return
      throw new Error(`${name} of ${row.name}: ${value}, expected ${expected} within ${most * size} (n ${n})`)
    }
    const total = (term: (v: number, i: number) => number): number => line.reduce((t, v, i) => t + term(v, i), 0)
    const squares = param('squares')[r]
    if (squares !== undefined && squares < 0) throw new Error(`squares of ${row.name}: ${squares} (n ${n})`)
    hold('mean', d, total((v) => v) / n, total(Math.abs) / n)
    const deviation = Math.sqrt(total((v) => (v - d) ** 2) / n)
    // Anchors are rounded: of numbers alike they may be off.
    const apart = Math.max(deviation, Math.abs(d) * 2 ** -22)
    for (const name of all) {
      const value = param(name)[r]
      if (value === undefined) continue
      const { term, size }: Sum = sums[name]
      const at = (f: Sum['size']): number => total((v, i) => f(v, w[i] ?? 0, d, apart))
      hold(name, value, at(term), at(size))
    }
    if (y.length === 0) return
    const scale = 1 / Math.sqrt(deviation ** 2 + 1e-5)
    line.forEach((v, i) => {
      hold(`y[${i}]`, y[r * n + i] ?? nan, (v - d) * scale, Math.abs(v - d) * scale + 1)
    })
  })
}
