/**
 * Contractions of integers times steps: which become products of integers, and that they are nearer to what doubles give than f32 can sum; which stay.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import { multiplyIntegers } from '../../src/compile/integerProducts.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import * as s from '../../src/index.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { scheduleText } from '../../src/schedule/text.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import { makeRng } from '../random/rng.ts'

afterAll(() => s.setDevice('reference'))

type F = (...args: s.Tensor[]) => s.Tensor
type Spec = { readonly shape: readonly number[]; readonly dtype: DType }

const traced = (f: F, specs: readonly Spec[]) =>
  s
    .program(
      (inputs: Record<string, s.Tensor>) => f(...specs.flatMap((_, i) => inputs[`x${i}`] ?? [])),
      Object.fromEntries(specs.map((x, i) => [`x${i}`, x])),
    )
    .trace().graph

/** Dtypes of the contractions that a machine gets. */
const contractions = (f: F, specs: readonly Spec[], machine: Machine = wasmTarget): DType[] =>
  nodesOf(multiplyIntegers(traced(f, specs), machine)).flatMap((n) => (n.op === 'contract' ? [n.dtype] : []))

/** Bytes less a zero point, times a step. */
const dequantised = (x: s.Tensor, zero: number, step: number | s.Tensor): s.Tensor =>
  x.astype('f32').sub(zero).mul(step)

const linear: F = (x, w) => dequantised(x, 128, 0.031).matmul(dequantised(w, 0, 0.0007))
const perColumn: F = (x, w, steps) => dequantised(x, 131, 0.031).matmul(dequantised(w, 0, steps))
const conv =
  (options: NonNullable<Parameters<typeof s.conv2d>[2]>): F =>
  (x, w) =>
    s.conv2d(dequantised(x, 7, 0.02), dequantised(w, 0, 0.003), options)

const bytes = (...shape: number[]): Spec => ({ shape, dtype: 'u8' })
const signed = (...shape: number[]): Spec => ({ shape, dtype: 'i8' })

describe('become products of integers', () => {
  test.each<[string, F, Spec[]]>([
    ['two dimensions', linear, [bytes(32, 96), signed(96, 40)]],
    ['batches', linear, [bytes(2, 32, 96), signed(96, 40)]],
    ['a step for each column', perColumn, [bytes(32, 96), signed(96, 40), { shape: [40], dtype: 'f32' }]],
    ['windows with padding', conv({ padding: 1 }), [bytes(1, 16, 12, 12), signed(24, 16, 3, 3)]],
    ['groups of channels', conv({ groups: 2 }), [bytes(1, 16, 12, 12), signed(24, 8, 1, 1)]],
  ])('%s', (_, f, specs) => {
    expect(contractions(f, specs)).toEqual(['i32'])
    const { program } = compileGraph(traced(f, specs), { mode: 'fast', target: wasmTarget })
    const text = kernelsOf(program).flatMap(({ step }) => scheduleText(step.kernel, wasmTarget))
    expect(text.join('\n')).toMatch(/of pairs of 16 bits|columns of 16 bits/)
  })
})

describe('stay as they are', () => {
  test.each<[string, F, Spec[], Machine?]>([
    ['channels apart', conv({ groups: 16, padding: 1 }), [bytes(1, 16, 12, 12), signed(16, 1, 3, 3)]],
    [
      'a step that varies along the sum',
      (x, w, t) => dequantised(x, 0, t).matmul(dequantised(w, 0, 0.1)),
      [bytes(8, 96), signed(96, 8), { shape: [96], dtype: 'f32' }],
    ],
    [
      'sums beyond 32 bits',
      linear,
      [
        { shape: [4, 70_000], dtype: 'i16' },
        { shape: [70_000, 4], dtype: 'i16' },
      ],
    ],
    [
      'one operand of floats',
      (x, w) => x.matmul(dequantised(w, 0, 0.1)),
      [{ shape: [8, 96], dtype: 'f32' }, signed(96, 8)],
    ],
    [
      'padding that is no zero',
      (x, w) =>
        dequantised(x, 0, 0.1)
          .pad(
            [
              [0, 0],
              [0, 1],
            ],
            'constant',
            0.5,
          )
          .matmul(dequantised(w, 0, 0.1)),
      [bytes(8, 95), signed(96, 8)],
    ],
    ['one row', linear, [bytes(1, 96), signed(96, 40)]],
    ['machines without a rate for them', linear, [bytes(32, 96), signed(96, 40)], cudaTarget],
  ])('%s', (_, f, specs, machine) => {
    expect(contractions(f, specs, machine)).toEqual(['f32'])
  })
})

/** The same integers in doubles, whose sums are exact. */
const wholes = (x: s.Tensor, zero: number): s.Tensor => x.astype('f64').sub(zero)
const exactConv =
  (options: NonNullable<Parameters<typeof s.conv2d>[2]>): F =>
  (x, w) =>
    s.conv2d(wholes(x, 7), wholes(w, 0), options)
const exactColumns: F = (x, w, steps = s.tensor(1)) => wholes(x, 131).matmul(w.astype('f64').mul(steps.astype('f64')))

test.each<[string, F, F, number[], Spec[]]>([
  [
    'a product',
    linear,
    (x, w) => wholes(x, 128).matmul(wholes(w, 0)),
    [0.031, 0.0007],
    [bytes(9, 700), signed(700, 33)],
  ],
  [
    'steps of columns',
    perColumn,
    exactColumns,
    [0.031],
    [bytes(33, 65), signed(65, 17), { shape: [17], dtype: 'f32' }],
  ],
  [
    'windows',
    conv({ padding: 2, stride: 2 }),
    exactConv({ padding: 2, stride: 2 }),
    [0.02, 0.003],
    [bytes(2, 9, 13, 11), signed(8, 9, 3, 3)],
  ],
  [
    'groups',
    conv({ padding: 1, groups: 3 }),
    exactConv({ padding: 1, groups: 3 }),
    [0.02, 0.003],
    [bytes(1, 9, 13, 11), signed(12, 3, 3, 3)],
  ],
])('%s errs by a few roundings', (_, f, exact, steps, specs) => {
  const rng = makeRng(17)
  const args = specs.map(({ shape, dtype }) => {
    const n = shape.reduce((a, b) => a * b, 1)
    const [lo, hi] = dtype === 'u8' ? [0, 255] : [-128, 127]
    const one = (): number => (dtype === 'f32' ? rng.int(1, 1000) / 7000 : rng.pick([lo, hi, rng.int(lo, hi)]))
    return s.tensor(Array.from({ length: n }, one), { shape: [...shape], dtype })
  })
  s.setDevice('wasm', { threads: 1 })
  const got = [
    ...s
      .jit(f)(...args)
      .dataSync(),
  ]
  const want = [
    ...s
      .jit(exact, { device: 'reference' })(...args)
      .dataSync(),
  ]
  const scale = steps.reduce((p, x) => p * Math.fround(x), 1)
  // The sum, the product of the steps, and that of both: a sum of f32 errs by a hundred times as much.
  const worst = Math.max(...got.map((x, i) => Math.abs(Number(x) / (Number(want[i]) * scale) - 1)))
  expect(worst).toBeLessThanOrEqual(3.01 * 2 ** -24)
})
