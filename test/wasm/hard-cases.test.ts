/** The hard cases of the kernel IR, compiled to WebAssembly. */
import { describe, expect, test } from 'vitest'
import type { Kernel } from '../../src/kernel/ir.ts'
import { type HardCase, loadKernels } from '../kernel/hard-cases/case.ts'
import { hardCases } from '../kernel/hard-cases/cases.ts'
import { type RunOptions, runKernels } from './run.ts'

function check(c: HardCase, kernels: readonly Kernel[], options: RunOptions = {}): void {
  const buffers = c.buffers()
  const expected = c.expected(c.buffers())
  runKernels(kernels, buffers, options)
  const tolerance = c.tolerance ?? 1e-5
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

describe.each(hardCases)('$name', (c) => {
  test('fast', () => check(c, loadKernels(c.file)))
  test('strict', () =>
    check(
      c,
      loadKernels(c.file).map((k) => ({ ...k, mode: 'strict' })),
    ))
  test('one program a call', () => check(c, loadKernels(c.file), { step: 1 }))
})
