/** Functions of values whose range is known: what they leave out, and that nothing is lost by it. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { ulpBound, ulpOf } from '../../../src/scalar/bounds.ts'
import { cudaSimt, webgpuSimt } from '../../../src/target/simt.ts'
import { inBothDialects } from '../dialects/dialects.ts'

const n = 2053

/** log(f(x) + c). */
const logOfSum = (f: string, c: string): Kernel =>
  parseKernel(`kernel logs {
  param x: f32[${n}] read
  param y: f32[${n}] write
  axes i: ${n}
  grid i/512
  %0 f32{i} = load x[i]
  %1 f32{i} = ${f} %0
  %2 f32 = const ${c}
  %3 f32{i} = add %1, %2
  %4 f32{i} = log %3
  store y[i] = %4
}`)

const special = [
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  0,
  -0,
  1e-45,
  -87,
  -88.5,
  88.7,
  200,
  -3e38,
  3e38,
]

function buffers(): { x: Float32Array; y: Float32Array } {
  const x = Float32Array.from(
    { length: n },
    (_, i) => special[i] ?? 30 * Math.sin(i * 1.7) + (i % 89) * (i % 2 ? 1 : -1),
  )
  // Not a number with its sign.
  new Uint32Array(x.buffer)[special.length] = 0xffc00000
  return { x, y: new Float32Array(n) }
}

const check =
  (f: (x: number) => number, c: number) =>
  ({ x, y }: { x: Float32Array; y: Float32Array }): void => {
    x.forEach((v, i) => {
      const sum = Math.fround(Math.fround(f(v)) + Math.fround(c))
      const want = Math.log(sum)
      const got = y[i] ?? 0
      if (!Number.isFinite(want)) expect(got, `at ${v}`).toBe(want)
      else {
        // What the operand's function and the sum are off by, and the logarithm.
        const error = (ulpBound('exp', 'f32') + 1) * 2 ** -23 + ulpBound('log', 'f32') * ulpOf('f32', want)
        expect(Math.abs(got - want), `at ${v}`).toBeLessThanOrEqual(error)
      }
    })
  }

describe.each([
  { name: 'exp', f: Math.exp, text: '1', c: 1 },
  { name: 'exp', f: Math.exp, text: '1e-9', c: 1e-9 },
  { name: 'abs', f: Math.abs, text: '1.1754943508222875e-38', c: 2 ** -126 },
])('log($name(x) + $text)', ({ name, f, text, c }) => {
  inBothDialects('', logOfSum(name, text), buffers, check(f, c))
})

const leavesOut = (k: Kernel): boolean => emitKernel(k, webgpuSimt).source.includes('f32_log_normal(')

test('where the operand is known to be a positive normal number', () => {
  expect(leavesOut(logOfSum('exp', '1'))).toBe(true)
  expect(leavesOut(logOfSum('sigmoid', '1e-9'))).toBe(true)
  expect(leavesOut(logOfSum('exp', '1e-39'))).toBe(false)
  expect(leavesOut(logOfSum('exp', '-1'))).toBe(false)
  expect(leavesOut(logOfSum('neg', '1'))).toBe(false)
  expect(leavesOut(logOfSum('tanh', '2'))).toBe(false)
  expect(emitKernel(logOfSum('exp', '1'), cudaSimt).source).toContain('logf(')
})
