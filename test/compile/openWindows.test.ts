/** Kernels over open extents are scheduled as those of one shape are: windows slide along rows of open length, blocks of products hold what there is. */
import { expect, test } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { spec } from '../../src/api/tensor/tree.ts'
import { conv, relu, type Tensor } from '../../src/index.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { scheduleText } from '../../src/schedule/text.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { dimensions, samples } from './openCases.ts'
import { type OpenCase, openProgram } from './openSupport.ts'

const kernelsOf = (trace: OpenCase['trace'], at: OpenCase['samples'] = samples): Kernel[] =>
  openProgram({ dimensions, samples: at, trace }, 'fast', wasmTarget).program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [s.kernel] : [],
  )

test.for([
  [1, 1],
  [2, 1],
  [2, 2],
])('windows slide along rows of open length, strides %s', ([y = 1, x = 1]) => {
  const [kernel] = kernelsOf(
    ([b = 1, n = 1]) =>
      traceFunction(
        (image: Tensor, w: Tensor) => relu(conv(image, w, { stride: [y, x], padding: 1, groups: 16 })),
        [spec([b, 16, 24, n]), spec([16, 1, 3, 3])],
      ).graph,
    [...samples, [5, 32], [8, 58], [9, 23]],
  )
  expect(kernel === undefined ? '' : scheduleText(kernel, wasmTarget).join('\n')).toContain('windows sliding')
})

test('a block of a product holds one picture of an open number of places', () => {
  const [kernel] = kernelsOf(
    ([b = 1, n = 1]) =>
      traceFunction((image: Tensor, w: Tensor) => conv(image, w), [spec([b, 64, 2, n]), spec([96, 64, 1, 1])]).graph,
  )
  const part = kernel?.parts[0]
  const open = part?.axes.filter((a) => a.open !== undefined).map((a) => a.extent)
  expect(open).toEqual([11, 134])
  const blocks = part?.grid.map(({ axis, block }) => [part.axes.find((a) => a.name === axis)?.extent, block])
  expect(blocks).toContainEqual([11, 1])
})
