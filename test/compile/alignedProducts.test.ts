/** Operands and results whose rows begin anywhere: copied into and out of rows of whole groups where products gain by it, and only there. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import { printKernel } from '../../src/kernel/print.ts'
import { cudaTargetOf } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, trace } from '../compile/support.ts'
import { hasCompiler } from '../simt/dialects/emulator/emulator.ts'
import { expectEmulated } from '../simt/matmul/emulated.ts'
import { nightly } from '../support/nightly.ts'

const hopper = cudaTargetOf({ capability: 90, multiprocessors: 132, sharedBytes: 232448, hasLibrary: false })

const withLibrary = cudaTargetOf({ capability: 90, multiprocessors: 132, sharedBytes: 232448, hasLibrary: true })

const product = (m: number, k: number, n: number, dtype: DType = 'bf16'): Graph =>
  trace(
    [
      { shape: [m, k], dtype },
      { shape: [k, n], dtype },
    ],
    (p) => c.matmul(at(p, 0), at(p, 1)),
  )

/** Shapes of what stands between kernels. */
const between = (graph: Graph, mode: 'fast' | 'strict' = 'fast', target = hopper): string[] =>
  compileGraph(graph, { mode, target, verify: true }).program.buffers.flatMap((b) =>
    b.source.kind === 'temp' ? [b.shape.join(' x ')] : [],
  )

describe('operands of products', () => {
  test('are copied where rows begin anywhere', () => {
    expect(between(product(4096, 4095, 4096))).toEqual(['4096 x 4096'])
    expect(between(product(4096, 4096, 4095))).toEqual(['4096 x 4096'])
    expect(between(product(4096, 1003, 2047))).toEqual(['4096 x 1008', '1003 x 2048'])
    expect(between(product(4095, 4096, 4096))).toEqual([])
  })

  test('are copied in f32 too, read as they are in strict mode, and by a few rows', () => {
    expect(between(product(4096, 4095, 4096, 'f32'))).toEqual(['4096 x 4096'])
    expect(between(product(4096, 4095, 4096), 'strict')).toEqual([])
    expect(between(product(1, 4095, 4095))).not.toContain('4095 x 4096')
  })

  test('that are not worth a copy are read as if nothing had been asked', () => {
    const { rowAlignment: _, ...plain } = hopper
    const kernels = (target: Machine): string[] =>
      compileGraph(product(64, 1001, 1003, 'f32'), { mode: 'fast', target }).program.steps.map((s) =>
        s.kind === 'kernel' ? printKernel(s.kernel) : s.kind,
      )
    expect(kernels(hopper)).toEqual(kernels(plain))
  })

  test('are one copy for all products that read them', () => {
    const graph = trace(
      [
        { shape: [2048, 1003], dtype: 'bf16' },
        { shape: [1003, 2048], dtype: 'bf16' },
        { shape: [1003, 1024], dtype: 'bf16' },
      ],
      (p) => [c.matmul(at(p, 0), at(p, 1)), c.matmul(at(p, 0), at(p, 2))],
    )
    expect(between(graph).filter((s) => s === '2048 x 1008')).toHaveLength(1)
  })

  test.skipIf(!hasCompiler)('give the same', async () => {
    const graph = product(300, 515, 1001)
    const { program } = compileGraph(graph, { mode: 'fast', target: hopper, verify: true })
    expect(program.buffers.filter((b) => b.source.kind === 'temp').map((b) => b.shape)).toContainEqual([515, 1008])
    // By day test/cuda/libraryParts.test.ts runs products over padded rows: this one takes the host seconds.
    if (nightly) await expectEmulated(graph, program)
  })
})

describe('results of products', () => {
  const own = (graph: Graph, mode: 'fast' | 'strict' = 'fast'): string[] => between(graph, mode, withLibrary)

  test('are copied out of padded rows where a library gains by whole lines', () => {
    expect(own(product(4096, 4096, 4095))).toEqual(['4096 x 4096', '4096 x 4096'])
    expect(own(product(4095, 4096, 4096))).toEqual([])
    // Our kernels do not mind.
    expect(between(product(4096, 4096, 4095))).toEqual(['4096 x 4096'])
  })

  test('stand as they are in strict mode, of a few rows, and where something else reads them', () => {
    expect(own(product(4096, 4096, 4095), 'strict')).toEqual([])
    expect(own(product(1, 4096, 4095))).not.toContain('1 x 4096')
    const inputs = [
      { shape: [4096, 4096], dtype: 'bf16' },
      { shape: [4095, 4096], dtype: 'bf16' },
    ] as const
    const one = trace(inputs, (p) => c.matmul(at(p, 0), c.permute(at(p, 1), [1, 0])))
    expect(own(one)).toEqual(['4096 x 4096'])
    const read = trace(inputs, (p) => {
      const y = c.matmul(at(p, 0), c.permute(at(p, 1), [1, 0]))
      return [y, c.sum(c.cast(y, 'f32'), [1])]
    })
    expect(own(read)).not.toContain('4096 x 4096')
  })

  test('are copied through views of them', () => {
    const graph = trace(
      [
        { shape: [4096, 4096], dtype: 'bf16' },
        { shape: [4095, 4096], dtype: 'bf16' },
      ],
      (p) => c.reshape(c.matmul(at(p, 0), c.permute(at(p, 1), [1, 0])), [2, 2048, 4095]),
    )
    expect(own(graph)).toEqual(['4096 x 4096'])
  })
})

describe('memory', () => {
  test.each([
    ['operands', product(4096, 4095, 4096)],
    ['results', product(4096, 4096, 4095)],
  ])('a budget that copies of %s exceed is met without them', (_, graph) => {
    const options = { mode: 'fast', target: withLibrary, verify: true } as const
    const arena = (memory?: number): number =>
      compileGraph(graph, { ...options, ...(memory === undefined ? {} : { budgets: { memory } }) }).program.arenaBytes
    expect(arena()).toBeGreaterThan(2 ** 25)
    expect(arena(2 ** 20)).toBeLessThanOrEqual(2 ** 20)
  })
})

describe('calls over the room after rows', () => {
  const callsOf = (graph: Graph) =>
    compileGraph(graph, { mode: 'fast', target: withLibrary, verify: true }).program.steps.flatMap((s) =>
      s.kind === 'product' ? [[s.product.m, s.product.k, s.product.n]] : [],
    )

  test('are whole where operand and result have the room along one axis', () => {
    expect(callsOf(product(4096, 4096, 4095))).toEqual([[4096, 4096, 4096]])
    // The depth is none of a result's axes.
    expect(callsOf(product(4096, 4095, 4096))).not.toEqual([[4096, 4096, 4096]])
    expect(callsOf(product(4096, 4096, 4096))).toEqual([[4096, 4096, 4096]])
  })
})
