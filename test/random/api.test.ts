/**
 * Seeded random programs through the public interface, as users write them: derivatives, batches, control flow, rules, optimisers,
 * donation and several calls in a row. What they give lazily and jitted is compared with the float64 reference, within what
 * rounding does to each of them; in strict mode fused equals unfused bit for bit. SINTER_PROGRAMS sets how many (by day 5, at night 16),
 * SINTER_FIRST_SEED where they start, SINTER_TEST_DEVICE the device.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { createReferenceDevice } from '../../src/api/device/reference.ts'
import { setDevice, UserError } from '../../src/index.ts'
import { compiledBackend, compiledTarget } from '../support/device.ts'
import { nightly, seedsOf } from '../support/nightly.ts'
import { openSoftware } from '../webgpu/software.ts'
import { type ApiProgram, apiProgram, moduleText } from './api/programs.ts'
import { bounds, checkedDevice, type Held, results, sameBytes, type Way, wrong } from './api/run.ts'
import { smallBlocks } from './execute.ts'

const count = seedsOf('SINTER_PROGRAMS', 5, 16)
const first = Number(process.env.SINTER_FIRST_SEED ?? 0)
const perTest = 8

const one = compiledBackend({ threads: 1 })
const two = compiledBackend({ threads: 2, shareAbove: 0 })
const reference = createReferenceDevice()
const fused = checkedDevice(one, { ...compiledTarget, packBools: true }, true)
const unfused = checkedDevice(one, compiledTarget, false)
const small = checkedDevice(two, { ...smallBlocks, packBools: true }, true)
afterAll(() => {
  setDevice('reference')
  one.dispose()
  two.dispose()
})

let [compared, left] = [0, 0]

/** What a seed's program gives on the reference, and how far other devices may be from it. */
async function expected(p: ApiProgram, calls: number): Promise<{ want: Held[]; bound: (number | undefined)[] }> {
  const want = await results(p, { device: reference, calls })
  const rounded = await results(p, { device: reference, mode: 'strict', calls })
  const moved = await results(p, { device: reference, moved: true, calls })
  const bound = bounds(p, want, [rounded, moved])
  compared += bound.length
  left += bound.filter((b) => b === undefined).length
  return { want, bound }
}

const callsOf = (p: ApiProgram): number => (p.next.size > 0 ? 3 : 2)

const fail = (p: ApiProgram, what: string, why: string): never =>
  expect.fail(`seed ${p.seed}, ${what}: ${why}\n${moduleText(p, what.startsWith('strict') ? 'strict' : 'fast')}`)

/** Runs a program, which must not throw; `undefined` where the device refuses what is in it. */
async function run(p: ApiProgram, what: string, way: Way): Promise<Held[] | undefined> {
  try {
    return await results(p, way)
  } catch (error) {
    if (way.device.name === 'webgpu' && error instanceof UserError && error.code === 'E_UNSUPPORTED') return undefined
    return fail(p, what, error instanceof Error ? (error.stack ?? error.message) : String(error))
  }
}

async function check(seed: number): Promise<void> {
  setDevice('reference')
  const p = apiProgram(seed)
  const calls = callsOf(p)
  const { want, bound } = await expected(p, calls)
  const near = (what: string, got: readonly Held[] | undefined): void => {
    const why = wrong(got ?? [], want, bound)
    if (why !== undefined) fail(p, what, why)
  }
  const ways = [
    ['lazily', { device: fused, calls }],
    ['fast', { device: fused, mode: 'fast', calls }],
    ['fast, small blocks', { device: small, mode: 'fast', calls }],
    ['fast, in less memory', { device: fused, mode: 'fast', tight: true, calls }],
  ] as const
  // Less memory is worth a try where values are kept for a backward pass.
  for (const [what, way] of ways)
    if (!('tight' in way) || /grad|vjp|Grad/.test(p.text)) near(what, await run(p, what, way))
  const alone = await run(p, 'strict, unfused', { device: unfused, mode: 'strict', calls })
  near('strict, unfused', alone)
  for (const [what, device] of [
    ['strict', fused],
    ['strict, small blocks', small],
  ] as const) {
    const got = await run(p, what, { device, mode: 'strict', calls })
    got?.forEach((g, i) => {
      const a = alone?.[i]
      if (a === undefined || !sameBytes(g, a))
        fail(p, what, `result ${i} is ${g.data.slice(0, 9)}, and unfused ${a?.data.slice(0, 9)}`)
    })
  }
}

describe('random programs through the public interface', () => {
  for (let from = first; from < first + count; from += perTest) {
    const until = Math.min(from + perTest, first + count)
    test(`seeds ${from} to ${until - 1}`, async () => {
      for (let seed = from; seed < until; seed++) await check(seed)
    })
  }
  test('on WebGPU', async ({ skip }) => {
    const device = await openSoftware()
    if (typeof device === 'string') return skip(device)
    let ran = 0
    for (let seed = first; seed < first + Math.min(count, nightly ? 12 : 2); seed++) {
      setDevice('reference')
      const p = apiProgram(seed, { floats: ['f32'], integers: ['bool', 'i32', 'u32', 'i64', 'u8'], statements: 4 })
      const calls = callsOf(p)
      const { want, bound } = await expected(p, calls)
      const got = await run(p, 'on WebGPU', { device, mode: 'fast', calls })
      const why = got === undefined ? undefined : wrong(got, want, bound)
      if (why !== undefined) fail(p, 'on WebGPU', why)
      if (got !== undefined) ran++
    }
    expect(ran).toBeGreaterThan(0)
  })
  test.runIf(count >= 16 || !nightly)('few results are too uncertain to compare', () => {
    expect(left).toBeLessThan(0.2 * compared)
  })
})
