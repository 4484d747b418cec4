/**
 * Normalisations of 10^5 numbers near 10^4 by their own mean and variance: shifted, accumulated in f32 for half precision, and rounded to it
 * at the end only. Sites: mean, variance and every normalisation in src/compose, those of ONNX (src/onnx/ops/norm.ts), which make the same nodes;
 * batch normalisation took the statistics of half precision after they were rounded to it, which bfloat16 rounds by up to 32 near 10^4.
 */
import { expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { readElement, writeElement } from '../../src/scalar/host.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { hostArray } from '../../src/types/host.ts'
import { execute } from '../random/execute.ts'
import { turn } from '../support/nightly.ts'
import { compileAll, faults, type Held, testOnHost, testOnSoftwareGpu } from './devices.ts'

const n = 100_000

interface Normalised {
  readonly name: string
  readonly dtype: 'f32' | 'f16' | 'bf16'
  /** How far numbers lie from 10^4. */
  readonly spread: number
  readonly build: (x: Node) => Node
}

const builds: Readonly<Record<string, (x: Node) => Node>> = {
  'layer normalisation': (x) => c.layerNorm(x),
  'group normalisation': (x) => c.groupNorm(c.reshape(x, [1, 4, n / 4]), 1),
  'batch normalisation': (x) => c.batchNormTraining(c.reshape(x, [4, 1, n / 4])).output,
  'mean and variance': (x) => {
    const y = c.cast(x, 'f32')
    return c.div(c.sub(y, c.mean(y)), c.sqrt(c.variance(y)))
  },
}

/** By day each in one of the dtypes, in turn. */
const cases: readonly Normalised[] = Object.entries(builds).flatMap(([name, build], i) =>
  turn(
    [
      ['f32', 1],
      ['f16', 16],
      ['bf16', 100],
    ] as const,
    i,
  ).map(([dtype, spread]) => ({ name, build, dtype, spread })),
)

const graphOf = ({ dtype, build }: Normalised): Graph =>
  withContext(() => {
    const x = param(0, [n], dtype)
    return { params: [x], outputs: [c.cast(build(x), 'f32')], effects: [] }
  })

/** What a result of the dtype is rounded by, of itself. */
const rounding = { f32: 2 ** -24, f16: 2 ** -11, bf16: 2 ** -8 }

const held: Held<Normalised, undefined> = {
  given: () => [undefined],
  valuesOf: ({ dtype, spread }) => {
    const x = hostArray(dtype, n)
    let state = 5
    for (let i = 0; i < n; i++) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0
      writeElement(x, dtype, i, 10_000 + spread * (state / 2 ** 31 - 1))
    }
    return x
  },
  faultOf: ({ name, dtype }, mode, _, data, got) => {
    const x = Float64Array.from({ length: n }, (__, i) => Number(readElement(data, dtype, i)))
    const mean = x.reduce((t, y) => t + y, 0) / n
    const deviation = Math.sqrt(x.reduce((t, y) => t + (y - mean) ** 2, 0) / n)
    // The mean is of f32: its sum errs by 4 log2(n) 2^-24.
    const shift = (4 * Math.log2(n) * 2 ** -24 * mean) / deviation
    const worst = x.reduce((w, y, i) => {
      const exact = (y - mean) / deviation
      return Math.max(w, Math.abs(Number(got[i]) - exact) - 2 * Math.abs(exact) * rounding[dtype] - 1e-4)
    }, 0)
    return worst <= Math.min(shift, 0.01)
      ? undefined
      : `${name} of ${dtype}, ${mode}: off by ${worst}, more than ${Math.min(shift, 0.01)}`
  },
}

test('WebAssembly', async () => {
  const all = compileAll(cases, graphOf, wasmTarget)
  const backend = createWasmBackend({ threads: 2, shareAbove: 0 })
  const graphs = new Map(all.map((k) => [k.program, graphOf(k.of)]))
  const none: Graph = { params: [], outputs: [], effects: [] }
  const fault = await faults(all, held, (p, x) =>
    Promise.resolve(execute(backend, p, { inputs: [x], graph: graphs.get(p) ?? none, tolerances: [] })),
  )
  expect(fault).toEqual([])
})

testOnHost(() => compileAll(cases, graphOf, cudaTarget), held)
testOnSoftwareGpu(() => compileAll(cases, graphOf, webgpuTarget({ storageBuffers: 12 }), ['fast']), held)
