/**
 * Rows in pieces and interleaved accesses on SIMT targets: programs around rotary embeddings and neighbours of 2 and 4, their
 * CUDA sources on the host and their WGSL on a software adapter, against the reference; and how many accesses the code has.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import type { Program } from '../../../src/runtime/program.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { Machine } from '../../../src/target/machine.ts'
import { cudaSimt } from '../../../src/target/simt.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import { vjpGraph } from '../../../src/transforms/index.ts'
import type { DType } from '../../../src/types/dtype.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { at, expectClose, inputsOf, trace } from '../../compile/support.ts'
import { difference } from '../../random/execute.ts'
import { some, turn } from '../../support/nightly.ts'
import { rotaries } from '../../support/rotary.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { type Adapter, openDevice } from '../dialects/wgsl.ts'
import { execute, executeWgsl } from '../programs/programs.ts'

interface Case {
  readonly name: string
  readonly graph: Graph
}

interface Evaluated extends Case {
  readonly inputs: readonly HostArray[]
  readonly want: readonly HostArray[]
}

/** Element `k` of every run of `n` neighbours. */
const every = (x: Node, n: number, k: number): Node => c.sliceAxis(x, -1, k, x.shape.at(-1) ?? 0, n)

const neighbours = (dtype: DType, n: number, shape: readonly number[]): Case => ({
  name: `runs of ${n}, ${dtype}, ${shape.join(' x ')}`,
  graph: trace([{ shape, dtype }], (p) => {
    const parts = Array.from({ length: n }, (_, k) => every(at(p, 0), n, k))
    return c.reshape(
      c.stack(
        [...parts].reverse().map((x, k) => (k === 0 ? c.neg(x) : x)),
        -1,
      ),
      shape,
    )
  }),
})

const cases = (): Case[] => [
  ...some(rotaries('f32'), 2).flatMap((r) =>
    some([36, 12, 132], 3).flatMap((d): Case[] => {
      const graph = trace(r.inputs(5, 3, d), r.build)
      return [
        { name: `${r.name}, ${d}`, graph },
        ...(d === 36 ? [{ name: `gradient of ${r.name}`, graph: vjpGraph(graph, r.wrt) }] : []),
      ]
    }),
  ),
  ...some(
    [
      [2, [7, 64]],
      [2, [5, 10]],
      [4, [3, 64]],
      [4, [129, 12]],
    ] as const,
    3,
  ).flatMap(([n, shape]) => [neighbours('f32', n, shape), neighbours('i8', n, shape)]),
  { name: 'one of each pair', graph: trace([{ shape: [9, 64] }], (p) => c.exp(every(at(p, 0), 2, 1))) },
  {
    name: 'one of each pair and its neighbour to the right',
    graph: trace([{ shape: [9, 66] }], (p) =>
      c.add(every(c.sliceAxis(at(p, 0), 1, 0, 64), 2, 1), every(c.sliceAxis(at(p, 0), 1, 2, 66), 2, 0)),
    ),
  },
]

const evaluated = (): Evaluated[] =>
  cases().map((k) => {
    const inputs = inputsOf(k.graph)
    return { ...k, inputs, want: evaluateGraph(k.graph, inputs, { rounding: 'dtype' }).map(toHostArray) }
  })

const small = (target: Machine): Machine => ({ ...target, elementBlock: 40, minPrograms: 6 })

const all = evaluated()

const kernelsOf = (p: Program): Kernel[] => p.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))

describe.skipIf(!hasCompiler())('CUDA sources on the host (skipped where g++ is missing)', () => {
  test('agree with the reference', { timeout: 240_000 }, async () => {
    const runs = all.flatMap((k, i) =>
      turn(['fast', 'strict'] as const, i).flatMap((mode) =>
        turn([cudaTarget, small(cudaTarget)], i >> 1).map((target) => ({
          ...k,
          program: compileGraph(k.graph, { mode, target, verify: true }).program,
        })),
      ),
    )
    const kernels = runs.flatMap((r) => kernelsOf(r.program))
    const emulated = new Emulated(kernels)
    for (const { name, graph, program, inputs, want } of runs) {
      const got = await execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
      expectClose(got, want, graph, name)
    }
    emulated.dispose()
  })
})

describe('WGSL', () => {
  let machine: Adapter | string
  beforeAll(async () => {
    machine = await openDevice()
  })
  test('agrees with the reference', { timeout: 240_000 }, async ({ skip }) => {
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    for (const { name, graph, inputs, want } of some(all, 5)) {
      const { program } = compileGraph(graph, {
        mode: 'fast',
        target: webgpuTarget({ storageBuffers: 12 }),
        verify: true,
      })
      const got = await executeWgsl(machine, program, inputs)
      if (graph.outputs.every((o) => o.dtype === 'f32')) expectClose(got, want, graph, name)
      else
        for (const [i, w] of want.entries())
          expect(difference(at(got, i), w, at(graph.outputs, i).dtype), name).toBeUndefined()
    }
  })
})

describe('accesses of the code', () => {
  const source = (graph: Graph): string => {
    const kernels = kernelsOf(compileGraph(graph, { mode: 'fast', target: cudaTarget }).program)
    expect(kernels).toHaveLength(1)
    return emitKernel(at(kernels, 0), cudaSimt).source
  }

  test('a row in halves: two loads of 16 bytes, two stores', () => {
    const r = at(rotaries('bf16'), 0)
    const text = source(trace(r.inputs(16384, 40, 128), r.build))
    expect(text.match(/const uint4\*\)\(x2/g)).toHaveLength(2)
    expect(text.match(/\*\(uint4\*\)\(y0/g)).toHaveLength(2)
  })
  test('a row in pairs: one load of both, one store', () => {
    const r = at(rotaries('bf16'), 1)
    const text = source(trace(r.inputs(16384, 40, 128), r.build))
    expect(text.match(/const uint4\*\)\(x2/g)).toHaveLength(1)
    expect(text.match(/\*\(uint4\*\)\(y0/g)).toHaveLength(1)
  })
  test('runs of four', () => {
    const text = source(neighbours('f32', 4, [4096, 1024]).graph)
    expect(text.match(/const float4\*\)\(x0/g)).toHaveLength(1)
    expect(text.match(/\*\(float4\*\)\(y0/g)).toHaveLength(1)
  })
})
