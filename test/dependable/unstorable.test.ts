/**
 * A value beyond what the target's memory reaches is not stored where a legal kernel spares it, however much slower that kernel is than
 * storing would be.
 *
 * Sites looked at: plan/fuse/planner.ts (merges refused for their cost: recompute-cost, library-product, too-few-programs, no-gain),
 * plan/fuse/recompute.ts (values of several readers), plan/remat/saved.ts and compile/planGraph.ts (values kept for the backward pass),
 * plan/fuse/siblingFusion.ts (merges the same way), plan/fuse/singles.ts and clusters.ts (no cost asked), compile/writtenOut.ts and plan/axes/split.ts (products
 * that go into products), compile/stored.ts (what is left).
 */
import { describe, expect, test } from 'vitest'
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import * as s from '../../src/index.ts'
import { storedBytes } from '../../src/plan/body/stored.ts'
import { storedBy } from '../../src/plan/plan.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'

type Build = (...p: readonly Node[]) => readonly Node[]
interface Case {
  readonly shapes: readonly (readonly number[])[]
  readonly build: Build
}

const dear = (x: Node): Node => c.exp(c.exp(c.exp(c.mul(x, 0.1))))

/** Of rows and columns that make a matrix too large, what kernels might rather store. */
const cases = (rows: number, columns: number, wide: number): Record<string, Case> => ({
  'a dear operand of a wide product': {
    shapes: [
      [rows, 1],
      [1, columns],
      [columns, wide],
    ],
    build: (x, y, w) => (x && y && w ? [c.matmul(dear(c.add(x, y)), w)] : []),
  },
  'a dear value of three readers': {
    shapes: [
      [rows, 1],
      [1, columns],
      [columns, 4],
    ],
    build: (x, y, w) => {
      if (!x || !y || !w) return []
      const e = dear(c.add(x, y))
      return [c.sum(e, [0]), c.sum(e, [1]), c.matmul(e, w)]
    },
  },
  'products of rows with softmax between them': {
    shapes: [
      [rows, 64],
      [columns, 64],
      [columns, 64],
    ],
    build: (q, k, v) => (q && k && v ? [c.attention(q, k, v, { causal: true, causalOffset: columns })] : []),
  },
  'a value and its sum, needed again': {
    shapes: [
      [rows, 1],
      [1, columns],
    ],
    build: (x, y) => {
      if (!x || !y) return []
      const e = dear(c.add(x, y))
      return [c.sum(c.div(e, c.sum(e)), [1])]
    },
  },
})

const graphOf = ({ shapes, build }: Case): Graph =>
  withContext(() => {
    const params = shapes.map((shape, i) => param(i, shape, 'f32'))
    return { params, outputs: [...build(...params)], effects: [] }
  })

describe('on WebAssembly, where 4 GiB are all there is', () => {
  test.each(Object.entries(cases(2 ** 15, 2 ** 16, 2048)))('%s', (_, one) => {
    const { plan } = compileGraph(graphOf(one), { mode: 'fast', target: wasmTarget, verify: true })
    const most = Math.max(...plan.groups.flatMap(storedBy).map((n) => storedBytes(n, plan.stored)))
    expect(most).toBeLessThanOrEqual(wasmTarget.mostBytes.value)
  })
})

describe('values are the same', () => {
  // Without the limit the plan stores it: the same graph within it does not.
  const tight: Machine = { ...wasmTarget, mostBytes: { value: 2 ** 20, arena: 2 ** 24 } }
  const device = (target: Machine) => createCompiledDevice('wasm', createWasmBackend({ threads: 1 }), target)
  test.each(Object.entries(cases(512, 520, 500)))('%s', (_, one) => {
    const plain = compileGraph(graphOf(one), { mode: 'fast', target: wasmTarget }).plan
    const stores = (plan: typeof plain): number =>
      plan.groups.flatMap(storedBy).filter((n) => storedBytes(n, plan.stored) > 2 ** 20).length
    const within = compileGraph(graphOf(one), { mode: 'fast', target: tight }).plan
    expect(stores(within)).toBe(0)
    const inputs = one.shapes.map((shape, i) => {
      const n = shape.reduce((p, d) => p * d, 1)
      return Float32Array.from({ length: n }, (_, k) => (((k + i) * 29) % 23) / 23)
    })
    const run = (target: Machine): number[] => {
      const d = device(target)
      const compiled = d.compile(graphOf(one), { mode: 'fast', donated: [], name: 'f' })
      const out = compiled.run(inputs.map((data) => d.upload(data)))
      return graphOf(one).outputs.flatMap((o, i) => {
        const buffer = out[i]
        if (buffer === undefined) throw new Error('no output')
        return Array.from(
          d.readSync(
            buffer,
            'f32',
            o.shape.reduce((p, x) => p * x, 1),
          ) as Float32Array,
        )
      })
    }
    const [a, b] = [run(wasmTarget), run(tight)]
    expect(a.length).toBe(b.length)
    expect(a.findIndex((v, i) => !(Math.abs((b[i] ?? Number.NaN) / v - 1) < 1e-4))).toBe(-1)
  })

  test('what the backward pass needs is computed again', () => {
    const f = (x: s.Tensor, y: s.Tensor, w: s.Tensor): s.Tensor =>
      x.add(y).tanh().exp().sin().exp().matmul(w).tanh().sum()
    const args = [s.ones([600, 1]), s.ones([1, 520]), s.ones([520, 300])] as const
    const g = (d: ReturnType<typeof device>) => s.jit(s.grad(f, { argnums: [0, 1, 2] }), { device: d })
    const small = g(device(tight))(...args)
    const large = g(device(wasmTarget))(...args)
    small.forEach((t, i) => {
      const want = large[i]?.dataSync() as Float32Array
      const far = (v: number, k: number): boolean =>
        !(Math.abs(v - (want[k] ?? Number.NaN)) < 1e-3 * Math.max(1, Math.abs(v)))
      expect((t.dataSync() as Float32Array).findIndex(far)).toBe(-1)
    })
  })
})

test('what no legal kernel spares is still told, with the reason', () => {
  const graph = graphOf({
    shapes: [
      [2 ** 16, 8],
      [2 ** 16, 8],
    ],
    build: (q, k) => (q && k ? [c.matmul(c.softmax(c.matmul(q, c.transpose(k, [1, 0])), 1), k)] : []),
  })
  expect(compileGraph(graph, { mode: 'fast', target: wasmTarget, verify: true }).plan.groups.length).toBe(1)
  const bothWays = graphOf({
    shapes: [
      [2 ** 16, 8],
      [2 ** 16, 8],
    ],
    build: (q, k) => {
      const weights = q && k ? c.softmax(c.matmul(q, c.transpose(k, [1, 0])), 1) : undefined
      return weights && q && k ? [c.matmul(weights, k), c.matmul(c.transpose(weights, [1, 0]), q)] : []
    },
  })
  let error: unknown
  try {
    // Sums of products have another order than those of the product, and strips of either axis would carry sums across them.
    compileGraph(bothWays, { mode: 'strict', target: wasmTarget })
  } catch (e) {
    error = e
  }
  if (!(error instanceof UserError)) throw error
  expect(error.code).toBe('E_OVERFLOW')
  expect(error.summary).toMatch(/contract gives f32\[65536, 65536\].*two-contractions|reduction-of-contraction/)
})
