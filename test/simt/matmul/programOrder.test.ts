/** The order of a chain's programs: the longest first, so many rows of the grid in turn as a cache holds what they read. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph } from '../../../src/graph/node.ts'
import type { ProgramOrder } from '../../../src/schedule/simt/layout/programOrder.ts'
import { scheduleThreads } from '../../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { vjpGraph } from '../../../src/transforms/vjp.ts'
import { at, inputsOf, trace } from '../../compile/support.ts'
import { nightly } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

const attention = (heads: number, length: number, options: c.AttentionOptions): Graph => {
  const input = { shape: [heads, length, 64], dtype: 'bf16' } as const
  return trace([input, input, input], (p) => c.attention(at(p, 0), at(p, 1), at(p, 2), options))
}

const caching = (cachedBytes: number): typeof cudaTarget => ({
  ...cudaTarget,
  simt: { ...cudaTarget.simt, cachedBytes },
})

const kernelsOf = (graph: Graph, target = cudaTarget) =>
  compileGraph(graph, { mode: 'fast', target, verify: true }).program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [s.kernel] : [],
  )

/** The orders of a graph's kernels, but for the names of their axes. */
const ordersOf = (graph: Graph, target = cudaTarget): (Omit<ProgramOrder, 'axis'> | undefined)[] =>
  kernelsOf(graph, target).map((k) => {
    const order = scheduleThreads(k, target.simt).schedule.parts[0]?.order
    return order && { descends: order.descends, together: order.together }
  })

describe('orders', () => {
  test('queries that see what is before them: the last first, all heads in turn', () => {
    expect(ordersOf(attention(48, 1024, { causal: true }))).toEqual([{ descends: true, together: 48 }])
  })

  test('keys that queries behind them see: the first of them first', () => {
    const orders = ordersOf(vjpGraph(attention(48, 1024, { causal: true }), [0, 1, 2]))
    expect(orders.map((o) => o?.descends).sort()).toEqual([false, true, true])
  })

  test('as many heads as the cache holds keys and values of', () => {
    const each = 2 * 2 * 64 * 1024
    expect(ordersOf(attention(48, 1024, { causal: true }), caching(5 * each + 1))).toEqual([
      { descends: true, together: 5 },
    ])
  })

  test('none where programs are alike', () => {
    expect(ordersOf(attention(48, 1024, {}))).toEqual([undefined])
    expect(ordersOf(attention(48, 1024, { causal: true, window: 300 }))).toEqual([undefined])
  })
})

describe.skipIf(!hasCompiler())('on the emulator (skipped where g++ is missing)', () => {
  const length = nightly ? 200 : 130
  const each = 2 * 2 * 64 * length
  const forward = attention(7, length, { causal: true })

  test.each([
    ['forward', forward],
    ['both passes', vjpGraph(forward, [0, 1, 2])],
  ] as const)('results are the same in any order: %s', { timeout: 180_000 }, async (_, graph) => {
    const inputs = inputsOf(graph)
    const results = []
    // All heads in turn; three of seven, and one at the end; one after the other.
    for (const cachedBytes of nightly ? [7 * each, 3 * each, 1] : [7 * each, 3 * each]) {
      const target = caching(cachedBytes)
      const { program } = compileGraph(graph, { mode: 'fast', target })
      const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
      const emulated = new Emulated(kernels, target.simt)
      results.push(await execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers)))
      emulated.dispose()
    }
    const [first, ...others] = results
    for (const other of others) expect(other).toEqual(first)
    expect(first?.every((y) => y?.some((v) => v !== 0) === true)).toBe(true)
  })
})
