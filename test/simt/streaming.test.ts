/**
 * Sums that stream along rows too long for registers: against the interpreter, on rows whose anchors move, are infinite or NaN, or lie
 * in one chunk alone; how often the emitted code walks a row; and that rows which stay resident are lowered as they were.
 */
import { describe, expect, test } from 'vitest'
import * as api from '../../src/api/index.ts'
import { cudaCaps, type SimtCaps } from '../../src/codegen/simt/capability.ts'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { interpretKernel } from '../../src/kernel/interpret.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { webgpuTarget } from '../../src/plan/target.ts'
import { readElement, writeElement } from '../../src/scalar/host.ts'
import type { DType } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { noise } from '../kernel/hard-cases/case.ts'
import { type Buffers, Emulated, hasCompiler } from './emulator/emulator.ts'
import { openDevice, runWgsl } from './wgsl.ts'

/** Blocks of 64 threads, so that a chunk has 2048 elements, or 1024 in WGSL where it is walked again. */
const cuda: SimtCaps = { ...cudaCaps, maxThreads: 64, clusters: 1 }
const wgsl: SimtCaps = { maxThreads: 64, maxSharedBytes: 16384, laneBits: 5 }
const chunk = 2048

/** Loops over the chunks of an axis. */
const walks = (source: string, axis = 'c'): number =>
  [...source.matchAll(new RegExp(`for \\((?:var|int) ${axis}_at`, 'g'))].length

const [inf, nan] = [Number.POSITIVE_INFINITY, Number.NaN]
const most = 3.4028234663852886e38

/** Rows: element i of n, given some noise in (-1, 1). */
const rows: readonly { readonly name: string; readonly at: (i: number, n: number, x: number) => number }[] = [
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
const sums = {
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

type Sum = keyof typeof sums

const all: readonly Sum[] = ['plain', 'guarded', 'finite', 'weighted', 'divided', 'doubled']
const more: readonly Sum[] = ['halved', 'powers', 'quiet', 'least', 'both', 'free']

/** A kernel of some of the sums, over rows of n; the statements of each are numbered apart. */
const manySums = (which: readonly Sum[], n: number, dtype: DType, perProgram = 1): Kernel =>
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
${which
  .map((s, i) => {
    const own = new Set([...sums[s].matchAll(/(?<=^\s*%)\d+(?= [a-z])/gm)].map(([id]) => id))
    const text = sums[s].replace(/%(\d+)/g, (whole, id) => (own.has(id) ? `%${100 * (i + 1) + Number(id)}` : whole))
    return `  ${text}\n  store ${s}[r] = %${100 * (i + 1) + 99}`
  })
  .join('\n')}
}`)

/** Long columns, several in a thread: the anchors of each. */
const columns = (n: number): Kernel =>
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
const softmax = (n: number, dtype: DType): Kernel =>
  parseKernel(`kernel softmax {
  param x: ${dtype}[${rows.length}, ${n}] read
  param y: f32[${rows.length}, ${n}] write
  axes r: ${rows.length}, c: ${n}
  grid r
  %0 ${dtype}{r, c} = load x[r, c]
  %1 ${dtype}{r} = reduce max %0 over c
  %2 f32{r, c} = cast %0
  %3 f32{r} = cast %1
  %4 f32{r, c} = sub %2, %3
  %5 f32{r, c} = exp %4
  %6 f32{r} = reduce sum %5 over c
  %7 f32{r, c} = div %5, %6
  store y[r, c] = %7
}`)

/** The element of each row that its t names, beside its sum of exponentials. */
const picked = (n: number): Kernel =>
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
const others = (n: number): Kernel =>
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

function dataFor(k: Kernel, n: number): Buffers {
  const wide = noise(3, n)
  const out: Buffers = {}
  for (const p of k.params) {
    const data = hostArray(
      p.dtype,
      p.shape.reduce((a, b) => a * b, 1),
    )
    if (p.name === 'w') for (const [i, v] of wide.entries()) writeElement(data, p.dtype, i, i % 7 === 0 ? 0 : v + 1.1)
    // The first, the last, and any other element; and one that is none.
    else if (p.name === 't')
      for (let i = 0; i < data.length; i++) writeElement(data, p.dtype, i, [0, n - 1, n, (i * 977) % n][i % 4] ?? 0)
    else if (p.access !== 'read') for (let i = 0; i < data.length; i++) writeElement(data, p.dtype, i, 77)
    else {
      const columns = p.shape[1] ?? 1
      const across = columns === n
      for (let i = 0; i < data.length; i++) {
        const [line, at] = across ? [Math.floor(i / n), i % n] : [i % columns, Math.floor(i / columns)]
        const row = rows[line % rows.length]
        writeElement(data, p.dtype, i, row?.at(at, n, wide[(at * 31 + line) % n] ?? 0) ?? 0)
      }
    }
    out[p.name] = data
  }
  return out
}

/** Relative distance, where not both are the same infinity, NaN, or zero. */
function far(a: number, b: number): boolean {
  if (Object.is(a, b) || a === b) return false
  return !(Math.abs(a - b) <= 2e-5 * Math.max(Math.abs(a), Math.abs(b), 1e-30))
}

function check(k: Kernel, n: number, got: Buffers): void {
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

interface Case {
  readonly name: string
  readonly kernel: Kernel
  readonly n: number
  /** Loops over chunks, in either dialect. */
  readonly walks: number
}

const named = (name: string, n: number, count: number, kernel: Kernel): Case => ({
  name: `${name} of ${n}`,
  kernel,
  n,
  walks: count,
})

const cases: readonly Case[] = [
  named('sums of resident rows', 1999, 0, manySums(all, 1999, 'f32')),
  named('sums of odd rows', chunk + 3, 1, manySums(all, chunk + 3, 'f32')),
  named('more sums of odd rows', chunk + 3, 1, manySums(more, chunk + 3, 'f32')),
  named('sums of whole chunks', 2 * chunk, 1, manySums(all, 2 * chunk, 'f32')),
  named('more sums with whole chunks and a tail', 4 * chunk + 809, 1, manySums(more, 4 * chunk + 809, 'f32')),
  named('sums of rows in f16', 2 * chunk + 8, 1, manySums(all, 2 * chunk + 8, 'f16')),
  named('more sums of rows in bf16', 4 * chunk + 16, 1, manySums(more, 4 * chunk + 16, 'bf16')),
  named('sums of several rows a program', chunk + 100, 1, manySums(all, chunk + 100, 'f32', 3)),
  named('softmax in f32', 2 * chunk + 1, 2, softmax(2 * chunk + 1, 'f32')),
  named('softmax in bf16', 4 * chunk + 24, 2, softmax(4 * chunk + 24, 'bf16')),
  named('an element of each row', 4 * chunk + 8, 2, picked(4 * chunk + 8)),
  named('columns', 1501, 1, columns(1501)),
  named('what does not stream', chunk + 5, 3, others(chunk + 5)),
]

describe('WGSL', () => {
  test.for(cases)('$name', async (c, { skip }) => {
    const machine = await openDevice()
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const buffers = dataFor(c.kernel, c.n)
    await runWgsl({ ...machine, limits: { ...machine.limits, maxThreads: 64 } }, [c.kernel], buffers)
    check(c.kernel, c.n, buffers)
  })
})

describe('exact to what docs/numerics.md says', () => {
  test.for([3, 30, 300])('exponents up to about -%i', async (scale, { skip }) => {
    const machine = await openDevice()
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const n = 9 * chunk + 5
    const k = manySums(['guarded'], n, 'f32')
    const buffers = dataFor(k, n)
    const x = buffers.x ?? new Float32Array(0)
    noise(scale, x.length).forEach((v, i) => {
      x[i] = v * scale
    })
    await runWgsl({ ...machine, limits: { ...machine.limits, maxThreads: 64 } }, [k], buffers)
    // Each thread adds n / 64 terms one after another.
    const bound = (3 + 2.5 * Math.log2(n)) * 2 ** -23 + (n / 64 + 8) * 2 ** -24
    for (let r = 0; r < rows.length; r++) {
      const row = Array.from(x.subarray(r * n, (r + 1) * n), Number)
      const greatest = row.reduce((a, b) => Math.max(a, b))
      const total = row.reduce((a, b) => a + Math.exp(b - greatest), 0)
      expect(Math.abs(Number(buffers.guarded?.[r]) - total)).toBeLessThanOrEqual(bound * total)
    }
  })
})

describe.skipIf(!hasCompiler())('CUDA sources on the host (skipped where g++ is missing)', () => {
  test('all', { timeout: 240_000 }, () => {
    const emulated = new Emulated(
      cases.map((c) => c.kernel),
      cuda,
    )
    cases.forEach((c, i) => {
      const buffers = dataFor(c.kernel, c.n)
      emulated.run(i, buffers)
      check(c.kernel, c.n, buffers)
    })
    emulated.dispose()
  })

  test('in clusters, where a row does not stay in one', { timeout: 240_000 }, () => {
    const k = manySums([...all, ...more], 3 * chunk + 7, 'f32')
    const caps = { ...cuda, maxThreads: 32, clusters: 2 }
    const emulated = new Emulated([k], caps)
    const buffers = dataFor(k, 3 * chunk + 7)
    emulated.run(0, buffers)
    check(k, 3 * chunk + 7, buffers)
    emulated.dispose()
  })
})

describe('walks over a row', () => {
  test.each(cases)('$name', (c) => {
    for (const [dialect, caps] of [
      ['cuda', cuda],
      ['wgsl', wgsl],
    ] as const)
      expect([dialect, walks(emitKernel(c.kernel, dialect, caps).source)]).toEqual([dialect, c.walks])
  })

  test('a choice for one index of the row is made where that index is', () => {
    const n = 4 * chunk + 8
    const source = emitKernel(picked(n), 'wgsl', wgsl).source
    const [, body = ''] = source.split('for (var c_at')
    const inside = body.slice(0, body.indexOf('var best'))
    const branch = inside.slice(inside.indexOf('  if (('))
    // The choices of all elements that a thread has of a chunk, and none beside the branch.
    expect(branch.match(/select_\d+ = /g)).toHaveLength(branch.match(/sum_7 = /g)?.length ?? 0)
    expect(branch.match(/select_\d+ = /g)?.length).toBeGreaterThan(8)
    expect(branch).not.toContain('else')
    expect(inside.slice(0, -branch.length)).not.toContain('== t_')
  })

  test('the second walk turns back where the first ended', () => {
    const n = 2 * chunk + 1
    /** Where the threads of each walk begin in a chunk, and how far it is to the next. */
    const courses = (k: Kernel): (readonly [string, number])[] =>
      emitKernel(k, 'cuda', cuda)
        .source.split('for (int c_at')
        .slice(1)
        .map((body) => [/int c0\w* = (\S+)/.exec(body)?.[1] ?? '', Number(/ \+= (\d+)/.exec(body)?.[1])])
    const [first, second] = courses(softmax(n, 'f32'))
    const step = second?.[1] ?? 0
    expect([first?.[0], second?.[0]]).toEqual(['c_at', `(${(Math.ceil(n / step) - 1) * step}`])
    expect(courses({ ...softmax(n, 'f32'), mode: 'strict' }).every(([at]) => at.startsWith('c_at'))).toBe(true)
  })

  test('strict sums walk again, in order', () => {
    const strict: Kernel = { ...softmax(chunk + 5, 'f32'), mode: 'strict' }
    expect(walks(emitKernel(strict, 'cuda', cuda).source)).toBe(3)
    expect(emitKernel(strict, 'cuda', cuda).source).not.toContain('anchor')
  })

  /** The emitted kernels of a function of logits with so many classes. */
  const emitted = (classes: number, f: (x: api.Tensor, t: api.Tensor) => unknown): string[] => {
    const specs = { x: { shape: [64, classes], dtype: 'bf16' }, t: { shape: [64], dtype: 'i32' } } as const
    const { graph } = api.program(({ x, t }: { x: api.Tensor; t: api.Tensor }) => f(x, t), specs, 'case').trace()
    const { program } = compileGraph(graph, { mode: 'fast', target: webgpuTarget() })
    const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    return kernels.map((k) => emitKernel(k, 'wgsl', { ...wgsl, maxThreads: 256 }).source)
  }
  const loops = (sources: readonly string[]): number[] =>
    sources.map((s) => [...s.matchAll(/for \(var \w+_at\w* = 0/g)].length).filter((n) => n > 0)

  test('functions of long rows', () => {
    const of = (x: api.Tensor): api.Tensor => x.astype('f32')
    expect(loops(emitted(32000, (x) => of(x).logsumexp(-1)))).toEqual([1])
    expect(loops(emitted(32000, (x) => x.softmax(-1)))).toEqual([2])
    expect(loops(emitted(32000, (x) => api.nn.logSoftmax(x, -1)))).toEqual([2])
    expect(
      loops(emitted(32000, (x, t) => api.valueAndGrad((l: api.Tensor) => api.nn.crossEntropy(of(l), t).mean())(x))),
    ).toEqual([2])
    expect(loops(emitted(4096, (x) => x.softmax(-1)))).toEqual([])
  })
})
