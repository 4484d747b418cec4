/** Quotients in half precision by numbers: products with reciprocals, which round to the same halves. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { parseKernels } from '../../../src/kernel/parse.ts'
import { bf16ToNumber, f16ToNumber, numberToBf16, numberToF16 } from '../../../src/scalar/half.ts'
import { cudaSimt } from '../../../src/target/simt.ts'
import { makeRng } from '../../random/rng.ts'

const formats = {
  f16: { number: f16ToNumber, bits: numberToF16, leastNormal: 2 ** -14 },
  bf16: { number: bf16ToNumber, bits: numberToBf16, leastNormal: 2 ** -126 },
} as const

describe.each(['f16', 'bf16'] as const)('%s', (dtype) => {
  const { number, bits, leastNormal } = formats[dtype]

  test('a product in f32 with the reciprocal gives the quotient, unless that is subnormal', () => {
    const rng = makeRng(7)
    for (let round = 0; round < 60; round++) {
      const c = number(bits((rng.int(1025, 2047) / 1024) * 2 ** rng.int(-12, 12)))
      const reciprocal = Math.fround(1 / c)
      for (let i = 0; i < 2 ** 16; i += rng.int(1, 9)) {
        const x = number(i)
        const [want, got] = [bits(x / c), bits(Math.fround(x * reciprocal))]
        if (Math.abs(x / c) >= leastNormal && want !== got) expect([x, c, number(got)]).toEqual([x, c, number(want)])
      }
    }
  })

  const source = (mode: 'fast' | 'strict', divisor: string): string => {
    const [kernel] = parseKernels(`kernel scaled ${mode === 'strict' ? 'strict ' : ''}{
  param x: ${dtype}[64] read
  param z: ${dtype}[64] read
  param y: ${dtype}[64] write
  axes i: 64
  grid i/64
  %0 ${dtype}{i} = load x[i]
  %1 ${dtype}${divisor}
  %2 ${dtype}{i} = div %0, %1
  store y[i] = %2
}`)
    if (kernel === undefined) throw new Error('no kernel')
    return emitKernel(kernel, cudaSimt).source
  }

  test('kernels multiply', () => {
    expect(source('fast', ' = const 11.3125')).not.toMatch(/fdiv/)
    expect(source('fast', '{i} = load z[i]')).toMatch(/fdiv/)
    // Its reciprocal is beyond f32.
    expect(source('fast', ' = const 0')).toMatch(/fdiv/)
  })
})
