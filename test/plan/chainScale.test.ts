/** Chains whose scores a number scales: their greatest is that of the scores as they come out of the product, and what a mask hides stays hidden. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { foldAxes } from '../../src/kernel/folds.ts'
import type { LetStmt, ValueId } from '../../src/kernel/ir.ts'
import { allStmts } from '../../src/kernel/walk.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import { check, trace } from '../compile/support.ts'
import { hidden, key, query, type Score } from '../support/scores.ts'

const attention = (score: Score, dtype: DType, length = 512, width = 64): Graph =>
  trace(
    [0, 1, 2].map(() => ({ shape: [2, length, width], dtype })),
    (p) => {
      const [q, k, v] = p as [Node, Node, Node]
      const s = score(c.matmul(q, c.permute(k, [0, 2, 1])), [])
      return c.matmul(c.cast(c.softmax(s, -1), dtype), v)
    },
  )

/** Whether a number multiplies what the greatest score of a chain is found among. */
function isFoundScaled(graph: Graph): boolean {
  const { program, report } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
  expect(report.kernels.map((k) => k.kind)).toEqual(['chain'])
  const [step] = program.steps
  const body = step?.kind === 'kernel' ? step.kernel.parts.flatMap((p) => [...allStmts(p.body)]) : []
  const lets = new Map(body.flatMap((s): [ValueId, LetStmt][] => (s.kind === 'let' ? [[s.id, s]] : [])))
  const greatest = [...lets.values()].find((l) => l.op.kind === 'reduce' && l.op.combiner === 'max')
  const along = greatest === undefined ? [] : foldAxes(greatest)
  const isScaled = (id: ValueId): boolean => {
    const l = lets.get(id)
    if (l?.op.kind !== 'scalar' || !along.some((t) => l.axes.includes(t))) return false
    return l.op.op === 'mul' || l.op.args.some(isScaled)
  }
  return greatest?.op.kind === 'reduce' && isScaled(greatest.op.arg)
}

const causal = (s: Node): Node => c.where(c.compare('le', key(s), query(s)), s, hidden)

describe('the scale of a chain of scores', () => {
  test.each<[string, Score, DType]>([
    ['a number', (s) => c.mul(s, 0.125), 'bf16'],
    ['a number, behind which a mask hides', (s) => causal(c.mul(s, 0.125)), 'bf16'],
    ['a number in f32', (s) => causal(c.mul(c.cast(s, 'f32'), 0.3)), 'f16'],
    ['a mask before the number', (s) => c.mul(causal(s), 0.3), 'bf16'],
  ])('%s is no factor of what the greatest is found among', (_, score, dtype) => {
    expect(isFoundScaled(attention(score, dtype))).toBe(false)
  })

  test.each<[string, Score]>([
    ['a number below zero', (s) => c.mul(s, -0.125)],
    ['what is hidden by a finite number', (s) => c.where(c.compare('le', key(s), query(s)), c.mul(s, 0.125), -1e9)],
    ['a rounding that was asked for', (s) => c.cast(c.cast(c.mul(c.cast(s, 'f32'), 0.3), 'bf16'), 'f32')],
  ])('%s stays where it is', (_, score) => {
    expect(isFoundScaled(attention(score, 'bf16'))).toBe(true)
  })

  test.each([0.125, 1e-3, 40])('results with the scale %d, causal or not', (scale) => {
    for (const score of [(s: Node) => c.mul(s, scale), (s: Node) => causal(c.mul(s, scale))])
      check(attention(score, 'f32', 24, 8), { target: { ...wasmTarget, chains: { rows: 8, shared: 8, width: 64 } } })
  })
})
