/** Positions of extremes of long lines in chunks: as without, wherever ties, NaN and infinities stand. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import { chunkPositions } from '../../src/compile/longPositions.ts'
import * as c from '../../src/compose/index.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { writeElement } from '../../src/scalar/host.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { at, trace } from './support.ts'

/** A tensor of small whole numbers, so that the extremes stand in many places, with others at some. */
function filled(
  dtype: DType,
  shape: readonly number[],
  others: Readonly<Record<number, number>>,
  all?: number,
): HostArray {
  const n = sizeOf(shape)
  const x = hostArray(dtype, n)
  for (let i = 0; i < n; i++) writeElement(x, dtype, i, others[i] ?? all ?? ((i * 7919) % 13) - 6)
  return x
}

const lines = 70_001
const cases: readonly [string, DType, readonly number[], Readonly<Record<number, number>>, number?][] = [
  ['ties', 'f32', [lines], {}],
  ['one extreme, in the last chunk', 'bf16', [lines], { 69990: 7, 69991: -7 }],
  ['NaN in two chunks', 'f32', [lines], { 3000: Number.NaN, 60000: Number.NaN, 7: 9 }],
  ['infinities alone', 'f32', [lines], {}, Number.NEGATIVE_INFINITY],
  ['greatest infinities alone', 'f16', [lines], {}, Number.POSITIVE_INFINITY],
  ['integers', 'i32', [2, 65_536], { 65535: 9, 65536: -9, 131071: 9 }],
]

describe('positions in long lines', () => {
  test.each(cases)('%s', (_, dtype, shape, others, all) => {
    const axis = shape.length - 1
    const graph = trace([{ shape, dtype }], ([x]) =>
      [false, true].flatMap((last) =>
        [c.argmax, c.argmin].map((f) => f(c.mul(x ?? c.full(shape, 0, dtype), 1), axis, false, { last })),
      ),
    )
    const inputs = [filled(dtype, shape, others, all)]
    const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
    const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
    expect(interpretProgram(program, inputs, 'dtype', graph.outputs)).toEqual(want)
  })

  test('are found in chunks where lines are few and long', () => {
    const folds = (shape: readonly number[], axis: number, target = cudaTarget): number => {
      const graph = trace([{ shape }], (p) => c.argmax(at(p, 0), axis))
      return nodesOf(chunkPositions(graph, target)).filter((n) => n.op === 'reduce').length
    }
    expect(folds([lines], 0)).toBe(3)
    expect(folds([lines, 4], 0)).toBe(3)
    expect(folds([1000, 1000], 1)).toBe(1)
    expect(folds([300, lines], 1)).toBe(1)
    expect(folds([lines], 0, wasmTarget as typeof cudaTarget)).toBe(1)
  })
})
