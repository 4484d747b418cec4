/** Blocks of programs on cores that read a tensor across what they store: pieces of rows, whatever is computed of them, and runs of several short axes. */
import { describe, expect, test } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { spec, type Tensor } from '../../src/index.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'

/** What programs of the one kernel have of its axes, in the order of the result. */
function blocksOf(
  f: (...xs: Tensor[]) => Tensor,
  shapes: readonly (readonly number[])[],
  target: Machine = wasmTarget,
): number[] {
  const { graph } = traceFunction(
    (...xs: readonly unknown[]) => f(...(xs as Tensor[])),
    shapes.map((s) => spec([...s], 'f32')),
  )
  const { program } = compileGraph(graph, { mode: 'fast', target, verify: true })
  const [part, second] = program.steps.flatMap((s) => (s.kind === 'kernel' ? s.kernel.parts : []))
  expect(second).toBeUndefined()
  const blocks = new Map(part?.grid.map((g) => [g.axis, g.block]))
  return part?.axes.map((a) => blocks.get(a.name) ?? a.extent) ?? []
}

const functions = (x: Tensor, y: Tensor): Tensor =>
  x
    .tanh()
    .exp()
    .mul(y.transpose([1, 0]))

describe('a tensor read across', () => {
  test.each([
    [1000, 3001],
    [1024, 1024],
    [96, 64562],
  ])('%i x %i beside functions: squares as large as without them', (rows, columns) => {
    const shapes = [
      [rows, columns],
      [columns, rows],
    ]
    const blocks = blocksOf(functions, shapes)
    expect(blocks).toEqual([Math.min(rows, 128), 128])
    expect(blocksOf((x, y) => x.mul(y.transpose([1, 0])), shapes)).toEqual(blocks)
  })

  test('of few programs, or beside the core, in small squares', () => {
    const [few] = blocksOf(functions, [
      [380, 420],
      [420, 380],
    ])
    expect(few).toBe(64)
    const [near] = blocksOf(functions, [
      [200, 300],
      [300, 200],
    ])
    expect(near).toBe(32)
  })
})

describe('short axes side by side', () => {
  test.each([
    // As many of the next axis as make a run, in even parts.
    [
      [64562, 32, 3],
      [2, 1, 0],
      [3, 32, 128],
    ],
    [
      [64562, 50, 3],
      [2, 1, 0],
      [3, 25, 128],
    ],
    [
      [20001, 7, 9, 4],
      [3, 2, 1, 0],
      [4, 9, 1, 128],
    ],
    // Lines of 5001 rows stay where the next index finds them, unless those rows are taken whole.
    [
      [5001, 7, 9, 4],
      [3, 2, 1, 0],
      [4, 1, 1, 128],
    ],
    [
      [200, 70, 90, 4],
      [3, 2, 1, 0],
      [4, 18, 1, 200],
    ],
    // What is stored runs over two of them.
    [
      [3, 32, 64562],
      [2, 1, 0],
      [128, 32, 3],
    ],
    // A long axis is a run by itself.
    [
      [301, 20, 300],
      [2, 1, 0],
      [128, 1, 128],
    ],
  ])('%o permuted by %o: blocks of %o', (shape, order, blocks) => {
    expect(blocksOf((x) => x.transpose(order), [shape])).toEqual(blocks)
  })

  test('are left where programs would be few', () => {
    const target = { ...wasmTarget, minPrograms: 5000 }
    expect(blocksOf((x) => x.transpose([2, 1, 0]), [[64562, 32, 3]], target)).toEqual([3, 1, 128])
  })
})

describe('rows that read a tensor across', () => {
  const softmax = (x: Tensor, y: Tensor): Tensor => {
    const v = x.add(y.transpose([1, 0]))
    return v.softmax(1)
  }
  const of = (rows: number, columns: number, f = softmax): number[] =>
    blocksOf(f, [
      [rows, columns],
      [columns, rows],
    ])

  test('are as many a program as a line of it has, where a tile of them stays near and some programs remain', () => {
    expect(of(1000, 1000)).toEqual([16, 1000])
    expect(of(301, 777)).toEqual([16, 777])
    expect(of(64, 1000)).toEqual([8, 1000])
  })

  test('are one where nothing goes across', () => {
    expect(of(1000, 1000, (x) => x.softmax(1))).toEqual([1, 1000])
  })
})
