/** Transposes of gathers by known indices: sums over runs where the index does not descend, against the scatter of the same index as data. */
import { describe, expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { makeNode, param } from '../../src/graph/build.ts'
import { knownTable } from '../../src/graph/knownIndex.ts'
import type { Node } from '../../src/graph/node.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { vjpGraph } from '../../src/transforms/index.ts'
import type { DType } from '../../src/types/dtype.ts'
import { runGraph } from '../support/runGraph.ts'
import { checkBatch, checkProgram, countOps, evaluate, graphOf } from './support.ts'

interface Case {
  readonly name: string
  readonly x: readonly number[]
  readonly axis: number
  readonly at: readonly number[]
  readonly shape?: readonly number[]
  readonly dtype?: 'i32' | 'i64' | 'u8'
  readonly is?: 'scatter'
}

const cases: readonly Case[] = [
  { name: 'runs of several lengths, gaps among them', x: [7, 3], axis: 0, at: [0, 0, 2, 2, 2, 3, 5] },
  { name: 'along an axis in the middle', x: [2, 5, 3], axis: 1, at: [0, 1, 1, 2, 3, 3, 4] },
  { name: 'each once', x: [2, 4], axis: 1, at: [0, 1, 2, 3] },
  { name: 'each at most once', x: [6, 2], axis: 0, at: [1, 2, 5] },
  { name: 'each as often', x: [3, 2], axis: 0, at: [0, 0, 1, 1, 2, 2] },
  { name: 'nothing but the last', x: [5, 2], axis: 0, at: [4, 4] },
  { name: 'of two axes', x: [2, 6, 3], axis: 1, at: [0, 1, 1, 2, 4, 4], shape: [2, 3] },
  { name: 'clamped at both ends', x: [4, 2], axis: 0, at: [-2, 0, 1, 3, 4, 9] },
  { name: 'of 64 bits', x: [4, 2], axis: 0, at: [0, 0, 3], dtype: 'i64' },
  { name: 'of few bits', x: [4, 2], axis: 0, at: [0, 0, 3], dtype: 'u8' },
  { name: 'that descends', x: [4, 2], axis: 0, at: [0, 2, 1], is: 'scatter' },
  { name: 'of a long run', x: [4, 2], axis: 0, at: new Array<number>(65).fill(1), is: 'scatter' },
  {
    name: 'of one long run among many',
    x: [100, 2],
    axis: 0,
    at: [0, ...new Array<number>(20).fill(1)],
    is: 'scatter',
  },
]

/** A literal of indices, or the same numbers made by operations that no transform looks through. */
function gathered(x: Node, { axis, at, shape = [at.length], dtype = 'i32' }: Case, isKnown: boolean): Node {
  const data =
    dtype === 'i64' ? BigInt64Array.from(at, BigInt) : dtype === 'u8' ? Uint8Array.from(at) : Int32Array.from(at)
  const literal = c.constant(data, [at.length], dtype)
  const table = dtype === 'u8' ? c.cast(literal, 'i32') : literal
  const position = c.iota([at.length], 0, table.dtype)
  const known = isKnown ? table : c.sub(c.add(table, position), position)
  const wide = [...x.shape.slice(0, axis), ...shape, ...x.shape.slice(axis + 1)]
  const index = makeNode('broadcast', [c.reshape(known, shape)], { shape: wide, dims: shape.map((_, i) => axis + i) })
  const sources = x.shape.map((_, i) => (i === axis ? { input: 0 } : { axis: i < axis ? i : i + shape.length - 1 }))
  return makeNode('gather', [x, index], { shape: wide, sources })
}

const gradient = (k: Case, isKnown: boolean, dtype: DType = 'f64') => {
  const graph = graphOf({ inputs: [{ shape: k.x, dtype }], build: (x) => gathered(x, k, isKnown) })
  return vjpGraph(graph, [0])
}

describe.each(cases.map((k) => [k.name, k] as const))('an index %s', (_, k) => {
  test('gives what a scatter gives', () => {
    const [known, unknown] = [gradient(k, true), gradient(k, false)]
    expect(countOps(unknown).get('scatter')).toBe(1)
    expect(countOps(known).get('scatter') ?? 0).toBe(k.is === 'scatter' ? 1 : 0)
    const [ct] = known.params
      .slice(1)
      .map((p) => Float64Array.from({ length: p.shape.reduce((a, b) => a * b, 1) }, (_, i) => ((i * 7) % 13) - 4))
    const x = new Float64Array(k.x.reduce((a, b) => a * b, 1))
    if (ct === undefined) throw new Error('no cotangent')
    expect(evaluate(known, [x, ct]).at(-1)).toEqual(evaluate(unknown, [x, ct]).at(-1))
  })

  test('derivatives of both orders, batches', () => {
    const program = {
      inputs: [{ shape: k.x }],
      build: (x: Node): Node => {
        const y = gathered(x, k, true)
        return c.mul(y, y)
      },
    }
    checkProgram(program, 1, 2)
    checkBatch(program, [1], 2)
  })

  test('compiled', () => {
    for (const dtype of ['f32', 'bf16'] as const) runGraph(gradient(k, true, dtype), 5, wasmTarget)
  })
})

test('what an index is made of', () => {
  const table = c.constant(Int32Array.of(3, 1, 2), [3], 'i32')
  const wide = makeNode('broadcast', [table], { shape: [2, 3, 1, 4], dims: [1] })
  expect(knownTable(wide)?.shape).toEqual([1, 3, 1, 1])
  expect(knownTable(c.reshape(wide, [1, 2, 3, 4]))?.shape).toEqual([1, 1, 3, 1])
  expect(knownTable(c.reshape(wide, [6, 4]))).toBeUndefined()
  expect(knownTable(c.reshape(c.cast(table, 'i64'), [3, 1]))?.shape).toEqual([3, 1])
  expect(knownTable(c.cast(c.constant(Int32Array.of(-1), [1], 'i32'), 'u8'))).toBeUndefined()
  expect(knownTable(param(0, [3], 'i32'))).toBeUndefined()
  expect(knownTable(c.add(table, 1))).toBeUndefined()
})
