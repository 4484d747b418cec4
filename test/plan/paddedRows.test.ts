/** Room after the rows of tensors between kernels, where products read or make them. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { readElement, writeElement } from '../../src/scalar/host.ts'
import { cudaTargetOf } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import type { HostArray } from '../../src/types/host.ts'
import { at, check, inputsOf, trace } from '../compile/support.ts'
import { hasCompiler } from '../simt/dialects/emulator/emulator.ts'
import { expectEmulated } from '../simt/matmul/emulated.ts'
import { nightly, turn } from '../support/nightly.ts'

const hopper = cudaTargetOf({ capability: 90, multiprocessors: 132, sharedBytes: 232448, hasLibrary: false })
const padding: Machine = { ...wasmTarget, rowAlignment: { bytes: 16, least: 0, room: 7, widest: 8 } }

/** Which elements of a product are large, as numbers that two other products read: sums of whole ones, and stored once. */
const between = (rows: number, depth: number, columns: number, dtype: DType = 'f32'): Graph =>
  trace(
    [
      { shape: [rows, depth], dtype },
      { shape: [columns, depth], dtype },
    ],
    (p) => {
      const [x, w] = [at(p, 0), at(p, 1)]
      const z = c.cast(c.matmul(x, c.permute(w, [1, 0])), 'f32')
      const g = c.where(c.compare('gt', z, 16), c.full([], 1, dtype), c.full([], 0, dtype))
      return [c.matmul(g, w), c.matmul(c.permute(g, [1, 0]), x)]
    },
  )

const shapesOf = (graph: Graph, target: Machine): string[] =>
  compileGraph(graph, { mode: 'fast', target, verify: true }).program.buffers.flatMap((b) =>
    b.source.kind === 'temp' ? [b.shape.join(' x ')] : [],
  )

describe('rows', () => {
  test('begin at whole multiples of what a load takes at once', () => {
    expect(shapesOf(between(301, 300, 1001, 'bf16'), hopper)).toContain('301 x 1008')
    expect(shapesOf(between(301, 300, 1001), hopper)).toContain('301 x 1004')
    expect(shapesOf(between(301, 300, 1000, 'bf16'), hopper)).toContain('301 x 1000')
    // On a machine that does not ask, and where rows are few bytes.
    expect(shapesOf(between(301, 300, 1001), wasmTarget)).toContain('301 x 1001')
    expect(shapesOf(between(8, 300, 1001, 'bf16'), hopper).join()).not.toContain('1008')
  })

  test('follow one another at once where a view counts through them and others as one, and in results', () => {
    const heads = trace([{ shape: [300, 64] }, { shape: [64, 4 * 77] }, { shape: [4 * 77, 64] }], (p): Node[] => {
      const y = c.reshape(c.matmul(at(p, 0), at(p, 1)), [300, 4, 77])
      const normal = c.sub(y, c.reduceMax(y, [-1], true))
      return [c.matmul(c.reshape(normal, [300, 4 * 77]), at(p, 2)), c.sum(normal, [1])]
    })
    expect(shapesOf(heads, padding).join()).not.toContain('80')
    const result = trace([{ shape: [300, 64] }, { shape: [64, 77] }], (p) => c.matmul(at(p, 0), at(p, 1)))
    expect(compileGraph(result, { mode: 'fast', target: padding }).program.buffers.map((b) => b.shape)).toContainEqual([
      300, 77,
    ])
  })

  test('hold what unpadded ones do, whatever else reads them', () => {
    const sizes = [
      [5, 3, 7],
      [17, 9, 33],
      [2, 1, 41],
      [33, 8, 1],
    ] as const
    for (const [i, [rows, depth, columns]] of sizes.entries())
      for (const mode of turn(['fast', 'strict'] as const, i))
        for (const fuse of [true, false]) check(between(rows, depth, columns), { target: padding, mode, fuse })
    const views = trace([{ shape: [6, 4] }, { shape: [4, 15] }, { shape: [15, 6] }], (p) => {
      const y = c.max(c.matmul(at(p, 0), at(p, 1)), 0)
      return [
        c.matmul(y, at(p, 2)),
        c.sum(c.flip(y, [1]), [0]),
        c.matmul(c.permute(y, [1, 0]), at(p, 0)),
        c.reduceMax(y, [1]),
      ]
    })
    check(views, { target: padding, fuse: false })
    check(views, { target: padding })
  })
})

describe('products of padded rows', () => {
  /** Whole numbers from -1 to 2. */
  const small = (graph: Graph): HostArray[] =>
    inputsOf(graph).map((x, i) => {
      const { dtype } = at(graph.params, i)
      for (let k = 0; k < x.length; k++) writeElement(x, dtype, k, Number(readElement(x, dtype, k)) - 3)
      return x
    })

  test.skipIf(!hasCompiler)('copy what lies before the end of rows, and zeros after it', async () => {
    for (const [graph, hasCuts] of [
      [between(301, 300, 1001, 'bf16'), true],
      [between(75, 296, 515, 'f16'), true],
      [between(301, 304, 1008, 'bf16'), false],
    ] as const) {
      const { program } = compileGraph(graph, { mode: 'fast', target: hopper, verify: true })
      const sources = program.steps.flatMap((s) =>
        s.kind === 'kernel' ? [emitKernel(s.kernel, hopper.simt).source] : [],
      )
      expect(sources.some((s) => s.includes('copy_async_cut('))).toBe(hasCuts)
      // The emulator takes the larger ones long.
      if (nightly || at(graph.params, 0).shape[0] === 75) await expectEmulated(graph, program, small(graph))
    }
  })
})
