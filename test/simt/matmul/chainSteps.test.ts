/** Chains on tensor cores that store what their steps make, as CUDA sources on the host: gradients of biases, and scores that are a result. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { vjpGraph } from '../../../src/transforms/vjp.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import { trace } from '../../compile/support.ts'
import { dataOf, expectAlike } from '../../support/alike.ts'
import { some } from '../../support/nightly.ts'
import { hidden, key, query } from '../../support/scores.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

interface Case {
  readonly name: string
  readonly dtype: DType
  /** Sequences, heads, queries, keys, width. */
  readonly sizes: readonly [number, number, number, number, number]
  /** Shape of a bias among sequences and heads: its gradient is a result. Absent: scores are. */
  readonly bias?: readonly [number, number]
  /** Whose gradients are results besides: those by queries, keys and values unless given. */
  readonly by?: readonly number[]
  /** A machine without groups of warps: products by single ones. */
  readonly single?: true
}

/** Every third by day. */
const cases: readonly Case[] = [
  { name: 'a bias for every head, tails', dtype: 'bf16', sizes: [2, 2, 150, 200, 64], bias: [2, 2] },
  { name: 'a bias for a batch', dtype: 'bf16', sizes: [2, 2, 128, 256, 64], bias: [1, 2] },
  { name: 'a bias for all heads, single warps', dtype: 'f16', sizes: [2, 2, 75, 130, 32], bias: [2, 1], single: true },
  { name: 'a bias, stored by keys', dtype: 'bf16', sizes: [1, 2, 150, 130, 64], bias: [1, 2], by: [1] },
  { name: 'scores, odd lines', dtype: 'bf16', sizes: [1, 2, 130, 77, 64] },
  { name: 'scores, wide heads', dtype: 'f16', sizes: [1, 1, 128, 192, 128] },
]

const scores = (q: Node, k: Node): Node => c.mul(c.matmul(q, c.swapAxes(k, -1, -2)), 0.25)
const causal = (s: Node): Node => c.where(c.compare('le', key(s), query(s)), s, hidden)

function graphOf({ dtype, sizes: [batch, heads, queries, keys, width], bias, by = [0, 1, 2] }: Case): Graph {
  const shapes = [queries, keys, keys].map((n) => [batch, heads, n, width])
  const more = bias === undefined ? [] : [[...bias, queries, keys]]
  const inputs = [...shapes, ...more].map((shape) => ({ shape, dtype }))
  const forward = trace(inputs, (p) => {
    const [q, k, v, b] = p as [Node, Node, Node, Node | undefined]
    const s = scores(q, k)
    return b === undefined
      ? [c.matmul(c.softmax(causal(s), -1), v), s]
      : c.matmul(c.softmax(causal(c.add(s, b)), -1), v)
  })
  return bias === undefined ? forward : vjpGraph(forward, [...by, 3])
}

describe.skipIf(!hasCompiler())('steps of chains that are stored (skipped where g++ is missing)', () => {
  test.each(some(cases, 3))('$name', { timeout: 180_000 }, async (x) => {
    const graph = graphOf(x)
    const [batch, heads, queries, keys] = x.sizes
    const { program, plan } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
    const ofScores = batch * heads * queries * keys
    const storing = plan.groups.filter(
      (g) => g.kind === 'kernel' && g.outputs.some((n) => sizeOf(n.shape) === ofScores),
    )
    expect(storing.map((g) => g.kind === 'kernel' && g.roles.kind)).toEqual(['chain'])
    const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    const simt = x.single === true ? { ...cudaTarget.simt, hasWarpGroupProducts: false } : cudaTarget.simt
    const inputs = dataOf(graph, 11)
    const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
    const emulated = new Emulated(kernels, simt)
    const got = await execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
    expectAlike(
      got.flatMap((y) => y ?? []),
      want,
      graph,
      'emulated',
    )
    emulated.dispose()
  })
})
