/** Attention in 16 bits as people write it: one kernel forward, three with its derivative, whatever form its weights have. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { stopGradient } from '../../src/compose/stopGradient.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import { at, trace } from '../compile/support.ts'
import { some } from '../support/nightly.ts'
import { hidden, key, query } from '../support/scores.ts'

type Form = (q: Node, k: Node, v: Node) => Node

const turned = (x: Node): Node => c.permute(x, [0, 2, 1])
const products = (q: Node, k: Node): Node => c.matmul(q, turned(k))
const scores = (q: Node, k: Node): Node => c.mul(products(q, k), 0.125)
const greatest = (s: Node): Node => c.reduceMax(s, -1, true)
const total = (e: Node): Node => c.sum(e, -1, true)
const weights = (s: Node): Node => c.exp(c.sub(s, greatest(s)))
const quotient = (e: Node): Node => c.div(e, total(e))
const softmax = (s: Node): Node => quotient(weights(s))
const isSeen = (s: Node): Node => c.compare('le', key(s), query(s))

const forms: Readonly<Record<string, Form>> = {
  'quotients of weights': (q, k, v) => c.matmul(softmax(scores(q, k)), v),
  'scores that a number divides': (q, k, v) => c.matmul(softmax(c.div(products(q, k), 8)), v),
  'differences that a number scales': (q, k, v) => {
    const s = products(q, k)
    return c.matmul(quotient(c.exp(c.mul(c.sub(s, greatest(s)), 0.125))), v)
  },
  'reciprocals of sums': (q, k, v) => {
    const e = weights(scores(q, k))
    return c.matmul(c.mul(e, c.div(1, total(e))), v)
  },
  'sums behind the product': (q, k, v) => {
    const e = weights(scores(q, k))
    return c.div(c.matmul(e, v), total(e))
  },
  'log-sum-exp': (q, k, v) => {
    const s = scores(q, k)
    const d = c.add(greatest(s), c.log(total(weights(s))))
    return c.matmul(c.exp(c.sub(s, d)), v)
  },
  'exponentials of log-softmax': (q, k, v) => c.matmul(c.exp(c.logSoftmax(scores(q, k), -1)), v),
  'a mask in front': (q, k, v) => {
    const s = scores(q, k)
    return c.matmul(softmax(c.where(isSeen(s), s, hidden)), v)
  },
  'a mask of weights': (q, k, v) => {
    const s = scores(q, k)
    return c.matmul(quotient(c.where(isSeen(s), weights(s), 0)), v)
  },
  'weights times a mask': (q, k, v) => {
    const s = scores(q, k)
    return c.matmul(quotient(c.mul(weights(s), c.cast(isSeen(s), s.dtype))), v)
  },
  'the derivative of the greatest stopped': (q, k, v) => {
    const s = scores(q, k)
    return c.matmul(quotient(c.exp(c.sub(s, stopGradient(greatest(s))))), v)
  },
  'scores by keys': (q, k, v) => {
    const s = scores(k, q)
    const e = c.exp(c.sub(s, c.reduceMax(s, -2, true)))
    return c.matmul(turned(c.div(e, c.sum(e, -2, true))), v)
  },
  'one more weight, of a score of zero': (q, k, v) => {
    const s = scores(q, k)
    const m = greatest(s)
    const e = c.exp(c.sub(s, m))
    return c.matmul(c.div(e, c.add(total(e), c.exp(c.neg(m)))), v)
  },
  'the same, and the greatest at least zero': (q, k, v) => {
    const s = scores(q, k)
    const m = c.max(greatest(s), 0)
    const e = c.exp(c.sub(s, m))
    return c.matmul(c.div(e, c.add(total(e), c.exp(c.neg(m)))), v)
  },
  'weights in f32': (q, k, v) => c.matmul(c.cast(softmax(c.cast(scores(q, k), 'f32')), q.dtype), v),
  'a residual behind': (q, k, v) => c.add(c.matmul(softmax(scores(q, k)), v), q),
  'no greatest': (q, k, v) => c.matmul(quotient(c.exp(scores(q, k))), v),
  'no greatest, reciprocals of sums': (q, k, v) => {
    const e = c.exp(scores(q, k))
    return c.matmul(c.mul(e, c.div(1, total(e))), v)
  },
  'weights that are masked once more': (q, k, v) => {
    const s = scores(q, k)
    return c.matmul(c.where(isSeen(s), softmax(c.where(isSeen(s), s, hidden)), 0), v)
  },
}

const kernels = (graph: Graph): number =>
  compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true }).program.steps.filter(
    (s) => s.kind === 'kernel',
  ).length

test.each(some(Object.entries(forms), 3).map(([name, form], i) => [name, form, i % 2 === 0 ? 'bf16' : 'f16'] as const))(
  '%s',
  (_, form, dtype) => {
    const input = { shape: [16, 1024, 64], dtype }
    const graph = trace([input, input, input], (p) => form(at(p, 0), at(p, 1), at(p, 2)))
    expect(kernels(graph)).toBe(1)
    expect(kernels(vjpGraph(graph, [0, 1, 2]))).toBe(3)
  },
)
