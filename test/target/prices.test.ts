/** One price for each operation: every record has it, and planner, thread schedules and loop schedules go by it. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileModule } from '../../src/codegen/wasm/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Node } from '../../src/graph/node.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { type ScalarOp, scalarInfo, scalarOps } from '../../src/scalar/ops.ts'
import { loopSeconds } from '../../src/schedule/loop/price/seconds.ts'
import { factsOf, scheduleKernel } from '../../src/schedule/loop/scheduleKernel.ts'
import { scheduleThreads } from '../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { type Prices, priceOf } from '../../src/target/prices.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { allDTypes, dtypeClass } from '../../src/types/dtype.ts'

const machines: readonly Machine[] = [wasmTarget, cudaTarget, webgpuTarget()]

/** Prices with `exp` some times as dear. */
const dearer = (prices: Prices, times: number): Prices => {
  const { f32 = 0, f64 = 0 } = prices.scalar.exp
  return { ...prices, scalar: { ...prices.scalar, exp: { f32: times * f32, f64: times * f64 } } }
}

describe('prices', () => {
  test.each(machines)('$name has one for every operation on every dtype', ({ prices, simt }) => {
    for (const op of Object.keys(scalarOps) as ScalarOp[])
      for (const d of allDTypes)
        if (scalarInfo(op).on.includes(dtypeClass(d)))
          expect(priceOf(op, d, prices), `${op} ${d}`).toBeGreaterThanOrEqual(0)
    for (const d of allDTypes) expect(prices.read[d] + prices.write[d]).toBeGreaterThanOrEqual(0)
    if (simt !== undefined) expect(simt.prices).toBe(prices)
  })

  test.each(machines)('$name: the planner takes twice as long for an exp that costs twice as much', (machine) => {
    const graph = withContext(() => {
      const x = param(0, [1 << 20], 'f32')
      let y: Node = x
      for (let i = 0; i < 20; i++) y = c.exp(c.sub(y, 1))
      return { params: [x], outputs: [y], effects: [] }
    })
    const seconds = (times: number): number => {
      const target = { ...machine, overlap: 0, prices: dearer(machine.prices, times) }
      return compileGraph(graph, { mode: 'fast', target }).plan.groups.reduce((n, g) => n + g.cost.seconds, 0)
    }
    const once = 20 * 2 ** 20 * priceOf('exp', 'f32', machine.prices)
    expect((seconds(2) - seconds(1)) / once).toBeCloseTo(1, 6)
    expect((seconds(3) - seconds(1)) / once).toBeCloseTo(2, 6)
  })

  const exps = (n: number): string => `kernel exps {
  param x: f32[${n}] read
  param y: f32[${n}] write
  axes i: ${n}
  grid i/1024
  %0 f32{i} = load x[i]
  %1 f32{i} = exp %0
  store y[i] = %1
}`

  test('threads: the schedule takes twice as long for an exp that costs twice as much', () => {
    const { simt } = cudaTarget
    const seconds = (times: number): number =>
      scheduleThreads(parseKernel(exps(1 << 16)), { ...simt, prices: dearer(simt.prices, times) }, {}).schedule.seconds
    const once = seconds(1) - seconds(0)
    expect(once).toBeGreaterThan(0)
    expect((seconds(2) - seconds(0)) / once).toBeCloseTo(2, 6)
    expect((seconds(3) - seconds(0)) / once).toBeCloseTo(3, 6)
  })

  test('loops: the schedule takes twice as long for an exp that costs twice as much', () => {
    const kernel = parseKernel(exps(1 << 14))
    const seconds = (times: number): number => {
      const machine = { ...wasmTarget, prices: dearer(wasmTarget.prices, times) }
      const parts = scheduleKernel(
        kernel,
        factsOf(kernel, machine, () => false),
      )
      return loopSeconds(kernel, parts, machine).arithmetic
    }
    expect(seconds(1)).toBeCloseTo(2 ** 14 * priceOf('exp', 'f32', wasmTarget.prices), 12)
    expect(seconds(2) / seconds(1)).toBeCloseTo(2, 6)
  })

  test('threads: a program is spread over blocks the sooner the dearer its exps are', () => {
    const kernel = (n: number) =>
      parseKernel(`kernel few {
  param x: f32[4, ${n}] read
  param y: f32[4] write
  axes r: 4, c: ${n}
  grid r
  %0 f32{r, c} = load x[r, c]
  %1 f32{r, c} = exp %0
  %2 f32{r, c} = exp %1
  %3 f32{r} = reduce sum %2 over c
  store y[r] = %3
}`)
    const { simt } = cudaTarget
    const spread = (n: number, times: number): boolean =>
      emitKernel(kernel(n), { ...simt, prices: dearer(simt.prices, times) }).cluster > 1
    const lengths = Array.from({ length: 15 }, (_, i) => 1024 * (i + 1))
    const first = (times: number): number => lengths.find((n) => spread(n, times)) ?? Number.POSITIVE_INFINITY
    expect(first(8)).toBeLessThan(first(4))
    expect(first(0.01)).toBe(Number.POSITIVE_INFINITY)
  })

  test('loops: a value that two nests need is kept once its exps are dear enough', () => {
    const kernel = parseKernel(`kernel rows {
  param x: f32[8, 512] read
  param y: f32[8, 512] write
  axes r: 8, c: 512
  grid r
  %0 f32{r, c} = load x[r, c]
  %1 f32{r, c} = exp %0
  %2 f32{r} = reduce sum %1 over c
  %3 f32{r, c} = mul %1, %2
  store y[r, c] = %3
}`)
    const memory = { min: 1, max: 1, shared: false }
    const scratch = (times: number): number => {
      const machine = { ...wasmTarget, prices: dearer(wasmTarget.prices, times) }
      const { functions } = compileModule([{ kernel, name: 'k', mayAlias: () => false }], {
        machine,
        relaxed: false,
        memory,
      })
      return functions[0]?.scratch ?? 0
    }
    const prices = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2]
    const kept = prices.map((times) => scratch(times) > scratch(0))
    expect(kept[0]).toBe(false)
    expect(kept.at(-1)).toBe(true)
    // Once, and for good.
    expect(kept.filter((k, i) => k !== kept[i - 1])).toHaveLength(2)
  })
})
