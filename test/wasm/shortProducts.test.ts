/**
 * Products of integers that fit 16 bits: equal to the reference for random shapes, orientations, dtypes, zero points,
 * windows and threads, at their extremes, with sums that wrap; and the schedule says which products are such.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { printFunctionText } from '../../src/codegen/vector/ir/print.ts'
import { emitVectorKernel } from '../../src/codegen/vector/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as s from '../../src/index.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { scheduleText } from '../../src/schedule/text.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import { makeRng, type Rng } from '../random/rng.ts'
import { nightly, some } from '../support/nightly.ts'

afterAll(() => s.setDevice('reference'))

const ends = { i8: [-128, 127], u8: [0, 255], i16: [-32768, 32767] } as const
type Narrow = keyof typeof ends
const narrow = Object.keys(ends) as Narrow[]

/** Values of a dtype, one in ten of them at an end of its range. */
function draw(rng: Rng, shape: readonly number[], dtype: Narrow): s.Tensor {
  const [lo, hi] = ends[dtype]
  const n = shape.reduce((a, b) => a * b, 1)
  const one = (): number => (rng.chance(0.1) ? rng.pick([lo, hi]) : rng.int(lo, hi))
  return s.tensor(Array.from({ length: n }, one), { shape: [...shape], dtype })
}

const wide = (x: s.Tensor): s.Tensor => x.astype('i32')

type F = (...args: s.Tensor[]) => s.Tensor

function agree(f: F, args: readonly s.Tensor[], threads: number, what: string): void {
  s.setDevice('wasm', { threads })
  for (const mode of ['fast', 'strict'] as const)
    expect(
      s
        .jit(f, { mode })(...args)
        .dataSync(),
      what,
    ).toEqual(
      s
        .jit(f, { device: 'reference' })(...args)
        .dataSync(),
    )
}

type Given = readonly { shape: readonly number[]; dtype: DType }[]

/** A function's kernels. */
function kernelsFor(f: F, args: Given) {
  const names = args.map((_, i) => `x${i}`)
  const traced = s
    .program((inputs: Record<string, s.Tensor>) => f(...names.flatMap((n) => inputs[n] ?? [])), {
      ...Object.fromEntries(names.map((n, i) => [n, args[i] ?? { shape: [] }])),
    })
    .trace()
  const { program } = compileGraph(traced.graph, { mode: 'fast', target: wasmTarget })
  return kernelsOf(program).map(({ step }) => step.kernel)
}

/** The schedules of a function's kernels. */
const schedules = (f: F, args: Given): string =>
  kernelsFor(f, args)
    .flatMap((kernel) => scheduleText(kernel, wasmTarget))
    .join('\n')

/** The code of a function's kernels, as text of the vector IR. */
const codeOf = (f: F, args: Given): string =>
  kernelsFor(f, args)
    .flatMap((kernel) => {
      const options = { machine: wasmTarget, hasMultiplyAdd: true }
      return emitVectorKernel({ kernel, name: 'k', mayAlias: () => true }, options).functions.map(printFunctionText)
    })
    .join('\n')

test('random products', () => {
  const rng = makeRng(5)
  for (let i = 0; i < (nightly ? 60 : 20); i++) {
    const [m, n] = [rng.int(1, 40), rng.int(1, 40)]
    const k = rng.int(1, i % 3 === 0 ? 600 : 70)
    const [da, db] = [rng.pick(narrow), rng.pick(narrow)]
    const [turnA, turnB, zero] = [rng.chance(0.3), rng.chance(0.5), rng.chance(0.4)]
    const f: F = (a, b) => {
      const [x, y] = [wide(a), wide(b)]
      const [u, v] = zero ? [x.sub(wide(a.max().astype('u8'))), y.sub(3)] : [x, y]
      return (turnA ? u.transpose() : u).matmul(turnB ? v.transpose() : v)
    }
    const args = [draw(rng, turnA ? [k, m] : [m, k], da), draw(rng, turnB ? [n, k] : [k, n], db)]
    agree(f, args, 1 + (i % 2), `${m} x ${k} x ${n} ${da} ${db} ${turnA} ${turnB} ${zero}`)
  }
})

test('random windows and batches', () => {
  const rng = makeRng(6)
  for (let i = 0; i < (nightly ? 24 : 8); i++) {
    const [da, db] = [rng.pick(narrow), rng.pick(narrow)]
    const [c, o, h, r] = [rng.int(1, 12), rng.int(2, 12), rng.int(5, 14), rng.int(1, 3)]
    const stride = rng.int(1, 2)
    const conv: F = (x, w) => s.conv2d(wide(x).sub(7), wide(w), { stride, padding: r > 1 ? 1 : 0 })
    agree(conv, [draw(rng, [2, c, h, h], da), draw(rng, [o, c, r, r], db)], 1 + (i % 2), `window ${c} ${o} ${h} ${r}`)
    const batch: F = (a, b) => wide(a).matmul(wide(b))
    agree(batch, [draw(rng, [3, h, 17], da), draw(rng, [3, 17, o], db)], 1 + (i % 2), `batch ${h} ${o}`)
  }
})

describe('an operand that becomes bytes at run time, of several products', () => {
  const bytes = (x: s.Tensor): s.Tensor => {
    const [low, high] = [x.min().minimum(0), x.max().maximum(0)]
    const step = high.sub(low).div(256)
    const zero = low.neg().div(step).round().clip(0, 255)
    const q = x.div(step).round().add(zero).clip(0, 255).astype('u8')
    return wide(q).sub(wide(zero.astype('u8')))
  }
  const f: F = (x, u, v, w) => {
    const q = bytes(x)
    return [u, v, w].map((b) => q.matmul(wide(b))).reduce((a, b) => a.mul(3).add(b))
  }

  test('is kept in 16 bits, which all of them multiply', () => {
    const weights = { shape: [96, 80], dtype: 'i8' } as const
    const text = schedules(f, [{ shape: [1, 70, 96], dtype: 'f32' }, weights, weights, weights])
    expect(text.match(/pairs of 16 bits/g)).toHaveLength(3)
    expect(text).not.toContain('by two vectors')
  })

  test.each([
    [1, 70, 96, 80],
    [2, 33, 65, 17],
    [1, 1, 40, 12],
  ])('gives what the reference gives, %i x %i x %i x %i', (batch, m, k, n) => {
    const rng = makeRng(batch + m + k + n)
    // From -4 to 4: a step is a power of two, so that both round the same numbers.
    const x = s.tensor(
      Array.from({ length: batch * m * k }, (_, i) => (i < 2 ? 8 * i - 4 : rng.int(-512, 512) / 128)),
      { shape: [batch, m, k] },
    )
    const weights = [1, 2, 3].map(() => draw(rng, [k, n], 'i8'))
    agree(f, [x, ...weights], 1, `${m} x ${k} x ${n}`)
  })
})

describe('windows of short integers', () => {
  const conv =
    (options: NonNullable<Parameters<typeof s.conv2d>[2]>): F =>
    (x, w) =>
      s.conv2d(wide(x), wide(w), options)

  test('are copied in runs of bytes, weights and every other element too, and multiplied in pairs', () => {
    for (const [stride, apart] of [
      [1, 1],
      [2, 2],
    ] as const) {
      const text = schedules(conv({ stride, padding: 1 }), [
        { shape: [1, 24, 28, 28], dtype: 'u8' },
        { shape: [32, 24, 3, 3], dtype: 'i8' },
      ])
      expect(text).toContain('pairs of 16 bits')
      expect(text).toMatch(new RegExp(`copy .* i16: runs of \\w+( \\w+)? \\(${apart} to 2 bytes\\), padding filled in`))
      expect(text).toMatch(/copy .* i16: runs of \w+ \w+ \w+ \(1 to 2 bytes\)\n/)
    }
  })

  test.each([
    { stride: 1, padding: 1 },
    { stride: 2, padding: 1 },
    { stride: 2, padding: 0 },
    { stride: 3, padding: 2 },
    { stride: 1, padding: 2, dilation: 2 },
    { stride: 2, padding: 3, dilation: 2 },
    { stride: 1, padding: 0, groups: 2 },
  ])('give what the reference gives, %o', (options) => {
    const rng = makeRng(31 + options.stride + options.padding)
    for (const [c, o, h, w, r] of [
      [4, 8, 9, 7, 3],
      [6, 12, 20, 33, 3],
      [16, 8, 17, 16, 1],
      [2, 10, 71, 12, 5],
    ] as const) {
      const [da, db] = [rng.pick(narrow), rng.pick(narrow)]
      const args = [draw(rng, [1, c, h, w], da), draw(rng, [o, c / (options.groups ?? 1), r, r], db)]
      agree(conv(options), args, 1, `${c} ${o} ${h} ${w} ${r} ${da} ${db}`)
    }
  })
})

describe('columns that eight do not divide', () => {
  const f: F = (a, b) => wide(a).sub(3).matmul(wide(b))
  test.each(some([4, 9, 12, 13, 20, 49], 2))('%i of them, depths around what is packed at a time', (n) => {
    const rng = makeRng(n)
    for (const k of [255, 256, 257, 520]) agree(f, [draw(rng, [11, k], 'u8'), draw(rng, [k, n], 'i8')], 1, `${k}`)
  })
  test('are multiplied one vector where four or fewer are left', () => {
    const pairs = (n: number): number | undefined =>
      codeOf(f, [
        { shape: [8, 64], dtype: 'u8' },
        { shape: [64, n], dtype: 'i8' },
      ]).match(/dotPairs\(/g)?.length
    expect([4, 8, 12, 16, 20, 21].map(pairs)).toEqual([4, 8, 12, 8, 12, 8])
  })
})

test('padding of any width and number, in tiles of 16 bits', () => {
  const rng = makeRng(77)
  for (const [h, w, r, by, value] of [
    [7, 7, 3, 1, 0],
    [3, 5, 4, 3, 11],
    [9, 2, 3, 2, -7],
    [6, 23, 5, 4, 3],
    [4, 70, 3, 2, -120],
  ] as const) {
    const conv: F = (x, k) => {
      const edges = [
        [0, 0],
        [0, 0],
        [by, by],
        [by, by],
      ] as const
      return s.conv2d(s.pad(wide(x), edges, 'constant', value), wide(k))
    }
    agree(conv, [draw(rng, [1, 6, h, w], 'i8'), draw(rng, [8, 6, r, r], 'i8')], 1, `${h} ${w} ${r} ${by} ${value}`)
  }
})

test.each([
  ['u8', 'u8', 255, 255, 70_000],
  ['i16', 'i16', -32768, -32768, 999],
  ['i16', 'i16', -32768, 32767, 1001],
  ['i8', 'u8', -128, 255, 65_537],
] as const)('sums of %s and %s that wrap', (da, db, x, y, depth) => {
  const args = [s.full([3, depth], x, da), s.full([depth, 5], y, db)]
  agree((a, b) => wide(a).matmul(wide(b)), args, 1, 'wraps')
})

test('rows and depth that vary from call to call', () => {
  const rng = makeRng(9)
  s.setDevice('wasm', { threads: 2 })
  const f: F = (a, b) => wide(a).sub(3).matmul(wide(b))
  const [m, k] = [s.dim('m', 1, 64), s.dim('k', 1, 200)]
  const open = s.jit(f, { dynamic: [s.spec([m, k], 'u8'), s.spec([k, 24], 'i8')] })
  for (const [rows, depth] of [
    [5, 37],
    [64, 200],
    [13, 8],
    [2, 9],
    [33, 151],
    [50, 3],
    [64, 199],
  ] as const) {
    const args = [draw(rng, [rows, depth], 'u8'), draw(rng, [depth, 24], 'i8')]
    expect(open(...args).dataSync()).toEqual(
      s
        .jit(f, { device: 'reference' })(...args)
        .dataSync(),
    )
  }
})

describe('which they are', () => {
  const by = (dtype: DType, ...shape: number[]) => ({ dtype, shape })
  const plain: F = (a, b) => wide(a).matmul(wide(b))
  const sixteen = /columns of (pairs of )?16 bits/
  test('bytes beside bytes, in one kernel, read in place where their depth is innermost', () => {
    const text = schedules((a, b) => wide(a).matmul(wide(b).transpose()), [by('u8', 64, 128), by('i8', 64, 128)])
    expect(text).toMatch(sixteen)
    expect(text.match(/from \w+ in place/g)).toHaveLength(2)
    expect(text.match(/schedule of/g)).toHaveLength(1)
  })
  test('bytes whose columns are side by side, read in place by pairs of rows', () => {
    const text = schedules(plain, [by('u8', 2, 128), by('i8', 128, 64)])
    expect(text).toContain('eight columns of pairs of 16 bits')
    expect(text).toMatch(/%\d+ from x1 in place/)
  })
  test('with zero points, in tiles of 16 bits', () => {
    const text = schedules((a, b) => wide(a).sub(3).matmul(wide(b).sub(128)), [by('u8', 64, 128), by('u8', 128, 64)])
    expect(text).toMatch(sixteen)
    expect(text.match(/\bi16\b/g)?.length).toBeGreaterThanOrEqual(2)
  })
  test('quantised between two kernels: what stands between them has 16 bits at most', () => {
    const quantised: F = (x, w) => {
      const scale = x.max().sub(x.min()).div(255)
      const zero = x.min().div(scale).neg().round().astype('u8')
      const q = x.div(scale).round().add(zero.astype('f32')).clip(0, 255).astype('u8')
      return wide(q).sub(wide(zero)).matmul(wide(w)).astype('f32').mul(scale)
    }
    const text = schedules(quantised, [by('f32', 512, 256), by('i8', 256, 2048)])
    expect(text).toMatch(sixteen)
    expect(text).not.toContain('by two vectors')
  })
  test('not where an operand may need more', () => {
    expect(schedules(plain, [by('u16', 64, 128), by('i8', 128, 64)])).not.toMatch(sixteen)
    expect(schedules(plain, [by('i32', 64, 128), by('i8', 128, 64)])).not.toMatch(sixteen)
    const scaled: F = (a, b) => wide(a).mul(200).matmul(wide(b))
    expect(schedules(scaled, [by('i8', 64, 128), by('i8', 128, 64)])).not.toMatch(sixteen)
    const shifted: F = (a, b) => wide(a).sub(1).matmul(wide(b))
    expect(schedules(shifted, [by('i16', 64, 128), by('i8', 128, 64)])).not.toMatch(sixteen)
  })
})
