/** Products of f32 whose operands are widened from 16 bits: multiplied in 16 bits, where that is exact and summed as precisely as is asked for. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { makeNode } from '../../src/graph/build.ts'
import type { Graph, Node, NodeOf } from '../../src/graph/node.ts'
import { allStmts } from '../../src/kernel/walk.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { DType } from '../../src/types/dtype.ts'
import type { Precision } from '../../src/types/product.ts'
import { at, check, trace } from '../compile/support.ts'

const widened = (x: Node): Node => c.cast(x, 'f32')

const productOf = (dtypes: readonly [DType, DType], depth: number, precision?: Precision): Graph =>
  trace(
    [
      { shape: [128, depth], dtype: dtypes[0] },
      { shape: [depth, 128], dtype: dtypes[1] },
    ],
    (p) => {
      const product = c.matmul(widened(at(p, 0)), widened(at(p, 1))) as NodeOf<'contract'>
      const made =
        precision === undefined ? product : makeNode('contract', product.inputs, { ...product.attrs, precision })
      // What follows keeps the library out.
      return c.exp(made)
    },
  )

/** What the product of a graph multiplies, by dtype, and how. */
function multiplied(graph: Graph, mode: 'fast' | 'strict' = 'fast'): string[] {
  const { program } = compileGraph(graph, { mode, target: cudaTarget, verify: true })
  return kernelsOf(program).flatMap(({ step: { kernel } }) => {
    const statements = kernel.parts.flatMap((part) => [...allStmts(part.body)])
    const dtypeOf = (id: number): string => {
      const l = statements.find((s) => s.kind === 'let' && s.id === id)
      return l?.kind === 'let' ? l.dtype : ''
    }
    return statements.flatMap((s) =>
      s.kind === 'let' && s.op.kind === 'dot'
        ? [`${dtypeOf(s.op.a)} ${dtypeOf(s.op.b)} ${s.op.precision ?? ''}`.trim()]
        : [],
    )
  })
}

test.each<[string, readonly [DType, DType], number, Precision | undefined, string]>([
  ['of bf16', ['bf16', 'bf16'], 256, undefined, 'bf16 bf16'],
  ['of f16', ['f16', 'f16'], 64, undefined, 'f16 f16'],
  ['of more terms than an accumulator takes', ['bf16', 'bf16'], 512, undefined, 'f32 f32 tf32x3'],
  ['of as many, where tf32 will do', ['bf16', 'bf16'], 512, 'tf32', 'bf16 bf16'],
  ['in f32 where that is asked for', ['bf16', 'bf16'], 64, 'ieee', 'f32 f32'],
  ['of two formats', ['bf16', 'f16'], 64, undefined, 'f32 f32 tf32x3'],
])('%s', (_, dtypes, depth, precision, want) => {
  expect(multiplied(productOf(dtypes, depth, precision))).toEqual([want])
})

test('strict multiplies what it is given', () => {
  expect(multiplied(productOf(['bf16', 'bf16'], 64), 'strict')).toEqual(['f32 f32'])
})

test('the values of the reference', () => {
  for (const dtype of ['bf16', 'f16'] as const) {
    const small = trace(
      [
        { shape: [6, 5], dtype },
        { shape: [5, 7], dtype },
      ],
      (p) => c.div(c.matmul(widened(at(p, 0)), widened(at(p, 1))), 3),
    )
    check(small)
    check(small, { target: cudaTarget })
  }
})

test('attention of scores in f32 is one chain', () => {
  const attention = (shape: readonly number[]): Graph =>
    trace(Array(3).fill({ shape, dtype: 'bf16' }), (p) => {
      const scores = c.matmul(widened(at(p, 0)), c.swapAxes(widened(at(p, 1)), -1, -2))
      return c.matmul(c.cast(c.softmax(c.mul(scores, 0.125), -1), 'bf16'), at(p, 2))
    })
  expect(multiplied(attention([16, 1024, 64]))).toEqual(['bf16 bf16', 'bf16 bf16'])
})
