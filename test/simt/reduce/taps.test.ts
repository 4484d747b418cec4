/** Gradients in the weights of depthwise convolutions: a program has the taps of a window, a thread all of them of its positions; plans and results. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph } from '../../../src/graph/node.ts'
import { foldAxes, isFold } from '../../../src/kernel/folds.ts'
import { gridSize } from '../../../src/kernel/ir.ts'
import { scheduleThreads } from '../../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { vjpGraph } from '../../../src/transforms/vjp.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { at, trace } from '../../compile/support.ts'
import { hasCompiler } from '../dialects/emulator/emulator.ts'
import { expectEmulated } from '../matmul/emulated.ts'

const gradientOf = (
  shape: readonly number[],
  kernel: readonly number[],
  options: c.ConvOptions,
  dtype: DType = 'f32',
): Graph => {
  const channels = shape[1] ?? 1
  const inputs = [
    { shape: [...shape], dtype },
    { shape: [channels, 1, ...kernel], dtype },
  ]
  const forward = trace(inputs, (p) => c.conv(at(p, 0), at(p, 1), { ...options, groups: channels }))
  return vjpGraph(forward, [1])
}

/** Taps that a thread holds, of each kernel that folds as many positions for each. */
function tapsIn(graph: Graph): number[] {
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
  return program.steps.flatMap((s) => {
    if (s.kind !== 'kernel') return []
    const { parts, schedule } = scheduleThreads(s.kernel, cudaTarget.simt)
    return parts.flatMap((part, i) => {
      const taps = [...part.taps]
      const layout = schedule.parts[i]?.layout
      for (const a of taps) {
        const spread = layout?.axis(a)
        expect([spread?.bits.length, spread?.chunks, spread?.reps], a).toEqual([0, 1, part.axis(a).size])
      }
      const folds = [...part.lets.values()].some((l) => isFold(l) && foldAxes(l).length > 1)
      return folds ? [taps.reduce((n, a) => n * part.axis(a).size, 1)] : []
    })
  })
}

describe('plans', () => {
  test.each([
    // As many as sixteen sums stand in a thread: of 7 x 7 those of a row, of 3 x 3 all.
    [[8, 96, 56, 56], [7, 7], { padding: 3 }, 7],
    [[16, 240, 28, 28], [5, 5], { padding: 2 }, 5],
    [[32, 144, 56, 56], [3, 3], { padding: 1 }, 9],
    [[32, 144, 57, 55], [3, 3], { padding: 1, stride: 2 }, 9],
    [[8, 300, 4001], [9], { padding: 4 }, 9],
  ] as const)('%o by %o, %o: %i taps', (shape, kernel, options, taps) => {
    expect(tapsIn(gradientOf(shape, kernel, options))).toContain(taps)
  })

  test('where too few programs would be left, each tap has its own', () => {
    expect(tapsIn(gradientOf([8, 16, 56, 56], [3, 3], { padding: 1 }))).not.toContain(9)
  })
})

test('positions that windows skip along are lines all the same: programs are those of channels, not blocks of taps', () => {
  const graph = gradientOf([5, 96, 80, 100], [3, 3], { padding: 1, stride: 2 }, 'f16')
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
  const programs = program.steps.flatMap((s) => (s.kind === 'kernel' ? s.kernel.parts.map(gridSize) : []))
  expect(Math.max(...programs)).toBeGreaterThanOrEqual(96)
})

describe.skipIf(!hasCompiler)('results', () => {
  test.each([
    ['7 x 7', gradientOf([1, 140, 9, 11], [7, 7], { padding: 3 })],
    ['3 x 3', gradientOf([2, 140, 9, 10], [3, 3], { padding: 1 })],
    ['3 x 5, stride 2', gradientOf([1, 140, 13, 12], [3, 5], { padding: 2, stride: 2 })],
    ['3 x 3, dilated', gradientOf([1, 140, 13, 12], [3, 3], { padding: 2, dilation: 2 })],
    ['one axis, f16', gradientOf([2, 150, 41], [5], { padding: 2 }, 'f16')],
    ['3 x 3, bf16', gradientOf([1, 140, 8, 9], [3, 3], { padding: 1 }, 'bf16')],
  ] as const)('%s', async (_, graph) => {
    const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
    await expectEmulated(graph, program)
  })
})
