/**
 * A value may be larger than memory if it is never stored: shapes of a graph hold up to 2^53 elements, and the limit is asked of what a
 * plan stores. Sites: src/types/shape.ts (`sizeOf`), src/graph/build.ts (every node's shape, contractions and windows too),
 * src/compose/window.ts, src/compile/stored.ts (values, inputs, results, partial results, arena), inner programs of
 * src/compile/regions.ts (they pass through `compileProgram`), src/reference (every allocation), src/api/tensor/core.ts (what waits
 * is not evaluated only because much waits), src/rewrite/constants.ts and src/onnx/values.ts (bounded by the work of folding).
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type CompileOptions, compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import * as s from '../../src/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { trace } from '../compile/support.ts'
import { nightly } from '../support/nightly.ts'

const wave = (n: number): Float32Array =>
  Float32Array.from({ length: n }, (_, i) => Math.sin(i * 0.37) + Math.sin(i * i * 0.01))

/** The error of a call, its place left out. */
function errorOf(call: () => unknown): string {
  try {
    call()
  } catch (e) {
    if (!(e instanceof UserError)) throw e
    return `${e.code} ${e.summary}; ${e.help}`
  }
  return 'no error'
}

const compiled = (graph: Graph, options: Partial<CompileOptions> = {}) =>
  compileGraph(graph, { mode: 'fast', target: wasmTarget, ...options })

/** Kernels of a plan and the bytes of its largest buffer. */
function planOf(graph: Graph, options: Partial<CompileOptions> = {}) {
  const { program, report } = compiled(graph, options)
  return {
    kernels: report.kernels.length,
    largest: Math.max(...program.buffers.map((b) => b.bytes)),
    arena: program.arenaBytes,
  }
}

describe('shapes', () => {
  test('hold up to 2^53 elements, exactly', () => {
    expect(sizeOf([2 ** 26, 2 ** 27])).toBe(2 ** 53)
    expect(sizeOf([2 ** 53 - 1])).toBe(2 ** 53 - 1)
    expect(sizeOf([2 ** 40, 2 ** 40, 0])).toBe(0)
    // 3 x 3002399751580331 = 2^53 + 1, which doubles round to 2^53.
    for (const shape of [[2 ** 53, 2], [3, 3002399751580331], [2 ** 60], [2 ** 60, 0], [1e308, 1e308, 0]])
      expect(
        errorOf(() => sizeOf(shape)),
        String(shape),
      ).toMatch(/^E_OVERFLOW .* more than 2\^53 elements/)
  })

  test('are checked of every operation, those that multiply extents too', () => {
    const big = c.zeros([2 ** 30])
    const overflow = /^E_OVERFLOW shape \[.*\] has more than 2\^53 elements/
    expect(errorOf(() => c.slidingWindow(c.zeros([2 ** 30]), 0, 2 ** 29))).toMatch(overflow)
    expect(errorOf(() => c.contractLabelled(big, 'a', big, 'b', 'ab'))).toMatch(overflow)
    expect(errorOf(() => c.broadcastTo(big, [2 ** 30, 2 ** 30]))).toMatch(overflow)
    expect(
      errorOf(() =>
        c.concat(
          Array.from({ length: 3 }, () => c.zeros([2 ** 52])),
          0,
        ),
      ),
    ).toMatch(overflow)
    const batched = s.vmap((x: s.Tensor) => s.add(x, s.zeros([2 ** 50])))
    expect(errorOf(() => batched(s.zeros([16])))).toMatch(/^E_OVERFLOW vmap: shape \[16, 1125899906842624\] has more/)
  })
})

/** Graphs of operations whose window view has more than 2^32 elements, small enough to plan for memory of 32 bits. */
const windowed: readonly (readonly [string, Graph, kernels: number])[] = [
  [
    'a convolution: [128, 64, 256, 3, 256, 3]',
    trace([{ shape: [128, 64, 258, 258] }, { shape: [8, 64, 3, 3] }], ([x, w]) => (x && w ? c.conv(x, w) : [])),
    1,
  ],
  [
    'a transposed convolution: [32, 64, 513, 4, 513, 4]',
    trace([{ shape: [32, 64, 256, 256] }, { shape: [64, 8, 4, 4] }], ([x, w]) =>
      x && w ? c.convTranspose(x, w, { stride: 2 }) : [],
    ),
    1,
  ],
  [
    'a pooling: [64, 192, 65523, 8]',
    trace([{ shape: [64, 192, 65530], dtype: 'i8' }], ([x]) => (x ? c.maxPool(x, [8], { stride: 1 }) : [])),
    1,
  ],
]

describe('windows beyond 2^32 elements', () => {
  test.each(windowed)('%s is planned', (_, graph, kernels) => {
    // Where a matrix unit takes f32, images are stored with their channels last first (test/compile/windowOrder.test.ts).
    const inF32 = { ...cudaTarget, precision: 'ieee' } as const
    for (const target of [wasmTarget, inF32, webgpuTarget({ storageBuffers: 8 })])
      for (const mode of ['fast', 'strict'] as const) {
        const plan = planOf(graph, { target, mode })
        const stands = [...graph.params, ...graph.outputs].map((n) => sizeOf(n.shape) * (n.dtype === 'i8' ? 1 : 4))
        expect(plan).toEqual({ kernels, largest: Math.max(...stands), arena: 0 })
      }
    // Views have no kernels of their own without fusion either.
    expect(planOf(graph, { fuse: false }).largest).toBeLessThan(2 ** 32)
  })

  test('a convolution and its gradients agree with plain loops', async () => {
    const [n, k] = [2 ** 17 + 1000, 2 ** 16 + 500]
    expect((n - k + 1) * k).toBeGreaterThan(2 ** 32)
    const [data, weights] = [wave(n), wave(k)]
    const x = s.tensor(data).reshape([1, 1, n])
    const w = s.tensor(weights).reshape([1, 1, k])
    const convolve = s.jit((a: s.Tensor, b: s.Tensor) => s.conv(a, b))
    const y = convolve(x, w).dataSync()
    expect(y).toHaveLength(n - k + 1)
    for (const i of [0, 1, 4095, 32771, n - k]) {
      let sum = 0
      let size = 0
      for (let j = 0; j < k; j++) {
        const term = (data[i + j] ?? 0) * (weights[j] ?? 0)
        sum += term
        size += Math.abs(term)
      }
      expect(Math.abs(Number(y[i]) - sum)).toBeLessThan(size * 1e-5)
    }
    // The adjoint of the weights at one of the results: a piece of the data.
    const one = s.jit((a: s.Tensor, b: s.Tensor) => s.conv(a, b).slice(null, null, [5, 6]).sum())
    const [, gradient] = s.grad(one, { argnums: [0, 1] })(x, w)
    expect(gradient.shape).toEqual([1, 1, k])
    const g = gradient.dataSync()
    for (const j of [0, 1, 4097, k - 1]) expect(Number(g[j])).toBeCloseTo(data[5 + j] ?? 0, 6)
  })

  test('poolings agree with plain loops where they are read', () => {
    const [n, k, step] = [2 ** 17 + 1000, 2 ** 16 + 500, 8192]
    const data = wave(n)
    const x = s.tensor(data).reshape([1, 1, n])
    const windows = (a: s.Tensor): s.Tensor => s.slidingWindow(a, 2, k).slice(0, 0, [0, n - k + 1, step])
    const pooled = s.jit((a: s.Tensor) => [windows(a).max(-1), windows(a).mean(-1), windows(a).argmax(-1)])
    const [most, mean, first] = pooled(x).map((t) => [...t.dataSync()].map(Number))
    for (let i = 0; i * step < n - k + 1; i++) {
      const window = data.subarray(i * step, i * step + k)
      const largest = window.reduce((a, b) => Math.max(a, b))
      expect(most?.[i]).toBe(largest)
      expect(first?.[i]).toBe(window.indexOf(largest))
      expect(mean?.[i]).toBeCloseTo(window.reduce((a, b) => a + b, 0) / k, 4)
    }
    // The pooling itself, of a batch whose rows are the same: a view of [4096, 1, 16, 65521].
    const batch = s.tensor(data.subarray(0, 65536)).reshape([1, 1, 65536])
    const pool = s.jit((a: s.Tensor) =>
      s.maxPool(a.broadcastTo([4096, 1, 65536]), [65521], { stride: 1 }).slice(nightly ? null : [0, 256], 0, 3),
    )
    const rows = [...pool(batch).dataSync()]
    expect(rows).toEqual(rows.map(() => data.subarray(3, 3 + 65521).reduce((a, b) => Math.max(a, b))))
    // Padding beyond 2^31 positions that is never stored either.
    const padded = s.jit((a: s.Tensor) =>
      s
        .pad(a, [[0, 2 ** 33]])
        .slice([2, 2 + 4])
        .sum(),
    )
    expect(padded(s.tensor(data.subarray(0, 6))).item()).toBeCloseTo(
      data.subarray(2, 6).reduce((a, b) => a + b, 0),
      5,
    )
  })
})

describe('what a plan stores', () => {
  const stored = (build: Parameters<typeof trace>[1], shape: readonly number[] = [2 ** 17]) => trace([{ shape }], build)
  const window = stored(([x]) => (x ? c.exp(c.slidingWindow(x, 0, 2 ** 16)) : []))

  /** What in strict mode strips of neither axis serve: each would carry sums across them. */
  const bothWays = (p: Node, d: Node): Node[] => [c.matmul(p, d), c.matmul(c.permute(p), d)]

  test('the error names the operation, its bytes and the reason', () => {
    const overflow = (graph: Graph, options: Partial<CompileOptions> = {}): string =>
      errorOf(() => compiled(graph, options))
    expect(overflow(window)).toMatchInlineSnapshot(
      `"E_OVERFLOW exp gives f32[65537, 65536], which would be stored in 17180131328 bytes (16.0 GiB); the target wasm has at most 4294901760 bytes for a value: it is a result of the program; use smaller batches, or split the tensor, or return less of it"`,
    )
    const rows = stored(([x]) => {
      if (!x) return []
      const e = c.exp(c.slidingWindow(x, 0, 2 ** 16))
      return c.cumsum(c.reduceMax(c.matmul(e, c.zeros([2 ** 16, 2 ** 17])), [1]), 0)
    })
    expect(overflow(rows, { fuse: false })).toMatchInlineSnapshot(
      `"E_OVERFLOW exp gives f32[65537, 65536], which would be stored in 17180131328 bytes (16.0 GiB); the target wasm has at most 4294901760 bytes for a value: every operation stores its value without fusion; fuse the program, or use smaller batches, or split the tensor"`,
    )
    const two = trace([{ shape: [2 ** 17, 8] }, { shape: [8, 2 ** 17] }, { shape: [2 ** 17, 8] }], ([a, b, d]) =>
      a && b && d ? bothWays(c.matmul(a, b), d) : [],
    )
    // In fast mode they become sums, which store nothing between them (unstorable.test.ts). One way alone it would be taken in strips.
    expect(overflow(two, { mode: 'strict' })).toMatchInlineSnapshot(
      `"E_OVERFLOW contract gives f32[131072, 131072], which would be stored in 68719476736 bytes (64.0 GiB); the target wasm has at most 4294901760 bytes for a value: it could not be fused into contract (two-contractions: a kernel holds one matrix product); use smaller batches, or split the tensor; explain() of a smaller shape shows the plan"`,
    )
    expect(overflow(stored(([x]) => (x ? c.sum(x) : []), [2 ** 31]))).toMatchInlineSnapshot(
      `"E_OVERFLOW an input is f32[2147483648], which would be stored in 8589934592 bytes (8.0 GiB); the target wasm has at most 4294901760 bytes for a value: inputs stand in memory; use smaller batches, or split the tensor"`,
    )
    expect(
      overflow(two, { mode: 'strict', target: webgpuTarget({ valueBytes: 2 ** 27, arenaBytes: 2 ** 28 }) }),
    ).toMatchInlineSnapshot(
      `"E_OVERFLOW contract gives f32[131072, 131072], which would be stored in 68719476736 bytes (64.0 GiB); the target webgpu has at most 134217728 bytes for a value: it could not be fused into contract (two-contractions: a kernel holds one matrix product); use smaller batches, or split the tensor; explain() of a smaller shape shows the plan"`,
    )
  })

  test('the same of intermediate values together', () => {
    const target = { ...wasmTarget, mostBytes: { value: 2 ** 20, arena: 2 ** 20 } }
    const graph = trace([{ shape: [512, 400] }, { shape: [400, 512] }], ([a, b]) => {
      if (!a || !b) return []
      const [p, q] = [c.matmul(a, b), c.matmul(b, a)]
      return [...bothWays(p, a), c.matmul(q, b)]
    })
    expect(errorOf(() => compiled(graph, { target, mode: 'strict' }))).toMatchInlineSnapshot(
      `"E_OVERFLOW intermediate values of program take 1688704 bytes (1.6 MiB) at once, and the target wasm has at most 1048576 bytes for them; the largest, 1048576 bytes (1.0 MiB), is of contract; use smaller batches, or split the tensor, or give jit a memoryBudget"`,
    )
  })

  test('inside control flow too', () => {
    const f = s.jit(
      (x: s.Tensor) =>
        s.cond(
          s.greater(x.sum(), 0),
          (y: s.Tensor) => {
            const p = s.matmul(y, y.add(1).transpose())
            return s.matmul(p, y).add(s.matmul(p.transpose(), y))
          },
          (y: s.Tensor) => y,
          x,
        ),
      { mode: 'strict' },
    )
    expect(errorOf(() => f.explain(s.zeros([2 ** 17, 8])))).toMatch(
      /^E_OVERFLOW matmul gives f32\[131072, 131072\].*two-contractions/,
    )
  })
})

describe('every way to run', () => {
  beforeAll(() => s.setDevice('wasm'))
  afterAll(() => s.setDevice('wasm'))

  const code = (call: () => unknown): string => errorOf(call).split(' ')[0] ?? ''
  const big = (x: s.Tensor): s.Tensor => s.exp(s.slidingWindow(x, 0, 2 ** 16))

  test('lazy, jitted and on the reference device the error is the same', () => {
    for (const device of ['wasm', 'reference'] as const) {
      s.setDevice(device)
      const x = s.tensor(wave(2 ** 17))
      expect(code(() => big(x).dataSync())).toBe('E_OVERFLOW')
      expect(code(() => s.jit(big)(x))).toBe('E_OVERFLOW')
      expect(code(() => s.zeros([2 ** 40]).dataSync())).toBe('E_OVERFLOW')
      expect(code(() => s.random.uniform(s.random.key(1), [2 ** 34]).dataSync())).toBe('E_OVERFLOW')
      expect(s.memory().used).toBeLessThan(2 ** 26)
    }
    s.setDevice('reference')
    const x = s.tensor(wave(2 ** 17))
    expect(errorOf(() => big(x).sum().item())).toMatchInlineSnapshot(
      `"E_OVERFLOW slidingWindow gives f32[65537, 65536], which would be stored in 34360262656 bytes (32.0 GiB); the reference device has at most 4294967296 bytes for a value: it stores the value of every operation, views among them; run it on another device, where values that kernels do not store take no memory"`,
    )
  })

  test('values that nothing stores take no memory', () => {
    s.setDevice('wasm')
    expect(planOf(trace([], () => c.sum(c.zeros([2 ** 40])))).largest).toBe(4)
    expect(
      s
        .full([2 ** 40], 3)
        .slice([7, 9])
        .dataSync(),
    ).toEqual(Float32Array.of(3, 3))
    expect(s.zeros([2 ** 50]).size).toBe(2 ** 50)
    expect(
      s
        .iota([2 ** 30, 4], 1)
        .slice([2 ** 29, 2 ** 29 + 1])
        .dataSync(),
    ).toEqual(Int32Array.of(0, 1, 2, 3))
    // More operations than wait otherwise, on a value that must never stand in memory.
    let y = s.slidingWindow(s.tensor(wave(2 ** 17)), 0, 2 ** 16)
    for (let i = 0; i < 600; i++) y = s.abs(y)
    expect(y.slice([3, 4], [0, 2]).dataSync()).toHaveLength(2)
  })
})
