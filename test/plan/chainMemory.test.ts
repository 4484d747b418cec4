/** What chains keep in memory at lengths of models, forward and backward: numbers of rows, whatever the length; and what stands in their loops. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { LetStmt } from '../../src/kernel/ir.ts'
import { allStmts } from '../../src/kernel/walk.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import type { DType } from '../../src/types/dtype.ts'
import { trace } from '../compile/support.ts'
import { hidden, key, query } from '../support/scores.ts'

const heads = 8
const width = 128

const forwardOf = (length: number, causal: boolean, dtype: DType = 'bf16'): Graph =>
  trace(
    [0, 1, 2].map(() => ({ shape: [heads, length, width], dtype })),
    (p) => {
      const [q, k, v] = p as [Node, Node, Node]
      const s = c.mul(c.cast(c.matmul(q, c.permute(k, [0, 2, 1])), 'f32'), 0.3)
      const seen = causal ? c.where(c.compare('le', key(s), query(s)), s, hidden) : s
      return c.matmul(c.cast(c.softmax(seen, -1), dtype), v)
    },
  )

const compiled = (graph: Graph) => compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })

test.each([true, false])(
  'forward and backward keep two numbers a row at 4,096 and at 16,384 positions: causal %s',
  (causal) => {
    for (const length of [4096, 16384]) {
      const forward = forwardOf(length, causal)
      const alone = compiled(forward)
      expect(alone.report.kernels.map((k) => k.kind)).toEqual(['chain'])
      expect(alone.program.arenaBytes).toBe(0)
      const both = compiled(vjpGraph(forward, [0, 1, 2]))
      expect(both.report.kernels.map((k) => k.kind)).toEqual(['chain', 'chain', 'chain'])
      // Places are at multiples of 128 bytes.
      expect(both.program.arenaBytes).toBeLessThanOrEqual(2 * (4 * heads * length + 128))
    }
  },
)

test.each([true, false])(
  'gradients alone, whose results nothing asks for, are three chains too: causal %s',
  (causal) => {
    const graph = vjpGraph(forwardOf(4096, causal), [0, 1, 2])
    const { report } = compiled({ ...graph, outputs: graph.outputs.slice(1) })
    expect(report.kernels.map((k) => k.kind)).toEqual(['chain', 'chain', 'chain'])
  },
)

/** Products of scores by numbers in loops of the kernels of gradients. */
function scaledInLoops(dtype: DType): number[] {
  const { program } = compiled(vjpGraph(forwardOf(4096, true, dtype), [0, 1, 2]))
  return program.steps.flatMap((s) => {
    if (s.kind !== 'kernel') return []
    const all = s.kernel.parts.flatMap((p) => [...allStmts(p.body)])
    const numbers = new Set(all.flatMap((t) => (t.kind === 'let' && t.op.kind === 'const' ? [t.id] : [])))
    const isScaled = (l: LetStmt): boolean =>
      l.op.kind === 'scalar' && l.op.op === 'mul' && l.axes.length > 2 && l.op.args.some((a) => numbers.has(a))
    const loops = all.flatMap((t) => (t.kind === 'loop' ? [t] : []))
    return [loops.flatMap((l) => l.body.filter((t) => t.kind === 'let' && isScaled(t))).length]
  })
}

test('the scale of scores meets sums instead of their terms, but for f16, whose range terms without it may exceed', () => {
  expect(scaledInLoops('bf16')).toEqual([1, 1, 1])
  expect(scaledInLoops('f16')).toEqual([1, 2, 2])
})
