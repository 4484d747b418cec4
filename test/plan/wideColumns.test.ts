/** Columns on a machine of loops: programs of a cut fold take whole rows, and taps of windows are not cut. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { at, trace } from '../compile/support.ts'

/** The kernels of a program: whether each is a finishing stage, and the blocks of its grid. */
const kernelsOf = (
  graph: Graph,
): readonly { readonly finishes: boolean; readonly blocks: ReadonlyMap<string, number> }[] =>
  compileGraph(graph, { mode: 'fast', target: wasmTarget, verify: true }).program.steps.flatMap((s) => {
    if (s.kind !== 'kernel') return []
    const [part] = s.kernel.parts
    return [{ finishes: s.stage !== 'main', blocks: new Map(part?.grid.map((g) => [g.axis, g.block])) }]
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

test.each([31, 63])('windows of %i rows are not cut along their taps', (taps) => {
  const graph = trace([{ shape: [1, 47, 75 + taps, 16] }], (p) => c.averagePool(at(p, 0), [taps, 1], { stride: 1 }))
  expect(kernelsOf(graph).map((k) => k.finishes)).toEqual([false])
})
