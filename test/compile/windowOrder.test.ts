/** Convolutions' operands with channels last: stored where that pays, made by the kernel before where there is one. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, trace } from './support.ts'

const kernelsOf = (graph: Graph, target: Machine = cudaTarget, mode: 'fast' | 'strict' = 'fast'): Kernel[] =>
  compileGraph(graph, { mode, target, precision: 'tf32', verify: true }).program.steps.flatMap((s) =>
    s.kind === 'kernel' && s.stage === 'main' ? [s.kernel] : [],
  )

const dots = (k: Kernel): number => JSON.stringify(k.parts).split('"kind":"dot"').length - 1

const convolution = (dtype: DType, x: readonly number[], w: readonly number[]): Graph =>
  trace(
    [
      { shape: x, dtype },
      { shape: w, dtype },
    ],
    (p) => c.conv(at(p, 0), at(p, 1), { padding: 1 }),
  )

describe('channels last', () => {
  test('both operands are put in order by one launch', () => {
    const kernels = kernelsOf(convolution('bf16', [64, 256, 56, 56], [256, 256, 3, 3]))
    expect(kernels.map((k) => [k.parts.length, dots(k)])).toEqual([
      [2, 0],
      [1, 1],
    ])
    const text = JSON.stringify(kernels[1])
    expect(text).toContain('[64,56,56,256]')
    expect(text).toContain('[256,3,3,256]')
  })

  test('between two convolutions the first stores its result as the second reads it', () => {
    const graph = trace(
      [
        { shape: [64, 256, 56, 56], dtype: 'bf16' },
        { shape: [256, 256, 3, 3], dtype: 'bf16' },
        { shape: [256, 256, 3, 3], dtype: 'bf16' },
      ],
      (p) => c.conv(c.relu(c.conv(at(p, 0), at(p, 1), { padding: 1 })), at(p, 2), { padding: 1 }),
    )
    expect(kernelsOf(graph).map(dots)).toEqual([0, 1, 1])
  })

  test('few channels are gathered where they are', () => {
    expect(kernelsOf(convolution('bf16', [64, 3, 224, 224], [64, 3, 7, 7])).map(dots)).toEqual([1])
    expect(kernelsOf(convolution('f32', [32, 8, 4096], [128, 8, 3])).map(dots)).toEqual([1])
  })

  test('nothing is put in order in strict mode, nor where no matrix unit reads it', () => {
    const graph = convolution('f32', [8, 64, 28, 28], [64, 64, 3, 3])
    expect(kernelsOf(graph, cudaTarget, 'strict').length).toBe(1)
    expect(kernelsOf(graph, wasmTarget).length).toBe(1)
  })
})
