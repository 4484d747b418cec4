/** Scatters of many updates into few places: which are done in parts, and what comes out, on the interpreter and in CUDA on the host. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { withOrigin } from '../../src/diagnostics/origin.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { interpretKernel } from '../../src/kernel/interpret.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { readElement, writeElement } from '../../src/scalar/host.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import type { DType } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { noise } from '../kernel/hard-cases/case.ts'
import { checkEmulated, hasCompiler } from '../simt/dialects/emulator/emulator.ts'
import { execute } from '../simt/programs/programs.ts'
import { some } from '../support/nightly.ts'

interface Case {
  readonly name: string
  readonly target: readonly number[]
  /** Of the updates, before the target's columns. */
  readonly updates: readonly number[]
  readonly combiner: 'set' | 'sum' | 'prod' | 'max' | 'min'
  readonly dtype?: DType
  /** Into zeros, which nothing is read of. */
  readonly fresh?: boolean
  /** An infinity and a NaN among the updates. */
  readonly special?: boolean
}

const divided: readonly Case[] = [
  { name: 'a table of biases', target: [32, 12], updates: [128, 128], combiner: 'sum', dtype: 'bf16', fresh: true },
  { name: 'onto what stands', target: [9, 5], updates: [12000], combiner: 'sum' },
  { name: 'maxima', target: [7, 3], updates: [30, 500], combiner: 'max', special: true },
  { name: 'minima of halves', target: [6, 11], updates: [9000], combiner: 'min', dtype: 'f16' },
  { name: 'integers', target: [17, 2], updates: [16384], combiner: 'sum', dtype: 'i32' },
  { name: 'an infinity, a NaN', target: [11, 4], updates: [10000], combiner: 'sum', special: true, fresh: true },
]

const graphOf = ({ target, updates, combiner, dtype = 'f32', fresh = false }: Case): Graph =>
  withOrigin('scatter', undefined, () =>
    withContext(() => {
      const shape = [...updates, ...target.slice(1)]
      const params = [param(0, target, dtype), param(1, [...updates, 1], 'i32'), param(2, shape, dtype)] as const
      const [x, at, values] = params
      const into = fresh ? c.zeros(target, dtype) : x
      return { params: [...params], outputs: [c.scatterND(into, at, values, combiner)], effects: [] }
    }),
  )

function inputsOf({ target, special = false }: Case, graph: Graph): HostArray[] {
  return graph.params.map((p, i) => {
    const out = hostArray(p.dtype, sizeOf(p.shape))
    noise(i + 3, sizeOf(p.shape)).forEach((v, n) => {
      // Some are before the first place and behind the last.
      const value =
        i === 1 ? Math.floor(((v + 1) / 2) * (target[0] ?? 1) * 1.2) - 1 : p.dtype === 'i32' ? Math.round(8 * v) : v
      writeElement(out, p.dtype, n, value)
    })
    if (special && i === 2) {
      writeElement(out, p.dtype, 5, Number.NaN)
      writeElement(out, p.dtype, 4001, Number.POSITIVE_INFINITY)
    }
    return out
  })
}

const numbers = (a: HostArray, dtype: DType): number[] =>
  Array.from({ length: a.length }, (_, i) => Number(readElement(a, dtype, i)))

const merges = {
  set: (_: number, x: number) => x,
  sum: (a: number, x: number) => a + x,
  prod: (a: number, x: number) => a * x,
  max: (a: number, x: number) => Math.max(a, x),
  min: (a: number, x: number) => Math.min(a, x),
} as const

/** In f64, update by update. */
function exactOf({ target, combiner, dtype = 'f32', fresh = false }: Case, inputs: readonly HostArray[]): number[] {
  const [x, at, values] = inputs.map((a, i) => numbers(a, i === 1 ? 'i32' : dtype)) as [number[], number[], number[]]
  const out = x.map((v) => (fresh ? 0 : v))
  const columns = sizeOf(target.slice(1))
  const rows = target[0] ?? 0
  at.forEach((place, n) => {
    // Counted from the end where it is negative.
    const row = place < 0 ? place + rows : place
    if (row < 0 || row >= rows) return
    for (let k = 0; k < columns; k++) {
      const to = row * columns + k
      out[to] = merges[combiner](out[to] ?? 0, values[n * columns + k] ?? 0)
    }
  })
  return out
}

const scatterOf = (graph: Graph) => {
  const [first] = nodesOf(graph).filter((n) => n.op === 'scatter')
  return first
}

describe('in parts', () => {
  const compiled = divided.map((k) => {
    const graph = graphOf(k)
    const made = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
    const kernels = made.program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    return { ...k, graph, made, kernels, inputs: inputsOf(k, graph) }
  })
  type Compiled = (typeof compiled)[number]

  test.each(compiled)('$name: tables of parts, a fold of them', ({ made, target, updates }) => {
    const scatter = scatterOf(made.graph)
    expect(scatter?.shape.slice(1)).toEqual(target)
    const parts = scatter?.shape[0] ?? 0
    expect(parts).toBeGreaterThan(1)
    expect(sizeOf(updates) % parts).toBe(0)
  })

  const check = async (
    k: Compiled,
    run: (kernel: Kernel, buffers: Record<string, HostArray>) => void,
  ): Promise<void> => {
    const dtype = k.dtype ?? 'f32'
    const [got] = await execute(k.made.program, k.inputs, run)
    expect(got).toBeDefined()
    if (got === undefined) return
    const want = exactOf(k, k.inputs)
    const scale = dtype === 'bf16' ? 2 ** -8 : dtype === 'f16' ? 2 ** -11 : dtype === 'f32' ? 2 ** -16 : 0
    for (const [i, v] of numbers(got, dtype).entries()) {
      const w = want[i] ?? 0
      const isSame = Object.is(v, w) || v === w || Math.abs(v - w) <= scale * Math.max(8, Math.abs(w))
      expect(isSame, `${k.name}, ${i}: ${v}, not ${w}`).toBe(true)
    }
  }
  // By day every other one.
  test.each(some(compiled.toReversed(), 2))('$name, interpreted', async (k) => {
    await check(k, (kernel, buffers) => interpretKernel(kernel, buffers, { rounding: 'dtype', order: 'backward' }))
  })
  test.skipIf(!hasCompiler())('in CUDA on the host', { timeout: 240_000 }, async () => {
    await checkEmulated(some(compiled, 2), check)
  })
})

describe('as one', () => {
  const shapeOf = (k: Case, mode: 'fast' | 'strict', target: Machine = cudaTarget) =>
    scatterOf(compileGraph(graphOf(k), { mode, target }).graph)?.shape
  const biases: Case = { name: '', target: [32, 12], updates: [128, 128], combiner: 'sum' }

  test('in strict mode', () => {
    expect(shapeOf(biases, 'strict')).toEqual([32, 12])
  })
  test('where the last update stays', () => {
    expect(shapeOf({ ...biases, combiner: 'set' }, 'fast')).toEqual([32, 12])
  })
  test('where places are many, or updates few', () => {
    expect(shapeOf({ ...biases, target: [50000, 12] }, 'fast')).toEqual([50000, 12])
    expect(shapeOf({ ...biases, updates: [128] }, 'fast')).toEqual([32, 12])
  })
  test('where one program has the machine', () => {
    expect(shapeOf(biases, 'fast', wasmTarget)).toEqual([32, 12])
  })
  test('through WebGPU it is in parts too', () => {
    expect(shapeOf(biases, 'fast', webgpuTarget())).toHaveLength(3)
  })
})
