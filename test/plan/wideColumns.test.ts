/** Rows and columns on a machine of loops: programs of a cut fold take whole rows, and taps of windows are not cut. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { at, trace } from '../compile/support.ts'

interface Found {
  readonly finishes: boolean
  readonly blocks: ReadonlyMap<string, number>
  /** Extents of the grid's axes. */
  readonly extents: readonly number[]
}

/** The kernels of a program: whether each is a finishing stage, and its grid. */
const kernelsOf = (graph: Graph): readonly Found[] =>
  compileGraph(graph, { mode: 'fast', target: wasmTarget, verify: true }).program.steps.flatMap((s) => {
    if (s.kind !== 'kernel') return []
    const [part] = s.kernel.parts
    const blocks = new Map(part?.grid.map((g) => [g.axis, g.block]))
    const extents = part?.axes.filter((a) => blocks.has(a.name)).map((a) => a.extent) ?? []
    return [{ finishes: s.stage !== 'main', blocks, extents }]
  })

describe('sums of columns', () => {
  test.each([
    [2049, 2488],
    [1000, 3001],
  ])('%i x %i go by whole rows, in parts of them', (rows, columns) => {
    const found = kernelsOf(trace([{ shape: [rows, columns] }], (p) => c.sum(at(p, 0), 0)))
    expect(found.map((k) => k.finishes)).toEqual([false, true])
    const blocks = [...(found[0]?.blocks.values() ?? [])]
    expect(blocks).toContain(columns)
    expect(Math.min(...blocks)).toBeLessThan(rows)
  })

  test('a row times a matrix goes by whole rows', () => {
    const graph = trace([{ shape: [1, 2397] }, { shape: [2397, 2049] }], (p) => c.matmul(at(p, 0), at(p, 1)))
    const found = kernelsOf(graph)
    expect(found.map((k) => k.finishes)).toEqual([false, true])
    expect([...(found[0]?.blocks.values() ?? [])]).toContain(2049)
  })
})

describe('sums over rows and columns', () => {
  test.each([
    [887, 12680],
    [31, 100000],
  ])('%i x %i, with a row that all share, are cut between rows', (rows, columns) => {
    const graph = trace([{ shape: [rows, columns] }, { shape: [columns] }], (p) =>
      c.sum(c.mul(at(p, 0), c.sub(at(p, 0), at(p, 1)))),
    )
    const [main, finishing] = kernelsOf(graph)
    expect(finishing?.finishes).toBe(true)
    // The grid has blocks of rows alone: a program goes along all columns.
    expect(main?.extents).toEqual([rows])
    const [block = rows] = [...(main?.blocks.values() ?? [])]
    expect(Math.ceil(rows / block)).toBeGreaterThanOrEqual(wasmTarget.minPrograms)
  })

  test('of few rows are cut along them', () => {
    const graph = trace([{ shape: [8, 50000] }, { shape: [50000] }], (p) =>
      c.sum(c.mul(at(p, 0), c.sub(at(p, 0), at(p, 1)))),
    )
    expect(kernelsOf(graph)[0]?.extents).toEqual([50000])
  })
})

test.each([31, 63])('windows of %i rows are not cut along their taps', (taps) => {
  const graph = trace([{ shape: [1, 47, 75 + taps, 16] }], (p) => c.averagePool(at(p, 0), [taps, 1], { stride: 1 }))
  expect(kernelsOf(graph).map((k) => k.finishes)).toEqual([false])
})

describe('a transposed operand', () => {
  const graph = (first: number, between: number, last: number): Graph =>
    trace([{ shape: [first, between, last] }, { shape: [last, between, first] }], (p) =>
      c.unary('sin', c.mul(c.unary('exp', at(p, 0)), c.permute(at(p, 1)))),
    )
  test('of short sides is read whole, beside axes enough', () => {
    const blocks = kernelsOf(graph(63, 416, 56)).map((k) => [...k.blocks.values()])
    expect(blocks).toContainEqual([63, 1, 56])
  })
  test('is read in squares where programs are few', () =>
    expect(kernelsOf(graph(63, 4, 56)).map((k) => [...k.blocks.values()])).toContainEqual([32, 1, 32]))
})
