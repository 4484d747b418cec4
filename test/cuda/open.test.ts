/** Programs with open extents through the CUDA backend with the interpreter for a device: grids, arguments and graphs of each set of extents. */
import { expect, test } from 'vitest'
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { type CudaBackend, createCudaBackend } from '../../src/backends/cuda/backend.ts'
import {
  concat,
  cond,
  dim,
  foriLoop,
  jit,
  memory,
  scan,
  setDevice,
  softmax,
  spec,
  type Tensor,
  tensor,
  whileLoop,
} from '../../src/index.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { Program } from '../../src/runtime/program.ts'
import { cublasLt, cudaTarget } from '../../src/target/cuda.ts'
import { pricesByClass } from '../../src/target/prices.ts'
import { openCases, others } from '../compile/openCases.ts'
import { type OpenCase, openProgram, runOn } from '../compile/openSupport.ts'
import { at, expectClose, inputsOf } from '../compile/support.ts'
import { nightly, some } from '../support/nightly.ts'
import { interpretingBackend } from './interpreting.ts'

const { device, backend, folder } = interpretingBackend()

/** Products of batches, whose strides vary too. */
const scoresOf: OpenCase = {
  dimensions: at(openCases, 0).dimensions,
  samples: at(openCases, 0).samples,
  trace: ([b = 1, n = 1]) =>
    traceFunction((q: Tensor, k: Tensor) => q.matmul(k.swapaxes(-1, -2)), [spec([b, n, 16]), spec([b, n, 16])]).graph,
}

/** A product that is added to what has its rows, inside wider lines. */
const sumOf: OpenCase = {
  dimensions: at(openCases, 0).dimensions,
  samples: at(openCases, 0).samples,
  trace: ([b = 1, n = 1]) =>
    traceFunction(
      (x: Tensor, y: Tensor, w: Tensor) => x.slice([0, b], [0, n], [4, 40]).add(y.matmul(w)),
      [spec([b, n, 48]), spec([b, n, 24]), spec([24, 36])],
    ).graph,
}

/** Extents that the interpreter is done with soon. */
const few = [
  [3, 5],
  [4, 7],
  [3, 6],
  [5, 9],
]

for (const { name, ...made } of some(openCases, 5))
  test(name, () => {
    const { program } = openProgram(made, 'fast', cudaTarget)
    device.learn(program)
    const before = backend.memory().used
    const executable = backend.prepare(program)
    // The second round finds graphs; at night, of more sets of extents than are kept.
    const all = nightly ? [at(others, 1), ...few, at(others, 1)] : [at(few, 0), at(few, 3), at(few, 0)]
    // An open depth takes the interpreter long.
    for (const extents of name === 'a product over an open depth' && !nightly ? few.slice(0, 1) : all) {
      const graph = made.trace(extents)
      const got = runOn(backend, executable, graph, extents)
      const want = evaluateGraph(graph, inputsOf(graph), { rounding: 'dtype' }).map(toHostArray)
      expectClose(got, want, graph, extents.join(' by '))
    }
    executable.dispose()
    expect(backend.memory().used).toBe(before)
  })

/** Control flow over a carry and operands that vary. */
const controlled: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  'a loop of known steps': (x) => foriLoop(0, 5, (_: Tensor, y: Tensor) => y.mul(0.5).add(y.mean(0)), x),
  'a loop too long to be written out': (x) =>
    foriLoop(0, 2100, (i: Tensor, y: Tensor) => y.mul(0.5).add(i).sub(y.mean(0)), x),
  'a branch': (x) =>
    cond(
      x.sum().greater(0),
      (y: Tensor) => y.mul(2).sub(y.max(0)),
      (y: Tensor) => y.sub(y.mean(0)).cumsum(0),
      x,
    ),
  'a loop that ends by its values': (x) =>
    whileLoop(
      (y: Tensor) => y.max().less(100),
      (y: Tensor) => y.abs().mul(2).add(1),
      x,
    ),
}

for (const [name, f] of Object.entries(controlled))
  test(`${name} over open extents`, () => {
    const made: OpenCase = { ...at(openCases, 0), trace: ([b = 1, n = 1]) => traceFunction(f, [spec([n, b])]).graph }
    const { program } = openProgram(made, 'fast', cudaTarget)
    device.learn(program)
    const executable = backend.prepare(program)
    // Thousands of steps take the interpreter long.
    const all = nightly ? [at(others, 1), ...few.slice(0, 2), at(others, 1)] : [at(few, 0), at(few, 1), at(few, 0)]
    for (const extents of name === 'a loop too long to be written out' && !nightly ? few.slice(0, 1) : all) {
      const graph = made.trace(extents)
      const got = runOn(backend, executable, graph, extents)
      const want = evaluateGraph(graph, inputsOf(graph), { rounding: 'dtype' }).map(toHostArray)
      expectClose(got, want, graph, extents.join(' by '))
    }
    executable.dispose()
  })

test('a scan over an open length is refused by name where loops are written out', () => {
  const step = (c: Tensor, y: Tensor): [Tensor, Tensor] => [c.add(y), c]
  const made: OpenCase = {
    ...at(openCases, 0),
    trace: ([b = 1, n = 1]) => traceFunction((x: Tensor) => scan(step, x.max(0), x), [spec([n, b])]).graph,
  }
  expect(() => openProgram(made, 'fast', cudaTarget)).toThrow(
    /E_UNSUPPORTED.*batch, length cannot be open here: scan is a loop whose steps or elements vary, which the target cuda cannot count/,
  )
})

test('products by a library have the sizes of the launch', () => {
  const withLibrary = createCudaBackend({
    driver: device.driver,
    compiler: device.compiler,
    products: device.products,
    cacheFolder: folder,
  })
  // Where a product of a kernel costs far more than a call.
  const eager = {
    ...cudaTarget,
    matrixRate: 1e3,
    plainMatrixRate: 1e3,
    prices: pricesByClass({ simple: 1e6, divide: 1e6, special: 1e6, random: 1e6 }),
    library: { ...cublasLt, leastFlops: 1, launch: 1e-9 },
  }
  const cases: Readonly<Record<string, OpenCase>> = { 'attention scores': scoresOf, 'what is added to': sumOf }
  const named = ['a product over an open depth', 'a product of two extents joined', ...Object.keys(cases).reverse()]
  for (const name of some(named, 2)) {
    const made = openCases.find((x) => x.name === name) ?? cases[name] ?? scoresOf
    const { program } = openProgram(made, 'fast', eager)
    const varying = program.steps.filter((s) => s.kind === 'product' && s.varying !== undefined)
    expect(varying.length, name).toBeGreaterThan(0)
    expect(varying.some((s) => s.kind === 'product' && s.addend !== undefined)).toBe(made === sumOf)
    device.learn(program)
    const executable = withLibrary.prepare(program)
    // Extents that come twice in a row have a graph; new ones are launched call by call.
    for (const extents of [
      [3, 17],
      [4, 24],
      [4, 24],
      ...(nightly
        ? [
            [4, 24],
            [3, 7],
            [3, 17],
          ]
        : []),
      [3, 17],
    ]) {
      const graph = made.trace(extents)
      const got = runOn(withLibrary, executable, graph, extents)
      const want = evaluateGraph(graph, inputsOf(graph), { rounding: 'dtype' }).map(toHostArray)
      expectClose(got, want, graph, `${name} at ${extents.join(' by ')}`)
    }
    executable.dispose()
  }
  withLibrary.dispose()
})

test('a cache that grows by a row a call takes one template, and no more memory a call', () => {
  const learning = Object.assign(Object.create(backend) as CudaBackend, {
    prepare: (program: Program) => {
      device.learn(program)
      return backend.prepare(program)
    },
  })
  setDevice(createCompiledDevice('cuda', learning, cudaTarget))
  try {
    const step = jit(
      (past: Tensor, x: Tensor) => {
        const keys = concat([past, x], 0)
        return { keys, y: softmax(x.matmul(keys.swapaxes(0, 1)), -1).matmul(keys) }
      },
      { mode: 'strict', dynamic: [spec([dim('past', 0, 64), 8])] },
    )
    let past = tensor(
      Float32Array.from({ length: 24 }, (_, i) => (i % 7) / 7),
      { shape: [3, 8] },
    )
    const uses: number[] = []
    let most = 0
    for (let n = 0; n < 40; n++) {
      const x = tensor(
        Float32Array.from({ length: 8 }, (_, i) => ((i * n) % 5) / 5),
        { shape: [1, 8] },
      )
      const rows = [...past.dataSync(), ...x.dataSync()].map(Number)
      const { keys, y } = step(past, x)
      expect([...keys.dataSync()].map(Number)).toEqual(rows)
      const scores = Array.from({ length: n + 4 }, (_, r) => dotOf(rows.slice(8 * r, 8 * r + 8), rows.slice(-8)))
      const weights = scores.map((s) => Math.exp(s - Math.max(...scores)))
      const total = weights.reduce((a, b) => a + b)
      for (const [d, v] of [...y.dataSync()].entries())
        expect(Number(v)).toBeCloseTo(
          weights.reduce((a, w, r) => a + (w / total) * (rows[8 * r + d] ?? 0), 0),
          5,
        )
      for (const t of [past, x, y]) t.dispose()
      past = keys
      uses.push(memory().programs)
      if (n > 20) most = Math.max(most, memory().used)
      else if (n === 20) most = memory().used
    }
    expect(uses.at(-1), 'all programs are made by the second call').toBe(uses[1])
    expect(most - memory().used, 'bytes').toBeLessThan(64 << 10)
    step.dispose()
  } finally {
    setDevice('wasm')
  }
})

const dotOf = (a: readonly number[], b: readonly number[]): number => a.reduce((n, v, i) => n + v * (b[i] ?? 0), 0)
