/** Coarse forms of functions: where they are used, and their error. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { coarseError, coarseRelativeError } from '../../../src/scalar/bounds.ts'
import { evalScalar } from '../../../src/scalar/eval.ts'
import { bf16ToNumber, f16ToNumber } from '../../../src/scalar/half.ts'
import { cudaSimt } from '../../../src/target/simt.ts'
import { inBothDialects } from '../dialects/dialects.ts'

const n = 4099

/** (1 + erf(s x)) - want, times 2^16, in half precision. */
const difference = parseKernel(`kernel difference {
  param x: f32[${n}] read
  param want: f32[${n}] read
  param y: f16[${n}] write
  axes i: ${n}
  grid i/512
  %0 f32{i} = load x[i]
  %1 f32 = const 0.75
  %2 f32{i} = mul %0, %1
  %3 f32{i} = erf %2
  %4 f32 = const 1
  %5 f32{i} = add %3, %4
  %6 f32{i} = load want[i]
  %7 f32{i} = sub %5, %6
  %8 f32 = const 65536
  %9 f32{i} = mul %7, %8
  %10 f16{i} = cast %9
  store y[i] = %10
}`)

function buffers(): { x: Float32Array; want: Float32Array; y: Uint16Array } {
  const x = Float32Array.from({ length: n }, (_, i) => (i - 2048) / 300)
  x.set([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 1e-30, -1e30, 3e38], 4000)
  const want = x.map((v) => 1 + Number(evalScalar('erf', 'f32', 'f32', [Math.fround(v * 0.75)])))
  return { x, want, y: new Uint16Array(n) }
}

function check(b: { x: Float32Array; y: Uint16Array }): void {
  const errors = [...b.y].map((bits) => f16ToNumber(bits) / 65536)
  b.x.forEach((v, i) => {
    // The sum with 1 and its reference round too.
    if (Number.isNaN(v)) expect(errors[i]).toBeNaN()
    else expect(Math.abs(errors[i] ?? Number.NaN), `at ${v}`).toBeLessThanOrEqual(coarseError + 2 ** -23)
  })
  expect(Math.max(...errors.filter((e) => !Number.isNaN(e)))).toBeGreaterThan(2 ** -22)
}

inBothDialects('erf', difference, buffers, check)

const isCoarse = (k: Kernel): boolean => /erf_(rest_)?(coarse|unguarded)\(/.test(emitKernel(k, cudaSimt).source)

const using = (uses: string, mode: Kernel['mode'] = 'fast'): boolean =>
  isCoarse({
    ...parseKernel(`kernel uses {
  param x: f32[64] read
  param y: f32[64] write
  param z: bf16[64] write
  axes i: 64
  grid i/64
  %0 f32{i} = load x[i]
  %1 f32{i} = erf %0
  %2 f32 = const 1
${uses}
}`),
    mode,
  })

test('where uses ask for absolute accuracy in half precision alone', () => {
  const sum = '  %3 f32{i} = add %1, %2\n'
  expect(using(`${sum}  %4 bf16{i} = cast %3\n  store z[i] = %4`)).toBe(true)
  expect(using(`${sum}  %4 f32{i} = mul %3, %0\n  %5 bf16{i} = cast %4\n  store z[i] = %5`)).toBe(true)
  // Full precision leaves, relative accuracy counts, or the mode is strict.
  expect(using(`${sum}  store y[i] = %3`)).toBe(false)
  expect(using(`${sum}  %4 bf16{i} = cast %3\n  store z[i] = %4\n  store y[i] = %1`)).toBe(false)
  expect(using('  %3 bf16{i} = cast %1\n  store z[i] = %3')).toBe(false)
  expect(using('  %3 f32{i} = add %1, %0\n  %4 bf16{i} = cast %3\n  store z[i] = %4')).toBe(false)
  expect(using(`${sum}  %4 f32{i} = log %3\n  %5 bf16{i} = cast %4\n  store z[i] = %5`)).toBe(false)
  expect(using(`${sum}  %4 bf16{i} = cast %3\n  store z[i] = %4`, 'strict')).toBe(false)
})

/** exp(s x) times 1 in half precision. */
const exponential = parseKernel(`kernel exponential {
  param x: f32[${n}] read
  param y: bf16[${n}] write
  axes i: ${n}
  grid i/512
  %0 f32{i} = load x[i]
  %1 f32 = const 0.75
  %2 f32{i} = mul %0, %1
  %3 f32{i} = exp %2
  %4 bf16{i} = cast %3
  store y[i] = %4
}`)

function exponents(): { x: Float32Array; y: Uint16Array } {
  const x = Float32Array.from({ length: n }, (_, i) => (i - 2048) / 18)
  x.set([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 1e-30, -1e30, 3e38], 4000)
  return { x, y: new Uint16Array(n) }
}

function checkExponential(b: { x: Float32Array; y: Uint16Array }): void {
  b.x.forEach((v, i) => {
    const want = Math.exp(0.75 * v)
    const got = bf16ToNumber(b.y[i] ?? 0)
    if (Number.isNaN(want)) expect(got, `at ${v}`).toBeNaN()
    else if (want > 3.39e38) expect(got, `at ${v}`).toBe(Number.POSITIVE_INFINITY)
    else if (want < 2 ** -126) expect(got, `at ${v}`).toBeLessThanOrEqual(2 ** -126)
    // Below 2^-109, WGSL may cut instead of round.
    else
      expect(Math.abs(got / want - 1), `at ${v}`).toBeLessThanOrEqual(
        coarseRelativeError + 2 ** (want < 2 ** -109 ? -7 : -8),
      )
  })
  // Where the result is a power of two between two neighbours of half precision, rounding adds least.
  const errors = [...b.x].map((v, i) => Math.abs(bf16ToNumber(b.y[i] ?? 0) / Math.exp(0.75 * v) - 1))
  expect(errors.filter((e) => e < coarseRelativeError).length).toBeGreaterThan(10)
}

inBothDialects('exp', exponential, exponents, checkExponential)

const coarseExponential = (uses: string, mode: Kernel['mode'] = 'fast'): boolean =>
  /exp_(coarse|unguarded)\(/.test(
    emitKernel(
      {
        ...parseKernel(`kernel uses {
  param x: f32[64] read
  param y: f32[64] write
  param s: f32[] write
  param z: bf16[64] write
  axes i: 64
  grid 1
  %0 f32{i} = load x[i]
  %1 f32{i} = exp %0
  %2 f32 = const 1
${uses}
}`),
        mode,
      },
      cudaSimt,
    ).source,
  )

test('where a relative error stays one up to half precision', () => {
  const quotient =
    '  %3 f32 = reduce sum %1 over i\n  %4 f32{i} = div %1, %3\n  %5 bf16{i} = cast %4\n  store z[i] = %5'
  expect(coarseExponential(quotient)).toBe(true)
  expect(
    coarseExponential('  %3 f32{i} = add %2, %1\n  %4 f32{i} = div %0, %3\n  %5 bf16{i} = cast %4\n  store z[i] = %5'),
  ).toBe(true)
  expect(coarseExponential('  %3 bf16{i} = cast %1\n  store z[i] = %3')).toBe(true)
  // Full precision leaves, a difference or a logarithm lays the error bare, or the mode is strict.
  expect(coarseExponential(`${quotient}\n  store s[] = %3`)).toBe(false)
  expect(coarseExponential('  %3 f32{i} = sub %1, %2\n  %4 bf16{i} = cast %3\n  store z[i] = %4')).toBe(false)
  expect(coarseExponential('  %3 f32{i} = add %1, %0\n  %4 bf16{i} = cast %3\n  store z[i] = %4')).toBe(false)
  expect(coarseExponential('  %3 f32{i} = log %1\n  %4 bf16{i} = cast %3\n  store z[i] = %4')).toBe(false)
  expect(
    coarseExponential(
      '  %3 f32{i} = sub %1, %0\n  %4 f32 = reduce sum %3 over i\n  %5 bf16 = cast %4\n  store z[0] = %5',
    ),
  ).toBe(false)
  expect(coarseExponential(quotient, 'strict')).toBe(false)
})

test('a scaled operand that stands outside the loop', () => {
  const kernel = parseKernel(`kernel outside {
  param x: f32[64] read
  param w: f32[8] read
  param y: f16[64, 8] write
  axes i: 64, c: 8
  grid i/64
  %0 f32 = const 0.5
  %1 f32{i} = load x[i]
  %2 f32{i} = abs %1
  %3 f32{i} = mul %2, %0
  loop c/4 {
    %4 f32{i} = exp %3
    %5 f32{c} = load w[c]
    %6 f32{i, c} = mul %4, %5
    %7 f16{i, c} = cast %6
    store y[i, c] = %7
  }
}`)
  expect(emitKernel(kernel, cudaSimt).source).toContain('= f32_exp_coarse(mul_3[')
})
