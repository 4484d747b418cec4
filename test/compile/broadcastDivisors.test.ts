/** Quotients in half precision by what is broadcast divide once for each divisor; others stay. */
import { expect, test } from 'vitest'
import { divideOnce } from '../../src/compile/broadcastDivisors.ts'
import * as c from '../../src/compose/index.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import type { DType } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, sameValues, trace } from './support.ts'

const quotient = (dtype: DType, divisor: readonly number[]): ReturnType<typeof trace> =>
  trace(
    [
      { shape: [5, 6], dtype },
      { shape: divisor, dtype },
    ],
    (p) => c.div(at(p, 0), at(p, 1)),
  )

const quotients = (graph: ReturnType<typeof trace>): number =>
  nodesOf(graph).reduce((n, x) => n + (x.op === 'div' ? sizeOf(x.shape) : 0), 0)

test.each(['bf16', 'f16'] as const)('%s: one division a divisor, and the same values', (dtype) => {
  for (const [divisor, n] of [
    [[5, 1], 5],
    [[6], 6],
    [[1], 1],
  ] as const) {
    const graph = quotient(dtype, divisor)
    const made = sameValues(graph, divideOnce(graph), `${dtype} by [${divisor}]`)
    expect([quotients(graph), quotients(made)]).toEqual([30, n])
  }
})

test('as they are: divisors of every element, and other dtypes', () => {
  for (const graph of [quotient('bf16', [5, 6]), quotient('f32', [5, 1]), quotient('i32', [5, 1])])
    expect(divideOnce(graph)).toBe(graph)
})
