/** Maxima on which no result depends: their derivative is zero, and nothing of it is left in the gradient. */
import { describe, expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { anchorsOf } from '../../src/transforms/anchors.ts'
import { vjpGraph } from '../../src/transforms/index.ts'
import { makeRng } from '../random/rng.ts'
import { drawInputs, evaluate, graphOf, numbersOf, type Program } from './support.ts'

const shape = [3, 5]
const of = (f: (x: Node) => Node | readonly Node[]): Program => ({ inputs: [{ shape, lo: 0.1 }], build: f })

const maxOf = (x: Node): Node => c.reduceMax(x, -1, true)
const softmax = (x: Node): Node => {
  const e = c.exp(c.sub(x, maxOf(x)))
  return c.div(e, c.sum(e, -1, true))
}
const hidden = (x: Node): Node => c.where(c.compare('gt', x, 0), x, Number.NEGATIVE_INFINITY)

const anchors: Readonly<Record<string, (x: Node) => Node | readonly Node[]>> = {
  softmax,
  'softmax of scores that a number scales': (x) => {
    const e = c.exp(c.mul(c.sub(x, maxOf(x)), 0.25))
    return c.div(e, c.sum(e, -1, true))
  },
  'weights times the reciprocal of their sum': (x) => {
    const e = c.exp(c.sub(x, maxOf(x)))
    return c.mul(e, c.div(1, c.sum(e, -1, true)))
  },
  'with weights that are hidden': (x) => {
    const e = c.where(c.compare('gt', x, 0), c.exp(c.sub(x, maxOf(x))), 0)
    return c.div(e, c.sum(e, -1, true))
  },
  'a product of weights, divided by their sum': (x) => {
    const e = c.exp(c.sub(x, maxOf(x)))
    return c.div(c.matmul(e, c.permute(x, [1, 0])), c.sum(e, -1, true))
  },
  'weights that are turned': (x) => {
    const e = c.permute(c.exp(c.sub(x, maxOf(x))), [1, 0])
    return c.div(e, c.sum(e, 0, true))
  },
  'logarithms of weights': (x) => {
    const d = c.sub(x, maxOf(x))
    return c.sub(d, c.log(c.sum(c.exp(d), -1, true)))
  },
  'the logarithm of a sum of exponentials': (x) => {
    const m = maxOf(x)
    return c.add(c.log(c.sum(c.exp(c.sub(x, m)), -1, true)), m)
  },
  'one more weight, of a score of zero': (x) => {
    const m = maxOf(x)
    const e = c.exp(c.sub(x, m))
    return c.div(e, c.add(c.sum(e, -1, true), c.exp(c.neg(m))))
  },
  'the greater of a maximum and zero': (x) => {
    const m = c.max(maxOf(c.sub(x, 0.5)), 0)
    const e = c.exp(c.sub(x, m))
    return c.div(e, c.add(c.sum(e, -1, true), c.exp(c.neg(m))))
  },
}

const others: Readonly<Record<string, (x: Node) => Node | readonly Node[]>> = {
  'exponentials alone': (x) => c.exp(c.sub(x, maxOf(x))),
  'a maximum that is a result, too': (x) => {
    const m = maxOf(x)
    const e = c.exp(c.sub(x, m))
    return [c.div(e, c.sum(e, -1, true)), m]
  },
  'a sum of squares of the differences': (x) => c.sum(c.square(c.sub(x, maxOf(x))), -1),
  'a sum over rows, whose maxima differ': (x) => {
    const e = c.exp(c.sub(x, maxOf(x)))
    return c.div(e, c.sum(e, 0, true))
  },
  'a product along rows, whose maxima differ': (x) => {
    const e = c.exp(c.sub(x, maxOf(x)))
    return c.div(c.matmul(c.permute(e, [1, 0]), e), c.sum(e))
  },
  'sums of other rows below': (x) => {
    const square = c.matmul(x, c.permute(x, [1, 0]))
    const e = c.exp(c.sub(square, maxOf(square)))
    return c.div(e, c.sum(e, -1))
  },
  'maxima of rows and of columns that they are': (x) => {
    const square = c.matmul(x, c.permute(x, [1, 0]))
    const m = c.reduceMax(square, -1)
    return c.sub(c.add(square, m), c.reshape(m, [3, 1]))
  },
  'a number beside the weights': (x) => {
    const e = c.exp(c.sub(x, maxOf(x)))
    return c.div(e, c.add(c.sum(e, -1, true), 1))
  },
  'weights of half the exponent beside the weights': (x) => {
    const d = c.sub(x, maxOf(x))
    return c.div(c.exp(d), c.add(c.sum(c.exp(d), -1, true), c.sum(c.exp(c.mul(d, 0.5)), -1, true)))
  },
  'twice the exponent below': (x) => {
    const d = c.sub(x, maxOf(x))
    return c.div(c.exp(d), c.sum(c.exp(c.mul(d, 2)), -1, true))
  },
}

/** The gradient in x of the results times weights. */
function gradientOf(program: Program, seeds: readonly Float64Array[], x: Float64Array): readonly number[] {
  const graph = graphOf(program)
  const out = evaluate(vjpGraph(graph, [0]), [x, ...seeds])
  return numbersOf(out[graph.outputs.length] ?? new Float64Array(), 'f64')
}

describe.each(Object.entries(anchors))('%s', (_, f) => {
  test('does not depend on its maximum', () => {
    const graph = graphOf(of(f))
    expect(anchorsOf(graph).size).toBeGreaterThan(0)
    const reverse = vjpGraph(graph, [0])
    const isTie = (n: Node): boolean => n.op === 'eq'
    expect(nodesOf(reverse).filter(isTie)).toHaveLength(0)
  })

  test('has the gradient that differences give', () => {
    const program = of(f)
    const graph = graphOf(program)
    const x = Float64Array.from(drawInputs(program, makeRng(5))[0] ?? [], Number)
    const seeds = graph.outputs.map((y) =>
      Float64Array.from({ length: y.shape.reduce((n, d) => n * d, 1) }, (_, i) => Math.sin(i + 1)),
    )
    const valueAt = (at: Float64Array): number =>
      evaluate(graph, [at]).reduce(
        (n, y, k) => n + numbersOf(y, 'f64').reduce((m, v, i) => m + v * (seeds[k]?.[i] ?? 0), 0),
        0,
      )
    const step = 1e-5
    const got = gradientOf(program, seeds, x)
    x.forEach((v, i) => {
      const [up, down] = [Float64Array.from(x), Float64Array.from(x)]
      up[i] = v + step
      down[i] = v - step
      expect(got[i]).toBeCloseTo((valueAt(up) - valueAt(down)) / (2 * step), 6)
    })
  })
})

test.each(Object.entries(others))('%s depends on its maximum', (_, f) => {
  expect(anchorsOf(graphOf(of(f))).size).toBe(0)
})

test('what a mask hides before the maximum is no matter', () => {
  expect(anchorsOf(graphOf(of((x) => softmax(hidden(x))))).size).toBe(1)
})
