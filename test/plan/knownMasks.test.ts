/** Masks and distances that models store as literals: loops of chains end where they hide everything, and nothing of them is loaded. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { makeNode } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { KernelPart } from '../../src/kernel/ir.ts'
import { writeElement } from '../../src/scalar/host.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import { hostArray } from '../../src/types/host.ts'
import { at, check, trace } from '../compile/support.ts'

/** A literal of [n, n] by the distance of the column to the row. */
function byDistance(n: number, dtype: DType, of: (distance: number) => number): Node {
  const data = hostArray(dtype, n * n)
  for (let i = 0; i < n * n; i++) writeElement(data, dtype, i, of((i % n) - Math.floor(i / n)))
  return makeNode('constant', [], { data, shape: [n, n], dtype })
}

const scores = (p: readonly Node[]): Node => c.matmul(at(p, 0), c.permute(at(p, 1), [0, 2, 1]))
const over = (weights: Node, p: readonly Node[]): Node => c.matmul(weights, at(p, 2))

/** Attention by one head for each of four, over n positions. */
const forms: Readonly<Record<string, (n: number, dtype: DType) => (p: readonly Node[]) => Node>> = {
  'a bool': (n, dtype) => (p) => {
    const seen = byDistance(n, 'bool', (d) => (d <= 0 ? 1 : 0))
    const hidden = c.full([n, n], Number.NEGATIVE_INFINITY, dtype)
    return over(c.softmax(c.where(seen, scores(p), hidden), -1), p)
  },
  'a number that is added': (n, dtype) => (p) =>
    over(
      c.softmax(
        c.add(
          scores(p),
          byDistance(n, dtype, (d) => (d <= 0 ? 0 : Number.NEGATIVE_INFINITY)),
        ),
        -1,
      ),
      p,
    ),
  'a distance in f32': (n, dtype) => (p) => {
    const distance = byDistance(n, 'f32', (d) => 0 - d)
    const decay = c.exp(c.mul(distance, c.full([n, n], -0.03, 'f32')))
    const weight = c.where(makeNode('ge', [distance, c.zeros([n, n], 'f32')], {}), decay, c.zeros([n, n], 'f32'))
    return over(c.mul(scores(p), c.cast(weight, dtype)), p)
  },
}

const graphOf = (form: string, n: number, width: number, dtype: DType): Graph =>
  trace(
    Array.from({ length: 3 }, () => ({ shape: [4, n, width], dtype })),
    (p) => forms[form]?.(n, dtype)(p) ?? at(p, 0),
  )

const partsOf = (graph: Graph): KernelPart[] =>
  compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true }).program.steps.flatMap((s) =>
    s.kind === 'kernel' ? s.kernel.parts : [],
  )

describe.each(Object.keys(forms))('%s', (form) => {
  test('ends the loop over keys', () => {
    const graph = graphOf(form, 1023, 64, 'bf16')
    const loops = partsOf(graph).flatMap((p) => p.body.filter((s) => s.kind === 'loop'))
    expect(loops.map((l) => l.kind === 'loop' && l.to !== undefined)).toEqual([true])
    const loads = partsOf(graph).flatMap((p) => p.body.flatMap((s) => (s.kind === 'loop' ? s.body : [s])))
    expect(loads.filter((s) => s.kind === 'let' && s.op.kind === 'load')).toHaveLength(3)
  })

  test.each([wasmTarget, cudaTarget])('gives what the reference gives: $name', (target) => {
    check(graphOf(form, 37, 8, 'f32'), { target })
  })
})
