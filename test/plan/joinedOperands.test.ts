/** Operands of products that are joined of several tensors: stored first where a chain would choose among them for every element. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import { at, trace } from '../compile/support.ts'

const attend = (q: Node, k: Node, v: Node): Node => c.matmul(c.softmax(c.matmul(q, c.permute(k, [0, 2, 1])), -1), v)

const traced = (shapes: readonly (readonly number[])[], of: (p: readonly Node[]) => Node): Graph =>
  trace(
    shapes.map((shape) => ({ shape, dtype: 'bf16' as const })),
    of,
  )

const kindsOf = (graph: Graph): string[] =>
  compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true }).report.kernels.map((k) => k.kind)

const [heads, length, width] = [64, 2048, 128]
const rows = [heads, length, width]

test('keys and values behind those of other tokens', () => {
  const graph = traced([rows, rows, rows, [heads, 16, width], [heads, 16, width]], (p) =>
    attend(at(p, 0), c.concat([at(p, 3), at(p, 1)], 1), c.concat([at(p, 4), at(p, 2)], 1)),
  )
  expect(kindsOf(graph)).toEqual(['elementwise', 'chain'])
  expect(kindsOf(vjpGraph(graph, [0, 1, 2])).filter((k) => k === 'chain')).toHaveLength(3)
})

/** Rotation of pairs half a row apart, in 16 bits. */
function rotated(x: Node, cos: Node, sin: Node): Node {
  const [p, q] = [c.sliceAxis(x, 2, 0, width / 2), c.sliceAxis(x, 2, width / 2, width)]
  return c.concat([c.sub(c.mul(p, cos), c.mul(q, sin)), c.add(c.mul(q, cos), c.mul(p, sin))], 2)
}

test('queries and keys that are rotated in 16 bits', () => {
  const half = [length, width / 2]
  const graph = traced([rows, rows, rows, half, half], (p) => {
    const [q, k] = [at(p, 0), at(p, 1)].map((x) => rotated(x, at(p, 3), at(p, 4)))
    return attend(q as Node, k as Node, at(p, 2))
  })
  expect(kindsOf(graph)).toEqual(['elementwise', 'chain'])
})

test('one query over a cache and one key more reads both where they are', () => {
  const one = [32, 1, width]
  const graph = traced([one, [32, 4096, width], [32, 4096, width], one, one], (p) =>
    attend(at(p, 0), c.concat([at(p, 1), at(p, 3)], 1), c.concat([at(p, 2), at(p, 4)], 1)),
  )
  // No kernel copies the cache.
  expect(kindsOf(graph)).not.toContain('elementwise')
})
