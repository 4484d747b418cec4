/** Products of few rows and much weight: who computes them, and whether the programs of the kernel share the machine out evenly. */
import { describe, expect, test } from 'vitest'
import { type Compiled, compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { cublasLt, cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, trace } from '../compile/support.ts'

type Order = 'nn' | 'nt' | 'tn'

function product(m: number, k: number, n: number, order: Order, dtype: DType, target: Machine): Compiled {
  const graph = trace(
    [
      { shape: order === 'tn' ? [k, m] : [m, k], dtype },
      { shape: order === 'nt' ? [n, k] : [k, n], dtype },
    ],
    (p) => {
      const turned = (x: Node, by: Order): Node => (order === by ? c.permute(x, [1, 0]) : x)
      return c.matmul(turned(at(p, 0), 'tn'), turned(at(p, 1), 'nt'))
    },
  )
  return compileGraph(graph, { mode: 'fast', target, verify: true })
}

const orders: readonly Order[] = ['nn', 'nt', 'tn']
const { multiprocessors = 1 } = cudaTarget.simt

describe.each([2, 7, 16])('%i rows', (m) => {
  test.each(orders)('%s in f32: blocks of a call are mostly empty, so a kernel multiplies', (order) => {
    const { report } = product(m, 4096, 14336, order, 'f32', { ...cudaTarget, library: cublasLt })
    expect(report.kernels.map((x) => [x.kind, x.library?.choice])).toEqual([['matrix', 'kernel']])
  })

  test.each(orders)('%s: programs have room at once, or no multiprocessor has much more to do than others', (order) => {
    for (const dtype of ['f32', 'bf16'] as const)
      for (const k of [4096, 14336]) {
        const { report } = product(m, k, 14336, order, dtype, cudaTarget)
        const each = (report.kernels[0]?.programs ?? 0) / multiprocessors
        // Rings of three steps of 16 rows and 128 columns, 128 bytes each, leave room for three programs.
        expect(each <= 3 ? 1 : each / Math.ceil(each)).toBeGreaterThan(0.95)
      }
  })
})

test('many rows in f32, and few in half precision, may be calls', () => {
  const target = { ...cudaTarget, library: cublasLt }
  for (const [m, dtype] of [
    [4096, 'f32'],
    [16, 'bf16'],
  ] as const) {
    const { report } = product(m, 4096, 14336, 'nt', dtype, { ...target, tf32x3MatrixRate: 1e12 })
    expect(report.kernels.map((x) => x.kind)).toEqual(['library'])
  }
})

describe('one row that is normalised, times a matrix', () => {
  const programs = (n: number, dtype: DType, target: Machine): number | undefined => {
    const graph = trace(
      [
        { shape: [1, 2048], dtype: 'f32' },
        { shape: [2048, n], dtype },
      ],
      (p) => {
        const x = at(p, 0)
        const scaled = c.div(x, c.sqrt(c.mean(c.mul(x, x), [1], true)))
        return c.matmul(scaled, c.cast(at(p, 1), 'f32'))
      },
    )
    return compileGraph(graph, { mode: 'fast', target, verify: true }).report.kernels[0]?.programs
  }
  const wgsl = webgpuTarget()

  test.each([
    ['f32', 4096, 32],
    ['bf16', 4096, 64],
    ['f16', 3072, 64],
    ['bf16', 14336, 64],
    ['bf16', 1024, 16],
    ['f32', 1024, 16],
    ['i8', 4096, 16],
  ] as const)(
    '%s, %i columns: a program takes whole lines of memory where programs remain, %i',
    (dtype, n, columns) => {
      expect(programs(n, dtype, cudaTarget)).toBe(n / columns)
    },
  )

  test('where lines are not known a program takes 16 columns', () => {
    expect(programs(4096, 'f32', wgsl)).toBe(256)
  })
})
