/**
 * One row times a matrix reads the matrix once, however its results are blocked: it is folded as sums are, over all threads, and cut into
 * partial results where too few programs would remain. On CUDA sources on the host against the reference, and by its plan on both GPUs.
 */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph } from '../../../src/graph/node.ts'
import { gridSize, type Kernel, type NumericsMode } from '../../../src/kernel/ir.ts'
import { scheduleThreads } from '../../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { SimtTarget } from '../../../src/target/machine.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { at, type Input, trace } from '../../compile/support.ts'
import { hasCompiler } from '../dialects/emulator/emulator.ts'
import { expectEmulated } from './emulated.ts'

/** A row of k times a matrix of k rows and n columns (by batches, where there are some), scaled by a row. */
function rowGraph(k: number, n: number, dtype: DType = 'f32', batch: readonly number[] = []): Graph {
  const input = (...shape: number[]): Input => ({ shape, dtype })
  return trace([input(...batch, 1, k), input(...batch, k, n), input(n)], (p) =>
    c.mul(c.matmul(at(p, 0), at(p, 1)), at(p, 2)),
  )
}

function kernelsOf(graph: Graph, target: SimtTarget, mode: NumericsMode = 'fast'): Kernel[] {
  const { program } = compileGraph(graph, { mode, target, verify: true })
  return program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
}

describe.each([
  ['cuda', cudaTarget],
  ['webgpu', webgpuTarget()],
] as const)('the plan for %s', (_, target) => {
  test.each([
    [4463, 1125],
    [4096, 4096],
    [65536, 64],
    [20000, 33],
  ])('%i x %i is cut into as many programs as keep the device busy', (k, n) => {
    const [main, finish, ...none] = kernelsOf(rowGraph(k, n), target)
    expect(none).toEqual([])
    expect(finish?.name).toMatch(/_finish$/)
    const programs = main?.parts.reduce((sum, p) => sum + gridSize(p), 0) ?? 0
    expect(programs).toBeGreaterThanOrEqual(target.minPrograms)
    // No thread walks along the depth alone.
    const { schedule } = scheduleThreads(main as Kernel, target.simt)
    const depth = schedule.parts.flatMap((p) => [...p.layout.axes.values()]).find((a) => a.name === 'j')
    expect(depth?.chunks ?? 1).toBeLessThanOrEqual(8)
  })

  test('many columns need no cut, and their depth is folded by more than one thread', () => {
    const [only, ...none] = kernelsOf(rowGraph(129, 100_003), target)
    expect(none).toEqual([])
    const { schedule } = scheduleThreads(only as Kernel, target.simt)
    const spread = schedule.parts.flatMap((p) => [...p.layout.axes.values()]).map((a) => a.bits.length)
    expect(spread.reduce((a, b) => a + b, 0)).toBe(Math.log2(schedule.threads))
  })

  test('strict mode keeps the sum whole and in order', () => {
    expect(kernelsOf(rowGraph(4463, 1125), target, 'strict')).toHaveLength(1)
  })
})

test.skipIf(!hasCompiler()).each<[number, number, DType, number[]]>([
  [4463, 125, 'bf16', []],
  [4463, 125, 'f32', []],
  [3000, 64, 'f16', []],
  [9000, 3, 'f32', []],
  [129, 1003, 'bf16', []],
  [700, 33, 'f32', [3]],
  [5, 7, 'f32', []],
  [1, 300, 'f32', []],
])('%i x %i of %s, batches %o', { timeout: 60_000 }, async (k, n, dtype, batch) => {
  const graph = rowGraph(k, n, dtype, batch)
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
  await expectEmulated(graph, program)
})
