/** The design's hard cases, written by hand in the kernel's text form and run in the interpreter against plain code. */
import { describe, expect, test } from 'vitest'
import { type InterpretOptions, interpretKernel } from '../../../src/kernel/interpret.ts'
import { parseKernels } from '../../../src/kernel/parse.ts'
import { printKernel } from '../../../src/kernel/print.ts'
import { verifyKernel } from '../../../src/kernel/verify.ts'
import { atNight } from '../../support/nightly.ts'
import { type HardCase, loadKernels } from './case.ts'
import { hardCases } from './cases.ts'

function check(c: HardCase, options: InterpretOptions, tolerance: number): void {
  const buffers = c.buffers()
  const expected = c.expected(c.buffers())
  for (const kernel of loadKernels(c.file)) interpretKernel(kernel, buffers, options)
  for (const [name, want] of Object.entries(expected)) {
    const got = Array.from(buffers[name] ?? [], Number)
    expect(got.length, name).toBe(want.length)
    want.forEach((w, i) => {
      const g = got[i] ?? Number.NaN
      const close = Object.is(g, w) || Math.abs(g - w) <= tolerance * Math.max(1, Math.abs(w))
      if (!close) expect.fail(`${name}[${i}] is ${g}, expected ${w}`)
    })
  }
}

// By day every other case in double precision, the others with every statement rounded.
const isEven = (c: HardCase): boolean => hardCases.indexOf(c) % 2 === 0

describe.each(hardCases)('$name', (c) => {
  const [even, odd] = isEven(c) ? [test, atNight] : [atNight, test]
  odd('in double precision', () => check(c, { rounding: 'f64' }, 2e-7))
  odd('every statement rounded', () => check(c, { rounding: 'dtype' }, c.tolerance ?? 1e-5))
  even('programs in the opposite order', () => check(c, { rounding: 'f64', order: 'backward' }, 2e-7))
  test('the text form reads back', () => {
    const kernels = loadKernels(c.file)
    kernels.forEach(verifyKernel)
    expect(parseKernels(kernels.map(printKernel).join('\n'))).toEqual(kernels)
  })
})
