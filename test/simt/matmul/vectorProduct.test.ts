/**
 * Matrix products that read tiles in vectors of four: the plan, the code, and its results on the software WebGPU device against the
 * interpreter of kernels. Sums of multiples of 1/32 are exact in any order, so results are equal bit by bit.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { interpretKernel } from '../../../src/kernel/interpret.ts'
import type { Kernel, NumericsMode } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { webgpuSimt } from '../../../src/target/simt.ts'
import { atNight, some } from '../../support/nightly.ts'
import { type Adapter, type Buffers, openDevice, runWgsl } from '../dialects/wgsl.ts'

type Half = 'bf16' | 'f16' | 'f32'

interface Case {
  readonly name: string
  /** m, n, k and their blocks. */
  readonly sizes: readonly [number, number, number]
  readonly blocks: readonly [number, number, number]
  readonly a?: 'm, k' | 'k, m'
  readonly b?: 'k, n' | 'n, k'
  readonly dtype?: Half
  /** The first operand on its way in. */
  readonly prologue?: readonly string[]
  readonly batch?: number
}

const cases: Case[] = [
  { name: 'whole blocks', sizes: [128, 128, 48], blocks: [128, 128, 16] },
  { name: 'half blocks', sizes: [128, 192, 64], blocks: [64, 64, 16], dtype: 'bf16' },
  { name: 'half precision', sizes: [64, 128, 32], blocks: [64, 128, 16], dtype: 'f16' },
  { name: 'a transposed', sizes: [72, 96, 40], blocks: [64, 64, 8], a: 'k, m', dtype: 'bf16' },
  { name: 'b transposed', sizes: [72, 96, 40], blocks: [64, 64, 16], b: 'n, k', dtype: 'bf16' },
  { name: 'both transposed', sizes: [130, 70, 36], blocks: [128, 64, 8], a: 'k, m', b: 'n, k' },
  { name: 'tails', sizes: [70, 41, 75], blocks: [64, 32, 16] },
  { name: 'tails of halves', sizes: [201, 131, 27], blocks: [104, 112, 16], dtype: 'bf16' },
  { name: 'sizes beyond powers of two', sizes: [100, 44, 30], blocks: [100, 44, 10], dtype: 'bf16' },
  { name: 'few rows', sizes: [16, 200, 64], blocks: [16, 128, 16], dtype: 'bf16' },
  { name: 'few columns', sizes: [300, 13, 37], blocks: [128, 13, 8] },
  // What the first operand is beyond its range is not what the sum takes there.
  { name: 'a prologue', sizes: [70, 41, 75], blocks: [64, 32, 16], prologue: ['%4 = const 0.5', '%5 = add %3, %4'] },
  {
    name: 'infinity beyond the range',
    sizes: [68, 40, 21],
    blocks: [64, 40, 8],
    prologue: ['%4 = const 1', '%5 = div %4, %3'],
  },
  { name: 'batch', sizes: [40, 72, 20], blocks: [40, 72, 16], batch: 3, dtype: 'bf16' },
]

function kernelOf(c: Case, mode: NumericsMode = 'fast'): Kernel {
  const { a = 'm, k', b = 'k, n', dtype: d = 'f32', prologue = [], batch = 1 } = c
  const [m, n, k] = c.sizes
  const [bm, bn, bk] = c.blocks
  const shape = (axes: string): string =>
    [batch, ...axes.split(', ').map((x) => (x === 'm' ? m : x === 'n' ? n : k))].join(', ')
  const typed = prologue.map((s) => s.replace(' =', s.includes('const') ? ` ${d} =` : ` ${d}{z, m, k} =`))
  const text = `kernel product {
    param x: ${d}[${shape(a)}] read
    param w: ${d}[${shape(b)}] read
    param bias: f32[${n}] read
    param y: f32[${batch}, ${m}, ${n}] write
    axes z: ${batch}, m: ${m}, n: ${n}, k: ${k}
    grid z, m/${bm}, n/${bn}
    %0 f32{z, m, n} = const 0
    %1 = loop k/${bk} {
      carry %2 f32{z, m, n} = %0
      %3 ${d}{z, m, k} = load x[z, ${a}]
      ${typed.join('\n      ')}
      %6 ${d}{z, m, k} = stage ${prologue.length > 0 ? '%5' : '%3'}
      %7 ${d}{z, k, n} = load w[z, ${b}]
      %8 ${d}{z, k, n} = stage %7
      %9 f32{z, m, n} = dot %6, %8 over k acc %2
      next %9
    }
    %10 f32{n} = load bias[n]
    %11 f32{z, m, n} = add %1, %10
    store y[z, m, n] = %11
  }`
  return { ...parseKernel(text), mode }
}

/** Multiples of 1/4 from -2 to 2 without 0, as bits of the dtype. */
function operand(dtype: Half, n: number, seed: number): Float32Array | Uint16Array {
  let s = seed
  const values = Float32Array.from({ length: n }, () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return (((s >>> 16) % 8) + 1) * ((s & 0x8000000) === 0 ? 0.25 : -0.25)
  })
  if (dtype === 'f32') return values
  const words = new Uint32Array(values.buffer)
  if (dtype === 'bf16') return Uint16Array.from(words, (u) => u >>> 16)
  return Uint16Array.from(
    words,
    (u) => ((u >>> 16) & 0x8000) | ((((u >>> 23) & 255) - 112) << 10) | ((u >>> 13) & 0x3ff),
  )
}

function buffersOf(c: Case): Buffers {
  const [m, n, k] = c.sizes
  const { batch = 1, dtype = 'f32' } = c
  return {
    x: operand(dtype, batch * m * k, 1),
    w: operand(dtype, batch * n * k, 2),
    bias: operand('f32', n, 3),
    y: new Float32Array(batch * m * n).fill(77),
  }
}

const caps = { ...webgpuSimt, maxSharedBytes: 32768, leastProduct: 0 }
let machine: Adapter | string

beforeAll(async () => {
  machine = await openDevice()
})

async function run(kernel: Kernel, buffers: Buffers): Promise<void> {
  if (typeof machine === 'string') throw new Error(machine)
  await runWgsl({ ...machine, limits: caps }, [kernel], buffers)
}

describe.each(cases)('$name', (c) => {
  test('reads tiles in vectors', () => {
    const { source, sharedBytes } = emitKernel(kernelOf(c), caps)
    expect(source).toMatch(/var<workgroup> tile_6: array<array<vec4<f32>, \d+>, \d+>/)
    // Half of the shared memory, and what rows have behind them against bank conflicts.
    expect(sharedBytes).toBeLessThanOrEqual(16384 + 1024)
    expect(source.match(/workgroupBarrier/g)).toHaveLength(2)
  })

  const byDay = some(cases, 3).includes(c) ? test : atNight
  byDay('gives what the interpreter gives', { timeout: 60_000 }, async ({ skip }) => {
    skip(typeof machine === 'string', String(machine))
    const kernel = kernelOf(c)
    const [want, got] = [buffersOf(c), buffersOf(c)]
    interpretKernel(kernel, want, { rounding: 'dtype' })
    await run(kernel, got)
    if (c.prologue?.some((s) => s.includes('div')) !== true) expect(got.y).toEqual(want.y)
    else
      want.y?.forEach((w, i) => {
        expect(Number(got.y?.[i])).toBeCloseTo(Number(w), 3)
      })
  })
})

test('the depth of a step is repeated in place: large products have four reads for 64 multiply-adds, small ones two for 16', () => {
  const [large, small] = [1024, 256].map((n) => {
    const c: Case = { name: 'square', sizes: [n, n, n], blocks: [128, 128, 16], dtype: 'bf16' }
    return emitKernel(kernelOf(c), caps)
  })
  const count = (source: string | undefined, what: RegExp): number => source?.match(what)?.length ?? 0
  const reads = /= tile_\d\[[^=]*\];/g
  const sums = /(sum_\w+) = \1 \+ /g
  expect(large?.threads).toBe(256)
  expect([count(large?.source, reads), count(large?.source, sums)]).toEqual([16 * 4, 16 * 16])
  expect([count(small?.source, reads), count(small?.source, sums)]).toEqual([16 * 4, 16 * 16])
})

test('groups are loaded a step early where results leave registers for them', () => {
  const [few, many] = [64, 128].map((block) => {
    const c: Case = { name: 'square', sizes: [1024, 1024, 1024], blocks: [block, block, 16], dtype: 'bf16' }
    return emitKernel(kernelOf(c), caps).source
  })
  expect(few).toMatch(/x_ahead/)
  expect(many).not.toMatch(/_ahead/)
})

test('small products are not worth the code', () => {
  const [c] = cases
  if (c === undefined) throw new Error('no case')
  const { source } = emitKernel(kernelOf(c), { ...caps, leastProduct: 2 ** 22 })
  expect(source).toContain('var<workgroup> tile_6: array<f32, ')
})

test('NaN and infinities stay in their rows and columns', { timeout: 60_000 }, async ({ skip }) => {
  skip(typeof machine === 'string', String(machine))
  const c: Case = { name: 'special', sizes: [70, 41, 27], blocks: [64, 32, 8] }
  const kernel = kernelOf(c)
  const make = (): Buffers => {
    const b = buffersOf(c)
    const put = (name: string, at: number, value: number): void => {
      const to = b[name]
      if (to instanceof Float32Array) to[at] = value
    }
    put('x', 5 * 27, Number.NaN)
    put('x', 69 * 27 + 26, Number.POSITIVE_INFINITY)
    put('w', 26 * 41 + 40, Number.NEGATIVE_INFINITY)
    return b
  }
  const [want, got] = [make(), make()]
  interpretKernel(kernel, want, { rounding: 'dtype' })
  await run(kernel, got)
  expect(got.y).toEqual(want.y)
  expect([...(got.y ?? [])].filter(Number.isNaN)).toHaveLength(41)
})

test('strict sums keep the order of the depth and round apart', async ({ skip }) => {
  skip(typeof machine === 'string', String(machine))
  const c: Case = { name: 'strict', sizes: [70, 41, 27], blocks: [64, 32, 8] }
  const { source } = emitKernel(kernelOf(c, 'strict'), caps)
  expect(source).toContain('var<workgroup> tile_6: array<f32, ')
  const [want, got] = [buffersOf(c), buffersOf(c)]
  interpretKernel(kernelOf(c, 'strict'), want, { rounding: 'dtype' })
  await run(kernelOf(c, 'strict'), got)
  expect(got.y).toEqual(want.y)
})

test('tiles that would take more than half of the shared memory are read element by element', () => {
  const c: Case = { name: 'deep', sizes: [128, 128, 64], blocks: [128, 128, 32] }
  const { source } = emitKernel(kernelOf(c), caps)
  expect(source).toContain('var<workgroup> tile_6: array<f32, ')
})
