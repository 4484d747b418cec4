/** Two layers of which the second has a few columns, which no matrix product serves: sums of terms with an axis that no product of the kernel has. */
import { describe, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import { trace } from '../compile/support.ts'
import { random } from '../support/alike.ts'
import { runGraph } from '../support/runGraph.ts'

const layers = (rows: number, depth: number, inner: number, columns: number): Graph =>
  trace(
    [[rows, depth], [depth, inner], [inner], [inner, columns], [columns]].map((shape) => ({ shape })),
    ([x, w, b, v, d]) =>
      c.add(c.matmul(c.tanh(c.add(c.matmul(x as Node, w as Node), b as Node)), v as Node), d as Node),
  )

describe('two layers, the second a few columns wide', () => {
  const next = random(46)
  const drawn = Array.from({ length: 24 }, () => [9, 40, 70, 5].map((most) => 1 + Math.floor(next() * most))) as [
    number,
    number,
    number,
    number,
  ][]
  test.each([[3, 32, 32, 3], [3, 11, 32, 3], ...drawn] as [number, number, number, number][])(
    '[%d, %d] @ [.., %d] @ [.., %d]',
    (...sizes) => {
      const graph = layers(...sizes)
      runGraph(graph, 1, wasmTarget)
      runGraph(vjpGraph(graph, [0, 1, 2, 3, 4]), 2, wasmTarget)
    },
  )
})
