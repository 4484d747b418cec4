/** Sums that a program holds but for a factor: what is taken from where, what stays, and what becomes of numbers that are not finite. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import { takeScaledSums } from '../../src/compile/scaledSums.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import { hostArray } from '../../src/types/host.ts'
import { at, check, sameValues, trace } from './support.ts'

/** Of a matrix, a factor a column, and one for each element. */
const graphOf = (build: (x: Node, columns: Node, each: Node) => Node[]): Graph => {
  const inputs = [{ shape: [5, 7] }, { shape: [7] }, { shape: [5, 7] }]
  return rewriteGraph(
    trace(inputs, (p) => build(at(p, 0), at(p, 1), at(p, 2))),
    { mode: 'fast' },
  ).graph
}

const sums = (graph: Graph): number => nodesOf(graph).filter((n) => n.op === 'reduce').length

const taken = (graph: Graph): Graph => sameValues(graph, takeScaledSums(graph), 'from sums held')

const down = (x: Node): Node => c.sum(x, 0)

describe('a sum that is held but for a factor', () => {
  test.each<[string, (x: Node, columns: Node, each: Node) => Node]>([
    ['of columns', (x, f) => c.mul(x, f)],
    ['twice', (x, f) => c.mul(c.mul(x, f), c.add(f, 1))],
    ['a number', (x) => c.mul(x, 3)],
    ['negated and doubled', (x, f) => c.neg(c.mul(c.add(x, x), f))],
  ])('%s', (_, terms) => {
    const graph = graphOf((x, f, e) => [down(x), down(terms(x, f, e))])
    expect([sums(graph), sums(taken(graph))]).toEqual([2, 1])
  })

  test('is taken by several, one behind another', () => {
    const graph = graphOf((x, f) => {
      const first = down(c.mul(x, f))
      return [down(x), first, down(c.mul(x, c.exp(c.mul(first, 0.01))))]
    })
    expect([sums(graph), sums(taken(graph))]).toEqual([3, 1])
  })
})

test.each<[string, (x: Node, columns: Node, each: Node) => Node[]]>([
  ['nobody holds', (x, f) => [down(c.mul(x, f))]],
  ['runs along other axes', (x, f) => [c.sum(x, 1), down(c.mul(x, f))]],
  ['has a factor for each element', (x, _, e) => [down(x), down(c.mul(x, e))]],
  ['has a factor of rows, which it sums', (x, _, e) => [down(x), down(c.mul(x, c.sum(e, 1, true)))]],
  ['is a greatest', (x, f) => [down(x), c.reduceMax(c.mul(x, f), 0)]],
])('a sum stays that %s', (_, build) => {
  const graph = graphOf(build)
  expect(taken(graph)).toBe(graph)
})

test('what is not finite is so afterwards', () => {
  const graph = graphOf((x, f) => [down(x), down(c.mul(x, f))])
  const [x, f, e] = [hostArray('f32', 35).fill(1 as never), hostArray('f32', 7).fill(2 as never), hostArray('f32', 35)]
  x[0] = Number.POSITIVE_INFINITY
  x[1] = Number.NaN
  f[2] = Number.NaN
  const evaluated = (g: Graph) => [...(evaluateGraph(g, [x, f, e]).map(toHostArray)[1] as Float32Array)]
  expect(evaluated(takeScaledSums(graph))).toEqual(evaluated(graph))
})

describe('a batch normalisation', () => {
  const gradient = (shape: readonly number[]): Graph => {
    const vector = { shape: [shape[1] ?? 1] }
    return vjpGraph(
      trace([{ shape: [...shape] }, vector, vector], (p) =>
        c.sum(c.tanh(c.batchNormTraining(at(p, 0), { scale: at(p, 1), bias: at(p, 2) }).output)),
      ),
      [0, 1, 2],
    )
  }

  test('behind a convolution has a gradient whose finishing stages read no data again', () => {
    const [vector, weight] = [{ shape: [512] }, { shape: [512, 512, 1, 1] }]
    const graph = vjpGraph(
      trace([{ shape: [64, 512, 28, 28] }, weight, vector, vector, weight, vector, vector], (p) => {
        const normal = (x: Node, i: number) =>
          c.relu(c.batchNormTraining(x, { scale: at(p, i), bias: at(p, i + 1) }).output)
        return c.mean(normal(c.conv(normal(c.conv(at(p, 0), at(p, 1)), 2), at(p, 4)), 5))
      }),
      [0, 1, 2, 3, 4, 5, 6],
    )
    const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, precision: 'tf32', verify: true })
    const finishing = program.steps.flatMap((s) => (s.kind === 'kernel' && s.stage === 'finishing' ? [s.kernel] : []))
    const most = Math.max(...finishing.flatMap((k) => k.params.map((p) => p.shape.reduce((n, d) => n * d, 1))))
    expect(finishing.length).toBeGreaterThan(2)
    expect(most).toBeLessThan(64 * 512 * 28 * 28)
  })

  test.each([
    [3, 4, 5, 6],
    [7, 2, 3, 3],
    [1, 3, 4, 1],
  ])('of %i x %i x %i x %i gives what the reference gives', (...shape) => {
    check(gradient(shape), { target: cudaTarget })
    check(gradient(shape))
  })
})
