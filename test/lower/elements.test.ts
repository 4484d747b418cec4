/** Elements that a program of an elementwise kernel covers: fewer where each loads much, as far as the target says so. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/elementwise.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { webgpuSimt } from '../../src/target/simt.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, trace } from '../compile/support.ts'

/** The block of a sum of so many tensors, and the threads of its kernel in WGSL. */
function gridOf(count: number, dtype: DType, target: Machine): { block: number | undefined; threads: number } {
  const specs = Array.from({ length: count }, () => ({ shape: [1 << 20], dtype }))
  const graph = trace(specs, (p) => specs.reduce((x, _, i) => (i === 0 ? x : c.add(x, at(p, i))), c.exp(at(p, 0))))
  const [step, ...others] = compileGraph(graph, { mode: 'fast', target }).program.steps
  if (step?.kind !== 'kernel' || others.length > 0) throw new Error('not one kernel')
  const [part] = step.kernel.parts
  return { block: part?.grid[0]?.block, threads: emitKernel(step.kernel, webgpuSimt).threads }
}

test.each([
  [1, 'f32', 2048],
  [2, 'f32', 1024],
  [3, 'f32', 512],
  [6, 'f32', 512],
  [2, 'bf16', 2048],
  [4, 'bf16', 1024],
] as const)('%i operands of %s', (count, dtype, block) => {
  // Blocks are smaller, not threads fewer.
  expect(gridOf(count, dtype, webgpuTarget())).toEqual({ block, threads: 128 })
  expect(gridOf(count, dtype, cudaTarget).block).toBe(cudaTarget.elementBlock)
})
