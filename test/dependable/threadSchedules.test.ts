/**
 * Schedules of threads are data: made before any code, printed, and held to laws (src/schedule/simt). test/setup.ts has every schedule
 * that a test makes verified. Sites: scheduleThreads, print, verify; `sinter explain --schedule`.
 */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { Layout } from '../../src/schedule/simt/layout.ts'
import { printThreadSchedule } from '../../src/schedule/simt/print.ts'
import { scheduleThreads } from '../../src/schedule/simt/scheduleThreads.ts'
import { verifyThreadSchedule } from '../../src/schedule/simt/verify.ts'
import { cudaSimt, type SimtMachine, webgpuSimt } from '../../src/target/simt.ts'
import { sinter } from '../cli/support.ts'

const softmax = (columns: number) =>
  parseKernel(`kernel softmax {
    param x: f32[4096, ${columns}] read
    param y: f32[4096, ${columns}] write
    axes r: 4096, c: ${columns}
    grid r
    %0 f32{r, c} = load x[r, c]
    %1 f32{r} = reduce max %0 over c
    %2 f32{r, c} = sub %0, %1
    %3 f32{r, c} = exp %2
    %4 f32{r} = reduce sum %3 over c
    %5 f32{r, c} = div %3, %4
    store y[r, c] = %5
  }`)

describe('as text', () => {
  test('a row that threads hold', () => {
    expect(printThreadSchedule(scheduleThreads(softmax(1024), cudaSimt)).join('\n')).toMatchInlineSnapshot(`
      "schedule of softmax: 4096 programs, 64 threads a program
        axis c: 1024 of 1024 a program = 4 repeats x 64 threads x 4 side by side, bits 0-5 of the thread's number"
    `)
  })
  test('a row beyond registers', () => {
    expect(printThreadSchedule(scheduleThreads(softmax(65536), webgpuSimt)).join('\n')).toMatchInlineSnapshot(`
      "schedule of softmax: 4096 programs, 256 threads a program
        axis c: 65536 of 65536 a program = 16 chunks x 4 repeats x 256 threads x 4 side by side, bits 0-7 of the thread's number"
    `)
  })
  test.each(['cuda', 'webgpu'])('sinter explain --schedule for %s', async (device) => {
    const model = 'examples/layer.ts'
    const shown = await sinter('explain', model, '--device', device, '--schedule')
    expect(shown.code).toBe(0)
    expect(shown.out).toMatch(/schedule of k0\w*: \d+ programs?, \d+ threads a program/)
    const data = JSON.parse((await sinter('explain', model, '--device', device, '--schedule', '--json')).out)
    // Stages before and after a kernel have schedules of their own.
    expect(data.schedules.length).toBeGreaterThanOrEqual(data.totals.kernels)
  })
})

describe('a made-up machine is one record', () => {
  const small: SimtMachine = {
    ...cudaSimt,
    maxThreads: 32,
    fewThreads: 32,
    laneBits: 3,
    clusters: 1,
    maxSharedBytes: 2048,
    hasMatrixUnit: false,
    hasAsyncCopy: false,
  }
  test.each([256, 1024, 65536])('rows of %d', (columns) => {
    const scheduled = scheduleThreads(softmax(columns), small)
    verifyThreadSchedule(scheduled)
    expect(scheduled.schedule).toMatchObject({ threads: 32, cluster: 1 })
    const emitted = emitKernel(softmax(columns), small)
    expect(emitted.threads).toBe(32)
    expect(emitted.sharedBytes).toBeLessThanOrEqual(small.maxSharedBytes)
  })
})

describe('laws', () => {
  const scheduled = scheduleThreads(softmax(1024), cudaSimt)
  const changed = (change: object) => {
    const [only] = scheduled.schedule.parts
    const layout = only?.layout ?? new Layout(new Map(), 1)
    const axes = new Map([...layout.axes].map(([name, a]) => [name, { ...a, ...change }]))
    const parts = scheduled.schedule.parts.map((p) => ({ ...p, layout: new Layout(axes, layout.threads) }))
    return { ...scheduled, schedule: { ...scheduled.schedule, parts } }
  }
  test.each([
    ['an axis that is not covered', { reps: 1, vec: 1 }, /places for 1024 indices/],
    ['a chunk without an index', { chunks: 2 }, /without an index/],
    ['a bit twice', { bits: [0, 0, 1, 2, 3, 4, 5, 6] }, /a bit twice/],
    ['a bit beyond the threads', { bits: [1, 2, 3, 4, 5, 6, 7, 40] }, /of the threads|of \d+$/],
  ])('%s', (_, change, message) => {
    expect(() => verifyThreadSchedule(changed(change))).toThrow(message)
  })
  test('more threads than the machine has', () => {
    const schedule = { ...scheduled.schedule, machine: { ...cudaSimt, maxThreads: 32 } }
    expect(() => verifyThreadSchedule({ ...scheduled, schedule })).toThrow(/where the machine has 32/)
  })
})
