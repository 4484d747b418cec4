/**
 * Issue: recursions over programs end before the stack does, and compile time is near-linear. Here: views of views, between operations
 * or not, and single values that depend on each other and are used by larger ones.
 * Sites looked at: `Instances.value` (a trial gives up where too many values wait for one another, `Tiles.checkDepth`), `boundOperands`
 * (keeps views between two operations to a limit, but trials join the operations), `chains` in plan/fuse/clusters.ts (joins operands that are
 * no views, to a limit), `spreadSingles` (built without a trial, so it keeps to a limit of its own), `unrounded`.
 */
import { describe, expect, test } from 'vitest'
import { jit, type Tensor, tensor } from '../../src/api/index.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { nightly, turn } from '../support/nightly.ts'

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const targets: readonly Machine[] = [wasmTarget, cudaTarget, webgpuTarget()]

function compiled(target: Machine, shapes: readonly (readonly number[])[], body: (p: readonly Node[]) => Node[]) {
  const graph = withContext((): Graph => {
    const params = shapes.map((shape, i) => param(i, shape, 'f32'))
    return { params, outputs: body(params), effects: [] }
  })
  return compileGraph(graph, { mode: 'fast', target })
}

describe('views of views', () => {
  const turned = (x: Node, n: number): Node =>
    range(n).reduce((y, i) => (i % 2 === 0 ? c.permute(y, [1, 0]) : c.flip(y, [0])), x)
  const programs: Readonly<Record<string, (x: Node) => Node>> = {
    'transposed and flipped 10,000 times': (x) => c.add(turned(x, 10_000), 1),
    'operations with 150 views before each': (x) => range(40).reduce((y) => c.add(turned(y, 150), 1), x),
    'padded 600 times': (x) =>
      range(600).reduce(
        (y) =>
          c.pad(y, [
            [0, 0],
            [0, 1],
          ]),
        x,
      ),
  }
  for (const [i, [name, program]] of Object.entries(programs).entries())
    test.each(turn(targets, i).map((t) => [t.name, t] as const))(`${name}, %s`, (_, target) => {
      const { plan } = compiled(target, [[4, 4]], (p) => p.map(program))
      expect(plan.groups.length).toBeLessThan(100)
    })

  test('what they compute', async () => {
    // Each pair is a quarter turn: a multiple of four of them is none.
    const turns = nightly ? 10_000 : 4_000
    const f = jit((x: Tensor) => {
      let y = x
      for (let i = 0; i < turns; i++) y = i % 2 === 0 ? y.transpose([1, 0]) : y.flip(0)
      return y.add(1)
    })
    const x = tensor([
      [1, 2],
      [3, 4],
    ])
    expect(await f(x).data()).toEqual(new Float32Array([2, 3, 4, 5]))
  })
})

describe('single values that depend on each other, each used by a vector', () => {
  const next = (q: Node): Node => c.add(c.unary('sin', q), 0.5)
  test.each(turn(targets, 2).map((t) => [t.name, t] as const))('2,000 factors of one vector, %s', (_, target) => {
    const { plan } = compiled(target, [[64], []], ([x, s]) => {
      if (x === undefined || s === undefined) return []
      let [y, q] = [x, s]
      for (let i = 0; i < 2000; i++) {
        q = next(q)
        y = c.mul(y, q)
      }
      return [y]
    })
    // Regions of one form are built once: as many statements as half of the factors need (106,260 where a lone program is slow).
    expect(plan.work.statements).toBeLessThan(150_000)
  })
  test.each(turn(targets, 0).map((t) => [t.name, t] as const))('factors of a result each, %s', (_, target) => {
    const statements = (n: number): number =>
      compiled(target, [[64], []], ([x, s]) => {
        if (x === undefined || s === undefined) return []
        const all = range(n).reduce<Node[]>((qs) => [...qs, next(qs.at(-1) ?? s)], [])
        return all.map((q) => c.mul(x, q))
      }).plan.work.statements
    expect(statements(400)).toBeLessThan(5 * statements(100) + 100_000)
  })
})
