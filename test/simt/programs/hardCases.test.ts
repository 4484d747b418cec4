/** The hard cases of the kernel IR, compiled to WGSL. */
import { beforeAll, describe, expect, test } from 'vitest'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { type HardCase, loadKernels } from '../../kernel/hard-cases/case.ts'
import { hardCases } from '../../kernel/hard-cases/cases.ts'
import { atNight } from '../../support/nightly.ts'
import { type Adapter, openDevice, type RunOptions, runWgsl } from '../dialects/wgsl.ts'

let machine: Adapter | string

beforeAll(async () => {
  machine = await openDevice()
})

async function check(c: HardCase, kernels: readonly Kernel[], options: RunOptions = {}): Promise<void> {
  if (typeof machine === 'string') throw new Error(machine)
  const buffers = c.buffers()
  const expected = c.expected(c.buffers())
  await runWgsl(machine, kernels, buffers, options)
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
  /** By day every other one, in one of three ways, in turn. */
  const at = hardCases.indexOf(c) / 2
  const way = (i: number) => (at % 3 === i ? test : atNight)

  way(0)('fast', ({ skip }) => {
    skip(typeof machine === 'string', String(machine))
    return check(c, loadKernels(c.file))
  })
  way(1)('strict', ({ skip }) => {
    skip(typeof machine === 'string', String(machine))
    return check(
      c,
      loadKernels(c.file).map((k) => ({ ...k, mode: 'strict' })),
    )
  })
  way(2)('subgroups, two-dimensional dispatch', ({ skip }) => {
    skip(typeof machine === 'string', String(machine))
    return check(c, loadKernels(c.file), { subgroups: true, perDimension: 2 })
  })
})
