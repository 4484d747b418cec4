/** Stored values that are computed again where they are read: from statistics of the kernel that made them, from its other results, from what is narrower. */
import { describe, expect, test } from 'vitest'
import { type Compiled, compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, check, trace } from '../compile/support.ts'

const compile = (graph: Graph): Compiled => compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })

/** Bytes a program's kernels write of a dtype in tensors of at least so many elements. */
const written = ({ program }: Compiled, dtype: DType, least: number): number =>
  program.steps
    .flatMap((s) => (s.kind === 'kernel' ? s.kernel.params : []))
    .filter((p) => {
      const isWide = p.dtype === dtype && p.shape.reduce((n, d) => n * d, 1) >= least
      return isWide && p.access === 'write'
    }).length

/** Residual blocks of a pointwise convolution, normalised by the batch. */
function residual([batch = 1, channels = 1, ...space]: readonly number[], dtype: DType, blocks = 2): Graph {
  const inputs = [
    { shape: [batch, channels, ...space], dtype },
    ...Array.from({ length: blocks }, () => [
      { shape: [channels, channels, 1, 1], dtype },
      { shape: [channels], dtype },
      { shape: [channels], dtype },
    ]).flat(),
  ]
  const forward = trace(inputs, (p) => {
    let x = at(p, 0)
    for (let b = 0; b < blocks; b++) {
      const [w, scale, bias] = [at(p, 1 + 3 * b), at(p, 2 + 3 * b), at(p, 3 + 3 * b)]
      x = c.relu(c.add(x, c.batchNormTraining(c.conv(x, w), { scale, bias }).output))
    }
    return c.mean(x)
  })
  return vjpGraph(forward, inputs.map((_, i) => i).slice(1))
}

describe('deviations from the mean', () => {
  test('of half precision are not stored in f32: the means are', () => {
    expect(written(compile(residual([16, 256, 28, 28], 'bf16')), 'f32', 16 * 256 * 28 * 28)).toBe(0)
  })

  test.each<[readonly number[], DType]>([
    [[2, 3, 5, 4], 'f32'],
    [[3, 5, 3, 3], 'f32'],
    [[1, 4, 2, 7], 'f32'],
  ])('%o in %s give what the reference gives', (shape, dtype) => {
    check(residual(shape, dtype), { target: cudaTarget })
    check(residual(shape, dtype))
  })
})

describe('several results of a kernel', () => {
  /** What follows a fold, read by two products and by what is elementwise. */
  const graph = (rows: number, columns: number): Graph => {
    const inputs = [
      { shape: [rows, columns] },
      { shape: [columns, columns] },
      { shape: [columns, columns] },
      { shape: [columns] },
    ]
    return trace(inputs, (p) => {
      const x = at(p, 0)
      const centred = c.sub(x, c.mean(x, 1, true))
      const scaled: Node = c.mul(centred, at(p, 3))
      return [c.matmul(scaled, at(p, 1)), c.matmul(c.add(scaled, 1), at(p, 2)), c.sum(c.mul(scaled, scaled), 0)]
    })
  }

  test.each([
    [33, 20],
    [64, 64],
    [7, 130],
  ])('%i x %i gives what the reference gives', (rows, columns) => {
    check(graph(rows, columns), { target: cudaTarget })
    check(graph(rows, columns))
  })
})
