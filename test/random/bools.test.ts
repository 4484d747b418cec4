/**
 * Seeded random programs full of comparisons, run operation by operation and fused, so that bools stand between kernels as
 * bits: written in rows of every length and read through every kind of view. SINTER_PROGRAMS sets how many.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { compiledBackend, compiledTarget } from '../support/device.ts'
import { seedsOf } from '../support/nightly.ts'
import { difference, execute, smallBlocks } from './execute.ts'
import { randomGraph } from './graphs.ts'

const count = seedsOf('SINTER_PROGRAMS', 12, 300)
const perTest = 50

const one = compiledBackend({ threads: 1 })
const three = compiledBackend({ threads: 3, shareAbove: 0 })
afterAll(() => {
  one.dispose()
  three.dispose()
})

const whole = { ...compiledTarget, packBools: true }
const small = { ...smallBlocks, packBools: true }

const only = [
  ...['compare', 'logic', 'select', 'cast', 'arithmetic', 'reduce', 'contract'],
  ...['reshape', 'permute', 'broadcast', 'slice', 'flip', 'pad', 'concat', 'window', 'gather'],
]

describe('random programs of bools', () => {
  let packed = 0
  for (let from = 0; from < count; from += perTest) {
    const until = Math.min(from + perTest, count)
    test(`seeds ${from} to ${until - 1}`, () => {
      for (let seed = from; seed < until; seed++) {
        const p = randomGraph(seed, { only, dtypes: ['bool', 'bool', 'f32', 'i32'], operations: 14, maxElements: 900 })
        const reference = evaluateGraph(p.graph, p.inputs, { rounding: 'dtype' }).map(toHostArray)
        for (const fuse of [true, false])
          for (const mode of ['fast', 'strict'] as const)
            for (const [backend, target] of [
              [one, whole],
              [three, small],
            ] as const) {
              const { program } = compileGraph(p.graph, { mode, target, fuse, verify: true })
              const got = execute(backend, program, p)
              if (program.buffers.some((b) => b.format === 'bits')) packed++
              reference.forEach((e, i) => {
                const dtype = p.graph.outputs[i]?.dtype ?? 'f32'
                const a = got[i]
                const why = a === undefined ? 'no result' : difference(a, e, dtype, p.tolerances[i] ?? 0)
                expect(
                  why,
                  `seed ${seed}, ${mode}, fuse ${fuse}, ${target === small ? 'small' : 'whole'} blocks, output ${i}`,
                ).toBeUndefined()
              })
            }
      }
    })
  }
  test('bits are common among them', () => {
    expect(packed).toBeGreaterThan(count / 2)
  })
})
