/** Scans along the lanes of warps: every direction, dtype and length of lines against the reference, and how often threads meet. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { at, trace } from '../../compile/support.ts'
import { some, turn } from '../../support/nightly.ts'
import { hasCompiler } from '../dialects/emulator/emulator.ts'
import { expectEmulated } from '../matmul/emulated.ts'

interface Case {
  readonly shape: readonly number[]
  readonly dtype?: DType
  readonly build: (x: Node) => Node
}

const sum =
  (axis: number, options: c.ScanOptions = {}) =>
  (x: Node): Node =>
    c.cumsum(x, axis, options)

const cases: readonly (Case & { readonly title: string })[] = [
  { title: 'long odd rows', shape: [3, 5003], build: sum(1) },
  { title: 'rows of whole blocks', shape: [2, 4096], build: sum(1) },
  { title: 'rows shorter than a warp', shape: [70, 19], build: sum(1) },
  { title: 'rows of a few warps', shape: [33, 100], build: sum(1) },
  { title: 'from the end', shape: [3, 3001], build: sum(1, { reverse: true }) },
  { title: 'without the own element', shape: [3, 2000], build: sum(1, { exclusive: true }) },
  { title: 'both, in f16', shape: [5, 700], dtype: 'f16', build: sum(1, { reverse: true, exclusive: true }) },
  { title: 'bf16', shape: [5, 2056], dtype: 'bf16', build: sum(1) },
  { title: 'integers', shape: [4, 3000], dtype: 'i32', build: sum(1) },
  { title: 'greatest so far', shape: [4, 3000], build: (x) => c.cummax(x, 1) },
  { title: 'products', shape: [4, 300], build: (x) => c.cumprod(c.div(x, 2), 1) },
  { title: 'behind functions and under them', shape: [4, 5000], build: (x) => c.tanh(c.cumsum(c.exp(c.div(x, 8)), 1)) },
  { title: 'several rows a program, three axes', shape: [3, 9, 61], build: sum(2) },
  { title: 'columns, whose lines are no lanes', shape: [200, 40], build: sum(0) },
  { title: 'columns of many repeats, in batches of groups', shape: [772, 37], build: sum(0) },
  { title: 'columns of many rows, four to a thread', shape: [1000, 64], build: sum(0) },
  {
    title: 'columns of three axes, behind a function',
    shape: [3, 500, 7],
    build: (x) => c.cumsum(c.unary('sin', x), 1),
  },
  { title: 'columns from the end, in f16', shape: [600, 24], dtype: 'f16', build: sum(0, { reverse: true }) },
]

const graphOf = ({ shape, dtype = 'f32', build }: Case): Graph => trace([{ shape, dtype }], (p) => build(at(p, 0)))

// By day every other one.
describe.each(some(cases, 2))('$title', (given) => {
  test.skipIf(!hasCompiler()).each(turn(['fast', 'strict'] as const, cases.indexOf(given) >> 1))(
    '%s',
    { timeout: 60_000 },
    async (mode) => {
      const graph = graphOf(given)
      await expectEmulated(graph, compileGraph(graph, { mode, target: cudaTarget, verify: true }).program)
    },
  )
})

test('threads meet twice for a line, however often its threads go along it, and not within a warp', () => {
  const barriers = (given: Case): number => {
    const { program } = compileGraph(graphOf(given), { mode: 'fast', target: cudaTarget })
    const sources = program.steps.map((s) => (s.kind === 'kernel' ? emitKernel(s.kernel, cudaTarget.simt).source : ''))
    return sources.join('\n').split('__syncthreads()').length - 1
  }
  expect(barriers({ shape: [1000, 5003], build: sum(1) })).toBeLessThanOrEqual(3)
  expect(barriers({ shape: [1000, 10007], build: sum(1) })).toBeLessThanOrEqual(3)
  expect(barriers({ shape: [100_000, 19], build: sum(1) })).toBe(0)
  // Columns by 64 threads, each with seven times two neighbours: all are exchanged at once, in six steps.
  expect(barriers({ shape: [772, 1539], build: sum(0) })).toBe(14)
})
