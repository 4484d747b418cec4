/** Readers of a donated input run before the kernel that overwrites it, where data allows; results stay right. */
import { afterAll, describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { sizeOf } from '../../src/types/shape.ts'

const backend = createWasmBackend({ threads: 1 })
afterAll(() => backend.dispose())

const n = 24

function inPlace(build: (w: Node, x: Node) => Node[]): number {
  const graph: Graph = withContext(() => {
    const params = [param(0, [n, n], 'f32'), param(1, [n, n], 'f32')]
    const [w, x] = params
    if (w === undefined || x === undefined) throw new Error('no parameters')
    return { params, outputs: build(w, x), effects: [] }
  })
  const inputs = graph.params.map((_, k) => Float32Array.from({ length: n * n }, (_, i) => Math.sin(i * (k + 1))))
  const expected = evaluateGraph(graph, inputs, { rounding: 'f64' }).map(toHostArray)
  const { program, report } = compileGraph(graph, {
    mode: 'fast',
    target: wasmTarget,
    verify: true,
    donated: [true, false],
  })
  const buffers = inputs.map((d) => {
    const b = backend.alloc(d.byteLength)
    backend.write(b, d)
    return b
  })
  backend
    .prepare(program)
    .run(buffers)
    .forEach((b, i) => {
      const node = graph.outputs[i]
      const got = backend.readSync(b, node?.dtype ?? 'f32', sizeOf(node?.shape ?? []))
      expected[i]?.forEach((e, j) => {
        expect(Math.abs(Number(got[j]) - Number(e)), `output ${i}, element ${j}`).toBeLessThan(1e-4)
      })
    })
  return report.memory.inPlace
}

describe('donated inputs', () => {
  test('a reader that was built later comes first', () => {
    expect(
      inPlace((w, x) => {
        const updated = c.sub(w, c.matmul(x, x))
        return [updated, c.matmul(w, x)]
      }),
    ).toBe(1)
  })

  test('what depends on the update moves with it', () => {
    expect(
      inPlace((w, x) => {
        const updated = c.sub(w, c.matmul(x, x))
        // No chain of products, whose steps would store the update and read the input as they go.
        return [updated, c.cumsum(c.swapAxes(updated, 0, 1), 1), c.matmul(w, x)]
      }),
    ).toBe(1)
  })

  test('a reader that needs the update keeps the input', () => {
    expect(
      inPlace((w, x) => {
        const updated = c.sub(w, c.matmul(x, x))
        return [updated, c.matmul(w, updated)]
      }),
    ).toBe(0)
  })
})
