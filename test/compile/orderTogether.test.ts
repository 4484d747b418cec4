/** Networks of values that stand with channels last as a whole: which do, what they compute, and what is stored then. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import { orderTogether } from '../../src/compile/orderTogether.ts'
import { withPrecision } from '../../src/compile/precision.ts'
import { orderWindows } from '../../src/compile/windowOrder.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import type { DType } from '../../src/types/dtype.ts'
import { dataOf, expectAlike } from '../support/alike.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { nightly } from '../support/nightly.ts'
import { at, trace } from './support.ts'

/** Convolutions of 3 x 3 under normalisation by the batch, `end` of what the last gives. */
const stack = (dtype: DType, end: (x: Node, before: Node, w: Node) => Node | Node[], size = 8, channels = 16): Graph =>
  trace(
    [
      { shape: [2, channels, size, size], dtype },
      { shape: [channels, channels, 3, 3], dtype },
      { shape: [channels, channels, 3, 3], dtype },
      { shape: [channels, channels, 1, 1], dtype },
    ],
    (p) => {
      const conv = (x: Node, w: Node): Node => c.relu(c.batchNormTraining(c.conv(x, w, { padding: 1 })).output)
      const before = conv(at(p, 0), at(p, 1))
      return end(conv(before, at(p, 2)), before, at(p, 3))
    },
  )

const loss = (x: Node): Node => c.mean(c.cast(c.mul(x, x), 'f32'))

const ordered = (graph: Graph): { readonly before: Graph; readonly after: Graph } => {
  const { graph: plain } = rewriteGraph(withPrecision(graph, 'tf32'), {
    mode: 'fast',
    fold: (node) => toHostArray(at(evaluateGraph({ params: [], outputs: [node], effects: [] }, []), 0)),
  })
  const before = orderWindows(plain, cudaTarget, 'fast')
  return { before, after: orderTogether(before) }
}

/** Values of a graph of a shape, computed point by point. */
const count = (graph: Graph, shape: readonly number[]): number =>
  nodesOf(graph).filter((n) => n.op === 'max' && n.shape.join() === shape.join()).length

describe('networks of values in one order', () => {
  test('a step of training has them with channels last, bit for bit the same values', () => {
    for (const dtype of ['bf16', 'f16'] as const) {
      const graph = vjpGraph(stack(dtype, loss), [1, 2])
      const { before, after } = ordered(graph)
      verifyGraph(after)
      expect([count(before, [2, 16, 8, 8]), count(before, [2, 8, 8, 16])]).toEqual([2, 0])
      // The last has no product behind it, so nothing asks for another order.
      expect(count(after, [2, 8, 8, 16])).toBeGreaterThan(0)
      const data = dataOf(graph, 3)
      const run = (g: Graph): unknown[] => evaluateGraph(g, data, { rounding: 'dtype' }).map((v) => toHostArray(v))
      expect(run(after)).toEqual(run(before))
    }
  })

  test('what they are compiled to computes the same', () => {
    for (const size of nightly ? [7, 8] : [7]) {
      const graph = vjpGraph(stack('bf16', loss, size), [1, 2])
      const data = dataOf(graph, 5)
      const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, precision: 'tf32', verify: true })
      const want = evaluateGraph(graph, data).map((v) => toHostArray(v))
      expectAlike(interpretProgram(program, data), want, graph, `${size} x ${size}`)
    }
  })

  test('each value is stored once', () => {
    const graph = vjpGraph(stack('bf16', loss, 56, 64), [1, 2])
    const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, precision: 'tf32' })
    const shapes = program.steps.flatMap((s) =>
      s.kind === 'kernel' && s.kernel.params.every((p) => p.dtype !== 'f32' || p.shape.length < 4)
        ? s.kernel.params.filter((p) => p.access === 'write' && p.shape.length > 1).map((p) => p.shape.join())
        : [],
    )
    expect(shapes.length).toBeGreaterThan(0)
    expect(shapes).not.toContain('2,64,56,56')
  })

  test.each<[string, DType, (x: Node, before: Node, w: Node) => Node[]]>([
    ['a result of the program', 'bf16', (x, before) => [loss(x), before]],
    ['windows that are folded', 'bf16', (x, before) => [loss(x), c.maxPool(before, [2, 2])]],
    ['what is joined with other channels', 'bf16', (x, before) => [loss(c.maxPool(c.concat([x, before], 1), [2, 2]))]],
    ['products of 32 bits', 'f32', (x, before, w) => [loss(x), loss(c.conv(before, w))]],
  ])('not where %s has another order', (_, dtype, end) => {
    const { before, after } = ordered(stack(dtype, end))
    expect(count(after, [2, 16, 8, 8])).toBe(count(before, [2, 16, 8, 8]))
    expect(count(after, [2, 8, 8, 16])).toBe(0)
  })
})
