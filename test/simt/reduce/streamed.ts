/** Kernels with sums that stream, the rows they are tested on, and the interpreter's results to compare with. */
import { interpretKernel } from '../../../src/kernel/interpret.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { readElement } from '../../../src/scalar/host.ts'
import type { DType } from '../../../src/types/dtype.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { noise } from '../../kernel/hard-cases/case.ts'
import type { Buffers } from '../dialects/emulator/emulator.ts'
import { buffersOf, chunk, type Row, storedSums } from './longRows.ts'

const [inf, nan] = [Number.POSITIVE_INFINITY, Number.NaN]
const most = 3.4028234663852886e38

export const rows: readonly Row[] = [
  { name: 'numbers', at: (_, __, x) => 5 * x },
  { name: 'far apart', at: (_, __, x) => 900 * x },
  { name: 'ascending', at: (i, n, x) => (30 * i) / n + x },
  { name: 'descending', at: (i, n, x) => (-30 * i) / n + x },
  { name: 'far below zero', at: (_, __, x) => -1e4 + x },
  { name: 'alike', at: () => 3 },
  { name: 'nothing but -infinity', at: () => -inf },
  { name: 'one number, last', at: (i, n) => (i === n - 1 ? -2 : -inf) },
  { name: 'one number, first', at: (i) => (i === 0 ? 2 : -inf) },
  { name: 'a chunk of -infinity, then numbers', at: (i, _, x) => (i < chunk ? -inf : x) },
  { name: 'numbers, then -infinity', at: (i, _, x) => (i < chunk ? x : -inf) },
  { name: 'every other one -infinity', at: (i, _, x) => (i % 2 === 0 ? x : -inf) },
  { name: 'one +infinity', at: (i, n, x) => (i === n >> 1 ? inf : x) },
  { name: 'nothing but +infinity', at: () => inf },
  { name: 'both infinities', at: (i, n, x) => (i === 5 ? inf : i === n - 2 ? -inf : x) },
  { name: 'NaN first', at: (i, _, x) => (i === 0 ? nan : x) },
  { name: 'NaN last', at: (i, n, x) => (i === n - 1 ? nan : x) },
  { name: 'NaN among -infinity', at: (i, n) => (i === n >> 1 ? nan : -inf) },
  { name: 'NaN and +infinity', at: (i, n, x) => (i === 1 ? inf : i === n - 1 ? nan : x) },
  { name: 'the least number', at: () => -most },
  { name: 'the greatest number among others', at: (i, _, x) => (i === 77 ? most : x) },
  { name: 'numbers from least to greatest', at: (i, n) => (i % 3 === 0 ? most : i === n - 1 ? 0 : -most) },
]

/** Sums that stream, by what they sum: statements that give value 99. */
export const sums = {
  plain: '%99 f32{r} = reduce sum %11 over c',
  guarded: `%20 bool{r} = isinf %3
  %22 f32{r} = select %20, %21, %3
  %23 f32{r, c} = sub %1, %22
  %24 f32{r, c} = exp %23
  %99 f32{r} = reduce sum %24 over c`,
  finite: `%20 bool{r} = isinf %3
  %22 bool{r} = isnan %3
  %23 bool{r} = or %20, %22
  %24 bool{r} = not %23
  %25 f32{r} = select %24, %3, %21
  %26 f32{r, c} = sub %1, %25
  %27 f32{r, c} = exp %26
  %99 f32{r} = reduce sum %27 over c`,
  weighted: `%30 f32{r, c} = mul %2, %11
  %99 f32{r} = reduce sum %30 over c`,
  divided: `%32 f32 = const 3
  %33 f32{c} = add %2, %32
  %34 f32{r, c} = div %11, %33
  %99 f32{r} = reduce sum %34 over c`,
  doubled: `%40 f32 = const 2
  %41 f32{r, c} = mul %40, %10
  %42 f32{r, c} = exp %41
  %99 f32{r} = reduce sum %42 over c`,
  halved: `%40 f32 = const 0.5
  %41 f32{r, c} = mul %1, %40
  %42 f32{r} = mul %40, %3
  %43 f32{r, c} = sub %41, %42
  %44 f32{r, c} = exp %43
  %99 f32{r} = reduce sum %44 over c`,
  powers: `%40 f32 = const 2
  %50 f32{r, c} = pow %40, %10
  %99 f32{r} = reduce sum %50 over c`,
  quiet: `%60 f32{r} = max %3, %21
  %61 f32{r, c} = sub %1, %60
  %62 f32{r, c} = exp %61
  %99 f32{r} = reduce sum %62 over c`,
  least: `%4 f32{r} = reduce min %1 over c
  %71 f32{r, c} = sub %4, %1
  %72 f32{r, c} = exp %71
  %99 f32{r} = reduce sum %72 over c`,
  both: `%80 f32{r, c} = mul %11, %1
  %81 f32{r, c} = mul %11, %2
  %82 f32{r, c} = add %81, %11
  %83 f32{r, c} = mul %80, %2
  %99 f32{r} = reduce sum %82 over c`,
  free: `%90 f32{r, c} = mul %2, %1
  %99 f32{r} = reduce sum %90 over c`,
} as const

export type Sum = keyof typeof sums

export const all: readonly Sum[] = ['plain', 'guarded', 'finite', 'weighted', 'divided', 'doubled']
export const more: readonly Sum[] = ['halved', 'powers', 'quiet', 'least', 'both', 'free']

/** A kernel of some of the sums, over rows of n; the statements of each are numbered apart. */
export const manySums = (which: readonly Sum[], n: number, dtype: DType, perProgram = 1): Kernel =>
  parseKernel(`kernel many {
  param x: ${dtype}[${rows.length}, ${n}] read
  param w: f32[${n}] read
${which.map((s) => `  param ${s}: f32[${rows.length}] write`).join('\n')}
  axes r: ${rows.length}, c: ${n}
  grid r${perProgram === 1 ? '' : `/${perProgram}`}
  %0 ${dtype}{r, c} = load x[r, c]
  %1 f32{r, c} = cast %0
  %2 f32{c} = load w[c]
  %3 f32{r} = reduce max %1 over c
  %10 f32{r, c} = sub %1, %3
  %11 f32{r, c} = exp %10
  %21 f32 = const 0
${storedSums(which, (s) => sums[s])}
}`)

/** Long columns, several in a thread: the anchors of each. */
export const columns = (n: number): Kernel =>
  parseKernel(`kernel columns {
  param x: f32[${n}, 80] read
  param s: f32[80] write
  axes c: ${n}, k: 80
  grid k/32
  %0 f32{c, k} = load x[c, k]
  %1 f32{k} = reduce max %0 over c
  %2 f32{c, k} = sub %0, %1
  %3 f32{c, k} = exp %2
  %4 f32{k} = reduce sum %3 over c
  store s[k] = %4
}`)

/** A softmax, whose sum streams, and whose second walk stores. */
export const softmax = (n: number, dtype: DType): Kernel => {
  const wide = dtype === 'f64' ? dtype : 'f32'
  return parseKernel(`kernel softmax {
  param x: ${dtype}[${rows.length}, ${n}] read
  param y: ${wide}[${rows.length}, ${n}] write
  axes r: ${rows.length}, c: ${n}
  grid r
  %0 ${dtype}{r, c} = load x[r, c]
  %1 ${dtype}{r} = reduce max %0 over c
  %2 ${wide}{r, c} = cast %0
  %3 ${wide}{r} = cast %1
  %4 ${wide}{r, c} = sub %2, %3
  %5 ${wide}{r, c} = exp %4
  %6 ${wide}{r} = reduce sum %5 over c
  %7 ${wide}{r, c} = div %5, %6
  store y[r, c] = %7
}`)
}

/** A program that goes through rows, with the sum of each. */
export const looped = (n: number): Kernel =>
  parseKernel(`kernel looped {
  param x: f32[${rows.length}, ${n}] read
  param s: f32[${rows.length}] write
  param seen: f32[2] write
  axes g: 2, r: ${rows.length / 2}, c: ${n}
  grid g
  %0 f32 = const 0
  %1 = loop r/1 {
    carry %2 f32 = %0
    %3 f32{g, r, c} = load x[${rows.length / 2}*g + r, c]
    %4 f32{g, r} = reduce max %3 over c
    %5 f32{g, r, c} = sub %3, %4
    %6 f32{g, r, c} = exp %5
    %7 f32{g, r} = reduce sum %6 over c
    store s[${rows.length / 2}*g + r] = %7
    %8 f32 = const 1
    %9 f32 = add %2, %8
    next %9
  }
  store seen[g] = %1
}`)

/** The element of each row that its t names, beside its sum of exponentials. */
export const picked = (n: number): Kernel =>
  parseKernel(`kernel picked {
  param x: bf16[${rows.length}, ${n}] read
  param t: i32[${rows.length}] read
  param chosen: f32[${rows.length}] write
  param total: f32[${rows.length}] write
  param y: f32[${rows.length}, ${n}] write
  axes r: ${rows.length}, c: ${n}
  grid r
  %0 bf16{r, c} = load x[r, c]
  %1 f32{r, c} = cast %0
  %2 i32{r} = load t[r]
  %3 i32{c} = index c
  %4 bool{r, c} = eq %2, %3
  %5 f32 = const 0
  %6 f32{r, c} = select %4, %1, %5
  %7 f32{r} = reduce sum %6 over c
  store chosen[r] = %7
  %8 f32{r} = reduce max %1 over c
  %9 f32{r, c} = sub %1, %8
  %10 f32{r, c} = exp %9
  %11 f32{r} = reduce sum %10 over c
  store total[r] = %11
  %12 f32 = const -1
  %13 f32{r, c} = select %4, %12, %5
  %14 f32{r, c} = div %10, %11
  %15 f32{r, c} = add %13, %14
  store y[r, c] = %15
}`)

/** What must not stream, or not in the anchor's loop. */
export const others = (n: number): Kernel =>
  parseKernel(`kernel others {
  param x: f32[${rows.length}, ${n}] read
  param grows: f32[${rows.length}] write
  param shifted: f32[${rows.length}] write
  param doubled: f32[${rows.length}] write
  param late: f32[${rows.length}] write
  axes r: ${rows.length}, c: ${n}
  grid r
  %0 f32{r, c} = load x[r, c]
  %1 f32{r} = reduce max %0 over c
  %2 f32{r, c} = sub %1, %0
  %3 f32{r, c} = exp %2
  %4 f32{r} = reduce sum %3 over c
  store grows[r] = %4
  %5 f32{r, c} = sub %0, %1
  %6 f32{r, c} = exp %5
  %8 f32{r, c} = sub %6, %0
  %9 f32{r} = reduce sum %8 over c
  store shifted[r] = %9
  %7 f32 = const 2
  %10 f32{r, c} = mul %0, %7
  %11 f32{r} = mul %1, %7
  %14 f32{r, c} = sub %10, %11
  %15 f32{r, c} = exp %14
  %16 f32{r} = reduce sum %15 over c
  store doubled[r] = %16
  %12 f32{r, c} = mul %6, %4
  %13 f32{r} = reduce sum %12 over c
  store late[r] = %13
}`)

export function dataFor(k: Kernel, n: number): Buffers {
  const wide = noise(3, n)
  return buffersOf(k, ({ name, shape }, i) => {
    if (name === 'w') return i % 7 === 0 ? 0 : (wide[i] ?? 0) + 1.1
    // The first, the last, and any other element; and one that is none.
    if (name === 't') return [0, n - 1, n, (i * 977) % n][i % 4] ?? 0
    const columns = shape[1] ?? 1
    const [line, at] = columns === n ? [Math.floor(i / n), i % n] : [i % columns, Math.floor(i / columns)]
    return rows[line % rows.length]?.at(at, n, wide[(at * 31 + line) % n] ?? 0) ?? 0
  })
}

/** Relative distance, where not both are the same infinity, NaN, or zero. */
function far(a: number, b: number): boolean {
  if (Object.is(a, b) || a === b) return false
  return !(Math.abs(a - b) <= 2e-5 * Math.max(Math.abs(a), Math.abs(b), 1e-30))
}

export function check(k: Kernel, n: number, got: Buffers): void {
  const expected = dataFor(k, n)
  interpretKernel(k, expected, { rounding: 'dtype' })
  for (const p of k.params) {
    if (p.access === 'read') continue
    const [a, e] = [got[p.name], expected[p.name]]
    const read = (x: HostArray | undefined, i: number): number =>
      x === undefined ? Number.NaN : Number(readElement(x, p.dtype, i))
    const count = e?.length ?? 0
    const each = count / rows.length
    for (let i = 0; i < count; i++)
      if (far(read(a, i), read(e, i)))
        throw new Error(
          `${p.name}[${i}] (${rows[Math.floor(i / each)]?.name}): ${read(a, i)}, expected ${read(e, i)} (n ${n})`,
        )
  }
}
