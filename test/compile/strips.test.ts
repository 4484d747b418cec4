/** Large values in strips (src/compile/strips): the same numbers in less memory, and what may not be cut. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { type Compiled, compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { crossEntropy, jit, matmul, setDevice, type Tensor, tensor, valueAndGrad } from '../../src/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { atNight, nightly, some } from '../support/nightly.ts'
import { at, check, trace } from './support.ts'

const backend = createWasmBackend({ threads: 1 })
beforeAll(() => setDevice('wasm', { threads: 1 }))
afterAll(() => backend.dispose())

/** The loops of a report: steps of each. */
const loopsOf = ({ report }: Compiled): (number | undefined)[] =>
  report.kernels.filter((k) => k.kind === 'loop').map((k) => k.inner?.[0]?.trips)

const rowsBy = (
  rows: number,
  columns: number,
  width: number,
  build: (scores: Node, p: readonly Node[]) => Node[],
): Graph =>
  trace([{ shape: [rows, width] }, { shape: [width, columns] }], (p) => build(c.matmul(at(p, 0), at(p, 1)), p))

type Build = (scores: Node, p: readonly Node[]) => Node[]

/** Programs around a product of many columns that is stored. */
const programs: Record<string, Build> = {
  'rows and sums over them': (x, p) => {
    const w = c.softmax(x, 1)
    return [c.matmul(w, c.permute(at(p, 1))), c.matmul(c.permute(w), at(p, 0))]
  },
  'a mask of positions': (x) => {
    const [rows = 0, columns = 0] = x.shape
    // In bf16, which does not tell neighbours beyond 256 apart: positions are rounded once.
    const sees = c.compare('ge', c.iota([rows, columns], 0, 'bf16'), c.iota([rows, columns], 1, 'bf16'))
    return [c.sum(c.softmax(c.where(sees, x, Number.NEGATIVE_INFINITY), 1), [0])]
  },
  'greatest and least of columns': (x) => [c.reduceMax(c.softmax(x, 1), 0), c.reduceMin(c.softmax(x, 1), 0)],
}

const sums = programs['rows and sums over them'] as Build

describe('where memory asks for it', () => {
  // By day two of the programs, each at one of the lengths.
  for (const [k, rows] of [256, 301].entries())
    test.each(Object.entries(programs).filter((_, i) => nightly || i === 2 * k))(`%s, ${rows}`, (_, build) => {
      const graph = rowsBy(rows, 700, 8, build)
      const budget = 300_000
      const whole = compileGraph(graph, { mode: 'fast', target: wasmTarget })
      expect(loopsOf(whole)).toEqual([])
      expect(whole.program.arenaBytes).toBeGreaterThan(budget)
      const cut = check(graph, { budgets: { memory: budget } }, backend)
      expect(cut.program.arenaBytes).toBeLessThanOrEqual(budget)
      expect(loopsOf(cut)).toHaveLength(1)
    })

  atNight('more at once than a target has', () => {
    const graph = rowsBy(256, 700, 8, sums)
    const target = { ...wasmTarget, mostBytes: { ...wasmTarget.mostBytes, arena: 500_000 } }
    expect(loopsOf(check(graph, { target }, backend))).toHaveLength(1)
  })

  test('distances of points to each other: rows in strips, and all of them', () => {
    const graph = trace([{ shape: [300, 8] }], ([x]) => {
      const w = c.softmax(c.matmul(x as Node, c.permute(x as Node)), 1)
      return [c.matmul(w, x as Node), c.reduceMax(w, 0)]
    })
    const cut = check(graph, { budgets: { memory: 150_000 } }, backend)
    expect(loopsOf(cut)).toHaveLength(1)
  })

  atNight('rows of a batch that are joined and told apart on the way', () => {
    const graph = trace([{ shape: [6, 50, 8] }, { shape: [8, 700] }], ([x, w]) => {
      const scores = c.matmul(x as Node, w as Node)
      const rows = c.softmax(c.reshape(scores, [300, 700]), 1)
      // Positions of the joined rows, so that strips begin at whole numbers of sequences.
      const sees = c.compare('ge', c.iota([300, 700], 0, 'i32'), c.iota([300, 700], 1, 'i32'))
      const seen = c.where(sees, rows, 0)
      return [c.sum(c.reshape(seen, [6, 50, 700]), [2]), c.sum(seen, [0])]
    })
    const cut = check(graph, { budgets: { memory: 600_000 } }, backend)
    expect(loopsOf(cut)).toEqual([6])
  })

  atNight('rows that are told apart into sequences, which alone are parts', () => {
    const graph = rowsBy(300, 700, 8, (x, p) => {
      const w = c.softmax(c.reshape(x, [6, 50, 700]), 2)
      return [c.sum(w, [1]), c.matmul(w, c.permute(at(p, 1)))]
    })
    const cut = check(graph, { budgets: { memory: 600_000 } }, backend)
    expect(loopsOf(cut)).toEqual([6])
  })

  test.each(
    some<[string, (x: Node) => Node]>(
      [
        ['joined along', (x: Node) => c.concat([x, c.mul(x, 2)], 0)],
        [
          'padded along',
          (x: Node) =>
            c.pad(x, [
              [3, 0],
              [0, 0],
            ]),
        ],
        ['cut into rows that are none of them', (x: Node) => c.reshape(x, [350, 512])],
        ['turned around', (x: Node) => c.flip(x, [0])],
      ],
      4,
    ),
  )('no parts of what is %s the axis of strips', (_, change) => {
    const graph = rowsBy(256, 700, 8, (x) => {
      const y = change(c.softmax(x, 1))
      return [c.sum(y, [0]), c.sum(y, [1])]
    })
    const options = { mode: 'fast', target: wasmTarget } as const
    check(graph, {}, backend)
    expect(() => compileGraph(graph, { ...options, budgets: { memory: 300_000 } })).toThrow('E_OUT_OF_MEMORY')
  })

  test('in strict mode what folds nothing across strips, bit for bit', () => {
    const graph = rowsBy(256, 700, 8, (x, p) => [c.matmul(c.softmax(x, 1), c.permute(at(p, 1)))])
    const options = { mode: 'strict', budgets: { memory: 300_000 } } as const
    expect(loopsOf(check(graph, options, backend))).toHaveLength(1)
    const across = rowsBy(256, 700, 8, sums)
    expect(() => check(across, options, backend)).toThrow(/E_OUT_OF_MEMORY|budget/)
  })

  test('what needs all rows at once says what it takes', () => {
    const graph = rowsBy(256, 700, 8, (x, p) => {
      const w = c.softmax(x, 1)
      const all = c.add(w, c.broadcastTo(c.sum(w, [0]), w.shape))
      return [c.matmul(c.softmax(all, 1), c.permute(at(p, 1)))]
    })
    const compile = (): unknown => compileGraph(graph, { mode: 'fast', target: wasmTarget, budgets: { memory: 2000 } })
    expect(compile).toThrow(/more than the budget of 2000/)
  })
})

test('a vocabulary under a loss, both ways, agrees with the whole', () => {
  const numbers = (n: number, shape: readonly number[]): Tensor =>
    tensor(
      Float32Array.from({ length: n }, (_, i) => Math.sin(7 * i + n)),
      { shape: [...shape] },
    )
  const x = numbers(300 * 16, [300, 16])
  const w = numbers(900 * 16, [900, 16])
  const labels = tensor(
    Int32Array.from({ length: 300 }, (_, i) => (i * 37) % 900),
    { shape: [300] },
  )
  const loss = (p: { x: Tensor; w: Tensor }): Tensor => crossEntropy(matmul(p.x, p.w.swapaxes(0, 1)), labels).mean()
  const both = valueAndGrad(loss)
  const whole = jit(both)
  const cut = jit(both, { memoryBudget: 400_000 })
  const report = cut.explain({ x, w })
  expect(report.kernels.filter((k) => k.kind === 'loop')).toHaveLength(1)
  const [a, b] = [whole({ x, w }), cut({ x, w })]
  const flat = ([value, grad]: typeof a): number[][] =>
    [value, grad.x, grad.w].map((t) => [...(t.dataSync() as Float32Array)])
  const got = flat(b)
  const off = flat(a).map((own, i) => Math.max(...own.map((v, k) => Math.abs(v - (got[i]?.[k] ?? Number.NaN)))))
  expect(Math.max(...off)).toBeLessThan(1e-5)
})

describe('without being asked', () => {
  const [n, d, v] = [8192, 1024, 128256]
  const vocabulary = (build: (weights: Node, p: readonly Node[]) => Node[]): Compiled =>
    compileGraph(
      trace(
        [
          { shape: [n, d], dtype: 'bf16' },
          { shape: [v, d], dtype: 'bf16' },
        ],
        (p) => {
          const logits = c.cast(c.matmul(at(p, 0), c.permute(at(p, 1))), 'f32')
          return build(c.cast(c.softmax(logits, 1), 'bf16'), p)
        },
      ),
      { mode: 'fast', target: cudaTarget },
    )

  test('rows whose large values cost next to nothing in strips stand 256 MiB at a time', () => {
    const { report, program } = vocabulary((weights, p) => [c.matmul(weights, at(p, 1))])
    expect(report.kernels.filter((k) => k.kind === 'loop')).toHaveLength(1)
    expect(program.arenaBytes).toBeLessThan(2 * 2 ** 28)
  })

  test('networks of many products stay whole', () => {
    const graph = trace([{ shape: [200_000, 512] }, { shape: [512, 512] }], ([x, w]) => {
      let y = x as Node
      for (let i = 0; i < 4; i++) y = c.layerNorm(c.matmul(y, w as Node))
      return [c.reduceMax(y, 1)]
    })
    const compiled = compileGraph(graph, { mode: 'fast', target: cudaTarget })
    expect(compiled.program.arenaBytes).toBeGreaterThan(2 ** 28)
    expect(loopsOf(compiled)).toEqual([])
  })

  test('sums over rows that are as large as the weights are not carried, nor is what is small cut', () => {
    expect(loopsOf(vocabulary((weights, p) => [c.matmul(c.permute(weights), at(p, 0))]))).toEqual([])
    expect(loopsOf(compileGraph(rowsBy(512, 700, 8, sums), { mode: 'fast', target: cudaTarget }))).toEqual([])
  })
})
