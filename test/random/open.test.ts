/**
 * Seeded random programs whose extents vary: one program for a range gives what the static program of each shape gives, in strict mode bit
 * for bit. SINTER_PROGRAMS sets how many (2, at night 12), SINTER_FIRST_SEED where they start.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { UserError } from '../../src/diagnostics/errors.ts'
import type { Program } from '../../src/runtime/program.ts'
import { type OpenCase, openProgram, runOn, runStatic } from '../compile/openSupport.ts'
import { compiledBackend, compiledTarget } from '../support/device.ts'
import { seedsOf } from '../support/nightly.ts'
import { others, randomOpen } from './openPrograms.ts'
import { randomWideOpen, wideOthers } from './wideOpenPrograms.ts'

const count = seedsOf('SINTER_PROGRAMS', 2, 12)
const first = Number(process.env.SINTER_FIRST_SEED ?? 0)

const backend = compiledBackend({ threads: 1 })
afterAll(() => {
  backend.dispose()
})

/** Programs of one kind, with extents that no sample has, and what refusals call their dimensions. */
const kinds = [
  {
    kind: 'two extents',
    make: (seed: number) => ({ ...randomOpen(seed), isSmooth: true }),
    others,
    names: /^b, n cannot be open here: /,
    share: 1.8,
  },
  {
    kind: 'three extents',
    make: randomWideOpen,
    others: wideOthers,
    names: /^b, n, m cannot be open here: /,
    share: 1.4,
  },
] as const

/** The program for a range, planned near the greatest extents or at them, as jit plans it; why there is none. */
function opened(made: OpenCase, mode: 'fast' | 'strict', names: RegExp): Program | undefined {
  const [near, most, ...rest] = made.samples
  const orders = [made.samples, [most, near, ...rest].flatMap((s) => (s === undefined ? [] : [s]))]
  for (const samples of orders)
    try {
      return openProgram({ ...made, samples }, mode, compiledTarget).program
    } catch (error) {
      // What has no form in kernels, such as a position divided by an open extent where no other plan goes without, is refused by name.
      if (!(error instanceof UserError) || error.code !== 'E_UNSUPPORTED') throw error
      expect(error.summary).toMatch(names)
      if (process.env.SINTER_SHOW_REFUSED !== undefined) console.log(error.summary, error.where)
    }
  return undefined
}

describe.for(kinds)('random programs with $kind open', ({ make, others, names, share }) => {
  let served = 0
  for (let seed = first; seed < first + count; seed++)
    test(`seed ${seed}`, () => {
      const made = make(seed)
      for (const mode of ['fast', 'strict'] as const) {
        const program = opened(made, mode, names)
        if (program === undefined) continue
        served++
        const executable = backend.prepare(program)
        for (const at of others) {
          const graph = made.trace(at)
          const got = runOn(backend, executable, graph, at)
          for (const [o, want] of runStatic(backend, graph, mode, compiledTarget).entries()) {
            if (mode === 'strict') {
              expect(got[o], `strict at ${at.join(' by ')}`).toEqual(want)
              continue
            }
            const isWhole = want instanceof Int32Array || want instanceof BigInt64Array || want instanceof Uint8Array
            let [most, worst] = [1, 0]
            want.forEach((v, i) => {
              most = Math.max(most, Math.abs(Number(v)))
              worst = Math.max(worst, Math.abs(Number(v) - Number(got[o]?.[i])))
            })
            expect(got[o]?.length).toBe(want.length)
            // Of values that are rounded otherwise whole numbers may be others, and what jumps is told by strict mode.
            if (!isWhole && made.isSmooth) expect(worst / most, `fast at ${at.join(' by ')}`).toBeLessThan(1e-5)
          }
        }
        executable.dispose()
      }
    })
  test('many of them are open, counted in both modes', () => {
    expect(served).toBeGreaterThan(share * count)
  })
})
