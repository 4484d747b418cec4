/** Half precision in memory: what moves keeps its bits, what is chosen is not rounded, and bounds keep NaN and the signs of zeros. */
import { describe, expect, test } from 'vitest'
import { interpretKernel } from '../../src/kernel/interpret.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { verifyKernel } from '../../src/kernel/verify.ts'
import { bf16ToNumber, f16ToNumber } from '../../src/scalar/half.ts'
import { factsOf, scheduleKernel } from '../../src/schedule/loop/scheduleKernel.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { runKernels } from './run.ts'

const every = Uint16Array.from({ length: 65536 }, (_, i) => i)
const numberOf = { f16: f16ToNumber, bf16: bf16ToNumber }

const elementwise = (dtype: string, n: number, body: string, params = ''): string => `kernel t {
  param x: ${dtype}[${n}] read
${params}
  param y: ${dtype}[${n}] write
  axes i: ${n}
  grid i/${n}
${body}
}`

describe.each(['f16', 'bf16'] as const)('%s', (dtype) => {
  test('that moves keeps its bits', () => {
    const body = `  %0 ${dtype}{i} = load x[65535 - i]
  %1 bool{i} = load b[i]
  %2 ${dtype} = const 1.5
  %3 ${dtype}{i} = select %1, %0, %2
  store y[i] = %3`
    const kernel = parseKernel(elementwise(dtype, 65536, body, '  param b: bool[65536] read'))
    const b = Uint8Array.from(every, (i) => (i % 7 === 0 ? 0 : 1))
    const y = new Uint16Array(65536)
    runKernels([kernel], { x: every, b, y })
    const half = dtype === 'f16' ? 0x3e00 : 0x3fc0
    expect(y).toEqual(Uint16Array.from(every, (i) => (i % 7 === 0 ? half : 65535 - i)))
    // It is read as bits where nothing computes with it, and only there.
    const bitsOf = (text: string): boolean => {
      const k = parseKernel(text)
      const [part] = scheduleKernel(
        k,
        factsOf(k, wasmTarget, (i, j) => i === j),
      )
      return part?.schedule.part.body.some((s) => s.kind === 'let' && s.dtype === 'u16') === true
    }
    expect(bitsOf(elementwise(dtype, 99, `  %0 ${dtype}{i} = load x[i]\n  store y[i] = %0`))).toBe(true)
    const negated = `  %0 ${dtype}{i} = load x[i]\n  %1 ${dtype}{i} = neg %0\n  store y[i] = %1\n  store z[i] = %0`
    expect(bitsOf(elementwise(dtype, 99, negated, `  param z: ${dtype}[99] write`))).toBe(false)
  })

  test('that is chosen or bounded, every value of it', () => {
    for (const body of [
      `  %0 ${dtype}{i} = load x[i]\n  %1 ${dtype} = const 0\n  %2 ${dtype}{i} = max %0, %1\n  store y[i] = %2`,
      `  %0 ${dtype}{i} = load x[i]\n  %1 ${dtype} = const 0.1\n  %2 ${dtype}{i} = min %1, %0\n  store y[i] = %2`,
      `  %0 ${dtype}{i} = load x[i]\n  %1 ${dtype}{i} = neg %0\n  %2 ${dtype}{i} = load x[65535 - i]\n  %3 ${dtype}{i} = max %1, %2\n  store y[i] = %3`,
      `  %0 ${dtype}{i} = load x[i]\n  %1 f32{i} = cast %0\n  %2 f32 = const 1.37\n  %3 f32{i} = mul %1, %2\n  %4 ${dtype}{i} = cast %3\n  store y[i] = %4`,
    ])
      for (const mode of ['fast', 'strict'] as const) {
        const kernel = { ...parseKernel(elementwise(dtype, 65536, body)), mode }
        verifyKernel(kernel)
        const [want, got] = [new Uint16Array(65536), new Uint16Array(65536)]
        interpretKernel(kernel, { x: every, y: want }, { rounding: 'dtype' })
        runKernels([kernel], { x: every, y: got })
        for (let i = 0; i < 65536; i++) {
          const [w, g] = [numberOf[dtype](want[i] ?? 0), numberOf[dtype](got[i] ?? 0)]
          if (!Object.is(w, g)) expect.fail(`${mode}: ${g}, expected ${w}, of bits ${i}: ${body}`)
        }
      }
  })

  test('that is combined is rounded before, in strict mode', () => {
    const text = elementwise(
      dtype,
      65536,
      `  %0 ${dtype}{i} = load x[i]\n  %1 f32{i} = cast %0\n  %2 f32 = const 1.37\n  %3 f32{i} = mul %1, %2\n  %4 ${dtype}{i} = cast %3\n  store y[i] += %4`,
    ).replace('] write', '] update')
    const kernel = { ...parseKernel(text), mode: 'strict' as const }
    verifyKernel(kernel)
    const [want, got] = [every.toReversed(), every.toReversed()]
    interpretKernel(kernel, { x: every, y: want }, { rounding: 'dtype' })
    runKernels([kernel], { x: every, y: got })
    for (let i = 0; i < 65536; i++) {
      const [w, g] = [numberOf[dtype](want[i] ?? 0), numberOf[dtype](got[i] ?? 0)]
      if (!Object.is(w, g)) expect.fail(`${g}, expected ${w}, of bits ${i}`)
    }
  })
})

test('bounds keep NaN and the signs of zeros', () => {
  const x = Float32Array.of(-0, 0, Number.NaN, 1, -1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e-45, -1e-45)
  for (const op of ['max', 'min'])
    for (const bound of ['0', '-0', '1', '-1', 'inf', '-inf', 'nan'])
      for (const args of ['%0, %1', '%1, %0']) {
        const text = elementwise(
          'f32',
          9,
          `  %0 f32{i} = load x[i]\n  %1 f32 = const ${bound}\n  %2 f32{i} = ${op} ${args}\n  store y[i] = %2`,
        )
        const kernel = parseKernel(text)
        const [want, got] = [new Float32Array(9), new Float32Array(9)]
        interpretKernel(kernel, { x, y: want }, { rounding: 'dtype' })
        runKernels([kernel], { x, y: got })
        expect([...got], `${op} ${bound}`).toEqual([...want])
      }
})
