/**
 * Attention with more operands than three, and its gradients by all of them: kernels that store no scores, whatever stands before, beside and behind the weights. The same
 * forms at small sizes give what the reference gives.
 */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import type { DType } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, check, type Input, trace } from '../compile/support.ts'
import { some } from '../support/nightly.ts'
import { hidden, key, query } from '../support/scores.ts'

interface Sizes {
  readonly batch: number
  readonly heads: number
  readonly length: number
  readonly width: number
}

/** What is made of queries, keys, values and other operands; the shapes of these; how many kernels forward, and with the derivative. */
interface Form {
  readonly of: (q: Node, k: Node, v: Node, extra: readonly Node[]) => Node
  readonly shapes: (s: Sizes) => readonly (readonly number[])[]
  readonly kernels: readonly [number, number]
}

const turned = (x: Node): Node => c.swapAxes(x, -1, -2)
const scores = (q: Node, k: Node): Node => c.mul(c.matmul(q, turned(k)), 0.125)
const causal = (s: Node): Node => c.where(c.compare('le', key(s), query(s)), s, hidden)
const distance = (s: Node): Node => c.cast(c.sub(key(s), query(s)), s.dtype)
const norms = (x: Node): Node => c.sum(c.mul(x, x), -1, true)

/** Attention of scores that other operands change. */
const ofScores =
  (change: (s: Node, extra: readonly Node[]) => Node): Form['of'] =>
  (q, k, v, extra) =>
    c.matmul(c.softmax(causal(change(scores(q, k), extra)), -1), v)

const byHead = ({ heads }: Sizes): number[][] => [[heads, 1, 1]]

const forms: Readonly<Record<string, Form>> = {
  'a slope a head': {
    of: ofScores((s, x) => c.add(s, c.mul(distance(s), at(x, 0)))),
    shapes: byHead,
    kernels: [1, 4],
  },
  'a temperature a head': { of: ofScores((s, x) => c.mul(s, at(x, 0))), shapes: byHead, kernels: [1, 4] },
  'a temperature for all': { of: ofScores((s, x) => c.mul(s, at(x, 0))), shapes: () => [[1]], kernels: [1, 5] },
  'a cap a head': {
    of: ofScores((s, x) => c.mul(c.unary('tanh', c.div(s, at(x, 0))), at(x, 0))),
    shapes: byHead,
    kernels: [1, 4],
  },
  'a number a query and one a key': {
    of: ofScores((s, x) => c.add(c.add(s, at(x, 0)), at(x, 1))),
    shapes: ({ batch, heads, length }) => [
      [batch, heads, length, 1],
      [batch, heads, 1, length],
    ],
    kernels: [1, 3],
  },
  'the same for all heads': {
    of: ofScores((s, x) => c.add(c.add(s, at(x, 0)), at(x, 1))),
    shapes: ({ batch, length }) => [
      [batch, 1, length, 1],
      [batch, 1, 1, length],
    ],
    kernels: [1, 4],
  },
  'weights times a number a key': {
    of: (q, k, v, x) => c.matmul(c.mul(c.softmax(scores(q, k), -1), at(x, 0)), v),
    shapes: ({ batch, heads, length }) => [[batch, heads, 1, length]],
    kernels: [1, 3],
  },
  'a sink beside the scores': {
    of: (q, k, v, x) => {
      const s = causal(scores(q, k))
      const sink = c.broadcastTo(at(x, 0), [...s.shape.slice(0, -1), 1])
      const w = c.softmax(c.concat([s, sink], -1), -1)
      return c.matmul(c.sliceAxis(w, -1, 0, s.shape.at(-1) ?? 0), v)
    },
    shapes: byHead,
    kernels: [1, 4],
  },
  'differences of weights': {
    of: (q, k, v, x) => {
      const [a, b] = [scores(q, k), scores(at(x, 0), at(x, 1))].map((s) => c.softmax(causal(s), -1))
      if (a === undefined || b === undefined) throw new Error('two weights')
      return c.matmul(c.sub(a, c.mul(b, 0.5)), v)
    },
    shapes: ({ batch, heads, length, width }) => [
      [batch, heads, length, width],
      [batch, heads, length, width],
    ],
    kernels: [1, 7],
  },
  distances: {
    of: (q, k, v) => {
      const d = c.sub(c.add(norms(q), turned(norms(k))), c.mul(c.matmul(q, turned(k)), 2))
      return c.matmul(c.softmax(c.mul(d, -0.125), -1), v)
    },
    shapes: () => [],
    // The norms of keys are stored: beside a matrix unit no thread makes those of its columns.
    kernels: [2, 4],
  },
  'decays without a softmax': {
    of: (q, k, v, x) => {
      const s = c.matmul(q, turned(k))
      const decay = c.exp(c.mul(distance(s), at(x, 0)))
      return c.matmul(c.where(c.compare('le', key(s), query(s)), c.mul(s, decay), 0), v)
    },
    shapes: byHead,
    kernels: [1, 4],
  },
}

const graphsOf = (
  { of, shapes }: Form,
  sizes: Sizes,
  dtype: DType,
): { readonly forward: Graph; readonly both: Graph } => {
  const { batch, heads, length, width } = sizes
  const inputs: Input[] = [...Array(3).fill([batch, heads, length, width]), ...shapes(sizes)].map((shape) => ({
    shape,
    dtype,
  }))
  const forward = trace(inputs, (p) => of(at(p, 0), at(p, 1), at(p, 2), p.slice(3)))
  return {
    forward,
    both: vjpGraph(
      forward,
      inputs.map((_, i) => i),
    ),
  }
}

test.each(some(Object.entries(forms), 4))('%s: kernels that store no scores', (_, form) => {
  const sizes = { batch: 4, heads: 16, length: 2048, width: 128 }
  const { forward, both } = graphsOf(form, sizes, 'bf16')
  const compiled = [forward, both].map((g) => compileGraph(g, { mode: 'fast', target: cudaTarget, verify: true }))
  expect(compiled.map(({ program }) => program.steps.filter((s) => s.kind === 'kernel').length)).toEqual(form.kernels)
  const ofScores = sizes.batch * sizes.heads * sizes.length ** 2
  for (const { plan } of compiled)
    for (const g of plan.groups)
      if (g.kind === 'kernel') for (const n of g.outputs) expect(sizeOf(n.shape)).toBeLessThan(ofScores)
})

test.each(some(Object.entries(forms), 4))('%s: the values of the reference', (_, form) => {
  const { forward, both } = graphsOf(form, { batch: 2, heads: 3, length: 12, width: 4 }, 'f32')
  check(forward)
  check(both)
})
