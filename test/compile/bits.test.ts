/**
 * Bools between kernels, one bit an element: what the plan packs, what it leaves as bytes and why, and that programs compute
 * the same through the interpreter and WebAssembly on one thread and on several.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import type { Compiled } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { nightly, some } from '../support/nightly.ts'
import { at, check, trace } from './support.ts'

const one = createWasmBackend({ threads: 1 })
const three = createWasmBackend({ threads: 3, shareAbove: 0 })
afterAll(() => {
  one.dispose()
  three.dispose()
})

/** Small blocks: many programs, tails everywhere. */
const blocks: Machine = { ...wasmTarget, elementBlock: 40, dotBlock: { m: 16, n: 24, k: 7 }, minPrograms: 4 }

const above = (x: Node, y: number | Node): Node => c.compare('gt', x, y)
const masked = (m: Node, x: Node): Node => c.where(m, x, 0)

/** Compiled for one thread and, in small blocks, for several, in both modes (by day each in one); every way gives the reference's results. */
function everyWay(graph: Graph, fuse = true): Compiled {
  const whole = check(graph, { fuse }, one)
  if (nightly) check(graph, { fuse, mode: 'strict' }, one)
  if (nightly) check(graph, { fuse, target: blocks }, three)
  check(graph, { fuse, target: blocks, mode: 'strict' }, three)
  return whole
}

/** The bools of the report by form. */
const forms = ({ report }: Compiled): string[] => report.storedBools.map((b) => `${b.form} ${b.bytes}`)

/** Buffers of bits and their bytes. */
const packed = ({ program }: Compiled): number[] =>
  program.buffers.flatMap((b) => (b.format === 'bits' ? [b.bytes] : []))

/** A comparison of a product's epilogue, needed by two more products: it cannot be computed again for less. */
const products = (rows: number, columns: number): Graph =>
  trace(
    [
      { shape: [rows, 30] },
      { shape: [30, columns] },
      { shape: [columns] },
      { shape: [rows, columns] },
      { shape: [columns, 9] },
    ],
    (p) => {
      const z = c.add(c.matmul(at(p, 0), at(p, 1)), at(p, 2))
      const m = above(z, 0)
      return [
        c.gelu(z),
        c.matmul(masked(m, at(p, 3)), at(p, 4)),
        c.matmul(c.permute(masked(m, c.mul(at(p, 3), 2)), [1, 0]), at(p, 0)),
      ]
    },
  )

describe('a mask beside gelu(x @ w + b)', () => {
  const sizes = [
    [64, 64],
    [48, 40],
    [100, 520],
    [33, 72],
    [64, 63],
    [17, 29],
    [8, 21],
  ] as const
  test.each(some(sizes, 3))('%i x %i', (rows, columns) => {
    const made = everyWay(products(rows, columns))
    expect(made.report.kernels.map((k) => k.kind)).toEqual(['matrix', 'matrix', 'matrix'])
    expect(forms(made)).toEqual([`bits ${Math.ceil((rows * columns) / 8)}`])
    expect(packed(made)).toEqual([Math.ceil((rows * columns) / 8)])
    // The kernels read and write the bits they say.
    const bits = Math.ceil((rows * columns) / 8)
    const floats = [rows * 30 + 31 * columns, rows * columns + 9 * columns, rows * columns + 30 * rows]
    const read = made.report.kernels.map((k) => k.bytesRead).sort((x, y) => x - y)
    expect(made.report.kernels[0]?.bytesWritten).toBe(4 * rows * columns + bits)
    expect(read).toEqual(floats.map((n, i) => 4 * n + (i === 0 ? 0 : bits)).sort((x, y) => x - y))
  })
  test('rows that fill no byte and are too many for a block stay bytes', () => {
    const made = everyWay(products(33, 601))
    expect(forms(made)).toEqual([`bytes ${33 * 601}`])
    expect(made.report.storedBools[0]?.why?.code).toBe('programs-too-large')
    expect(packed(made)).toEqual([])
  })
})

describe('a mask of rows beside their softmax', () => {
  const rows = (n: number, columns: number): Graph =>
    trace([{ shape: [n, columns] }, { shape: [n, columns] }, { shape: [n, 11] }], (p) => {
      const s = c.softmax(at(p, 0))
      const m = above(s, 1 / columns)
      const m2 = c.permute(m, [1, 0])
      return [
        s,
        c.matmul(c.permute(masked(m, at(p, 1)), [1, 0]), at(p, 2)),
        c.matmul(masked(m2, c.permute(c.neg(at(p, 1)), [1, 0])), at(p, 2)),
      ]
    })
  const sizes = [
    [40, 64],
    [31, 24],
    [40, 61],
    [13, 7],
    [6, 5],
  ] as const
  test.each(some(sizes, 3))('%i x %i', (n, columns) => {
    const made = everyWay(rows(n, columns))
    expect(packed(made).length).toBeLessThanOrEqual(1)
    everyWay(rows(n, columns), false)
  })
})

describe('operations one by one', () => {
  const sizes = Array.from({ length: 70 }, (_, i) => i + 1)
  test.each(some(sizes, 6))('%i elements', (n) => {
    const graph = trace([{ shape: [n] }, { shape: [n] }], (p) => {
      const m = c.binary('or', above(at(p, 0), at(p, 1)), c.compare('lt', at(p, 0), -1))
      return [c.where(c.unary('not', m), at(p, 0), at(p, 1)), c.sum(masked(m, at(p, 0)))]
    })
    const made = check(graph, { fuse: false }, one)
    check(graph, { fuse: false, target: blocks }, three)
    // The comparisons and their disjunction; one element has no bits to save.
    expect(packed(made)).toEqual(n === 1 ? [] : [1, 2, 3].map(() => Math.ceil(n / 8)))
  })

  const shapes = [
    [2, 3],
    [3, 5],
    [5, 8],
    [7, 11],
    [8, 7],
    [9, 16],
    [13, 17],
    [16, 31],
    [23, 37],
    [31, 1],
    [1, 29],
  ] as const
  test.each(some(shapes, 4))('%i x %i: transposed, sliced, flipped, broadcast, joined, padded, gathered', (r, k) => {
    const graph = trace([{ shape: [r, k] }, { shape: [r, k] }, { shape: [4], dtype: 'i32' }], (p) => {
      const m = above(at(p, 0), at(p, 1))
      const n = c.unary('not', m)
      const float = (x: Node): Node => c.cast(x, 'f32')
      return [
        c.matmul(float(c.permute(m, [1, 0])), at(p, 0)),
        float(c.flip(m, [0, 1])),
        float(c.sliceAxis(n, 1, k >> 1, k)),
        c.add(at(p, 1), float(c.sliceAxis(n, 0, r >> 1, (r >> 1) + 1))),
        float(c.concat([m, n, m], 0)),
        float(c.concat([c.permute(m, [1, 0]), c.permute(n, [1, 0])], 0)),
        c.sum(
          float(
            c.pad(
              m,
              [
                [1, 2],
                [2, 1],
              ],
              'constant',
              true,
            ),
          ),
          [0],
        ),
        float(c.take(n, at(p, 2), 0)),
        c.sum(float(c.reshape(m, [k, r])), [1]),
        c.any(m, [1]),
        c.all(n, [0]),
      ]
    })
    everyWay(graph)
    const alone = everyWay(graph, false)
    expect(packed(alone).length).toBeGreaterThan(1)
  })
})

describe('what is not packed', () => {
  test('results, and what they are views of', () => {
    const made = everyWay(
      trace([{ shape: [9, 10] }, { shape: [9, 10] }], (p) => {
        const m = above(at(p, 0), at(p, 1))
        return [c.reshape(m, [90]), c.permute(m, [1, 0]), c.sum(c.cast(m, 'f32'), [0])]
      }),
      false,
    )
    expect(packed(made)).toEqual([])
  })
  test('inputs and constants', () => {
    const data = Uint8Array.from({ length: 90 }, (_, i) => (i % 3) & 1)
    const made = everyWay(
      trace([{ shape: [90], dtype: 'bool' }, { shape: [90] }], (p) => {
        const k = c.constant(data, [90], 'bool')
        return [c.where(at(p, 0), at(p, 1), 0), c.where(k, at(p, 1), 1)]
      }),
      false,
    )
    expect(packed(made)).toEqual([])
  })
  test('what a scatter reads', () => {
    const graph = trace(
      [{ shape: [40, 3], dtype: 'bool' }, { shape: [12, 3] }, { shape: [12, 1], dtype: 'i32' }],
      (p) => [c.scatterND(at(p, 0), at(p, 2), above(at(p, 1), 0))],
    )
    expect(packed(everyWay(graph, false))).not.toContain(5)
  })
  test('a bool a row, where the rows are what is moved', () => {
    const made = everyWay(
      trace([{ shape: [24, 300] }, { shape: [24, 50] }, { shape: [50, 20] }], (p) => {
        const m = c.broadcastTo(c.expandDims(c.any(above(at(p, 0), 1.9), [1]), 1), [24, 50])
        const w = c.mul(at(p, 2), 2)
        return [c.matmul(masked(m, at(p, 1)), at(p, 2)), c.matmul(c.where(m, 1, at(p, 1)), w)]
      }),
    )
    expect(forms(made)).toEqual(['bytes 24'])
    expect(made.report.storedBools[0]?.why?.code).toBe('saves-little')
  })
  test('rows beside their softmax that fill bytes only eight at a time, too long for the cache together', () => {
    const graph = trace([{ shape: [24, 301] }, { shape: [301, 9] }, { shape: [24, 9] }], (p) => {
      const m = above(c.softmax(at(p, 0)), 0.003)
      return [
        c.matmul(masked(m, at(p, 0)), at(p, 1)),
        c.matmul(c.permute(masked(m, c.mul(at(p, 0), 2)), [1, 0]), at(p, 2)),
      ]
    })
    const made = check(graph, {}, one)
    expect(made.report.storedBools.map((b) => b.why?.code)).toEqual(['programs-too-large'])
    expect(packed(made)).toEqual([])
  })
  test('anything on a target without packed bools', () => {
    const graph = products(64, 64)
    const made = check(graph, { target: { ...wasmTarget, packBools: false } }, one)
    expect(packed(made)).toEqual([])
    expect(made.report.storedBools).toEqual([])
    const bits = check(graph, {}, one)
    expect(made.report.totals.bytes - bits.report.totals.bytes).toBe(3 * (64 * 64 - (64 * 64) / 8))
  })
})

describe('in place', () => {
  test('bits are written over bits of the same positions, never over bytes', () => {
    for (const n of [8, 61, 640])
      for (const target of [wasmTarget, blocks]) {
        const graph = trace([{ shape: [n] }, { shape: [8 * n] }], (p) => {
          const m = above(at(p, 0), 0)
          const r = c.unary('not', c.binary('xor', m, above(at(p, 0), 1)))
          const wide = above(at(p, 1), 0.5)
          return [
            c.sum(masked(r, at(p, 0))),
            c.sum(c.cast(c.sliceAxis(wide, 0, 0, n), 'f32')),
            c.where(wide, at(p, 1), 1),
          ]
        })
        const made = check(graph, { fuse: false, target }, three)
        const arena = made.program.buffers.filter((b) => b.source.kind === 'temp')
        expect(arena.some((b) => b.format === 'bits')).toBe(true)
        expect(made.report.memory.inPlace).toBeGreaterThan(0)
      }
  })
})
