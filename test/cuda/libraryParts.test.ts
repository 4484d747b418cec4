/** Products in several calls of the device's library: of the part whose lines are whole groups of 16 bytes, and of what is left. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import { cublasLt, cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, trace } from '../compile/support.ts'
import { some, turn } from '../support/nightly.ts'
import { callingInTests, eager, products } from './libraryCalls.ts'

const { check } = callingInTests()

/** A product whose result stands in padded rows, along which two others sum and whose columns they keep. */
const three = (rows: number, depth: number, columns: number, dtype: DType): Graph =>
  trace(
    [
      { shape: [rows, depth], dtype },
      { shape: [columns, depth], dtype },
    ],
    (p) => {
      const [x, w] = [at(p, 0), at(p, 1)]
      const g = c.matmul(x, c.transpose(w, [1, 0]))
      return [c.matmul(g, w), c.matmul(c.transpose(g, [1, 0]), x)]
    },
  )

const padding: Machine = { ...eager, rowAlignment: { bytes: 16, least: 0, room: 7, widest: 8 } }

/** Where what a library multiplies takes longer than to copy, and what a kernel does longer still. */
const slow: Machine = {
  ...padding,
  prices: cudaTarget.prices,
  library: { ...cublasLt, leastFlops: 1, rate: { ...cublasLt.rate, bf16: 1e8 } },
}

/** `m x n x k`, with a plus where it is added to what stands there. */
const shapes = (graph: Graph, target: Machine): string[] =>
  products(compileGraph(graph, { mode: 'fast', target, verify: true, fuse: false }).program).map(
    ({ product: { m, n, k, addend } }) => `${addend === undefined ? '' : '+ '}${m} x ${n} x ${k}`,
  )

describe('calls', () => {
  test('are of whole groups and of the rest, where that is what a line is of', () => {
    expect(shapes(three(37, 16, 301, 'bf16'), padding)).toEqual([
      // The result's columns.
      ...['37 x 5 x 16', '37 x 296 x 16'],
      // The depth of the first operand: what is left comes first.
      ...['37 x 16 x 5', '+ 37 x 16 x 296'],
      // Rows, which stand side by side in the operand; what it sums over does not.
      ...['5 x 16 x 37', '296 x 16 x 37'],
    ])
  })

  test('are one where lines are whole, where rows of an operand begin anywhere, and where little would be whole', () => {
    expect(shapes(three(37, 16, 304, 'bf16'), padding)).toHaveLength(3)
    expect(shapes(three(37, 17, 301, 'bf16'), padding)).toHaveLength(3)
    expect(shapes(three(37, 16, 13, 'bf16'), padding)).toHaveLength(3)
    // No matrix unit multiplies f32 as f32, and nothing else minds where its lines begin.
    expect(shapes(three(37, 16, 301, 'f32'), padding)).toHaveLength(3)
    expect(
      shapes(three(37, 16, 301, 'bf16'), { ...padding, library: { ...cublasLt, leastFlops: 1, cuts: false } }),
    ).toHaveLength(3)
  })

  test('add no half of a sum to another in f16, whose range is small', () => {
    expect(shapes(three(37, 16, 301, 'f16'), padding).filter((s) => s.startsWith('+'))).toEqual([])
    expect(shapes(three(37, 16, 301, 'bf16'), padding).filter((s) => s.startsWith('+'))).toEqual(['+ 37 x 16 x 296'])
  })

  test.each(['f32', 'bf16', 'f16', 'f64'] as const)('give what one gives: %s', (dtype) => {
    for (const fuse of turn([false, true], dtype === 'bf16' || dtype === 'f64' ? 1 : 0))
      for (const [rows, columns] of some(
        [
          [5, 67],
          [37, 301],
          [70, 75],
        ] as const,
        3,
      )) {
        const graph = three(rows, 8, columns, dtype)
        // Two parts of a sum are rounded to bf16 apart: its last bit may be another.
        check({ ...graph, outputs: graph.outputs.slice(dtype === 'bf16' ? 1 : 0) }, { target: padding, fuse })
      }
  })

  test('write rows of whole groups where the result has others, which a kernel copies out', () => {
    for (const [rows, columns] of some(
      [
        [37, 301],
        [75, 205],
      ] as const,
      2,
    )) {
      const graph = trace(
        [
          { shape: [rows, 16], dtype: 'bf16' },
          { shape: [16, columns], dtype: 'bf16' },
        ],
        (p) => c.matmul(at(p, 0), at(p, 1)),
      )
      const { program } = check(graph, { target: slow })
      const leading = columns + 8 - (columns % 8)
      // What the call computes of the room after an operand's rows stays in that of the result's.
      expect(products(program).map(({ product: { n, b, out } }) => [n, b.leading, out.leading])).toEqual([
        [leading, leading, leading],
      ])
      expect(program.steps.some((s) => s.kind === 'kernel')).toBe(true)
    }
  })

  test('are told of', () => {
    const target = { ...cudaTarget, library: cublasLt }
    const text = String(compileGraph(three(8191, 2048, 50257, 'bf16'), { mode: 'fast', target }).report)
    expect(text).toContain('2 calls, for whole lines and what is left, of cuBLASLt')
  })
})
