/** Runs a kernel in both dialects: WGSL on a software adapter, and CUDA on the host. */
import { test } from 'vitest'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { atNight } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from './emulator/emulator.ts'
import { type Buffers, openDevice, runWgsl } from './wgsl.ts'

/**
 * Tests of what a kernel makes of buffers in each dialect; `what` begins their names. A pipeline of WGSL takes long to make on a software
 * adapter: of many kernels of one kind, those that are not `wgslByDay` have WGSL at night alone.
 */
export function inBothDialects<B extends Buffers>(
  what: string,
  kernel: Kernel,
  buffers: () => B,
  check: (b: B, dialect: 'wgsl' | 'cuda') => void,
  wgslByDay = true,
): void {
  const name = (where: string): string => (what === '' ? where : `${what} ${where}`)
  const inWgsl = wgslByDay ? test : atNight
  inWgsl(name('in WGSL'), async ({ skip }) => {
    const machine = await openDevice()
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const b = buffers()
    await runWgsl(machine, [kernel], b)
    check(b, 'wgsl')
  })

  test.skipIf(!hasCompiler())(name('in CUDA on the host (skipped where g++ is missing)'), () => {
    const emulated = new Emulated([kernel])
    const b = buffers()
    emulated.run(0, b)
    emulated.dispose()
    check(b, 'cuda')
  })
}
