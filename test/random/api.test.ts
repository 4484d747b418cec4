/**
 * Seeded random programs through the public interface, as users write them: derivatives, batches, control flow, rules, optimisers,
 * donation and several calls in a row. What they give lazily and jitted is compared with the float64 reference, within what
 * rounding does to each of them; in strict mode fused equals unfused bit for bit. SINTER_PROGRAMS sets how many (default 24),
 * SINTER_FIRST_SEED where they start, SINTER_TEST_DEVICE the device.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { createReferenceDevice } from '../../src/api/reference.ts'
import { setDevice } from '../../src/index.ts'
import { compiledBackend, compiledTarget } from '../support/device.ts'
import { apiProgram, moduleText } from './api/programs.ts'
import { bounds, checkedDevice, type Held, results, sameBytes, wrong } from './api/run.ts'
import { smallBlocks } from './execute.ts'

const count = Number(process.env.SINTER_PROGRAMS ?? 24)
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

async function check(seed: number): Promise<void> {
  setDevice('reference')
  const p = apiProgram(seed)
  const calls = p.next.size > 0 ? 3 : 2
  const want = await results(p, { device: reference, calls })
  const rounded = await results(p, { device: reference, mode: 'strict', calls })
  const moved = await results(p, { device: reference, moved: true, calls })
  const bound = bounds(p, want, [rounded, moved])
  compared += bound.length
  left += bound.filter((b) => b === undefined).length
  const fail = (what: string, why: string): never =>
    expect.fail(`seed ${seed}, ${what}: ${why}\n${moduleText(p, what.includes('strict') ? 'strict' : 'fast')}`)
  const near = (what: string, got: readonly Held[]): void => {
    const why = wrong(got, want, bound)
    if (why !== undefined) fail(what, why)
  }
  const ways = [
    ['lazily', { device: fused, calls }],
    ['fast', { device: fused, mode: 'fast', calls }],
    ['fast, small blocks', { device: small, mode: 'fast', calls }],
  ] as const
  const run = async (what: string, way: Parameters<typeof results>[1]): Promise<Held[]> => {
    try {
      return await results(p, way)
    } catch (error) {
      return fail(what, error instanceof Error ? (error.stack ?? error.message) : String(error))
    }
  }
  for (const [what, way] of ways) near(what, await run(what, way))
  const alone = await run('strict, unfused', { device: unfused, mode: 'strict', calls })
  near('strict, unfused', alone)
  for (const [what, device] of [
    ['strict', fused],
    ['strict, small blocks', small],
  ] as const)
    (await run(what, { device, mode: 'strict', calls })).forEach((g, i) => {
      const a = alone[i]
      if (a === undefined || !sameBytes(g, a))
        fail(
          what,
          `result ${i} is not bit for bit that of the unfused program: ${g.data.slice(0, 9)}, not ${a?.data.slice(0, 9)}`,
        )
    })
}

describe('random programs through the public interface', () => {
  for (let from = first; from < first + count; from += perTest) {
    const until = Math.min(from + perTest, first + count)
    test(`seeds ${from} to ${until - 1}`, async () => {
      for (let seed = from; seed < until; seed++) await check(seed)
    })
  }
  test.runIf(count >= 24)('few results are too uncertain to compare', () => {
    expect(left).toBeLessThan(0.2 * compared)
  })
})
