/**
 * Expressions around matrix products on WebGPU, as planned for it: which of their kernels read tiles in vectors, and that they give
 * what the reference gives. Operands are small integers over 4, so that sums are exact and only roundings of results differ.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import { withOrigin } from '../../../src/diagnostics/origin.ts'
import { param, withContext } from '../../../src/graph/build.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import type { Program } from '../../../src/runtime/program.ts'
import { webgpuSimt } from '../../../src/target/simt.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../../src/types/host.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import { difference } from '../../random/execute.ts'
import { turn } from '../../support/nightly.ts'
import { type Adapter, openDevice } from '../dialects/wgsl.ts'
import { executeWgsl } from '../programs/programs.ts'

type Spec = readonly [shape: readonly number[], dtype?: DType]

interface Case {
  readonly name: string
  readonly specs: readonly Spec[]
  readonly f: (...x: Node[]) => Node
  readonly tolerance?: number
}

const cases: Case[] = [
  {
    name: 'bias and gelu, bf16',
    specs: [
      [[72, 48], 'bf16'],
      [[48, 160], 'bf16'],
      [[160], 'bf16'],
    ],
    f: (x, w, b) => c.gelu(c.add(c.matmul(x, w), b)),
    // Ties of what a coarse function leads to may go either way: a unit of bf16 at the greatest results.
    tolerance: 0.5,
  },
  { name: 'odd sizes', specs: [[[67, 43]], [[43, 131]]], f: (x, w) => c.relu(c.matmul(x, w)) },
  {
    name: 'both transposed, f16',
    specs: [
      [[40, 72], 'f16'],
      [[136, 40], 'f16'],
    ],
    f: (x, w) => c.matmul(c.transpose(x), c.transpose(w)),
    tolerance: 0.01,
  },
  { name: 'a result transposed', specs: [[[67, 43]], [[43, 96]]], f: (x, w) => c.transpose(c.matmul(x, w)) },
  { name: 'batches', specs: [[[3, 40, 24]], [[3, 24, 72]]], f: (x, w) => c.matmul(x, w) },
  {
    name: 'weights of int8 with scales',
    specs: [
      [[16, 64], 'bf16'],
      [[64, 144], 'i8'],
      [[144], 'bf16'],
    ],
    f: (x, w, s) => c.matmul(x, c.mul(c.cast(w, 'bf16'), s)),
    tolerance: 0.02,
  },
  { name: 'convolution', specs: [[[2, 6, 14, 14]], [[40, 6, 3, 3]]], f: (x, w) => c.conv(x, w, { padding: 1 }) },
  {
    name: 'convolution with strides',
    specs: [[[1, 5, 21, 21]], [[32, 5, 3, 3]]],
    f: (x, w) => c.conv(x, w, { stride: 2 }),
  },
  { name: 'sums of rows beside', specs: [[[70, 33]], [[33, 100]]], f: (x, w) => c.sum(c.matmul(x, w), 1) },
]

function graphOf({ specs, f }: Case): Graph {
  return withOrigin('expression', undefined, () =>
    withContext(() => {
      const params = specs.map(([shape, dtype = 'f32'], i) => param(i, shape, dtype))
      return { params, outputs: [f(...params)], effects: [] }
    }),
  )
}

/** Small integers over 4 (whole ones of integers), as bits of the dtype. */
function dataOf([shape, dtype = 'f32']: Spec, seed: number): HostArray {
  let s = seed
  const n = sizeOf(shape)
  const values = Float32Array.from({ length: n }, () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return (((s >>> 16) % 8) + 1) * ((s & 0x8000000) === 0 ? 0.25 : -0.25)
  })
  if (dtype === 'f32') return values
  const words = new Uint32Array(values.buffer)
  const out = hostArray(dtype, n)
  if (dtype === 'i8') out.set(values.map((x) => 4 * x) as never)
  else if (dtype === 'bf16') out.set(words.map((u) => u >>> 16) as never)
  else
    out.set(
      words.map((u) => ((u >>> 16) & 0x8000) | ((((u >>> 23) & 255) - 112) << 10) | ((u >>> 13) & 0x3ff)) as never,
    )
  return out
}

let machine: Adapter | string
beforeAll(async () => {
  machine = await openDevice()
})

const compiled = (x: Case, mode: 'fast' | 'strict', shared: number): Program =>
  compileGraph(graphOf(x), { mode, target: webgpuTarget({ storageBuffers: 12, sharedBytes: shared }), verify: true })
    .program

// By day each in one of the modes.
describe.each(cases)('$name', (x) => {
  const place = cases.indexOf(x)
  test('reads tiles in vectors within the memory of the device', () => {
    for (const maxSharedBytes of turn([16384, 32768], place)) {
      const sources = compiled(x, 'fast', maxSharedBytes).steps.flatMap((s) =>
        s.kind === 'kernel' ? [emitKernel(s.kernel, { ...webgpuSimt, maxSharedBytes, leastProduct: 0 }).source] : [],
      )
      expect(sources.some((s) => /tile_\d+: array<array<vec4<f32>/.test(s))).toBe(true)
    }
  })

  test.for(turn(['fast', 'strict'] as const, place))('%s', { timeout: 60_000 }, async (mode, { skip }) => {
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const graph = graphOf(x)
    const inputs = x.specs.map((s, i) => dataOf(s, i + 1))
    const [want] = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
    const [got] = await executeWgsl(
      { ...machine, limits: { ...machine.limits, leastProduct: 0 } },
      compiled(x, mode, 16384),
      inputs,
    )
    const dtype = graph.outputs[0]?.dtype ?? 'f32'
    const why = got === undefined || want === undefined ? 'no result' : difference(got, want, dtype, x.tolerance ?? 0)
    expect(why).toBeUndefined()
  })
})
