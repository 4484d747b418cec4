/** Functions of many instructions: computed in turn, in loops of their own, and once where only some loops vary them. */
import { describe, expect, test } from 'vitest'
import type { LoopStep } from '../../src/schedule/loop/ir/schedule.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { linesOf, scheduled } from './scheduled.ts'

describe('functions of functions', () => {
  const chain = (ops: readonly string[], n = 4096, dtype = 'f32'): string => `kernel chain {
  param x: ${dtype}[${n}] read
  param y: ${dtype}[${n}] write
  axes i: ${n}
  grid i/${n}
  %0 ${dtype}{i} = load x[i]
${ops.map((op, i) => `  %${i + 1} ${dtype}{i} = ${op} %${i}`).join('\n')}
  store y[i] = %${ops.length}
}`
  const nestOf = (text: string, machine = wasmTarget): Extract<LoopStep, { kind: 'nest' }> => {
    const [{ schedule }] = scheduled(text, machine)
    const [step] = schedule.body.steps
    if (step?.kind !== 'nest') throw new Error('no nest')
    return step
  }

  test('are computed for several groups of lanes in turn, one alone for one', () => {
    expect(nestOf(chain(['exp']))).toMatchObject({ copies: 1, inTurn: [] })
    expect(nestOf(chain(['exp', 'neg', 'tanh']))).toMatchObject({ copies: 4, inTurn: [1, 3] })
    expect(linesOf(chain(['exp', 'neg', 'tanh']))).toContain('nest i(4096 by 16): %1, %3 in turn')
  })

  test('wait for nothing on a machine whose results are there at once, or that looks far ahead', () => {
    const { loops } = wasmTarget
    if (loops === undefined) throw new Error('WebAssembly has loops')
    const text = chain(['exp', 'exp', 'exp'])
    expect(nestOf(text, { ...wasmTarget, loops: { ...loops, latency: 0 } }).copies).toBe(1)
    expect(nestOf(text, { ...wasmTarget, loops: { ...loops, window: 1 } }).copies).toBe(1)
  })

  test('get loops of their own where their results stand near', () => {
    expect(linesOf(chain(['exp', 'neg', 'tanh'], 1001))).toMatchInlineSnapshot(`
      "schedule of k: 1 program of i/1001, 4160 bytes of scratch
        nest i(1001 by 4): fetching x[4*i]
          keep %1 in tile 64 (i:4) f32
        nest i(1001 by 8): %3 in turn
          store y = %3"
    `)
    expect(linesOf(chain(['exp', 'neg', 'tanh'], 2304))).toContain('keep %1')
    expect(linesOf(chain(['exp', 'neg', 'tanh'], 2305))).not.toContain('keep')
    expect(linesOf(chain(['exp', 'neg'], 1001))).not.toContain('keep')
  })

  test('of some of the loops are computed once for all steps of the others', () => {
    const logarithm = `kernel logarithm {
  param x: f32[37, 53] read
  param l: f32[53] read
  param y: f32[37, 53] write
  axes i: 37, j: 53
  grid i/37, j/53
  %0 f32{j} = load l[j]
  %1 f32{j} = log %0
  %2 f32{i, j} = load x[i, j]
  %3 f32{i, j} = sub %2, %1
  store y[i, j] = %3
}`
    expect(linesOf(logarithm)).toMatchInlineSnapshot(`
      "schedule of k: 1 program of i/37, j/53, 384 bytes of scratch
        nest j(53 by 16): %1 in turn
          keep %1 in tile 64 (j:4) f32
        nest i(37) j(53 by 16)
          store y = %3"
    `)
  })

  test('are not written out with the terms of short sums', () => {
    const short = (op: string): string => `kernel short {
  param x: f32[9, 53] read
  param y: f32[53] write
  axes i: 9, j: 53
  grid j/53
  %0 f32{i, j} = load x[i, j]
  %1 f32{i, j} = ${op} %0
  %2 f32{j} = reduce sum %1 over i
  store y[j] = %2
}`
    expect(linesOf(short('neg'))).not.toContain('fold')
    expect(linesOf(short('exp'))).toContain('fold %2 = sum %1')
  })

  test('are not in turn where there is one group', () => {
    expect(linesOf(chain(['exp', 'neg', 'tanh'], 8))).toContain('%3 in turn')
    expect(linesOf(chain(['exp', 'neg', 'tanh'], 7))).not.toContain('in turn')
  })
})
