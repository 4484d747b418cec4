/**
 * Seeded random programs through the whole compiler: fused = unfused = reference within each program's own bound, and in
 * strict mode fused equals unfused bit for bit, on one thread and on two. SINTER_PROGRAMS sets how many;
 * SINTER_FIRST_SEED where they start.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { HostArray } from '../../src/types/host.ts'
import { compiledBackend, compiledTarget } from '../support/device.ts'
import { seedsOf } from '../support/nightly.ts'
import { difference, execute, smallBlocks } from './execute.ts'
import { type RandomProgram, randomGraph } from './graphs.ts'

const count = seedsOf('SINTER_PROGRAMS', 10, 1000)
const first = Number(process.env.SINTER_FIRST_SEED ?? 0)
const perTest = 50

const one = compiledBackend({ threads: 1 })
const two = compiledBackend({ threads: 2, shareAbove: 0 })
afterAll(() => {
  one.dispose()
  two.dispose()
})

function check(
  seed: number,
  what: string,
  p: RandomProgram,
  actual: readonly HostArray[],
  expected: readonly HostArray[],
  exact: boolean,
): void {
  expected.forEach((e, i) => {
    const a = actual[i]
    const dtype = p.graph.outputs[i]?.dtype ?? 'f32'
    const why = a === undefined ? 'no result' : difference(a, e, dtype, exact ? undefined : (p.tolerances[i] ?? 0))
    expect(why, `seed ${seed}, ${what}, output ${i}`).toBeUndefined()
  })
}

describe('random programs', () => {
  for (let from = first; from < first + count; from += perTest) {
    test(`seeds ${from} to ${Math.min(from + perTest, first + count) - 1}`, () => {
      for (let seed = from; seed < Math.min(from + perTest, first + count); seed++) {
        const p = randomGraph(seed)
        const reference = evaluateGraph(p.graph, p.inputs, { rounding: 'dtype' }).map(toHostArray)
        const compiled = (mode: 'fast' | 'strict', fuse: boolean, target = compiledTarget) =>
          compileGraph(p.graph, { mode, target, fuse, verify: true }).program
        check(seed, 'fast fused', p, execute(one, compiled('fast', true), p), reference, false)
        check(seed, 'fast unfused', p, execute(one, compiled('fast', false), p), reference, false)
        const strict = compiled('strict', true)
        const alone = execute(one, compiled('strict', false), p)
        check(seed, 'strict unfused', p, alone, reference, false)
        check(seed, 'strict fused against unfused', p, execute(one, strict, p), alone, true)
        check(seed, 'strict fused on two threads', p, execute(two, strict, p), alone, true)
        const small = compiled('strict', true, smallBlocks)
        check(seed, 'strict, small blocks, two threads', p, execute(two, small, p), alone, true)
        check(
          seed,
          'fast, small blocks, two threads',
          p,
          execute(two, compiled('fast', true, smallBlocks), p),
          reference,
          false,
        )
      }
    })
  }
})
