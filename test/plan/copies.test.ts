/** No kernel of a gradient only moves values: contractions read transposed, sliced and windowed operands in place. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { familyOf } from '../../src/graph/table.ts'
import { membersOf } from '../../src/plan/plan.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { vjpGraph } from '../../src/transforms/index.ts'

function gradient(shapes: readonly (readonly number[])[], body: (p: (i: number) => Node) => Node): Graph {
  const forward = withContext((): Graph => {
    const params = shapes.map((shape, i) => param(i, shape, 'f32'))
    const p = (i: number): Node => {
      const n = params[i]
      if (n === undefined) throw new Error(`no parameter ${i}`)
      return n
    }
    return { params, outputs: [body(p)], effects: [] }
  })
  return vjpGraph(
    forward,
    shapes.map((_, i) => i),
  )
}

const [batch, steps, width, heads] = [2, 33, 24, 3]

const graphs: Readonly<Record<string, Graph>> = {
  perceptron: gradient([[32, 78], [78, 51], [51], [51, 10], [10]], (p) =>
    c.add(c.matmul(c.relu(c.add(c.matmul(p(0), p(1)), p(2))), p(3)), p(4)),
  ),
  'product with a transposed weight': gradient(
    [
      [64, 48],
      [48, 32],
      [40, 32],
    ],
    (p) => c.matmul(c.tanh(c.matmul(p(0), p(1))), c.permute(p(2), [1, 0])),
  ),
  attention: gradient([[batch, steps, width], ...[0, 1, 2, 3].map(() => [width, width])], (p) => {
    const split = (w: Node): Node =>
      c.permute(c.reshape(c.matmul(p(0), w), [batch, steps, heads, width / heads]), [0, 2, 1, 3])
    const scores = c.matmul(split(p(1)), c.permute(split(p(2)), [0, 1, 3, 2]))
    const mixed = c.permute(c.matmul(c.softmax(scores), split(p(3))), [0, 2, 1, 3])
    return c.matmul(c.reshape(mixed, [batch, steps, width]), p(4))
  }),
  'two convolutions': gradient(
    [
      [4, 3, 16, 16],
      [8, 3, 3, 3],
      [8, 1, 1],
      [5, 8, 3, 3],
    ],
    (p) => {
      const padding = [
        [1, 1],
        [1, 1],
      ] as const
      return c.conv(c.relu(c.add(c.conv(p(0), p(1), { padding }), p(2))), p(3), { padding })
    },
  ),
}

describe('no kernel only moves values in the gradient of', () => {
  for (const [name, graph] of Object.entries(graphs))
    test(name, () => {
      const { plan, program } = compileGraph(graph, { mode: 'fast', target: wasmTarget })
      for (const g of plan.groups)
        expect([...membersOf(g)].some((n) => familyOf(n) !== 'view' && familyOf(n) !== 'source')).toBe(true)
      expect(program.steps.filter((s) => s.kind === 'copy')).toEqual([])
    })
})
