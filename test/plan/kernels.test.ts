/** Kernels from plain expressions: counts, bytes and results (interpreted) for the programs the planner is made for. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { withOrigin } from '../../src/diagnostics/origin.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { writeElement } from '../../src/scalar/host.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { nightly, turn } from '../support/nightly.ts'

type Spec = readonly [shape: readonly number[], dtype?: DType, range?: readonly [number, number]]
type Case = {
  readonly name: string
  readonly inputs: readonly Spec[]
  readonly build: (...p: Node[]) => Node | Node[]
  readonly kernels: number
  readonly stages?: number
}

const f = (...shape: number[]): Spec => [shape]
const ids = (limit: number, ...shape: number[]): Spec => [shape, 'i32', [0, limit]]

function random(seed: number): () => number {
  let s = seed >>> 0
  return () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return s / 2 ** 32
  }
}

function data([shape, dtype = 'f32', range]: Spec, rng: () => number): HostArray {
  const n = sizeOf(shape)
  const out = hostArray(dtype, n)
  const [lo, hi] = range ?? (dtype === 'f32' ? [-2, 2] : [-100, 100])
  for (let i = 0; i < n; i++) {
    const v = lo + rng() * (hi - lo)
    writeElement(out, dtype, i, dtype === 'bool' ? rng() < 0.5 : dtype === 'f32' ? v : Math.floor(v))
  }
  return out
}

function trace(specs: readonly Spec[], build: Case['build']): Graph {
  return withContext(() => {
    const params = specs.map(([shape, dtype = 'f32'], i) => param(i, shape, dtype))
    const out = build(...params)
    return { params, outputs: Array.isArray(out) ? out : [out], effects: [] }
  })
}

/** Reductions over the axes given, of a matrix-like input. */
const softmaxWithoutMax = (x: Node, axis: number): Node => {
  const e = c.exp(x)
  return c.div(e, c.sum(e, axis, true))
}
const ln = (x: Node, axis: number): Node => {
  const d = c.sub(x, c.mean(x, axis, true))
  return c.div(d, c.sqrt(c.add(c.mean(c.mul(d, d), axis, true), 1e-5)))
}
const rms = (x: Node, axis: number): Node => c.div(x, c.sqrt(c.add(c.mean(c.mul(x, x), axis, true), 1e-6)))

const cases: Case[] = [
  {
    name: 'tanh(a*x+b)',
    inputs: [f(33, 70), f(), f()],
    build: (x, a, b) => c.tanh(c.add(c.mul(a as Node, x as Node), b as Node)),
    kernels: 1,
  },
  {
    name: '{sin(xy), cos(xy)}',
    inputs: [f(33, 7), f(33, 7)],
    build: (x, y) => {
      const p = c.mul(x as Node, y as Node)
      return [c.unary('sin', p), c.unary('cos', p)]
    },
    kernels: 1,
  },
  ...[0, 1].flatMap((axis): Case[] => [
    { name: `softmax axis ${axis}`, inputs: [f(37, 53)], build: (x) => c.softmax(x as Node, axis), kernels: 1 },
    {
      name: `softmax without max axis ${axis}`,
      inputs: [f(37, 53)],
      build: (x) => softmaxWithoutMax(x as Node, axis),
      kernels: 1,
    },
    { name: `logSoftmax axis ${axis}`, inputs: [f(37, 53)], build: (x) => c.logSoftmax(x as Node, axis), kernels: 1 },
    { name: `layerNorm axis ${axis}`, inputs: [f(37, 53)], build: (x) => ln(x as Node, axis), kernels: 1 },
    {
      name: `layerNorm with pow axis ${axis}`,
      inputs: [f(37, 53)],
      build: (x) => {
        const d = c.sub(x as Node, c.mean(x as Node, axis, true))
        return c.div(d, c.sqrt(c.add(c.mean(c.pow(d, 2), axis, true), 1e-5)))
      },
      kernels: 1,
    },
    {
      name: `residual + rmsNorm axis ${axis}`,
      inputs: [f(37, 53), f(37, 53)],
      build: (x, r) => {
        const s = c.add(x as Node, r as Node)
        return [s, rms(s, axis)]
      },
      kernels: 1,
    },
    {
      name: `mean and variance axis ${axis}`,
      inputs: [f(37, 53)],
      build: (x) => [c.mean(x as Node, axis), c.variance(x as Node, axis)],
      kernels: 1,
    },
    {
      name: `argmax(softmax) axis ${axis}`,
      inputs: [f(37, 53)],
      build: (x) => c.argmax(c.softmax(x as Node, axis), axis),
      kernels: 1,
    },
  ]),
  {
    name: 'layerNorm with weights',
    inputs: [f(5, 33, 48), f(48), f(48)],
    build: (x, w, b) => c.layerNorm(x as Node, { scale: w as Node, bias: b as Node }),
    kernels: 1,
  },
  {
    name: 'crossEntropy per row',
    inputs: [f(37, 53), ids(53, 37)],
    build: (x, y) => c.crossEntropy(x as Node, y as Node),
    kernels: 1,
  },
  {
    name: 'mean crossEntropy',
    inputs: [f(1025, 53), ids(53, 1025)],
    build: (x, y) => c.mean(c.crossEntropy(x as Node, y as Node)),
    kernels: 1,
    stages: 1,
  },
  {
    name: 'gelu(x@w+b)',
    inputs: [f(67, 300), f(300, 45), f(45)],
    build: (x, w, b) => c.gelu(c.add(c.matmul(x as Node, w as Node), b as Node)),
    kernels: 1,
  },
  {
    name: 'conv + batchNorm + relu',
    inputs: [f(2, 5, 13, 11), f(7, 5, 3, 3), f(7), [[7], 'f32', [0.5, 2]], f(7), f(7)],
    build: (x, w, m, v, s, b) =>
      c.relu(
        c.batchNorm(c.conv(x as Node, w as Node, { padding: 1 } as never), m as Node, v as Node, {
          scale: s as Node,
          bias: b as Node,
        }),
      ),
    kernels: 1,
  },
  {
    name: 'embedding + position + layerNorm',
    inputs: [f(50, 24), ids(50, 3, 9), f(16, 24)],
    build: (t, i, p) => ln(c.add(c.embedding(t as Node, i as Node), c.sliceAxis(p as Node, 0, 0, 9)), 2),
    kernels: 1,
  },
  {
    name: 'dropout',
    inputs: [f(37, 53), [[2], 'u32', [0, 1000]]],
    build: (x, k) => c.dropout(x as Node, k as Node, 0.3),
    kernels: 1,
  },
  {
    name: 'pad(2x)',
    inputs: [f(7, 9)],
    build: (x) =>
      c.pad(c.mul(x as Node, 2), [
        [1, 2],
        [3, 0],
      ]),
    kernels: 1,
  },
  {
    name: 'concat([f(x), g(y)]) along the last axis',
    inputs: [f(64, 300), f(64, 129)],
    build: (x, y) => c.concat([c.exp(x as Node), c.tanh(y as Node)], 1),
    kernels: 1,
  },
  {
    name: 'concat([f(x), g(y)])',
    inputs: [f(7, 9), f(4, 9)],
    build: (x, y) => c.concat([c.exp(x as Node), c.tanh(y as Node)], 0),
    kernels: 1,
  },
  {
    name: 'int8 weights',
    inputs: [f(33, 64), [[64, 40], 'i8'], f(40)],
    build: (x, w, s) => c.matmul(x as Node, c.mul(c.cast(w as Node, 'f32'), s as Node)),
    kernels: 1,
  },
  { name: 'x @ x.T', inputs: [f(33, 20)], build: (x) => c.matmul(x as Node, c.transpose(x as Node)), kernels: 1 },
  {
    name: 'per-head RMSNorm',
    inputs: [f(6, 60)],
    build: (x) => c.reshape(rms(c.reshape(x as Node, [6, 5, 12]), 2), [6, 60]),
    kernels: 1,
  },
  {
    name: 'sum(exp(x)) over everything',
    inputs: [nightly ? f(700, 1000) : f(300, 400)],
    build: (x) => c.sum(c.exp(x as Node)),
    kernels: 1,
    stages: 1,
  },
  {
    name: 'max pool after relu',
    inputs: [f(1, 3, 11, 9)],
    build: (x) => c.maxPool(c.relu(x as Node), [2, 2], { stride: [2, 2] } as never),
    kernels: 1,
  },
  {
    name: 'depthwise conv',
    inputs: [f(1, 6, 9, 9), f(6, 1, 3, 3)],
    build: (x, w) => c.relu(c.conv(x as Node, w as Node, { groups: 6, padding: 1 } as never)),
    kernels: 1,
  },
  { name: 'cumsum', inputs: [f(5, 17)], build: (x) => c.cumsum(c.exp(x as Node), 1), kernels: 1 },
]

function close(actual: HostArray, expected: HostArray): string | undefined {
  for (let i = 0; i < expected.length; i++) {
    const a = Number(actual[i])
    const e = Number(expected[i])
    if (Number.isNaN(a) && Number.isNaN(e)) continue
    if (!(Math.abs(a - e) <= 2e-5 + 2e-4 * Math.abs(e)) && a !== e) return `element ${i}: ${a}, expected ${e}`
  }
  return undefined
}

describe('kernels from plain expressions', () => {
  for (const [place, k] of cases.entries()) {
    test(k.name, () => {
      const graph = withOrigin('expression', undefined, () => trace(k.inputs, k.build))
      const rng = random(7)
      const inputs = k.inputs.map((s) => data(s, rng))
      const expected = evaluateGraph(graph, inputs).map(toHostArray)
      for (const mode of turn(['fast', 'strict'] as const, place)) {
        const fused = compileGraph(graph, { mode, target: wasmTarget, verify: true })
        const unfused = compileGraph(graph, { mode, target: wasmTarget, verify: true, fuse: false })
        for (const [i, out] of interpretProgram(fused.program, inputs).entries())
          expect(close(out, expected[i] as HostArray)).toBeUndefined()
        for (const [i, out] of interpretProgram(unfused.program, inputs).entries())
          expect(close(out, expected[i] as HostArray)).toBeUndefined()
        expect(fused.report.totals.kernels, fused.report.toString()).toBe(k.kernels)
        if (k.stages !== undefined && mode === 'fast') expect(fused.report.totals.stages).toBe(k.stages)
      }
    })
  }
})

test('naive attention is at most three kernels', () => {
  const graph = trace([f(2, 3, 17, 8), f(2, 3, 17, 8), f(2, 3, 17, 8)], (q, k, v) => {
    const s = c.mul(c.matmul(q as Node, c.swapAxes(k as Node, -1, -2)), 1 / Math.sqrt(8))
    return c.matmul(c.softmax(s, -1), v as Node)
  })
  expect(
    compileGraph(graph, { mode: 'fast', target: wasmTarget, verify: true }).report.totals.kernels,
  ).toBeLessThanOrEqual(3)
})
