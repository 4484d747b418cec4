/** Derivatives of plain expressions contract back to few kernels: counts and results on WebAssembly. */
import { afterAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { vjpGraph } from '../../src/transforms/index.ts'
import type { DType } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { makeRng } from '../random/rng.ts'
import { compiledBackend, compiledTarget } from '../support/device.ts'

type Spec = readonly [shape: readonly number[], dtype?: DType, limit?: number]

interface Case {
  readonly name: string
  readonly inputs: readonly Spec[]
  readonly build: (p: readonly Node[]) => Node
  /** Parameters differentiated. */
  readonly wrt: readonly number[]
  readonly kernels: number
}

const at = (p: readonly Node[], i: number): Node => {
  const n = p[i]
  if (n === undefined) throw new Error(`no parameter ${i}`)
  return n
}

const cases: readonly Case[] = [
  {
    name: 'sum(tanh(a*x + b)) in x, a, b',
    inputs: [[[33, 70]], [[33, 70]], [[33, 70]]],
    build: (p) => c.sum(c.tanh(c.add(c.mul(at(p, 1), at(p, 0)), at(p, 2)))),
    wrt: [0, 1, 2],
    kernels: 1,
  },
  {
    name: 'crossEntropy per row in the logits, with its value',
    inputs: [[[37, 53]], [[37], 'i32', 53]],
    build: (p) => c.crossEntropy(at(p, 0), at(p, 1)),
    wrt: [0],
    kernels: 1,
  },
  { name: 'softmax', inputs: [[[37, 53]]], build: (p) => c.softmax(at(p, 0)), wrt: [0], kernels: 1 },
  {
    name: 'layerNorm forward and backward, all three gradients',
    inputs: [[[37, 53]], [[53]], [[53]]],
    build: (p) => c.layerNorm(at(p, 0), { scale: at(p, 1), bias: at(p, 2) }),
    wrt: [0, 1, 2],
    kernels: 2,
  },
  {
    name: 'dropout(gelu(x + b)) forward and backward, in x and b',
    inputs: [[[37, 53]], [[53]], [[2], 'u32', 1000]],
    build: (p) => c.dropout(c.gelu(c.add(at(p, 0), at(p, 1))), at(p, 2), 0.3),
    wrt: [0, 1],
    kernels: 2,
  },
  {
    name: 'relu(x @ w + b) forward and backward, all three gradients',
    inputs: [[[37, 41]], [[41, 53]], [[53]]],
    build: (p) => c.relu(c.linear(at(p, 0), at(p, 1), at(p, 2))),
    wrt: [0, 1, 2],
    kernels: 3,
  },
]

const backend = compiledBackend({ threads: 1 })
afterAll(() => backend.dispose())

function forward(k: Case): Graph {
  return withContext(() => {
    const params = k.inputs.map(([shape, dtype = 'f32'], i) => param(i, shape, dtype))
    return { params, outputs: [k.build(params)], effects: [] }
  })
}

function data(graph: Graph, specs: readonly Spec[]): HostArray[] {
  const rng = makeRng(11)
  return graph.params.map((p, i) => {
    const out = hostArray(p.dtype, sizeOf(p.shape))
    const limit = specs[i]?.[2] ?? 1
    for (let j = 0; j < out.length; j++)
      out[j] = p.dtype === 'f32' ? rng.unit() * 4 - 2 : Math.floor(rng.unit() * limit)
    return out
  })
}

/** The same expression on tensors that do not fit a cache. */
const large = (k: Case): Case => ({
  ...k,
  inputs: k.inputs.map(([shape, dtype = 'f32', limit = 1]) => [
    shape.map((n) => (n === 2 ? 2 : n < 40 ? 4096 : 1024)),
    dtype,
    limit,
  ]),
})

describe('kernels of derivatives', () => {
  for (const k of cases) {
    test(k.name, () => {
      const graph = vjpGraph(forward(k), k.wrt)
      const inputs = data(graph, k.inputs)
      const expected = evaluateGraph(graph, inputs, { rounding: 'f64' }).map(toHostArray)
      const { program, report } = compileGraph(graph, { mode: 'fast', target: compiledTarget, verify: true })
      const executable = backend.prepare(program)
      const buffers = inputs.map((d) => {
        const b = backend.alloc(d.byteLength)
        backend.write(b, d)
        return b
      })
      executable.run(buffers).forEach((b, i) => {
        const node = graph.outputs[i]
        const got = backend.readSync(b, node?.dtype ?? 'f32', sizeOf(node?.shape ?? []))
        expected[i]?.forEach((e, j) => {
          expect(Math.abs(Number(got[j]) - Number(e)), `output ${i}, element ${j}`).toBeLessThan(
            1e-4 * (1 + Math.abs(Number(e))),
          )
        })
      })
      expect(report.totals.kernels, report.toString()).toBeLessThanOrEqual(k.kernels)
    })

    test(`${k.name}, large`, () => {
      const graph = vjpGraph(forward(large(k)), k.wrt)
      const { report } = compileGraph(graph, { mode: 'fast', target: compiledTarget, verify: true })
      expect(report.totals.kernels, report.toString()).toBeLessThanOrEqual(k.kernels)
    })
  }
})
