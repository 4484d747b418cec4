/** Two products of which rows are normalised in front: a matrix unit's tiles are filled by threads that know no statistics of a row, so the norm is a kernel of its own. */
import { describe, expect, test } from 'vitest'
import { type Compiled, compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { scheduleThreads } from '../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { at, check, trace } from '../compile/support.ts'

/** A layer of two products with an activation between, of normalised rows; `first`: channels come before positions. */
function layerOf(rows: number, width: number, inner: number, first: boolean, normal: (x: Node) => Node): Graph {
  const dtype = 'bf16'
  const shape = first ? [8, width, rows / 8] : [rows, width]
  return trace(
    [
      { shape, dtype },
      { shape: [width, inner], dtype },
      { shape: [inner, width], dtype },
    ],
    (p) => {
      const x = first ? c.permute(at(p, 0), [0, 2, 1]) : at(p, 0)
      return c.matmul(c.gelu(c.matmul(normal(x), at(p, 1))), at(p, 2))
    },
  )
}

const layerNorm = (x: Node): Node => c.layerNorm(x)
const rmsNorm = (x: Node): Node => c.rmsNorm(x)

/** Products, and those that a matrix unit does. */
function products({ program }: Compiled): readonly [number, number] {
  const parts = program.steps.flatMap((s) =>
    s.kind === 'kernel' ? scheduleThreads(s.kernel, cudaTarget.simt).parts : [],
  )
  const dots = parts.flatMap((p) => [...p.lets.values()].filter((l) => l.op.kind === 'dot'))
  return [dots.length, parts.reduce((n, p) => n + p.products.size, 0)]
}

describe('products behind a norm are on the matrix unit', () => {
  test.each<[string, Graph]>([
    ['of 96 channels, which come first', layerOf(25088, 96, 384, true, layerNorm)],
    ['of 192 channels, which come first', layerOf(6272, 192, 768, true, layerNorm)],
    ['of 64 columns', layerOf(8192, 64, 256, false, layerNorm)],
    ['of 128 columns by their root mean square', layerOf(4096, 128, 512, false, rmsNorm)],
  ])('%s', (_, graph) => {
    const [all, onUnit] = products(compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true }))
    expect(all).toBeGreaterThanOrEqual(2)
    expect(onUnit).toBe(all)
  })
})

test('without a norm two products of few columns are one kernel', () => {
  const graph = layerOf(25088, 64, 256, false, (x) => x)
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
  expect(program.steps.filter((s) => s.kind === 'kernel')).toHaveLength(1)
})

test('small ones give what the reference gives', () => {
  const inputs = [{ shape: [9, 16] }, { shape: [16, 32] }, { shape: [32, 16] }]
  const graph = trace(inputs, (p) => c.matmul(c.gelu(c.matmul(c.layerNorm(at(p, 0)), at(p, 1))), at(p, 2)))
  check(graph, { target: cudaTarget })
})
