/** Kernels that their schedules speak against: taken apart where that is predicted faster, whole where it is not, on machines whose schedules have a price. */
import { describe, expect, test } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { type Compiled, compileGraph } from '../../src/compile/index.ts'
import { scheduledSteps, stepSeconds } from '../../src/compile/predicted.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import * as s from '../../src/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { at, trace } from '../compile/support.ts'

type Build = (x: Node) => Node

/** Running sums down columns stand in a tile until their greatest is known; the tile is larger than what is near. */
const greatestOfRunning: Build = (x) => c.reduceMax(c.cumsum(x, 0), 0)
const softmax: Build = (x) => c.softmax(x, 1)
const meanOfRows: Build = (x) => c.mean(c.log(c.sum(c.exp(x), 1)))

const compiled = (build: Build, shape: readonly number[], mode: 'fast' | 'strict', target: Machine): Compiled =>
  compileGraph(
    trace([{ shape }], (p) => [build(at(p, 0))]),
    { mode, target },
  )

const kernels = (
  build: Build,
  shape: readonly number[],
  mode: 'fast' | 'strict' = 'fast',
  target = wasmTarget,
): number => compiled(build, shape, mode, target).report.totals.kernels

/** Seconds of a program's schedules with so many bytes near. */
const seconds = ({ program }: Compiled, held: number): number =>
  scheduledSteps(program, wasmTarget).reduce((t, s) => t + stepSeconds({ ...s, held }, wasmTarget), 0)

describe('kernels', () => {
  test.each([
    [512, 512],
    [192, 192],
    [1024, 100],
    [333, 517],
  ])('that wait for a tile are taken apart, %i x %i', (rows, columns) => {
    const apart = compiled(greatestOfRunning, [rows, columns], 'fast', wasmTarget)
    expect(apart.report.totals.kernels).toBe(2)
    // Launches so dear that nothing speaks for two.
    const whole = compiled(greatestOfRunning, [rows, columns], 'fast', { ...wasmTarget, launch: 1 })
    expect(whole.report.totals.kernels).toBe(1)
    expect(seconds(apart, 8 * rows * columns)).toBeLessThan(seconds(whole, 8 * rows * columns))
    expect(apart.report.refused).toContainEqual(
      expect.objectContaining({ code: 'no-gain', lossMs: expect.any(Number) as number }),
    )
  })

  test.each([
    [37, 53],
    [1025, 53],
    [2000, 50],
    [4096, 40],
  ])('that gain stay whole, %i x %i', (...shape) => {
    for (const build of [softmax, meanOfRows]) expect(kernels(build, shape)).toBe(1)
  })

  test('of products with few columns are asked where the results are folded: windows of a convolution, averaged', () => {
    const pooled = (x: s.Tensor, w: s.Tensor): s.Tensor => s.averagePool(s.conv(x, w, { padding: 'same' }), [5, 5])
    const of = (filters: number, target: Machine): Compiled => {
      const inputs = [s.spec([1, 18, 65, 65], 'f16'), s.spec([filters, 18, 5, 5], 'f16')]
      return compileGraph(traceFunction(pooled, inputs).graph, { mode: 'fast', target })
    }
    const [apart, whole] = [of(2, wasmTarget), of(2, { ...wasmTarget, launch: 1 })]
    expect([apart, whole].map((x) => x.report.totals.kernels)).toEqual([2, 1])
    expect(seconds(apart, 2 ** 18)).toBeLessThan(seconds(whole, 2 ** 18))
  })

  test('are not asked in strict mode, nor on machines whose schedules have no price', () => {
    expect(kernels(greatestOfRunning, [512, 512], 'strict')).toBe(1)
    expect(kernels(greatestOfRunning, [64, 32], 'fast', cudaTarget)).toBe(1)
  })
})
