/**
 * Schedules of threads are data: made before any code, printed, and held to laws (src/schedule/simt). test/setup.ts has every schedule
 * that a test makes verified. Sites: scheduleThreads, print, verify; `sinter explain --schedule`.
 */
import { describe, expect, test } from 'vitest'
import { candidateSources, emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { candidateSchedules } from '../../src/schedule/simt/candidates.ts'
import { Layout } from '../../src/schedule/simt/layout/layout.ts'
import { printThreadSchedule } from '../../src/schedule/simt/print.ts'
import { scheduleThreads } from '../../src/schedule/simt/scheduleThreads.ts'
import { verifyThreadSchedule } from '../../src/schedule/simt/verify.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { priceOf } from '../../src/target/prices.ts'
import { cudaSimt, type SimtMachine, webgpuSimt } from '../../src/target/simt.ts'
import { sinter } from '../cli/support.ts'
import { workloads } from '../simt/programs/workloads.ts'
import { nightly } from '../support/nightly.ts'

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

describe('candidates', () => {
  test('the first is the one that is emitted, later ones hold less in registers', () => {
    const kernel = softmax(8192)
    const [first, ...others] = [...candidateSources(kernel, cudaSimt)]
    expect(first).toEqual({ form: {}, source: emitKernel(kernel, cudaSimt) })
    const longest = (source: string): number =>
      Math.max(0, ...[...source.matchAll(/^\s*float \w+\[(\d+)\];$/gm)].map((m) => Number(m[1])))
    const held = [first, ...others].map((c) => longest(c?.source.source ?? ''))
    expect(held.length).toBeGreaterThan(1)
    expect(held).toEqual([...held].sort((a, b) => b - a))
  })
  test('none is emitted twice, however many schedules are alike', () => {
    const sources = [...candidateSources(softmax(64), cudaSimt)].map((c) => c.source.source)
    expect(new Set(sources).size).toBe(sources.length)
    expect(sources.length).toBeLessThan([...candidateSchedules(softmax(64), cudaSimt)].length)
  })
})

describe('as text', () => {
  test('a row that threads hold', () => {
    expect(printThreadSchedule(scheduleThreads(softmax(1024), cudaSimt)).join('\n')).toMatchInlineSnapshot(`
      "schedule of softmax: 4096 programs, 64 threads a program, 32 B of shared memory a block; arithmetic 3.6 us
        axis c: 1024 of 1024 a program = 4 repeats x 64 threads x 4 side by side, bits 0-5 of the thread's number
        over c (4 repeats): load x (4 at a time); registers keep x_0
        over c (4 repeats x 4 side by side): fold max %1
        end %1: exchange %1 among lanes, then %1 through shared memory (2 parts)
        over c (4 repeats x 4 side by side): sub, exp, fold sum %4; registers keep exp_3
        end %4: exchange %4 among lanes, then %4 through shared memory (2 parts)
        over c (4 repeats x 4 side by side): div; registers keep div_5
        over c (4 repeats): store y (4 at a time)"
    `)
  })
  test('a row beyond registers', () => {
    expect(printThreadSchedule(scheduleThreads(softmax(65536), webgpuSimt)).join('\n')).toMatchInlineSnapshot(`
      "schedule of softmax: 4096 programs, 256 threads a program, 2048 B of shared memory a block; arithmetic 350 us
        axis c: 65536 of 65536 a program = 16 chunks x 4 repeats x 256 threads x 4 side by side, bits 0-7 of the thread's number
        walk over 16 chunks of c; loads x a chunk early into registers; %4 stream against the extreme %1 as it is found
          over c (4 repeats): take x from registers; registers keep x_0
          over c (4 repeats x 4 side by side): fold max %1
          move sums to the anchor so far (%1)
          over c (4 repeats x 4 side by side): sub, exp (coarse, NaN comes another way), fold sum %4
        end %1: exchange %1 through shared memory (256 parts)
        end %4: exchange %4 through shared memory (256 parts)
        walk over 16 chunks of c, the last first; loads x a chunk early into registers
          over c (4 repeats): take x from registers; registers keep x_0
          over c (4 repeats x 4 side by side): sub, exp, div; registers keep div_5
          over c (4 repeats): store y (4 at a time)"
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
  test.each([256, 1024, 65536])('rows of %d', (columns) => {
    const scheduled = scheduleThreads(softmax(columns), small)
    verifyThreadSchedule(scheduled)
    expect(scheduled.schedule).toMatchObject({ threads: 32, cluster: 1 })
    const emitted = emitKernel(softmax(columns), small)
    expect(emitted.threads).toBe(32)
    expect(emitted.sharedBytes).toBe(scheduled.schedule.sharedBytes)
    expect(emitted.sharedBytes).toBeLessThanOrEqual(small.maxSharedBytes)
  })
})

describe('every workload on every machine', () => {
  const ampere: SimtMachine = { ...cudaSimt, clusters: 1, hasWarpGroupProducts: false, maxSharedBytes: 163 << 10 }
  const machines: Record<string, SimtMachine> = {
    hopper: cudaSimt,
    ampere,
    'without matrix units and copies': { ...ampere, hasMatrixUnit: false, hasAsyncCopy: false, foldsLanes: false },
    'few threads, narrow lanes': { ...small, maxSharedBytes: 64 << 10 },
    webgpu: webgpuSimt,
    'a large adapter': { ...webgpuSimt, maxThreads: 1024, laneBits: 5, maxSharedBytes: 32 << 10 },
  }
  const kernels = (['fast', 'strict'] as const).flatMap((mode) =>
    Object.values(workloads()).flatMap((graph) =>
      compileGraph(graph, { mode, target: cudaTarget }).program.steps.flatMap((s) =>
        s.kind === 'kernel' ? [s.kernel] : [],
      ),
    ),
  )
  // By day each machine has every third kernel, another one first.
  test.each(Object.entries(machines))('%s', (name, machine) => {
    const first = Object.keys(machines).indexOf(name) % 3
    for (const kernel of kernels.filter((_, i) => nightly || i % 3 === first)) {
      for (const form of [{}, { loadsAhead: false }, { registers: 8 }]) {
        const scheduled = scheduleThreads(kernel, machine, {}, form)
        verifyThreadSchedule(scheduled)
        expect(printThreadSchedule(scheduled)[0]).toContain(`schedule of ${kernel.name}: `)
      }
      // Emission takes the shared memory that is scheduled (debug.verify), or says that the machine has less.
      const { sharedBytes } = scheduleThreads(kernel, machine).schedule
      if (sharedBytes > machine.maxSharedBytes)
        expect(() => emitKernel(kernel, machine)).toThrow(`${sharedBytes} bytes`)
      else expect(emitKernel(kernel, machine).sharedBytes).toBe(sharedBytes)
    }
  })
})

test('a function that costs twice as much takes twice as long', () => {
  const chain = (op: string) =>
    parseKernel(`kernel chain {
    param x: f32[1048576] read
    param y: f32[1048576] write
    axes i: 1048576
    grid i/4096
    %0 f32{i} = load x[i]
    %1 f32{i} = ${op} %0
    %2 f32{i} = ${op} %1
    %3 f32{i} = ${op} %2
    store y[i] = %3
  }`)
  const seconds = (machine: SimtMachine, op: string): number => scheduleThreads(chain(op), machine).schedule.seconds
  for (const machine of [cudaSimt, webgpuSimt]) {
    const { prices } = machine
    const exp = { ...prices.scalar.exp, f32: 2 * priceOf('exp', 'f32', prices) }
    const dearer = { ...machine, prices: { ...prices, scalar: { ...prices.scalar, exp } } }
    const load = seconds(machine, 'neg') - 3 * 1048576 * priceOf('neg', 'f32', prices)
    const [once, twice] = [seconds(machine, 'exp'), seconds(dearer, 'exp')]
    expect((twice - load) / (once - load)).toBeCloseTo(2, 6)
    expect(seconds(dearer, 'tanh')).toBe(seconds(machine, 'tanh'))
  }
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
  const without = (at: number) => {
    const parts = scheduled.schedule.parts.map((p) => {
      const entries = p.body.entries.filter((_, i) => i !== at)
      return { ...p, body: { ...p.body, entries } }
    })
    return { ...scheduled, schedule: { ...scheduled.schedule, parts } }
  }
  test('whatever is left out is missed', () => {
    const entries = scheduled.schedule.parts[0]?.body.entries ?? []
    expect(entries.length).toBeGreaterThan(7)
    for (const i of entries.keys())
      expect(() => verifyThreadSchedule(without(i))).toThrow(
        /does not stand|never happens|before it begins|without a term/,
      )
  })
  test('a walk over what is not cut', () => {
    const cut = scheduleThreads(softmax(65536), cudaSimt)
    const whole = scheduleThreads(softmax(1024), cudaSimt).schedule.parts[0]?.layout
    const walked = scheduleThreads(softmax(65536), webgpuSimt)
    verifyThreadSchedule(cut)
    const parts = walked.schedule.parts.map((p) => ({ ...p, layout: whole ?? p.layout }))
    expect(() => verifyThreadSchedule({ ...walked, schedule: { ...walked.schedule, parts } })).toThrow(/walk over c/)
  })
  test('more threads than the machine has', () => {
    const schedule = { ...scheduled.schedule, machine: { ...cudaSimt, maxThreads: 32 } }
    expect(() => verifyThreadSchedule({ ...scheduled, schedule })).toThrow(/where the machine has 32/)
  })
})
