/**
 * Sums that stream beside the greatest value or the mean of a row too long for registers, short sums that one thread holds, and partial
 * results that a program carries from row to row err by at most 4 log2(n) 2^-24 of the sum of their magnitudes in fast mode, like any other.
 * Sites: accumulators of a fold and their totals (src/codegen/simt/reduce/running.ts, asked by fold.ts and loop.ts), rescaled sums and moments
 * (streaming.ts, moments.ts), when an anchor moves. Blocks of 64 threads make rows of 2^17 numbers as long as 2,048 a thread.
 */
import { describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import type { Program } from '../../src/runtime/program.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import type { SimtMachine } from '../../src/target/simt.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { execute } from '../random/execute.ts'
import { Emulated, hasCompiler } from '../simt/dialects/emulator/emulator.ts'
import { some } from '../support/nightly.ts'
import { runKernels } from '../wasm/run.ts'
import { type Compiled, compileAll, faults, type Held, type Run, testOnHost, testOnSoftwareGpu } from './devices.ts'
import { errorOf, type InputName, inputs, type Summing, graphOf as sumOf } from './summing.ts'

/** A sum for each row: its numbers, and how far from its terms' exact sum it may be, in units of 2^-24 of their magnitudes. */
interface RowSum {
  readonly name: string
  readonly shape: readonly [number, number]
  readonly data: Readonly<Record<string, (i: number, n: number, random: number) => number>>
  readonly build: (x: Node) => Node
  /** The terms by the row's numbers, and what the result is of their sum. */
  readonly terms: (row: Float64Array) => Float64Array
  readonly of: (sum: number, n: number) => number
  /** Beside the additions: what terms err by, and what follows the sum. */
  readonly besides: (n: number) => number
}

const mean = (row: Float64Array): number => row.reduce((t, x) => t + x, 0) / row.length
const greatest = (row: Float64Array): number => row.reduce((m, x) => Math.max(m, x), Number.NEGATIVE_INFINITY)
const swallowed = Math.fround(-24 * Math.LN2)

const exponentials: RowSum = {
  name: 'exponentials against the greatest',
  shape: [2, 2 ** 17 + 5],
  data: {
    'one before many': (i) => (i === 0 ? 0 : swallowed),
    alike: () => 3,
    'ascending slowly': (i, n) => i / n,
    'ascending, then one': (i, n, r) => (i === n - 1 ? 4 : (3 * i) / n + r / 8),
    random: (_, __, r) => 8 * r,
  },
  build: (x) => c.sum(c.exp(c.sub(x, c.reduceMax(x, 1, true))), 1),
  terms: (row) => {
    const most = greatest(row)
    return row.map((x) => Math.exp(x - most))
  },
  of: (sum) => sum,
  // What exponentials err by in all (docs/numerics.md, "Error bounds").
  besides: (n) => 2 * (3 + 2.5 * Math.log2(n)),
}

const data: RowSum['data'] = {
  'one before many': (i) => (i === 0 ? 1 : 2 ** -24),
  'two before many': (i, _, r) => (i < 2 ? 4096 - 8192 * i : r < 0.5 ? 0.9 : -0.9),
  'many before one': (i, n, r) => (i === n - 1 ? 4096 : r < 0.5 ? 0.9 : -0.9),
  'near 10,000': (_, __, r) => 10_000 + 2 * r - 1,
  'alternating signs': (i, _, r) => (i % 2 === 0 ? 1 : -1) * (1 + r),
  'another mean after a quarter': (i, n, r) => (i < n / 4 ? 1e3 : -1e3) + r,
  random: (_, __, r) => r,
}

const squares: RowSum = {
  name: 'variance',
  shape: [2, 2 ** 17 + 9],
  data,
  build: (x) => c.variance(x, 1),
  terms: (row) => {
    const about = mean(row)
    return row.map((x) => (x - about) ** 2)
  },
  of: (sum, n) => sum / n,
  // A difference is rounded, squared and rounded; anchors half of a row off double the squares.
  besides: () => 8,
}

const means: RowSum = {
  ...squares,
  name: 'mean beside the variance',
  build: (x) => c.add(c.mean(x, 1), c.mul(c.variance(x, 1), c.full(x.shape.slice(0, 1), 0, 'f32'))),
  terms: (row) => row,
  of: (sum, n) => sum / n,
  besides: () => 2,
}

const long = [exponentials, squares, means]

function numbers({ shape: [rows, n], data: all }: RowSum, name: string): Float32Array {
  let state = 99
  const random = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
  return Float32Array.from({ length: rows * n }, (_, i) => all[name]?.(i % n, n, random()) ?? Number.NaN)
}

function graphOf({ shape, build }: RowSum): Graph {
  return withContext(() => {
    const x = param(0, shape, 'f32')
    return { params: [x], outputs: [build(x)], effects: [] }
  })
}

const streaming: Held<RowSum, string> = {
  given: ({ data: all }) => some(Object.keys(all), 4),
  valuesOf: numbers,
  faultOf: (sum, _, name, x, got) => {
    const [rows, n] = sum.shape
    for (let r = 0; r < rows; r++) {
      const terms = sum.terms(Float64Array.from({ length: n }, (__, i) => Number(x[r * n + i])))
      const exact = terms.reduce((t, y) => t + y, 0)
      const size = terms.reduce((t, y) => t + Math.abs(y), 0)
      const error = Math.abs(Number(got[r]) - sum.of(exact, n)) / (sum.of(size, n) * 2 ** -24)
      if (!(error <= 4 * Math.log2(n) + sum.besides(n)))
        return `${sum.name}, ${name}: off by ${error.toFixed(1)}, more than ${(4 * Math.log2(n)).toFixed(1)} + ${sum.besides(n).toFixed(1)}`
    }
    return undefined
  },
}

/** Blocks of few threads, so that short rows are long. */
const small = (machine: Machine & { readonly simt: SimtMachine }): Machine & { readonly simt: SimtMachine } => ({
  ...machine,
  rowBytes: 8192,
  blockRowBytes: 8192,
  minPrograms: 1,
  simt: { ...machine.simt, maxThreads: 64, clusters: 1 },
})
const cuda = small(cudaTarget)
const webgpu = small(webgpuTarget({ storageBuffers: 12 }))

testOnHost(() => compileAll(long, graphOf, cuda, ['fast']), streaming, cuda.simt)
testOnSoftwareGpu(() => compileAll(long, graphOf, webgpu, ['fast']), streaming, { maxThreads: 64 })

const backend = createWasmBackend({ threads: 1 })

/** Runs compiled cases on WebAssembly. */
function onWasm<Of>(all: readonly Compiled<Of>[], graphOfCase: (of: Of) => Graph): Run {
  const graphs = new Map(all.map((k) => [k.program, graphOfCase(k.of)]))
  const none: Graph = { params: [], outputs: [], effects: [] }
  return (program, x) =>
    Promise.resolve(execute(backend, program, { inputs: [x], graph: graphs.get(program) ?? none, tolerances: [] }))
}

test('WebAssembly, long rows', async () => {
  const all = compileAll(long, graphOf, wasmTarget, ['fast'])
  expect(await faults(all, streaming, onWasm(all, graphOf))).toEqual([])
})

/** Means of windows of a square. */
interface Pooled {
  readonly side: number
  readonly window: number
  readonly stride: number
}

const pooled: readonly Pooled[] = [
  { side: 20, window: 5, stride: 1 },
  { side: 66, window: 6, stride: 6 },
  { side: 80, window: 33, stride: 7 },
  { side: 130, window: 65, stride: 65 },
]

const poolGraph = ({ side, window, stride }: Pooled): Graph =>
  withContext(() => {
    const x = param(0, [1, 1, side, side], 'f32')
    return { params: [x], outputs: [c.averagePool(x, [window, window], { stride: [stride, stride] })], effects: [] }
  })

const windows: Held<Pooled, InputName> = {
  given: () => ['one before many', 'alternating signs'],
  // What is first stands first in each window, where they do not overlap.
  valuesOf: ({ side, window, stride }, name) => {
    const of = inputs[name](side * side)
    const isFirst = (i: number): boolean => i % stride === 0 && Math.floor(i / side) % stride === 0
    return of.map((y, i) => (name === 'one before many' && stride === window && isFirst(i) ? 1 : y))
  },
  faultOf: ({ side, window, stride }, _, name, x, got) => {
    const count = Math.floor((side - window) / stride) + 1
    const terms = window * window
    let worst = 0
    for (let o = 0; o < count * count; o++) {
      const [top, left] = [Math.floor(o / count) * stride, (o % count) * stride]
      let [sum, size] = [0, 0]
      for (let k = 0; k < terms; k++) {
        const y = Number(x[(top + Math.floor(k / window)) * side + left + (k % window)])
        sum += y
        size += Math.abs(y)
      }
      worst = Math.max(worst, Math.abs(Number(got[o]) - sum / terms) / ((size / terms) * 2 ** -24))
    }
    // The mean is rounded once more, and its divisor's inverse may be.
    const most = 4 * Math.log2(terms) + 2
    return worst <= most ? undefined : `windows of ${window}, ${name}: off by ${worst.toFixed(1)}, more than ${most}`
  },
}

test('WebAssembly, windows', async () => {
  const all = compileAll(pooled, poolGraph, wasmTarget, ['fast'])
  expect(await faults(all, windows, onWasm(all, poolGraph))).toEqual([])
})
testOnHost(() => compileAll(pooled, poolGraph, cudaTarget, ['fast']), windows)

/** Sums of so few terms that one thread holds all of some. */
const short: readonly Summing[] = some([18, 32, 24, 31], 2).flatMap((n): Summing[] => [
  { shape: [300, n, 5], axis: 1 },
  { shape: [n, 1200], axis: 0 },
])
const fewPrograms = { minPrograms: 2 }

const within: Held<Summing, InputName> = {
  given: () => some(['one before many', 'one third', 'alternating signs'] as const, 2),
  valuesOf: ({ shape: s }, name) => inputs[name](sizeOf(s)),
  faultOf: (summing, _, name, x, got) => {
    const error = errorOf(summing, Float32Array.from(x, Number), got)
    return error <= 1 ? undefined : `[${summing.shape}] along ${summing.axis}, ${name}: ${error.toFixed(2)} bounds`
  },
}

testOnHost(() => compileAll(short, sumOf, { ...cudaTarget, ...fewPrograms }, ['fast']), within)
testOnSoftwareGpu(
  () => compileAll(short, sumOf, { ...webgpuTarget({ storageBuffers: 12 }), ...fewPrograms }, ['fast']),
  within,
)

/** Sums over rows that a program holds one by one: a loop carries what its rows give. */
interface Carried {
  readonly shape: readonly [number, number]
}

const carried: readonly Carried[] = [{ shape: [2 ** 15 - 77, 24] }]
/** Programs of hundreds of rows, which their loops take one at a time, since launches are dearer than that. */
const manyRows = { elementBlock: 2 ** 14, rowsAtOnce: 16, minPrograms: 1000, launch: 1 }

const ofRows: Held<Carried, InputName> = {
  given: () => some(['one before many', 'one third', 'alternating signs'] as const, 3),
  // Every row holds one number.
  valuesOf: ({ shape: [rows, n] }, name) => {
    const column = inputs[name](rows)
    return Float32Array.from({ length: rows * n }, (_, i) => column[Math.floor(i / n)] ?? 0)
  },
  faultOf: ({ shape }, _, name, x, got) => {
    const error = errorOf({ shape, axis: 0 }, Float32Array.from(x, Number), got)
    return error <= 1 ? undefined : `[${shape}] along 0, ${name}: ${error.toFixed(2)} bounds`
  },
}

const rowsGraph = ({ shape }: Carried): Graph =>
  withContext(() => {
    const x = param(0, shape, 'f32')
    return { params: [x], outputs: [c.sum(c.max(x, c.reduceMax(x, 1, true)), 0)], effects: [] }
  })

const compiledRows = (machine: Machine): readonly Compiled<Carried>[] => {
  const out = compileAll(carried, rowsGraph, { ...machine, ...manyRows }, ['fast'])
  for (const { program } of out) expect(JSON.stringify(program.steps.map(loopsIn))).toContain('"loops":1')
  return out
}

const loopsIn = (step: Program['steps'][number]) =>
  step.kind === 'kernel'
    ? {
        loops: step.kernel.parts.flatMap((p) => p.body).filter((t) => t.kind === 'loop' && t.carries.length > 0).length,
      }
    : {}

testOnHost(() => compiledRows(cudaTarget), ofRows)
testOnSoftwareGpu(() => compiledRows(webgpuTarget({ storageBuffers: 12 })), ofRows)
test('WebAssembly, what rows give', async () => {
  const all = compiledRows(wasmTarget)
  expect(await faults(all, ofRows, onWasm(all, rowsGraph))).toEqual([])
})

/** A number and columns that a loop of 5,000 iterations carries, beside what reads them on the way and is no sum alone. */
const byHand = parseKernel(`kernel carried {
  param x: f32[5000, 5] read
  param one: f32[1] write
  param columns: f32[5] write
  param product: f32[1] write
  param last: f32[1] write
  axes g: 1, r: 5000, k: 5
  grid g
  %0 f32 = const 0
  %1 f32{k} = const 0
  %2 f32 = const 1
  %10, %11, %12, %13 = loop r/1 {
    carry %3 f32 = %0
    carry %4 f32{k} = %1
    carry %5 f32 = %2
    carry %6 f32 = %0
    %20 f32{r, k} = load x[r, k]
    %21 f32{r} = reduce max %20 over k
    %22 f32 = reduce sum %21 over r
    %23 f32{k} = reduce sum %20 over r
    %24 f32 = add %3, %22
    %25 f32{k} = add %23, %4
    %27 f32 = add %22, %2
    %26 f32 = mul %5, %27
    %28 f32 = add %6, %22
    %29 f32 = mul %28, %0
    next %24, %25, %26, %29
  }
  store one[g] = %10
  store columns[k] = %11
  store product[g] = %12
  store last[g] = %13
}`)

describe('what a loop carries, whatever holds it', () => {
  const n = 5000
  const hold = (run: (buffers: Record<string, HostArray>) => void): void => {
    const terms = inputs['one before many'](n)
    // 1 + 2^-24 rounds to 1: the product is of 2 and ones.
    const buffers: Record<string, HostArray> = {
      x: Float32Array.from({ length: 5 * n }, (_, i) => terms[Math.floor(i / 5)] ?? 0),
      one: new Float32Array(1),
      columns: new Float32Array(5),
      product: new Float32Array(1),
      last: new Float32Array(1),
    }
    run(buffers)
    const sum: Summing = { shape: [n], axis: 0 }
    for (const got of [...(buffers.one ?? []), ...(buffers.columns ?? [])])
      expect(errorOf(sum, terms, [got])).toBeLessThanOrEqual(1)
    expect(Number(buffers.product?.[0])).toBe(2)
    expect(Number(buffers.last?.[0])).toBe(0)
  }
  test('WebAssembly', () => hold((buffers) => runKernels([byHand], buffers)))
  test.skipIf(!hasCompiler())('CUDA on the host (skipped where g++ is missing)', () =>
    hold((buffers) => {
      const emulated = new Emulated([byHand])
      emulated.run(0, buffers)
      emulated.dispose()
    }),
  )
})
