/** Reductions in the kernel of a matrix product: over its depth, over rows it holds, over blocks with a finishing stage. */
import { afterAll, describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { Backend } from '../../src/runtime/backend.ts'
import type { Program } from '../../src/runtime/program.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { makeRng } from '../random/rng.ts'
import { some } from '../support/nightly.ts'

interface Case {
  readonly name: string
  readonly shapes: readonly (readonly number[])[]
  readonly build: (x: Node, w: Node, more: readonly Node[]) => Node[]
  /** Kernels in fast mode and in strict mode, where sums keep their order. */
  readonly fast: number
  readonly strict: number
  readonly stages?: number
}

/** Tails in every block. */
const [m, n, k] = [213, 301, 277]
const first = (more: readonly Node[]): Node => more[0] as Node

const cases: readonly Case[] = [
  {
    name: 'column sums of the second operand',
    shapes: [
      [k, m],
      [k, n],
    ],
    build: (x, w) => [c.matmul(c.transpose(x, [1, 0]), w), c.sum(w, 0)],
    fast: 1,
    strict: 1,
  },
  {
    name: 'row sums of the first operand, with what is computed from both',
    shapes: [[m, k], [k, n], [m]],
    build: (x, w, more) => [c.tanh(c.matmul(c.mul(x, 2), w)), c.sub(first(more), c.mul(c.sum(c.mul(x, 2), 1), 0.5))],
    fast: 1,
    strict: 1,
  },
  {
    name: 'maximum and sum over the depth, a batch of products',
    shapes: [
      [3, m, k],
      [3, k, n],
    ],
    build: (x, w) => [c.matmul(x, w), c.reduceMax(w, 1), c.sum(w, 1)],
    fast: 1,
    strict: 1,
  },
  {
    name: 'a sum over the depth that every block needs has a kernel of its own',
    shapes: [
      [m, k],
      [k, n],
    ],
    build: (x, w) => {
      const s = c.sum(w, 0)
      return [c.add(c.matmul(x, w), s), s]
    },
    fast: 2,
    strict: 2,
  },
  {
    name: 'sums over the depth of both operands, added to sums of the result',
    shapes: [
      [m, k],
      [k, n],
    ],
    build: (x, w) => {
      const y = c.matmul(x, w)
      return [y, c.exp(c.sum(w, 0)), c.sum(x, 1), c.reduceMax(y, 0)]
    },
    fast: 1,
    strict: 1,
    stages: 1,
  },
  {
    name: 'a sum over the depth that a finishing stage needs has a kernel of its own',
    shapes: [
      [m, k],
      [k, n],
    ],
    build: (x, w) => [c.sub(c.sum(w, 0), c.reduceMax(c.matmul(x, w), 0))],
    fast: 2,
    strict: 2,
    stages: 1,
  },
  {
    name: 'column sums of the result',
    shapes: [
      [m, k],
      [k, n],
    ],
    build: (x, w) => {
      const y = c.relu(c.matmul(x, w))
      return [y, c.sum(y, 0)]
    },
    fast: 1,
    strict: 2,
    stages: 1,
  },
  {
    name: 'maxima of rows of several blocks',
    shapes: [
      [m, k],
      [k, n],
    ],
    build: (x, w) => [c.reduceMax(c.matmul(x, w), 1)],
    fast: 1,
    strict: 1,
    stages: 1,
  },
  {
    name: 'the mean of squares alone',
    shapes: [
      [m, k],
      [k, n],
      [m, n],
    ],
    build: (x, w, more) => [c.mean(c.square(c.sub(c.matmul(x, w), first(more))))],
    fast: 1,
    strict: 2,
    stages: 1,
  },
  {
    name: 'sums along each axis and of everything, one result from two of them',
    shapes: [
      [m, k],
      [k, n],
    ],
    build: (x, w) => {
      const y = c.matmul(x, w)
      return [c.sum(y, 0), c.add(c.sum(y, 1), 1), c.mul(c.sum(c.square(y)), c.reduceMax(y))]
    },
    fast: 1,
    strict: 2,
    stages: 3,
  },
  {
    name: 'a sum over rows and batch',
    shapes: [
      [3, 67, k],
      [3, k, 45],
    ],
    build: (x, w) => [c.sum(c.matmul(x, w), [0, 1])],
    fast: 1,
    strict: 2,
    stages: 1,
  },
  {
    name: 'softmax of short rows, with the position of the largest',
    shapes: [
      [m, k],
      [k, 37],
    ],
    build: (x, w) => {
      const y = c.matmul(x, w)
      return [c.softmax(y), c.argmax(y, 1)]
    },
    fast: 1,
    strict: 1,
  },
  {
    name: 'layer normalisation of short rows, then column sums',
    shapes: [[m, k], [k, 61], [61]],
    build: (x, w, more) => {
      const y = c.layerNorm(c.matmul(x, w), { scale: first(more) })
      return [y, c.sum(y, 0)]
    },
    fast: 1,
    strict: 2,
    stages: 1,
  },
  {
    name: 'sums of few rows',
    shapes: [
      [19, k],
      [k, n],
    ],
    build: (x, w) => [c.sum(c.exp(c.matmul(x, w)), 0)],
    fast: 1,
    strict: 1,
  },
]

/** Small blocks: many programs, tails everywhere. */
const blocks: Machine = { ...wasmTarget, elementBlock: 24, dotBlock: { m: 40, n: 64, k: 48 }, minPrograms: 6 }

const one = createWasmBackend({ threads: 1 })
const two = createWasmBackend({ threads: 2, shareAbove: 0 })
afterAll(() => {
  one.dispose()
  two.dispose()
})

const traced = (k: Case): Graph =>
  withContext(() => {
    const params = k.shapes.map((s, i) => param(i, s, 'f32'))
    const [x, w, ...more] = params
    return { params, outputs: x === undefined || w === undefined ? [] : k.build(x, w, more), effects: [] }
  })

function data(graph: Graph): HostArray[] {
  const rng = makeRng(3)
  return graph.params.map((p) => {
    const out = hostArray(p.dtype, sizeOf(p.shape))
    for (let j = 0; j < out.length; j++) out[j] = (rng.unit() - 0.5) / 4
    return out
  })
}

function run(backend: Backend, program: Program, graph: Graph, inputs: readonly HostArray[]): HostArray[] {
  const executable = backend.prepare(program)
  const buffers = inputs.map((d) => {
    const b = backend.alloc(d.byteLength)
    backend.write(b, d)
    return b
  })
  const outputs = executable.run(buffers)
  const got = outputs.map((b, i) => {
    const node = graph.outputs[i]
    return backend.readSync(b, node?.dtype ?? 'f32', sizeOf(node?.shape ?? []))
  })
  for (const b of [...buffers, ...outputs]) backend.free(b)
  executable.dispose()
  return got
}

describe('reductions beside a matrix product', () => {
  for (const k of some(cases, 2)) {
    test(k.name, () => {
      const graph = traced(k)
      const inputs = data(graph)
      const expected = evaluateGraph(graph, inputs, { rounding: 'f64' }).map(toHostArray)
      const compiled = (mode: 'fast' | 'strict', fuse: boolean, target = wasmTarget) =>
        compileGraph(graph, { mode, target, fuse, verify: true })
      const fast = compiled('fast', true)
      const strict = compiled('strict', true)
      expect(fast.report.totals.kernels, fast.report.toString()).toBe(k.fast)
      expect(fast.report.totals.stages, fast.report.toString()).toBe(k.stages ?? 0)
      expect(strict.report.totals.kernels, strict.report.toString()).toBe(k.strict)
      const alone = run(one, compiled('strict', false).program, graph, inputs)
      const small = compiled('strict', true, blocks)
      for (const backend of [one, two])
        for (const { program } of [strict, small]) expect(run(backend, program, graph, inputs)).toEqual(alone)
      for (const backend of [one, two])
        for (const { program } of [fast, compiled('fast', true, blocks)])
          run(backend, program, graph, inputs).forEach((got, i) => {
            expected[i]?.forEach((e, j) => {
              if (!(Math.abs(Number(got[j]) - Number(e)) <= 1e-4 * (1 + Math.abs(Number(e)))))
                expect(got[j], `output ${i}, element ${j}`).toBe(e)
            })
          })
    })
  }
})

test.each(['f32', 'bf16', 'f16'] as const)(
  'gradients of a bias in %s are sums beside the product behind which it is added',
  (dtype) => {
    const shapes = [[512, 256], [256, 384], [384], [384, 256]]
    const graph = withContext(() => {
      const params = shapes.map((shape, i) => param(i, shape, dtype))
      const [x, a, b, w] = params as [Node, Node, Node, Node]
      const y = c.cast(c.matmul(c.gelu(c.add(c.matmul(x, a), b)), w), 'f32')
      return { params, outputs: [c.mean(c.mul(y, y))], effects: [] }
    })
    const { report } = compileGraph(vjpGraph(graph, [1, 2, 3]), { target: cudaTarget, mode: 'fast' })
    // Of the adjoint's product, whose results are multiplied with the derivative of gelu and summed over rows.
    const beside = report.kernels.filter((k) => k.kind === 'matrix' && k.stages.length > 0)
    expect(beside.length).toBeGreaterThan(0)
    // The loss's own.
    expect(report.kernels.filter((k) => k.kind === 'reduction').length).toBe(1)
  },
)
