/**
 * Greatest and least elements of rows with NaN of both signs, infinities, and zeros of both signs, at sizes that threads hold in
 * whole vectors, with tails, and in many chunks; integers folded over a warp in one instruction.
 */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { cudaSimt, webgpuSimt } from '../../../src/target/simt.ts'
import { nightly, some } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { openDevice, runWgsl } from '../dialects/wgsl.ts'

const bits = (u: number): number => new Float32Array(Uint32Array.of(u).buffer)[0] ?? 0

/** Rows by what stands at a few places in them; the rest is `fill`, or numbers of both signs. */
const rows: readonly {
  readonly name: string
  readonly fill?: number
  readonly at: (n: number) => readonly (readonly [number, number])[]
}[] = [
  { name: 'numbers', at: () => [] },
  { name: 'NaN first', at: () => [[0, 0x7fc00000]] },
  { name: 'negative NaN last', at: (n) => [[n - 1, 0xffc00001]] },
  {
    name: 'NaN of both signs',
    at: (n) => [
      [n >> 1, 0x7f800001],
      [n >> 2, 0xffffffff],
    ],
  },
  {
    name: 'infinities of both signs',
    at: (n) => [
      [1, 0x7f800000],
      [n - 2, 0xff800000],
    ],
  },
  {
    name: 'infinities and NaN',
    at: (n) => [
      [1, 0x7f800000],
      [n - 2, 0xff800000],
      [n >> 1, 0xffc00000],
    ],
  },
  { name: 'nothing above -infinity', fill: 0xff800000, at: () => [] },
  { name: 'nothing below infinity', fill: 0x7f800000, at: () => [] },
  { name: 'one number above -infinity', fill: 0xff800000, at: (n) => [[n - 1, 0xc0400000]] },
  { name: 'zeros', fill: 0, at: () => [] },
  { name: 'negative zeros', fill: 0x80000000, at: () => [] },
  { name: 'a zero among negative ones', fill: 0x80000000, at: (n) => [[n - 1, 0]] },
  { name: 'a negative zero among zeros', fill: 0, at: (n) => [[n >> 1, 0x80000000]] },
  {
    name: 'negative numbers and zeros',
    fill: 0xbf800000,
    at: (n) => [
      [3, 0x80000000],
      [n - 3, 0],
    ],
  },
  {
    name: 'positive numbers and zeros',
    fill: 0x3f800000,
    at: (n) => [
      [3, 0x80000000],
      [n - 3, 0],
    ],
  },
  { name: 'numbers whose sum overflows', fill: 0x7f000000, at: (n) => [[n - 1, 0x7f7fffff]] },
]

function dataOf(n: number): Float32Array {
  const out = new Uint32Array(rows.length * n)
  const numbers = new Uint32Array(Float32Array.from({ length: n }, (_, i) => ((i * 7919) % 1009) - 500.5).buffer)
  rows.forEach((r, i) => {
    out.set(r.fill === undefined ? numbers : new Uint32Array(n).fill(r.fill), i * n)
    for (const [at, u] of r.at(n)) out[i * n + at] = u
  })
  return new Float32Array(out.buffer)
}

/** docs/numerics.md: NaN wins, -0 < +0. */
const greater = (a: number, b: number): number => Math.max(a, b)
const lesser = (a: number, b: number): number => Math.min(a, b)

const kernelOf = (n: number, dtype = 'f32'): Kernel =>
  parseKernel(`kernel extremes {
  param x: ${dtype}[${rows.length}, ${n}] read
  param most: f32[${rows.length}] write
  param least: f32[${rows.length}] write
  param both: f32[${rows.length}] write
  axes r: ${rows.length}, c: ${n}
  grid r
  %0 ${dtype}{r, c} = load x[r, c]
  %1 f32{r, c} = cast %0
  %2 f32{r} = reduce max %1 over c
  store most[r] = %2
  %3 f32{r} = reduce min %1 over c
  store least[r] = %3
  %4 f32{r, c} = neg %1
  %5 f32{r, c} = max %4, %2
  %6 f32{r} = reduce min %5 over c
  store both[r] = %6
}`)

/** Columns as the fold of each into one register of many (no vector of one row). */
const columnsOf = (n: number): Kernel =>
  parseKernel(`kernel columns {
  param x: f32[${rows.length}, ${n}] read
  param most: f32[${n}] write
  param least: f32[${n}] write
  axes r: ${rows.length}, c: ${n}
  grid c/64
  %0 f32{r, c} = load x[r, c]
  %1 f32{c} = reduce max %0 over r
  %2 f32{c} = reduce min %0 over r
  store most[c] = %1
  store least[c] = %2
}`)

const integers = [
  { dtype: 'i32', make: (n: number) => new Int32Array(n) },
  { dtype: 'u32', make: (n: number) => new Uint32Array(n) },
  { dtype: 'i8', make: (n: number) => new Int8Array(n) },
  { dtype: 'u16', make: (n: number) => new Uint16Array(n) },
] as const

interface Results {
  readonly most: Float32Array
  readonly least: Float32Array
  readonly both: Float32Array
}

const resultsOf = (n: number): Results => ({
  most: new Float32Array(n),
  least: new Float32Array(n),
  both: new Float32Array(n),
})

function checkRows(x: Float32Array, n: number, got: Results): void {
  rows.forEach(({ name }, i) => {
    const row = x.subarray(i * n, (i + 1) * n)
    const most = row.reduce(greater, -Infinity)
    expect([name, got.most[i]]).toEqual([name, most])
    expect([name, got.least[i]]).toEqual([name, row.reduce(lesser, Infinity)])
    expect([name, got.both[i]]).toEqual([name, row.reduce((a, v) => lesser(a, greater(-v, most)), Infinity)])
  })
}

function checkColumns(x: Float32Array, n: number, got: Results): void {
  for (let c = 0; c < n; c++) {
    const column = rows.map((_, i) => x[i * n + c] ?? 0)
    expect([c, got.most[c], got.least[c]]).toEqual([c, column.reduce(greater), column.reduce(lesser)])
  }
}

/** The upper halves: the same kinds of values in bf16. */
const halves = (x: Float32Array): Uint16Array =>
  Uint16Array.from(new Uint32Array(x.buffer), (u) => (u >>> 16) | ((u & 0x7fffffff) > 0x7f800000 ? 0x40 : 0))
const fromHalves = (h: Uint16Array): Float32Array => Float32Array.from(h, (u) => bits(u << 16))

/** Vectors of whole rows; tails of whole vectors, within a vector, of few elements; chunks with a last one that is not whole. */
const sizes = [2048, 1000, 1001, 7, 9001, 32768 + 24, 32768 + 8192 + 5]

describe.each([false, true])('WGSL, subgroups: %s', (subgroups) => {
  /** By day every fourth case, and with subgroups those two further on. */
  const own = <T>(list: readonly T[]): T[] => list.filter((_, i) => nightly || i % 4 === 2 * Number(subgroups))

  test.for(own(sizes))('rows of %i', async (n, { skip }) => {
    const machine = await openDevice()
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const x = dataOf(n)
    const got = resultsOf(rows.length)
    await runWgsl(machine, [kernelOf(n)], { x, ...got }, { subgroups })
    checkRows(x, n, got)
  })

  test('rows in half precision', async ({ skip }) => {
    const machine = await openDevice()
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const n = 2056
    const x = halves(dataOf(n))
    const got = resultsOf(rows.length)
    await runWgsl(machine, [kernelOf(n, 'bf16')], { x, ...got }, { subgroups })
    checkRows(fromHalves(x), n, got)
  })

  test('columns', async ({ skip }) => {
    const machine = await openDevice()
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const n = 131
    const x = dataOf(n)
    const got = resultsOf(n)
    await runWgsl(machine, [columnsOf(n)], { x, ...got }, { subgroups })
    checkColumns(x, n, got)
  })

  test.for(own(integers.map((c) => c.dtype)))('integers: %s', async (dtype, { skip }) => {
    const machine = await openDevice()
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const c = integerCase(dtype)
    await runWgsl(machine, [c.kernel], c.buffers, { subgroups })
    expect(c.results()).toEqual(c.expected)
  })
})

describe.skipIf(!hasCompiler())('CUDA sources on the host (skipped where g++ is missing)', () => {
  test('rows, columns and integers', { timeout: 180_000 }, () => {
    const lengths = some(sizes, 3)
    const all = lengths.map((n) => kernelOf(n))
    const cases = some(integers, 2).map((c) => integerCase(c.dtype))
    // Blocks alone; the rows of 32 thousand elements in chunks.
    const emulated = new Emulated([...all, kernelOf(2056, 'bf16'), columnsOf(131), ...cases.map((c) => c.kernel)], {
      ...cudaSimt,
      clusters: 1,
    })
    lengths.forEach((n, i) => {
      const x = dataOf(n)
      const got = resultsOf(rows.length)
      emulated.run(i, { x, ...got })
      checkRows(x, n, got)
    })
    const x = halves(dataOf(2056))
    const half = resultsOf(rows.length)
    emulated.run(lengths.length, { x, ...half })
    checkRows(fromHalves(x), 2056, half)
    const y = dataOf(131)
    const columns = resultsOf(131)
    emulated.run(lengths.length + 1, { x: y, ...columns })
    checkColumns(y, 131, columns)
    cases.forEach((c, i) => {
      emulated.run(lengths.length + 2 + i, c.buffers)
      expect(c.results()).toEqual(c.expected)
    })
  })

  test('rows in clusters', { timeout: 180_000 }, () => {
    const n = 9001
    const emulated = new Emulated([kernelOf(n)], { ...cudaSimt, maxThreads: 64 })
    const x = dataOf(n)
    const got = resultsOf(rows.length)
    emulated.run(0, { x, ...got })
    checkRows(x, n, got)
  })
})

function integerCase(dtype: (typeof integers)[number]['dtype']) {
  const make = integers.find((c) => c.dtype === dtype)?.make ?? integers[0].make
  const n = 1003
  const x = make(2 * n)
  for (let i = 0; i < x.length; i++) x[i] = Math.imul(i + 1, 0x9e3779b1) >>> 3
  const [sums, most, least] = [make(2), make(2), make(2)]
  const expected = [0, 1].map((r) => {
    const row = x.subarray(r * n, (r + 1) * n)
    const total = make(1)
    for (const v of row) total[0] = ((total[0] ?? 0) + v) | 0
    return [total[0], Math.max(...row), Math.min(...row)]
  })
  const kernel = parseKernel(`kernel integers {
  param x: ${dtype}[2, ${n}] read
  param sums: ${dtype}[2] write
  param most: ${dtype}[2] write
  param least: ${dtype}[2] write
  axes r: 2, c: ${n}
  grid r
  %0 ${dtype}{r, c} = load x[r, c]
  %1 ${dtype}{r} = reduce sum %0 over c
  %2 ${dtype}{r} = reduce max %0 over c
  %3 ${dtype}{r} = reduce min %0 over c
  store sums[r] = %1
  store most[r] = %2
  store least[r] = %3
}`)
  const results = (): unknown => [0, 1].map((r) => [sums[r], most[r], least[r]])
  return { kernel, buffers: { x, sums, most, least }, expected, results }
}

describe('code', () => {
  const wgsl = { ...webgpuSimt, laneBits: 5 }

  test('a warp folds in one instruction, keys across warps', () => {
    const cuda = emitKernel(kernelOf(2048), cudaSimt).source
    expect(cuda).toContain('__reduce_max_sync')
    expect(cuda).toContain('__reduce_min_sync')
    expect(cuda).not.toContain('__shfl_xor_sync')
    expect(emitKernel(kernelOf(2048), { ...cudaSimt, foldsLanes: false }).source).not.toContain('__reduce_')
    const source = emitKernel(kernelOf(2048), wgsl).source
    expect(source).toContain('subgroupMax')
    expect(source).toContain('subgroupMin')
    expect(source).not.toContain('subgroupShuffle')
  })

  test('whole chunks run without tests for the end of the row', () => {
    const source = emitKernel(kernelOf(32768 + 24), wgsl).source
    const loop = /for \(var c_at = 0; c_at < (\d+); c_at \+= (\d+)\) \{\n([\s\S]*?)\n {2}\}\n/.exec(source)
    const [, end, step, body] = loop ?? []
    expect(Number(end) % Number(step)).toBe(0)
    expect(Number(end)).toBeGreaterThan(32768 + 24 - Number(step))
    expect(body).not.toContain(`< ${32768 + 24}`)
  })
})
