/** Folds share axes by what a dimension is. An equal extent alone is an offer, which is taken back where no kernel comes of it. */
import { describe, expect, test } from 'vitest'
import { type Compiled, compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { Alignment } from '../../src/plan/body/alignment.ts'
import { storedBy } from '../../src/plan/plan.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { dtypeBytes } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, check, type Input, trace } from '../compile/support.ts'

const matrix = (n: number): Input => ({ shape: [n, n] })
const t = (x: Node): Node => c.transpose(x, [1, 0])
/** A product as a reduction, so that every summed dimension is bound by `Folds`. */
const product = (a: Node, b: Node): Node => {
  const [i = 0, k = 0, j = 0] = [a.shape[0], a.shape[1], b.shape[1]]
  return c.sum(c.mul(c.reshape(a, [i, k, 1]), c.broadcastTo(c.reshape(b, [1, k, j]), [i, k, j])), [1])
}

/** Programs of square matrices of one extent: whatever is summed, another axis is as long. */
const programs: Record<string, (a: Node, b: Node, d: Node) => Node> = {
  'two products': (a, b, d) => product(product(a, b), d),
  'a product with a transposed one': (a, b, d) => product(t(product(a, b)), t(d)),
  'softmax between two products': (a, b, d) => product(c.softmax(product(a, t(b)), 1), d),
  'softmax of columns between two products': (a, b, d) => product(c.softmax(product(a, t(b)), 0), d),
  'sums of rows times sums of columns': (a, b, d) =>
    c.add(c.mul(c.sum(a, [1], true), c.sum(b, [0], true)), c.sum(t(d), [1], true)),
  'sums of sums': (a, b, d) => c.add(c.sum(c.mul(a, c.sum(c.mul(b, c.sum(d, [0])), [1], true)), [0]), c.sum(b, [1])),
  'a row over the sum of another': (a, b, d) => c.div(a, c.add(c.sum(c.mul(b, t(d)), [1], true), 9)),
  'the place of the greatest': (a, b) =>
    c.cast(c.compare('eq', c.iota([5, 5], 1, 'i32'), c.argmax(c.add(a, t(b)), 1, true)), 'f32'),
  'a product with itself transposed': (a, _, d) => product(product(a, t(a)), product(t(d), d)),
}

const graphOf = (build: (a: Node, b: Node, d: Node) => Node, n = 5): Graph =>
  trace([matrix(n), matrix(n), matrix(n)], ([a, b, d]) => (a && b && d ? build(a, b, d) : []))

describe.each([wasmTarget, cudaTarget, webgpuTarget()])('square matrices on $name', (target) => {
  test.each(Object.entries(programs))('%s', (_, build) => {
    for (const mode of ['fast', 'strict'] as const) check(graphOf(build), { mode, target })
  })
})

describe('two products that no memory holds between are one kernel, whatever the extents', () => {
  const graphOf = (rows: number, columns: number, summed: number, wide: number): Graph => {
    const shapes = [
      [rows, 1],
      [1, summed],
      [columns, summed],
      [columns, wide],
    ].map((shape) => ({ shape }))
    return trace(shapes, (p) => {
      const [x, y, k, v] = p as [Node, Node, Node, Node]
      const scores = c.matmul(c.add(x, y), t(k))
      return c.sum(c.exp(c.mul(c.matmul(c.softmax(scores, 1), v), 0.1)), [1])
    })
  }
  const most = ({ plan }: Compiled): number =>
    Math.max(...plan.groups.flatMap(storedBy).map((n) => sizeOf(n.shape) * dtypeBytes(n.dtype)))
  const extents = [
    [1, 1, 1],
    [1, 1, 0.75],
    [1, 0.75, 1],
    [2, 1, 1],
    [3, 1, 1.5],
  ] as const

  test.each(extents)('%s, %s and %s of 512', (...parts) => {
    const [columns, summed, wide] = parts.map((n) => 512 * n) as [number, number, number]
    const compiled = compileGraph(graphOf(2 ** 22, columns, summed, wide), { mode: 'fast', target: wasmTarget })
    expect(most(compiled)).toBeLessThanOrEqual(wasmTarget.mostBytes.value)
  })

  test.each(extents)('%s, %s and %s of 12, the values', (...parts) => {
    const tight: Machine = { ...wasmTarget, rowBytes: 1024, mostBytes: { value: 2 ** 12, arena: 2 ** 20 } }
    const [columns, summed, wide] = parts.map((n) => 12 * n) as [number, number, number]
    expect(most(check(graphOf(256, columns, summed, wide), { target: tight }))).toBeLessThanOrEqual(2 ** 12)
  })
})

test('an axis is what operations evaluate at one index', () => {
  const graph = graphOf((a, b, d) => c.softmax(c.add(c.mul(a, t(b)), c.sum(d, [1], true)), 1))
  const [out, ...params] = [at(graph.outputs, 0), ...graph.params]
  const members = new Set<Node>()
  const stack = [out]
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    if (n.op !== 'param') members.add(n)
    stack.push(...n.inputs)
  }
  const alignment = new Alignment({ members, outputs: [out] })
  const axes = [out, ...params].map((n) => [0, 1].map((d) => alignment.axisOf(n, d)))
  const [o, a, b, d] = axes
  expect(a).toEqual(o)
  expect(b).toEqual([...(o ?? [])].reverse())
  expect(d?.[0]).toBe(o?.[0])
  expect(d?.[1]).not.toBe(o?.[1])
})
