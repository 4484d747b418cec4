/**
 * Seeded random programs whose extents vary: one program for a range gives what the static program of each shape gives, in strict mode bit
 * for bit. SINTER_PROGRAMS sets how many (default 12), SINTER_FIRST_SEED where they start.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { UserError } from '../../src/diagnostics/errors.ts'
import { openProgram, runOn, runStatic } from '../compile/openSupport.ts'
import { compiledBackend, compiledTarget } from '../support/device.ts'
import { others, randomOpen } from './openPrograms.ts'

const count = Number(process.env.SINTER_PROGRAMS ?? 12)
const first = Number(process.env.SINTER_FIRST_SEED ?? 0)

const backend = compiledBackend({ threads: 1 })
afterAll(() => {
  backend.dispose()
})

describe('random programs with open extents', () => {
  let opened = 0
  for (let seed = first; seed < first + count; seed++)
    test(`seed ${seed}`, () => {
      const made = randomOpen(seed)
      for (const mode of ['fast', 'strict'] as const) {
        let program: ReturnType<typeof openProgram>['program']
        try {
          program = openProgram(made, mode, compiledTarget).program
        } catch (error) {
          // A position divided by an open extent has no form in kernels: it is refused by name.
          if (!(error instanceof UserError) || error.code !== 'E_UNSUPPORTED') throw error
          expect(error.summary).toMatch(/^b, n cannot be open here: /)
          continue
        }
        opened++
        const executable = backend.prepare(program)
        for (const at of others) {
          const graph = made.trace(at)
          const got = runOn(backend, executable, graph, at)
          for (const [o, want] of runStatic(backend, graph, mode, compiledTarget).entries()) {
            if (mode === 'strict') {
              expect(got[o], `strict at ${at.join(' by ')}`).toEqual(want)
              continue
            }
            let [most, worst] = [1, 0]
            want.forEach((v, i) => {
              most = Math.max(most, Math.abs(Number(v)))
              worst = Math.max(worst, Math.abs(Number(v) - Number(got[o]?.[i])))
            })
            expect(worst / most, `fast at ${at.join(' by ')}`).toBeLessThan(1e-5)
          }
        }
        executable.dispose()
      }
    })
  test('most of them are open', () => {
    expect(opened).toBeGreaterThan(count)
  })
})
