/** Kernels that keep a machine of threads busy: blocks of few elements, whole loads, neighbours read backwards, rows of clusters, tiles of few rows. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import { gridSize, type Kernel } from '../../src/kernel/ir.ts'
import { candidateSchedules } from '../../src/schedule/simt/candidates.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { cudaSimt } from '../../src/target/simt.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, check, type Input, trace } from '../compile/support.ts'

const kernelsOf = (graph: Graph): Kernel[] =>
  compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true }).program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [s.kernel] : [],
  )

const programsOf = (kernel: Kernel): number => kernel.parts.reduce((n, p) => n + gridSize(p), 0)

describe('few elements', () => {
  test.each<readonly [readonly number[], number]>([
    [[10, 214, 16, 3], 132],
    [[77, 1000], 132],
    [[300, 300], 132],
  ])('%j have programs for all multiprocessors, whose threads have few elements each', (shape, least) => {
    const graph = trace([{ shape }, { shape: shape.slice(-1) }], (p) => [
      c.unary('erf', c.unary('sin', c.mul(at(p, 0), at(p, 1)))),
    ])
    const [kernel, ...more] = kernelsOf(graph)
    if (kernel === undefined) throw new Error('no kernel')
    expect(more).toEqual([])
    expect(programsOf(kernel)).toBeGreaterThanOrEqual(least)
    const { threads, programs } = emitKernel(kernel, cudaSimt)
    expect(threads * programs).toBeGreaterThanOrEqual(shape.reduce((n, d) => n * d, 1) / 12)
  })

  test('are blocks of the usual size where there are enough', () => {
    const [kernel] = kernelsOf(trace([{ shape: [4096, 4096] }], (p) => [c.exp(at(p, 0))]))
    expect(kernel?.parts[0]?.grid.map((g) => g.block)).toEqual([2048])
  })
})

test.each<DType>(['f32', 'f16'])('a sum of %s cut along memory begins where whole loads may', (dtype) => {
  const graph = trace([{ shape: [7_422_983], dtype }], (p) => [c.mean(c.square(at(p, 0)), [0])])
  const [kernel] = kernelsOf(graph)
  expect((kernel?.parts[0]?.grid[0]?.block ?? 1) % 512).toBe(0)
})

test('what is read backwards and turned is read along its lines', () => {
  const turned = (shape: readonly number[]): Graph =>
    trace([{ shape }], (p) => [c.unary('abs', c.flip(c.transpose(at(p, 0), [2, 1, 0]), [0]))])
  const [kernel] = kernelsOf(turned([16, 167, 2048]))
  expect(kernel?.parts[0]?.grid.find((g) => g.axis === kernel.parts[0]?.axes[0]?.name)?.block).toBeGreaterThanOrEqual(
    32,
  )
  check(turned([5, 7, 40]), { target: cudaTarget })
})

test('rows that a cluster holds stay with it, whatever spills, where all blocks run at once', () => {
  const graph = trace([{ shape: [9003, 64], dtype: 'bf16' }], (p) => {
    const x = c.cast(at(p, 0), 'f32')
    const from = c.sub(x, c.mean(x, [0], true))
    const by = c.sqrt(c.add(c.mean(c.square(from), [0], true), 1e-5))
    return [c.cast(c.gelu(c.div(from, by)), 'bf16')]
  })
  const [kernel, ...more] = kernelsOf(graph)
  if (kernel === undefined) throw new Error('no kernel')
  expect(more).toEqual([])
  const [first, ...others] = [...candidateSchedules(kernel, cudaSimt)].map(({ schedule }) => schedule)
  expect(first?.cluster).toBe(8)
  for (const { cluster } of others) expect(cluster).toBe(8)
})

test('tiles of few rows whose elements are loaded one by one are filled by all threads', () => {
  const inputs: Input[] = [
    { shape: [64, 2, 465], dtype: 'f16' },
    { shape: [64, 465, 352], dtype: 'f16' },
  ]
  const product = kernelsOf(trace(inputs, (p) => [c.tanh(c.mul(c.matmul(at(p, 0), at(p, 1)), 0.5))])).find((k) =>
    k.parts[0]?.body.some((s) => s.kind === 'loop'),
  )
  if (product === undefined) throw new Error('no product')
  expect(emitKernel(product, cudaSimt).source).not.toMatch(/\(tid & 112\) == 0/)
})
