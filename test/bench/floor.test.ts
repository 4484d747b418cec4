/** The floor of performance fuzzing (bench/cliffs), against counts by hand. */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Floor, floorOf } from '../../bench/cliffs/floor.ts'
import { minCut } from '../../bench/cliffs/minCut.ts'
import type { Bandwidth, Rates } from '../../bench/cliffs/rates.ts'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import * as s from '../../src/index.ts'
import type { DType } from '../../src/types/dtype.ts'

const MiB = 1 << 20
const at = (bytes: number, rate: number): Bandwidth => ({ bytes, read: rate, mixed: rate, copy: rate, write: rate })
/** A machine of round numbers: 10 GB/s, 100 GFLOP/s, a call of 1 us, a launch of 2 us, 2 MiB beside a core. */
const rates: Rates = {
  device: 'made up',
  call: 1e-6,
  launch: 2e-6,
  fastBytes: 2 * MiB,
  bandwidth: [at(1 << 14, 1e10), at(1 << 28, 1e10)],
  flops: 1e11,
  divide: 1e10,
  special: 1e9,
  specialHalf: 2e9,
  product: 1e11,
  productHalf: 1e12,
  sharesUnits: true,
}

type Fn = (...x: s.Tensor[]) => s.Tensor | s.Tensor[]
function floor(f: Fn, shapes: readonly (readonly number[])[], dtypes: readonly DType[] = []): Floor {
  const specs = shapes.map((shape, i) => s.spec(shape, dtypes[i] ?? 'f32'))
  return floorOf(traceFunction(f as (...args: never[]) => unknown, specs).graph, rates)
}

describe('what a program reads, writes and computes', () => {
  test('an elementwise chain: its input and result once', () => {
    const { work, seconds, passes } = floor((x) => x.mul(2).add(1), [[1000, 1000]])
    expect(work).toMatchObject({ read: 4e6, written: 4e6, simple: 2e6, special: 0 })
    expect(passes).toEqual([])
    expect(seconds).toBeCloseTo(1e-6 + 8e-4, 9)
  })

  test('a function of a repeated value: once for each element that differs', () => {
    const { work } = floor((x, b) => x.mul(b.exp()), [[1000, 100], [100]])
    expect(work.special).toBe(100)
    const other = floor((x, b) => x.add(b).exp(), [[1000, 100], [100]])
    expect(other.work.special).toBe(100_000)
  })

  test('a slice: what it keeps, and what leads to it', () => {
    const { work } = floor((x) => x.exp().slice([10, 20]), [[1000, 64]])
    expect(work).toMatchObject({ read: 10 * 64 * 4, written: 10 * 64 * 4, special: 640 })
    // Every third element.
    expect(floor((x) => x.slice([null, null, 3]), [[3000]]).work.read).toBe(4000)
  })

  test('a gather: the rows that uniform indices meet', () => {
    const { work } = floor((x, i) => x.take(i, 0), [[10, 64], [10]], ['f32', 'i32'])
    const rows = 10 * (1 - 0.9 ** 10)
    expect(work.read).toBe(Math.ceil(rows * 64) * 4 + 40)
  })

  test('a concatenation: both parts, a result of both', () => {
    const { work, passes } = floor(
      (x, y) => s.concat([x, y], 0).add(1),
      [
        [10, 8],
        [6, 8],
      ],
    )
    expect(work).toMatchObject({ read: 512, written: 512 })
    expect(passes).toEqual([])
  })

  test('a matrix times a vector: two operations an element', () => {
    const { work, seconds } = floor((a, v) => a.matmul(v), [[1000, 500], [500]])
    expect(work).toMatchObject({ read: 4 * 500_500, written: 4000, product: 1e6 })
    expect(seconds).toBeCloseTo(1e-6 + (4 * 501_500) / 1e10, 9)
  })

  test('a product of 16-bit operands, widened before it', () => {
    const { work } = floor(
      (a, b) => a.astype('f32').matmul(b.astype('f32')),
      [
        [64, 64],
        [64, 64],
      ],
      ['bf16', 'bf16'],
    )
    expect(work).toMatchObject({ product: 0, productHalf: 2 * 64 ** 3 })
  })

  test('a convolution: taps that meet the image, not its padding', () => {
    const { work } = floor(
      (x, w) => s.conv(x, w, { padding: 'same' }),
      [
        [1, 4, 10, 10],
        [8, 4, 3, 3],
      ],
    )
    // Along each axis 10 positions of 3 taps, of which one at either end lies outside.
    expect(work.product).toBeCloseTo(2 * 4 * 8 * 28 * 28, 6)
    expect(work.read).toBe(4 * (400 + 288))
  })

  test('the gradient of a strided convolution: no products with the zeros between', () => {
    const loss = (x: s.Tensor, w: s.Tensor): s.Tensor => s.conv(x, w, { stride: 2 }).sum()
    const { work } = floor(
      (x, w, c) => s.grad((y: s.Tensor) => s.conv(y, w, { stride: 2 }).mul(c).sum())(x),
      [
        [1, 1, 9, 9],
        [1, 1, 3, 3],
        [1, 1, 4, 4],
      ],
    )
    // The taps of a phase that the kernel lacks are counted by the share of each axis: 364.5 for 288, where all zeros would make 1458.
    expect(work.product).toBeGreaterThanOrEqual(2 * 16 * 9)
    expect(work.product).toBeLessThan(1.3 * 2 * 16 * 9)
    expect(
      floor(loss, [
        [1, 1, 9, 9],
        [1, 1, 3, 3],
      ]).work.product,
    ).toBeCloseTo(2 * 16 * 9, 6)
  })

  test('bools and bytes are bytes; operations on them take a quarter of one on words', () => {
    const { work } = floor((x) => x.add(1), [[4096]], ['u8'])
    expect(work).toMatchObject({ read: 4096, written: 4096, simple: 1024 })
  })
})

describe('passes', () => {
  const softmax: Fn = (x) => {
    const e = x.sub(x.max(-1, true)).exp()
    return e.div(e.sum(-1, true))
  }
  test('softmax of rows that stay beside a core: one', () => {
    expect(floor(softmax, [[64, 4096]]).passes).toEqual([])
  })

  test('softmax of rows that do not: the row is read once more, for both totals', () => {
    const { passes, seconds, bytesSeconds } = floor(softmax, [[4, 1 << 20]])
    expect(passes).toHaveLength(1)
    // 16 MiB again, and two totals of four rows written and read.
    expect(passes[0]).toMatchObject({ causes: ['total'], bytes: 16 * MiB + 2 * 2 * 16 })
    expect(seconds).toBeCloseTo(1e-6 + 2e-6 + bytesSeconds + (16 * MiB + 64) / 1e10, 8)
  })

  test('a large tensor less its mean: two', () => {
    const { passes } = floor((x) => x.sub(x.mean()), [[1 << 21]])
    expect(passes).toMatchObject([{ causes: ['total'], bytes: 8 * MiB + 8 }])
    expect(floor((x) => x.sub(x.mean()), [[1 << 18]]).passes).toEqual([])
    // A mean that scales something else needs nothing again.
    expect(floor((x, y) => y.mul(x.mean()), [[1 << 21], [1 << 21]]).passes).toEqual([])
    expect(floor((x) => x.mean().sqrt(), [[1 << 21]]).passes).toEqual([])
  })

  test('a total of what is not separable waits for the mean: three', () => {
    const f: Fn = (x) => {
      const c = x.sub(x.mean())
      return c.div(s.tanh(c).mean().add(1))
    }
    expect(floor(f, [[1 << 21]]).passes).toHaveLength(2)
    const variance: Fn = (x) => {
      const c = x.sub(x.mean())
      return c.mul(s.rsqrt(c.mul(c).mean()))
    }
    expect(floor(variance, [[1 << 21]]).passes).toHaveLength(1)
  })

  test('what is read again is the least of what leads to it', () => {
    // A narrow input stands for the wide value that follows from it.
    const { passes } = floor((x) => x.astype('f32').exp().sub(x.astype('f32').exp().mean()), [[1 << 22]], ['u8'])
    expect(passes).toMatchObject([{ bytes: 4 * MiB + 8 }])
  })

  test('a running sum: one pass; back again: two', () => {
    expect(floor((x) => x.cumsum(0), [[1 << 21]]).passes).toEqual([])
    const both: Fn = (x) => x.cumsum(0).mul(0.5).cumsum(0, { reverse: true })
    expect(floor(both, [[1 << 21]]).passes).toMatchObject([{ causes: ['scan'] }])
    expect(floor(both, [[1 << 10]]).passes).toEqual([])
  })

  test('two products: the result of the first is stored, or blocks of rows read weights again', () => {
    const chain: Fn = (a, b, c) => a.matmul(b).matmul(c)
    const n = 2048
    const { passes } = floor(chain, [
      [n, n],
      [n, n],
      [n, n],
    ])
    // 16 MiB written and read, against 32 MiB of weights for each of 8 blocks but the first.
    expect(passes).toMatchObject([{ causes: ['product'], bytes: 32 * MiB }])
    // Narrow weights stay beside the core.
    expect(
      floor(chain, [
        [1 << 16, 64],
        [64, 64],
        [64, 64],
      ]).passes,
    ).toEqual([])
  })

  test('a scattered tensor that is used: the scatter has ended', () => {
    const f: Fn = (x, i, u) => s.scatterND(x, i, u, 'sum').mul(2)
    const { passes } = floor(
      f,
      [
        [1 << 20, 1],
        [8, 1],
        [8, 1],
      ],
      ['f32', 'i32', 'f32'],
    )
    expect(passes).toMatchObject([{ causes: ['scatter'], bytes: 8 * MiB }])
  })
})

test('a least cut', () => {
  const node = (weight: number, inputs: readonly number[], isSource = false, isSink = false) => ({
    weight,
    inputs,
    isSource,
    isSink,
  })
  const inf = Number.POSITIVE_INFINITY
  // Two sources of 3 and 4, joined in a node of 5 that two sinks follow.
  expect(
    minCut([
      node(3, [], true),
      node(4, [], true),
      node(5, [0, 1]),
      node(inf, [2], false, true),
      node(inf, [2], false, true),
    ]),
  ).toEqual([2])
  expect(minCut([node(3, [], true), node(4, [], true), node(9, [0, 1]), node(inf, [2], false, true)])).toEqual([0, 1])
  expect(minCut([node(inf, [], true), node(inf, [0], false, true)])).toBeUndefined()
})

test('the floor imports neither the planner nor what stands below it', () => {
  const root = join(import.meta.dirname, '../..')
  const seen = new Set<string>()
  const left = [join(root, 'bench/cliffs/floor.ts')]
  for (let file = left.pop(); file !== undefined; file = left.pop()) {
    if (seen.has(file) || !existsSync(file)) continue
    seen.add(file)
    for (const [, path] of readFileSync(file, 'utf8').matchAll(/from '(\.[^']+)'/g))
      left.push(join(dirname(file), path ?? ''))
  }
  const folders = new Set([...seen].map((file) => relative(root, dirname(file))))
  expect(folders).toContain('src/graph')
  for (const below of ['plan', 'lower', 'codegen', 'compile', 'kernel', 'rewrite', 'runtime', 'backends'])
    expect([...folders].filter((f) => f.startsWith(`src/${below}`))).toEqual([])
})
