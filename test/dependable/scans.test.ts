/**
 * Running sums, products and extremes of any length on GPUs: lines that no block of threads holds are scanned in stages over many blocks.
 * Sites: the graph's decomposition (src/compile/longScans.ts), roles and grids of scans in chunks (src/plan/axes/analyse.ts, src/lower/chunks.ts),
 * scans over a part of an axis and blocks of totals in the kernel interpreter, the reference and the code for GPUs, strict scans of several
 * columns (src/plan/axes/reductionBlocks.ts), the neighbours that one thread holds (src/codegen/simt/reduce/scan.ts). Targets whose blocks hold little make short lines long.
 */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import { boundScans } from '../../src/compile/longScans.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph } from '../../src/graph/node.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { Program } from '../../src/runtime/program.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { vjpGraph, vmapGraph } from '../../src/transforms/index.ts'
import { isFloat } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { difference } from '../random/execute.ts'
import { randomGraph } from '../random/graphs.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { nightly, some } from '../support/nightly.ts'
import { compileAll, faults, type Held, modes, testOnHost, testOnSoftwareGpu } from './devices.ts'
import { type Case, faultOf, graphOf, nameOf, valuesOf } from './scanning.ts'

const lineBytes = { fast: 1024, strict: 256 }
const cuda: Machine = { ...cudaTarget, lineBytes }
const webgpu: Machine = { ...webgpuTarget({ storageBuffers: 12 }), lineBytes }

const f32 = { dtype: 'f32', combiner: 'sum' } as const
const lengths: readonly Case[] = [
  { ...f32, shape: [9001], axis: 0 },
  { ...f32, shape: [70_001], axis: 0, reverse: true },
  { ...f32, shape: [8192], axis: 0, reverse: true, exclusive: true, fused: true },
  { ...f32, shape: [66_560], axis: 0, exclusive: true, fused: true },
  { ...f32, shape: [3, 4097], axis: 1, fused: true },
  { ...f32, shape: [2, 3000, 5], axis: 1, reverse: true },
  { ...f32, shape: [4100, 40], axis: 0, exclusive: true },
  { ...f32, shape: [0, 4100], axis: 1 },
  { ...f32, shape: [4100, 1], axis: 1 },
  { ...f32, shape: [1025], axis: 0 },
]
const kinds: readonly Case[] = [
  { dtype: 'f32', combiner: 'prod', shape: [5000], axis: 0 },
  { dtype: 'f32', combiner: 'max', shape: [5000], axis: 0 },
  { dtype: 'f32', combiner: 'min', shape: [2100, 3], axis: 0, reverse: true, exclusive: true },
  { dtype: 'i32', combiner: 'sum', shape: [2, 3001], axis: 1 },
  { dtype: 'i32', combiner: 'prod', shape: [3001], axis: 0, reverse: true },
  { dtype: 'u32', combiner: 'sum', shape: [3001], axis: 0, exclusive: true },
  { dtype: 'i64', combiner: 'sum', shape: [3001], axis: 0 },
  { dtype: 'i64', combiner: 'min', shape: [3001], axis: 0, exclusive: true },
  { dtype: 'u64', combiner: 'max', shape: [3001], axis: 0, exclusive: true },
  { dtype: 'i8', combiner: 'sum', shape: [3001], axis: 0 },
  { dtype: 'u8', combiner: 'max', shape: [3001], axis: 0 },
  { dtype: 'i16', combiner: 'sum', shape: [3001], axis: 0, reverse: true },
  { dtype: 'u16', combiner: 'min', shape: [3001], axis: 0 },
  { dtype: 'f16', combiner: 'sum', shape: [3001], axis: 0 },
  { dtype: 'bf16', combiner: 'sum', shape: [3001], axis: 0, reverse: true },
  { dtype: 'bf16', combiner: 'max', shape: [3001], axis: 0 },
]
const doubles: readonly Case[] = [
  { dtype: 'f64', combiner: 'sum', shape: [5001], axis: 0 },
  { dtype: 'f64', combiner: 'prod', shape: [2500, 3], axis: 0, reverse: true },
]

const held: Held<Case, undefined> = {
  given: () => [undefined],
  valuesOf,
  faultOf: (of, mode, _, x, got) => faultOf(of, mode, x, got),
}

const kernelsOf = (p: Program): number => p.steps.filter((step) => step.kind === 'kernel').length

describe('a long scan as a graph of stages', () => {
  test.each(some([...lengths, ...kinds, ...doubles], 3).map((k): [string, Case] => [nameOf(k), k]))('%s', (_, k) => {
    const graph = graphOf(k)
    const x = valuesOf(k)
    for (const mode of modes) {
      const stages = boundScans(graph, cuda, mode)
      verifyGraph(stages)
      const isLong = (k.shape[k.axis] ?? 0) > 1 && sizeOf(k.shape) > 0
      expect(stages === graph).toBe(!isLong)
      expect(boundScans(graph, wasmTarget, mode)).toBe(graph)
      const [y] = evaluateGraph(stages, [x], { rounding: mode === 'strict' ? 'strict' : 'dtype' }).map(toHostArray)
      expect(y === undefined ? 'no result' : faultOf(k, mode, x, y)).toBeUndefined()
    }
  })
})

test('kernels as the interpreter runs them', async () => {
  const few = some([...lengths.filter(({ shape }) => sizeOf(shape) < 10_000), ...kinds, ...doubles], 2).map(
    (k): Case => (isFloat(k.dtype) && k.combiner !== 'max' ? { ...k, fused: true } : k),
  )
  const all = compileAll(few, graphOf, cuda).filter(
    ({ mode, of }) => mode === 'fast' || !isFloat(of.dtype) || of.dtype === 'f64',
  )
  expect(await faults(all, held, (p, x) => Promise.resolve(interpretProgram(p, [x])))).toEqual([])
})

testOnHost(() => compileAll(some([...lengths, ...kinds, ...doubles], 4), graphOf, cuda), held)

testOnSoftwareGpu(
  () => compileAll(some([...lengths.slice(0, 1), ...lengths.slice(2, 7), ...kinds], 3), graphOf, webgpu),
  held,
)

test('plans: three kernels, prologue and epilogue among them, the input read twice', () => {
  const n = 2 ** 25 + 7
  const graph = withContext(() => {
    const [x, y] = [param(0, [n], 'f32'), param(1, [n], 'f32')]
    return { params: [x, y], outputs: [c.mul(c.cumsum(c.exp(x), 0), y)], effects: [] }
  })
  const { program, report } = compileGraph(graph, { target: cudaTarget, mode: 'fast' })
  expect(kernelsOf(program)).toBe(3)
  const bytes = report.kernels.reduce((t, k) => t + k.bytesRead + k.bytesWritten, 0)
  expect(bytes / (4 * n)).toBeGreaterThan(4)
  expect(bytes / (4 * n)).toBeLessThan(4.01)
})

describe('what is made of scans', () => {
  const small: Machine = { ...cuda, lineBytes: { fast: 64, strict: 64 } }

  /** Compiles a graph for a target whose blocks hold little, and compares what the interpreter makes of it with the reference. */
  function check(
    graph: Graph,
    given: readonly HostArray[],
    bounds: readonly (number | undefined)[],
    what: string,
  ): void {
    const expected = evaluateGraph(graph, given, { rounding: 'dtype' }).map(toHostArray)
    const { program } = compileGraph(graph, { target: small, mode: 'fast', verify: true })
    const got = interpretProgram(program, given)
    expected.forEach((e, i) => {
      const y = got[i]
      const dtype = graph.outputs[i]?.dtype ?? 'f32'
      expect(y === undefined ? 'no result' : difference(y, e, dtype, bounds[i]), `${what}, output ${i}`).toBeUndefined()
    })
  }

  test('gradients and batches', () => {
    const n = nightly ? 200 : 80
    const running = graphOf({ ...f32, shape: [3, n], axis: 1, exclusive: true, fused: true })
    const product = graphOf({ ...f32, combiner: 'prod', shape: [3, n], axis: 1 })
    const x = valuesOf({ ...f32, combiner: 'prod', shape: [3, n], axis: 1 })
    for (const graph of [running, product]) {
      const gradient = vjpGraph(graph, [0])
      expect(boundScans(gradient, small, 'fast')).not.toBe(gradient)
      check(gradient, [x, x], [1e-3, 0.05], 'gradient')
      if (graph !== running && !nightly) continue
      const many = vmapGraph(gradient, [1, 1], [0, 1], 5)
      const wide = hostArray('f32', 5 * x.length)
      for (let i = 0; i < wide.length; i++) wide[i] = 1 + (i % 13) / 1000
      check(many, [wide, wide], [2e-2, 0.5], 'gradient, batched')
    }
  })

  test('sums, softmax and scans of scans', () => {
    const x = param(0, [4, 300], 'f32')
    const graph = withContext(() => ({
      params: [x],
      outputs: [
        c.sum(c.cumsum(x, 1), 1),
        c.softmax(c.cumsum(c.softmax(x, 1), 1), 1),
        c.cumsum(c.cumsum(x, 1), 1, { reverse: true }),
        c.cumsum(c.cumsum(x, 1), 0),
        c.max(c.cumsum(x, 1), c.scan('max', x, 1)),
        c.cumsum(c.repeat(c.sum(x, 0), 8), 0),
        c.cumsum(c.flip(c.permute(x)), 0),
      ],
      effects: [],
    }))
    const values = valuesOf({ ...f32, shape: [4, 300], axis: 1 })
    check(graph, [values], [0.01, 1e-6, 0.5, 0.01, 0.001, 0.05, 0.001], 'scans of scans')
  })

  test('random programs', () => {
    let found = 0
    const wanted = nightly ? 25 : 5
    for (let seed = 0; found < wanted; seed++) {
      const p = randomGraph(seed, { maxElements: 300 })
      if (boundScans(p.graph, small, 'fast') === p.graph) continue
      found++
      check(p.graph, p.inputs, p.tolerances, `seed ${seed}`)
    }
  })
})

test('totals too many for a block are scanned in stages themselves', () => {
  const graph = graphOf({ ...f32, shape: [2 ** 32 + 7], axis: 0 })
  for (const mode of modes) {
    const { program } = compileGraph(graph, { target: cudaTarget, mode })
    const kernels = program.steps.flatMap((x) => (x.kind === 'kernel' ? [x.kernel] : []))
    expect(kernels.length).toBeLessThanOrEqual(mode === 'fast' ? 6 : 7)
    // Nothing goes over a line of more than a block holds.
    for (const { parts } of kernels)
      for (const part of parts)
        for (const stmt of part.body)
          if (stmt.kind === 'let' && stmt.op.kind === 'scan') {
            const { axis } = stmt.op
            const held = part.grid.find((g) => g.axis === axis)?.block ?? part.axes.find((a) => a.name === axis)?.extent
            expect(held).toBeLessThanOrEqual(32768)
          }
  }
})
