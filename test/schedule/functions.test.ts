/** Functions of many instructions: computed in turn, in loops of their own, and once where only some loops vary them. */
import { describe, expect, test } from 'vitest'
import type { LoopStep } from '../../src/schedule/loop/ir/schedule.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { compare } from '../wasm/compare.ts'
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

  test('are computed for several groups of lanes in turn, a short one for one', () => {
    expect(nestOf(chain(['sqrt']))).toMatchObject({ copies: 1, inTurn: [] })
    expect(nestOf(chain(['exp']))).toMatchObject({ copies: 2, inTurn: [1] })
    expect(nestOf(chain(['exp', 'neg', 'tanh']))).toMatchObject({ copies: 4, inTurn: [1, 3] })
    expect(linesOf(chain(['exp', 'neg', 'tanh']))).toContain('nest i(4096 by 16): %1, %3 in turn')
  })

  test('wait for conversions from short formats and to them, too', () => {
    expect(nestOf(chain(['exp'], 4096, 'f16'))).toMatchObject({ inTurn: [1] })
    expect(nestOf(chain(['exp'], 4096, 'f16')).copies).toBeGreaterThan(1)
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
        nest i(1001 by 8): %1 in turn, fetching x[4*i]
          keep %1 in tile 64 (i:4) f32
        nest i(1001 by 16): %3 in turn
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

  test('that are folded over a long axis are taken in blocks', () => {
    const folded = (n: number, combiner = 'sum', mode = ''): string => `kernel folded ${mode} {
  param x: f32[3, ${n}] read
  param y: f32[3] write
  param z: f32[3] write
  axes i: 3, j: ${n}
  grid i
  %0 f32{i, j} = load x[i, j]
  %1 f32{i, j} = sigmoid %0
  %2 f32{i, j} = exp %1
  %3 f32{i} = reduce ${combiner} %2 over j
  %4 f32{i} = reduce max %1 over j
  store y[i] = %3
  store z[i] = %4
}`
    expect(linesOf(folded(5001))).toMatchInlineSnapshot(`
      "schedule of k: 3 programs of i/1, 4736 bytes of scratch
        loop j_block in blocks of 1152: carrying %9 in a register, %13 in a register
          nest j_block(1152 by 16): %6 in turn, fetching x[20004*i + 4*j_block]
            keep %6 in tile 64 (j_block:4) f32
          nest j_block(fold 1152 by 8 chunks of 32 rounds): %7 in turn
            fold %10 = sum %7 into a register
            fold %14 = max %6 into a register
        nest of one point
          store y = %3
          store z = %4"
    `)
    expect(linesOf(folded(2000))).not.toContain('loop')
    expect(linesOf(folded(5001, 'argmax').replaceAll('%3 f32', '%3 i32').replace('y: f32', 'y: i32'))).not.toContain(
      'loop',
    )
    // A strict sum has an order, which blocks would change; a strict maximum has none.
    expect(linesOf(folded(5001, 'sum', 'strict'))).not.toContain('loop')
    expect(linesOf(folded(5001, 'min', 'strict'))).toContain('loop')
    for (const n of [5001, 2305, 4608]) for (const c of ['sum', 'prod', 'min']) compare(folded(n, c))
    // A second loop takes what the first has folded.
    const twice = `kernel twice {
  param x: f32[5001] read
  param y: f32[1] write
  axes j: 5001
  grid 1
  %0 f32{j} = load x[j]
  %1 f32{j} = sigmoid %0
  %2 f32{j} = exp %1
  %3 f32 = reduce max %2 over j
  %4 f32{j} = sub %0, %3
  %5 f32{j} = sigmoid %4
  %6 f32{j} = exp %5
  %7 f32 = reduce sum %6 over j
  store y[0] = %7
}`
    expect(linesOf(twice).match(/loop j_block/g)).toHaveLength(2)
    compare(twice)
  })

  test('are not in turn where there is one group', () => {
    expect(linesOf(chain(['exp', 'neg', 'tanh'], 8))).toContain('%3 in turn')
    expect(linesOf(chain(['exp', 'neg', 'tanh'], 7))).not.toContain('in turn')
  })
})
