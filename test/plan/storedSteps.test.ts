/**
 * Results as large as the scores of an attention: gradients of biases, scores and weights that are asked for. One of the chains that make them anyway stores them, a step of its loop
 * its own; nothing reads them but what was to be made of them.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import type { DType } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, check, trace } from '../compile/support.ts'
import { compiledBackend } from '../support/device.ts'
import { hidden, key, query } from '../support/scores.ts'

const backend = compiledBackend({ threads: 1 })
afterAll(() => backend.dispose())

interface Sizes {
  readonly batch: number
  readonly heads: number
  readonly length: number
  readonly width: number
}

/** What is made of queries, keys, values and more; how many kernels, and how many results are as large as scores. */
interface Form {
  readonly of: (q: Node, k: Node, v: Node, more: Node) => Node[]
  readonly more: (s: Sizes) => readonly number[]
  /** With the gradients of all operands. */
  readonly both: boolean
  readonly kernels: number
  readonly stored: number
  /** What stores them, if not a chain. */
  readonly by?: 'matrix'
}

const scores = (q: Node, k: Node): Node => c.mul(c.matmul(q, c.swapAxes(k, -1, -2)), 0.25)
const causal = (s: Node): Node => c.where(c.compare('le', key(s), query(s)), s, hidden)
const none = (): number[] => [1]

/** Attention with a bias, and its gradients. */
const biased = (more: Form['more'], kernels: number, change = (s: Node): Node => s): Form => ({
  of: (q, k, v, b) => [c.matmul(c.softmax(change(c.add(scores(q, k), b)), -1), v)],
  more,
  both: true,
  kernels,
  stored: 1,
})

const forms: Readonly<Record<string, Form>> = {
  'a bias for every head of every sequence': biased(({ batch, heads, length }) => [batch, heads, length, length], 3),
  // Its gradient is a sum over the batch, of one that a chain stores.
  'a bias for a batch': biased(({ heads, length }) => [1, heads, length, length], 4),
  'a bias for all heads': biased(({ batch, length }) => [batch, 1, length, length], 4),
  'a bias under a mask': biased(({ heads, length }) => [1, heads, length, length], 4, causal),
  'scores that are a result': {
    of: (q, k, v) => {
      const s = scores(q, k)
      return [c.matmul(c.softmax(causal(s), -1), v), s]
    },
    more: none,
    both: false,
    kernels: 1,
    stored: 1,
  },
  'weights that are a result': {
    of: (q, k, v) => {
      const w = c.softmax(causal(scores(q, k)), -1)
      return [c.matmul(w, v), w]
    },
    more: none,
    both: false,
    kernels: 2,
    stored: 1,
    // What they are divided by is known behind a loop over all keys.
    by: 'matrix',
  },
}

function graphOf({ of, more, both }: Form, sizes: Sizes, dtype: DType): Graph {
  const { batch, heads, length, width } = sizes
  const shapes = [...Array(3).fill([batch, heads, length, width]), more(sizes)]
  const forward = trace(
    shapes.map((shape) => ({ shape, dtype })),
    (p) => of(at(p, 0), at(p, 1), at(p, 2), at(p, 3)),
  )
  return both ? vjpGraph(forward, [0, 1, 2, 3]) : forward
}

/** Products of scores of two kinds weigh values that know their mean over a batch: what stores it for that mean cannot be what weighs with it. */
function weighsItsMean(shape: readonly number[], dtype: DType, alone: boolean): Graph {
  return trace(Array(3).fill({ shape, dtype }), (p) => {
    const [q, k, v] = [at(p, 0), at(p, 1), at(p, 2)]
    const w = c.mul(c.exp(c.mul(scores(q, k), 0.0625)), scores(k, v))
    const known = c.matmul(c.mean(w, 0, true), c.sum(v, 0, true))
    const weighed = c.matmul(w, c.add(v, known))
    return alone ? [weighed] : [weighed, c.matmul(w, v)]
  })
}

test.each([true, false])('a value that its product needs something of (the only one over it: %s)', (alone) => {
  for (const [target, dtype] of [
    [cudaTarget, 'bf16'],
    [wasmTarget, 'f32'],
  ] as const)
    compileGraph(weighsItsMean([4, 16, 2048, 64], dtype, alone), { mode: 'fast', target, verify: true })
  check(weighsItsMean([2, 3, 20, 4], 'f32', alone), {}, backend)
})

describe.each(Object.entries(forms))('%s', (_, form) => {
  test('is stored once', () => {
    const sizes = { batch: 4, heads: 16, length: 2048, width: 64 }
    const { plan } = compileGraph(graphOf(form, sizes, 'bf16'), { mode: 'fast', target: cudaTarget, verify: true })
    const ofScores = sizes.batch * sizes.heads * sizes.length ** 2
    const kernels = plan.groups.flatMap((g) => (g.kind === 'kernel' ? [g] : []))
    const storing = kernels.filter((g) => g.outputs.some((n) => sizeOf(n.shape) === ofScores))
    expect(kernels).toHaveLength(form.kernels)
    expect(storing.flatMap((g) => g.outputs.filter((n) => sizeOf(n.shape) === ofScores))).toHaveLength(form.stored)
    expect(storing.map((g) => g.roles.kind)).toEqual([form.by ?? 'chain'])
  })

  test('has the values of the reference, hidden ones too', () => {
    for (const length of [12, 37]) check(graphOf(form, { batch: 2, heads: 3, length, width: 4 }, 'f32'), {}, backend)
    const graph = graphOf(form, { batch: 2, heads: 1, length: 80, width: 16 }, 'f32')
    for (const target of [cudaTarget, webgpuTarget()]) check(graph, { target })
  })
})
