/** Reductions down columns on cores: programs read whole rows, and rows are shared out among programs where columns are few. */
import { describe, expect, test } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { spec, type Tensor } from '../../src/index.ts'
import type { KernelPart } from '../../src/kernel/ir.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'

/** The kernels of a program for cores, one part each: main kernels and finishing stages. */
function partsOf(f: (...xs: Tensor[]) => Tensor, shapes: readonly (readonly number[])[], dtype: DType = 'f32') {
  const { graph } = traceFunction(
    (...xs: readonly unknown[]) => f(...(xs as Tensor[])),
    shapes.map((s) => spec([...s], dtype)),
  )
  const { program } = compileGraph(graph, { mode: 'fast', target: wasmTarget })
  return program.steps.flatMap((s) => (s.kind === 'kernel' ? s.kernel.parts : []))
}

/** Indices of an axis of so many that a program takes. */
function blockOf({ axes, grid }: KernelPart, extent: number): number {
  const axis = axes.find((a) => a.extent === extent)
  expect(axis, `an axis of ${extent}`).toBeDefined()
  return grid.find((g) => g.axis === axis?.name)?.block ?? extent
}

describe('reductions down columns', () => {
  test.each([
    ['sum', 'f32'],
    ['max', 'f32'],
    ['sum', 'bf16'],
    ['max', 'i32'],
  ] as const)('%s of %s: whole rows, some of them a program, and a finishing stage', (op, dtype) => {
    const parts = partsOf((x) => (x as Tensor)[op]([0]), [[10321, 752]], dtype)
    expect(parts).toHaveLength(2)
    const [main] = parts
    if (main === undefined) throw new Error('no kernel')
    expect(blockOf(main, 752)).toBe(752)
    expect(blockOf(main, 10321)).toBeLessThan(10321 / 16)
  })

  test('columns of two axes, that what follows reads in another order', () => {
    const [main, finish, more] = partsOf(
      (x, y) => (x as Tensor).max([0]).mul((y as Tensor).transpose([1, 0])),
      [
        [10321, 16, 47],
        [47, 16],
      ],
    )
    if (main === undefined) throw new Error('no kernel')
    expect(finish).toBeDefined()
    expect(more).toBeUndefined()
    expect([blockOf(main, 16), blockOf(main, 47)]).toEqual([16, 47])
  })

  test.each([
    // In the common cache a program may read its columns twice; from the farthest memory each line of them comes late.
    [[1000, 1000], 1],
    [[6000, 1500], 5],
  ] as const)('%o normalised down its columns: kernels and stages %i', (shape, parts) => {
    const normalised = partsOf(
      (x) => {
        const y = x as Tensor
        return y.sub(y.mean(0, { keepdims: true })).div(y.var(0, { keepdims: true }).add(1e-5).sqrt())
      },
      [shape],
    )
    expect(normalised).toHaveLength(parts)
  })

  test('few numbers are not shared out, however many columns they stand in', () => {
    for (const shape of [
      [278, 300],
      [64, 4000],
      [4000, 64],
    ])
      expect(partsOf((x) => (x as Tensor).sum([0]), [shape])).toHaveLength(1)
  })

  test('many columns are shared out in long pieces of rows, and the rows too, where these are many', () => {
    const [main, finish] = partsOf((x) => (x as Tensor).sum([0]), [[128, 30000]])
    if (main === undefined) throw new Error('no kernel')
    expect(finish).toBeDefined()
    expect(blockOf(main, 30000)).toBeGreaterThanOrEqual(4096)
    const [few, none] = partsOf((x) => (x as Tensor).sum([0]), [[40, 30000]])
    if (few === undefined) throw new Error('no kernel')
    expect(none).toBeUndefined()
    expect(blockOf(few, 30000)).toBeGreaterThanOrEqual(512)
  })
})
