/**
 * Clusters of blocks: which programs run in one, and what they compute, run on the host (emulator/) with small blocks, so that
 * rows of a few thousand elements need several.
 */
import { describe, expect, test } from 'vitest'
import * as api from '../../../src/api/index.ts'
import { emitKernel, type KernelSource } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import type { Graph } from '../../../src/graph/node.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import { writeElement } from '../../../src/scalar/host.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { farBandwidth } from '../../../src/target/machine.ts'
import { cudaSimt, type SimtMachine } from '../../../src/target/simt.ts'
import { type DType, isFloat } from '../../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../../src/types/host.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import { difference } from '../../random/execute.ts'
import { some } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

type Specs = Readonly<Record<string, { readonly shape: readonly number[]; readonly dtype?: DType }>>
type Tensors = Readonly<Record<string, api.Tensor>>

interface Case {
  readonly name: string
  readonly specs: Specs
  readonly f: (inputs: never) => unknown
  /** Blocks of each kernel's programs. */
  readonly clusters: readonly number[]
  readonly caps?: Partial<SimtMachine>
  readonly mode?: 'fast' | 'strict'
  readonly tolerance?: number
}

const make = <S extends Specs>(
  name: string,
  specs: S,
  f: (inputs: { [K in keyof S]: api.Tensor }) => unknown,
  clusters: readonly number[],
  more: Partial<Case> = {},
): Case => ({ name, specs, f: f as (inputs: never) => unknown, clusters, ...more })

const row = (n: number, dtype: DType = 'f32', rows = 2) => ({ x: { shape: [rows, n], dtype } })

const graphOf = (c: Case): Graph => api.program(c.f as (inputs: Tensors) => unknown, c.specs, 'case').trace().graph

/** Blocks of 32 threads (two of them together) up to 64: 2048 values a block at most. */
const small: SimtMachine = { ...cudaSimt, maxThreads: 64, hasPointerTable: true }

const normalise = (x: api.Tensor): api.Tensor => {
  const d = x.sub(x.mean(-1, true))
  return d.mul(d.square().mean(-1, true).add(1e-5).rsqrt())
}

const cases: readonly Case[] = [
  make('softmax of a row that one block holds', row(1000), ({ x }) => x.softmax(-1), [1]),
  make('softmax of a row for which one block would need all registers', row(1999), ({ x }) => x.softmax(-1), [2]),
  make('softmax just above one block', row(2051), ({ x }) => x.softmax(-1), [4]),
  make('softmax of aligned rows in half precision', row(4104, 'bf16'), ({ x }) => x.softmax(-1), [8]),
  make('softmax in blocks of all threads', row(9001), ({ x }) => x.softmax(-1), [8]),
  make('softmax that eight blocks hold', row(16384, 'f16', 1), ({ x }) => x.softmax(-1), [8]),
  make('softmax beyond eight blocks', row(16400, 'f32', 1), ({ x }) => x.softmax(-1), [1]),
  make('softmax of two warps a block', row(4099), ({ x }) => x.softmax(-1), [4], {
    caps: { maxThreads: 128 },
  }),
  make('layer normalisation', row(3001, 'bf16'), ({ x }) => normalise(x.astype('f32')).astype('bf16'), [4]),
  make(
    'layer normalisation both ways',
    { ...row(3001), g: { shape: [2, 3001] } },
    ({ x, g }) => {
      const [y, pull] = api.vjp(normalise, x)
      return [y, ...pull(g)]
    },
    [4],
    { tolerance: 1e-4 },
  ),
  make(
    'cross-entropy both ways',
    { ...row(2561, 'bf16', 3), t: { shape: [3], dtype: 'i32' } },
    ({ x, t }) => api.valueAndGrad((l: api.Tensor) => api.nn.crossEntropy(l.astype('f32'), t).mean())(x),
    [4, 1],
  ),
  make('arg-max beside a softmax', row(2500), ({ x }) => [x.argmax(-1), x.softmax(-1)], [4]),
  make('sums of doubles', row(2100, 'f64'), ({ x }) => x.div(x.sum(-1, true)), [4]),
  make('integers', row(2500, 'i32'), ({ x }) => x.sub(x.max(-1, true)), [4]),
  make('strict rows stay in one block', row(2051), ({ x }) => x.softmax(-1), [1], { mode: 'strict' }),
  make(
    'much arithmetic in few programs',
    { x: { shape: [97, 30] } },
    ({ x }) => {
      let y = x
      for (let i = 0; i < 6; i++) {
        for (let k = 0; k < 6; k++) y = y.mul(0.99).tanh()
        y = y.sub(y.mean(i % 2, true))
      }
      return y
    },
    [4],
    { tolerance: 1e-4 },
  ),
  make('a sum over the warps of a large block', row(16384, 'f32', 4), ({ x }) => x.div(x.square().sum(-1, true)), [1], {
    caps: { maxThreads: 1024, clusters: 1 },
  }),
  make(
    'folds along axes that share the blocks out',
    { x: { shape: [8, 256] } },
    ({ x }) => {
      let y = x
      for (let i = 0; i < 6; i++) {
        for (let k = 0; k < 12; k++) y = y.mul(0.99).tanh()
        y = y.sub(y.mean(i % 2, true))
      }
      return y
    },
    [8],
    { tolerance: 1e-4 },
  ),
]

function inputsOf(graph: Graph): HostArray[] {
  let s = 7
  return graph.params.map(({ shape, dtype }) => {
    const out = hostArray(dtype, sizeOf(shape))
    for (let i = 0; i < out.length; i++) {
      s = (Math.imul(s, 1664525) + 1013904223) >>> 0
      writeElement(out, dtype, i, isFloat(dtype) ? (s / 2 ** 32) * 8 - 4 : s % 1000)
    }
    return out
  })
}

const compiled = cases.map((c) => {
  const graph = graphOf(c)
  const { program } = compileGraph(graph, { mode: c.mode ?? 'fast', target: cudaTarget })
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  return { ...c, graph, program, kernels, caps: { ...small, ...c.caps } }
})

const emit = (kernel: Kernel, caps: SimtMachine): KernelSource => emitKernel(kernel, caps)

describe('clusters', () => {
  test.each(compiled)('$name', ({ kernels, caps, clusters }) => {
    expect(kernels.map((k) => emit(k, caps).cluster)).toEqual(clusters)
  })

  test('the plan counts a row that a cluster holds as read once', () => {
    const perByte = (columns: number, mode: 'fast' | 'strict', target = cudaTarget): number => {
      const { graph } = api.program(({ x }) => x.softmax(-1), row(columns, 'f32', 4096), 'case').trace()
      const [kernel] = compileGraph(graph, { mode, target }).report.kernels
      if (kernel === undefined) throw new Error('no kernel')
      return (1e-3 * kernel.modelledMs * farBandwidth(target)) / (kernel.bytesRead + kernel.bytesWritten)
    }
    expect(perByte(131072, 'fast')).toBeLessThan(1.02)
    expect(perByte(262144, 'fast')).toBeLessThan(1.02)
    // One walk more where the sum streams, two in strict mode.
    const walked = (more: number): number => (2 + more * (cudaTarget.rereadShare ?? 1)) / 2
    expect(perByte(262148, 'fast')).toBeCloseTo(walked(1), 1)
    expect(perByte(131072, 'strict')).toBeCloseTo(walked(2), 1)
    expect(perByte(131072, 'fast', { ...cudaTarget, rowBytes: cudaTarget.blockRowBytes ?? 0 })).toBeCloseTo(
      walked(1),
      1,
    )
  })

  test('a device without clusters has none', () => {
    for (const { kernels, caps } of compiled)
      for (const k of kernels) expect(emit(k, { ...caps, clusters: 1 }).cluster).toBe(1)
  })
})

describe.skipIf(!hasCompiler())('clusters on the host (skipped where g++ is missing)', () => {
  test.each(some(compiled, 2))('$name', { timeout: 120_000 }, async (c) => {
    const emulated = new Emulated(c.kernels, c.caps)
    const inputs = inputsOf(c.graph)
    const expected = evaluateGraph(c.graph, inputs, { rounding: 'dtype' }).map(toHostArray)
    const got = await execute(c.program, inputs, (k, buffers) => emulated.run(c.kernels.indexOf(k), buffers))
    emulated.dispose()
    expected.forEach((e, i) => {
      const a = got[i]
      const dtype = c.graph.outputs[i]?.dtype ?? 'f32'
      expect(a === undefined ? 'no result' : difference(a, e, dtype, c.tolerance ?? 1e-5)).toBeUndefined()
    })
  })
})
