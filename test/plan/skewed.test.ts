/** Gradients of windows with many taps: the sum over taps reads memory at sums of axes, without quotients. */
import { afterAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph } from '../../src/graph/node.ts'
import { printKernel } from '../../src/kernel/print.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { vjpGraph } from '../../src/transforms/index.ts'
import { makeRng } from '../random/rng.ts'
import { compiledBackend, compiledTarget } from '../support/device.ts'

const backend = compiledBackend({ threads: 1 })
afterAll(() => backend.dispose())

/** The gradient of a sum of squares of windows, which depends on place and tap. */
const gradient = (shape: readonly number[], axis: number, size: number, stride: number, dilation: number): Graph =>
  vjpGraph(
    withContext(() => {
      const x = param(0, shape, 'f32')
      const w = c.slidingWindow(x, axis, size, stride, dilation)
      return { params: [x], outputs: [c.sum(c.mul(w, c.exp(w)))], effects: [] }
    }),
    [0],
  )

describe('gradients of windows with many taps', () => {
  test.each([
    { shape: [100], axis: 0, size: 31, stride: 1, dilation: 1 },
    { shape: [3, 90], axis: 1, size: 17, stride: 1, dilation: 2 },
    { shape: [90, 5], axis: 0, size: 20, stride: 1, dilation: 1 },
    { shape: [2, 101], axis: 1, size: 24, stride: 3, dilation: 1 },
    { shape: [40], axis: 0, size: 40, stride: 1, dilation: 1 },
  ])('$shape by $size along $axis, stride $stride, dilation $dilation', ({ shape, axis, size, stride, dilation }) => {
    const graph = gradient(shape, axis, size, stride, dilation)
    const rng = makeRng(5)
    const x = Float32Array.from({ length: shape.reduce((n, d) => n * d, 1) }, () => rng.unit() * 2 - 1)
    const inputs = [x, Float32Array.of(1)]
    const [expected] = evaluateGraph(graph, inputs, { rounding: 'f64' }).map(toHostArray)
    const { program } = compileGraph(graph, { mode: 'fast', target: compiledTarget, verify: true })
    const buffers = inputs.map((data) => {
      const buffer = backend.alloc(data.byteLength)
      backend.write(buffer, data)
      return buffer
    })
    const [y] = backend.prepare(program).run(buffers)
    if (y === undefined || expected === undefined) throw new Error('no result')
    const got = backend.readSync(y, 'f32', x.length)
    expected.forEach((e, i) => {
      expect(Math.abs(Number(got[i]) - Number(e)), `element ${i}`).toBeLessThan(1e-4 * (1 + Math.abs(Number(e))))
    })
    const text = kernelsOf(program).map(({ step }) => printKernel(step.kernel))
    // Strides ask for remainders by them, windows side by side for none.
    if (stride === 1) expect(text.join('\n')).not.toMatch(/load .*[%/]\d/)
  })
})
