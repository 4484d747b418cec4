/** Coarse forms in both dialects: their errors, what they do with NaN and infinities, and where a test for NaN is left out. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { coarseError, coarseRelativeError } from '../../../src/scalar/bounds.ts'
import { evalScalar } from '../../../src/scalar/eval.ts'
import { bf16ToNumber } from '../../../src/scalar/half.ts'
import type { ScalarOp } from '../../../src/scalar/ops.ts'
import { cudaSimt, webgpuSimt } from '../../../src/target/simt.ts'
import { some } from '../../support/nightly.ts'
import { inBothDialects } from '../dialects/dialects.ts'
import type { Buffers } from '../dialects/wgsl.ts'

const n = 4099
const special = [
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  0,
  -0,
  1e-30,
  -1e-30,
  1e-37,
  3e38,
  -3e38,
  -1,
]

/** Operands close by zero, close by one, and far out. */
const operands = (): Float32Array => {
  const x = Float32Array.from({ length: n }, (_, i) => {
    const t = (i % 1024) / 512 - 1
    return [t * 100, t * 4, 1 + t / 8, Math.sign(t) * 2 ** (-30 * Math.abs(t))][Math.floor(i / 1024)] ?? t
  })
  x.set(special, 4080)
  return x
}

/** f(x) times factors that bring it just above and just below a number where rounding to bf16 turns. */
const relative = (op: ScalarOp): Kernel =>
  parseKernel(`kernel ${op}_relative {
  param x: f32[${n}] read
  param above: f32[${n}] read
  param below: f32[${n}] read
  param y: bf16[${n}] write
  param high: bf16[${n}] write
  param low: bf16[${n}] write
  axes i: ${n}
  grid i/512
  %0 f32{i} = load x[i]
  %1 f32{i} = ${op} %0
  %2 bf16{i} = cast %1
  store y[i] = %2
  %3 f32{i} = load above[i]
  %4 f32{i} = mul %1, %3
  %5 bf16{i} = cast %4
  store high[i] = %5
  %6 f32{i} = load below[i]
  %7 f32{i} = mul %1, %6
  %8 bf16{i} = cast %7
  store low[i] = %8
}`)

const wanted = (op: ScalarOp, x: Float32Array): Float64Array =>
  Float64Array.from(x, (v) => Number(evalScalar(op, 'f32', 'f32', [v])))

const isMeasured = (want: number): boolean => Math.abs(want) > 2 ** -100 && Math.abs(want) < 2 ** 100

function relativeBuffers(op: ScalarOp): { x: Float32Array; above: Float32Array; below: Float32Array } & Buffers {
  const x = operands()
  const want = wanted(op, x)
  const turn = 1 + 2 ** -8
  const bound = coarseRelativeError + 2 ** -22
  const factor = (by: number): Float32Array => Float32Array.from(want, (w) => (isMeasured(w) ? (turn * by) / w : 1))
  return {
    x,
    above: factor(1 + bound),
    below: factor(1 - bound),
    y: new Uint16Array(n),
    high: new Uint16Array(n),
    low: new Uint16Array(n),
  }
}

function checkRelative(op: ScalarOp, b: Buffers): void {
  const want = wanted(op, b.x as Float32Array)
  want.forEach((w, i) => {
    const at = `${op}(${b.x?.[i]})`
    const [y, high, low] = [b.y, b.high, b.low].map((a) => bf16ToNumber(Number(a?.[i])))
    if (Number.isNaN(w)) expect(y, at).toBeNaN()
    else if (isMeasured(w)) {
      expect(high, at).toBe(1 + 2 ** -7)
      expect(low, at).toBe(1)
    } else if (Math.abs(w) >= 3.4e38) expect(y, at).toBe(w > 0 ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY)
    else if (Math.abs(w) <= 2 ** -126) expect(Math.abs(y ?? Number.NaN), at).toBeLessThanOrEqual(2 ** -126)
    else expect(Math.abs((y ?? Number.NaN) / w - 1), at).toBeLessThanOrEqual(2 ** -7)
  })
}

/** 2^16 ((1 + f(x)) - want) in half precision. */
const absolute = (op: ScalarOp): Kernel =>
  parseKernel(`kernel ${op}_absolute {
  param x: f32[${n}] read
  param want: f32[${n}] read
  param y: bf16[${n}] write
  axes i: ${n}
  grid i/512
  %0 f32{i} = load x[i]
  %1 f32 = const 0.75
  %2 f32{i} = mul %0, %1
  %3 f32{i} = ${op} %2
  %4 f32 = const 1
  %5 f32{i} = add %3, %4
  %6 f32{i} = load want[i]
  %7 f32{i} = sub %5, %6
  %8 f32 = const 65536
  %9 f32{i} = mul %7, %8
  %10 bf16{i} = cast %9
  store y[i] = %10
}`)

function absoluteBuffers(op: ScalarOp): Buffers {
  const x = operands()
  return {
    x,
    want: wanted(
      op,
      x.map((v) => Math.fround(v * 0.75)),
    ).map((w) => 1 + w) as never,
    y: new Uint16Array(n),
  }
}

function checkAbsolute(op: ScalarOp, b: Buffers): void {
  b.x?.forEach((v, i) => {
    const error = bf16ToNumber(Number(b.y?.[i])) / 65536
    if (Number.isNaN(v)) expect(error).toBeNaN()
    else expect(Math.abs(error), `${op}(${v})`).toBeLessThanOrEqual(coarseError + 2 ** -22)
  })
}

const relatives = ['exp', 'sigmoid', 'tanh', 'expm1', 'log', 'log1p'] as const
const absolutes = ['erf', 'sigmoid', 'tanh'] as const

const cases: readonly { name: string; kernel: Kernel; buffers: () => Buffers; check: (b: Buffers) => void }[] = [
  ...relatives.map((op) => ({
    name: `${op}, relative`,
    kernel: relative(op),
    buffers: () => relativeBuffers(op),
    check: (b: Buffers) => checkRelative(op, b),
  })),
  ...absolutes.map((op) => ({
    name: `${op}, absolute`,
    kernel: absolute(op),
    buffers: () => {
      const b = absoluteBuffers(op)
      return { ...b, want: Float32Array.from(b.want as Float64Array) }
    },
    check: (b: Buffers) => checkAbsolute(op, b),
  })),
]

// What they compute by day of every third.
describe.each(cases)('$name', ({ kernel, buffers, check }) => {
  test('is coarse', () => {
    for (const source of [emitKernel(kernel, cudaSimt).source, emitKernel(kernel, webgpuSimt).source])
      expect(source).toMatch(/= f32_(\w+_coarse|\w+_near)\(/)
    expect(emitKernel({ ...kernel, mode: 'strict' }, cudaSimt).source).not.toMatch(/_coarse|_near/)
  })

  if (some(cases, 3).some((x) => x.kernel === kernel)) inBothDialects('', kernel, buffers, check)
})

const kernelOf = (body: string): Kernel =>
  parseKernel(`kernel uses {
  param x: f32[64] read
  param w: f32[64] read
  param y: bf16[64] write
  axes i: 64
  grid i/64
  %0 f32{i} = load x[i]
  %1 f32{i} = load w[i]
  %2 f32 = const 0
  %3 f32 = const 1
  %4 f32 = const 2
${body}
}`)

const silu = kernelOf(
  '%5 f32{i} = sigmoid %0\n%6 f32{i} = mul %0, %5\n%7 f32{i} = mul %6, %1\n%8 bf16{i} = cast %7\nstore y[i] = %8',
)
const isUnguarded = (k: Kernel): boolean => emitKernel(k, webgpuSimt).source.includes('= f32_sigmoid_unguarded(')

test('no test for NaN where it arrives on another way', () => {
  const end = '%9 bf16{i} = cast %8\nstore y[i] = %9'
  expect(isUnguarded(silu)).toBe(true)
  expect(
    isUnguarded(
      kernelOf(`%5 f32{i} = sigmoid %0\n%6 f32{i} = mul %0, %4\n%7 f32{i} = neg %6\n%8 f32{i} = div %5, %7\n${end}`),
    ),
  ).toBe(true)
  // Another factor, a product with zero, a choice, and functions that would count on each other.
  expect(isUnguarded(kernelOf(`%5 f32{i} = sigmoid %0\n%8 f32{i} = mul %1, %5\n${end}`))).toBe(false)
  expect(isUnguarded(kernelOf(`%5 f32{i} = sigmoid %0\n%6 f32{i} = mul %0, %2\n%8 f32{i} = mul %6, %5\n${end}`))).toBe(
    false,
  )
  expect(
    isUnguarded(
      kernelOf(
        `%5 f32{i} = sigmoid %0\n%6 bool{i} = lt %1, %3\n%7 f32{i} = select %6, %5, %0\n%8 f32{i} = mul %7, %1\n${end}`,
      ),
    ),
  ).toBe(false)
  expect(isUnguarded(kernelOf(`%5 f32{i} = sigmoid %0\n%6 f32{i} = exp %0\n%8 f32{i} = mul %5, %6\n${end}`))).toBe(
    false,
  )
  expect(
    isUnguarded(
      kernelOf(
        `%5 f32{i} = sigmoid %0\n%6 bf16{i} = cast %5\n%7 f32{i} = mul %5, %0\n%8 f32{i} = mul %7, %1\n${end}\nstore y[i] = %6`,
      ),
    ),
  ).toBe(false)
})

function siluBuffers(): { x: Float32Array; w: Float32Array; y: Uint16Array } {
  const x = Float32Array.from({ length: 64 }, (_, i) => i - 32)
  x.set(special, 3)
  return { x, w: new Float32Array(64).fill(3), y: new Uint16Array(64) }
}

function checkSilu({ x, y }: { x: Float32Array; y: Uint16Array }): void {
  x.forEach((v, i) => {
    const want = (3 * v) / (1 + Math.exp(-v))
    const got = bf16ToNumber(y[i] ?? 0)
    if (Number.isNaN(want)) expect(got, `at ${v}`).toBeNaN()
    else if (Math.abs(want) > 3.39e38)
      expect(got, `at ${v}`).toBe(want > 0 ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY)
    else expect(Math.abs(got - want), `at ${v}`).toBeLessThanOrEqual(2 ** -8 * Math.abs(want) + 2 ** -126)
  })
}

inBothDialects('SiLU', silu, siluBuffers, checkSilu)
