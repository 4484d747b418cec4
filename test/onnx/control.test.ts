/** If, Loop and Scan with conditions and trip counts of run time: control flow of the program, against plain loops. */
import { afterAll, describe, expect, it } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import type { Graph } from '../../src/graph/node.ts'
import { topologicalOrder } from '../../src/graph/traverse.ts'
import type { ImportedModel } from '../../src/onnx/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { HostArray } from '../../src/types/host.ts'
import { check } from '../compile/support.ts'
import { load } from './models.ts'

const { FLOAT, INT64, BOOL } = tensorType
const backend = createWasmBackend({ threads: 1 })
afterAll(() => backend.dispose())

const regions = (g: Graph): string[] =>
  topologicalOrder(g.outputs).flatMap((n) => (n.op === 'cond' || n.op === 'while' || n.op === 'loop' ? [n.op] : []))

function values(model: ImportedModel, inputs: Record<string, HostArray>): number[][] {
  const given = model.inputNames.map((name) => inputs[name] ?? new Float32Array(0))
  return evaluateGraph(model.graph, given, { rounding: 'dtype' }).map((t) => Array.from(toHostArray(t), Number))
}

/** A body that doubles v, adds x from outside, and goes on below a limit; its third output shows v. */
const body = (limit: number | undefined) => ({
  graph: {
    nodes: [
      { op: 'Add', in: ['v', 'v'], out: ['vv'] },
      { op: 'Add', in: ['vv', 'x'], out: ['w'] },
      { op: 'Identity', in: ['w'], out: ['seen'] },
      ...(limit === undefined
        ? [{ op: 'Identity', in: ['go'], out: ['again'] }]
        : [
            { op: 'ReduceMax', in: ['w'], out: ['m'], attrs: { keepdims: { int: 0 } } },
            { op: 'Less', in: ['m', 'limit'], out: ['again'] },
          ]),
    ],
    inputs: [
      { name: 'i', type: INT64, dims: [] },
      { name: 'go', type: BOOL, dims: [] },
      { name: 'v', type: FLOAT, dims: [2] },
    ],
    outputs: [
      { name: 'again', type: BOOL, dims: [] },
      { name: 'w', type: FLOAT, dims: [2] },
      { name: 'seen', type: FLOAT, dims: [2] },
    ],
    ...(limit === undefined ? {} : { initializers: [{ name: 'limit', type: FLOAT, dims: [], floats: [limit] }] }),
  },
})

const x = { name: 'x', type: FLOAT, dims: [2] }

describe('Loop', () => {
  it('runs a number of steps that an input says', () => {
    const model = load({
      nodes: [{ op: 'Loop', in: ['n', '', 'x'], out: ['last'], attrs: { body: body(undefined) } }],
      inputs: [x, { name: 'n', type: INT64, dims: [] }],
      outputs: [{ name: 'last', type: FLOAT, dims: [2] }],
    })
    expect(model.specialised).toEqual([])
    expect(regions(model.graph)).toEqual(['while'])
    for (const n of [0, 1, 4]) {
      let v = [1, -2]
      for (let i = 0; i < n; i++) v = [2 * (v[0] ?? 0) + 1, 2 * (v[1] ?? 0) - 2]
      expect(values(model, { x: Float32Array.of(1, -2), n: BigInt64Array.of(BigInt(n)) })).toEqual([v])
    }
    check(model.graph, {}, backend)
  })
  it('stops at a condition of its values', () => {
    const model = load({
      nodes: [{ op: 'Loop', in: ['', 'c', 'x'], out: ['last'], attrs: { body: body(100) } }],
      inputs: [x, { name: 'c', type: BOOL, dims: [] }],
      outputs: [{ name: 'last', type: FLOAT, dims: [2] }],
    })
    expect(regions(model.graph)).toEqual(['while'])
    expect(values(model, { x: Float32Array.of(1, 2), c: Uint8Array.of(1) })).toEqual([[63, 126]])
    expect(values(model, { x: Float32Array.of(1, 2), c: Uint8Array.of(0) })).toEqual([[1, 2]])
  })
  it('is one loop of many known steps, with its elements stacked', () => {
    const model = load({
      nodes: [{ op: 'Loop', in: ['n', '', 'x'], out: ['last', 'all'], attrs: { body: body(undefined) } }],
      inputs: [x],
      outputs: [
        { name: 'last', type: FLOAT, dims: [2] },
        { name: 'all', type: FLOAT, dims: [20, 2] },
      ],
      initializers: [{ name: 'n', type: INT64, dims: [], int64s: [20] }],
    })
    expect(regions(model.graph)).toEqual(['loop'])
    const all: number[] = []
    let v = [1, -1]
    for (let i = 0; i < 20; i++) {
      v = [2 * (v[0] ?? 0) + 1, 2 * (v[1] ?? 0) - 1]
      all.push(...v)
    }
    expect(values(model, { x: Float32Array.of(1, -1) })).toEqual([v, all])
    check(model.graph, {}, backend)
  })
})

describe('Scan', () => {
  it.each([
    [0, 0, 0, 0],
    [1, 0, 1, 1],
    [0, 1, 1, 0],
    [1, 1, 0, 1],
  ])('is one loop: input axis %i, direction %i, output axis %i, direction %i', (inAxis, inWay, outAxis, outWay) => {
    const steps = 11
    const dims = inAxis === 0 ? [steps, 2] : [2, steps]
    const model = load({
      nodes: [
        {
          op: 'Scan',
          in: ['h', 'xs'],
          out: ['last', 'ys'],
          attrs: {
            num_scan_inputs: { int: 1 },
            scan_input_axes: { ints: [inAxis] },
            scan_input_directions: { ints: [inWay] },
            scan_output_axes: { ints: [outAxis] },
            scan_output_directions: { ints: [outWay] },
            body: {
              graph: {
                nodes: [
                  { op: 'Mul', in: ['c', 'half'], out: ['ch'] },
                  { op: 'Add', in: ['ch', 'e'], out: ['next'] },
                  { op: 'Neg', in: ['next'], out: ['y'] },
                ],
                inputs: [
                  { name: 'c', type: FLOAT, dims: [2] },
                  { name: 'e', type: FLOAT, dims: [2] },
                ],
                outputs: [
                  { name: 'next', type: FLOAT, dims: [2] },
                  { name: 'y', type: FLOAT, dims: [2] },
                ],
              },
            },
          },
        },
      ],
      inputs: [
        { name: 'h', type: FLOAT, dims: [2] },
        { name: 'xs', type: FLOAT, dims },
      ],
      outputs: [
        { name: 'last', type: FLOAT, dims: [2] },
        { name: 'ys', type: FLOAT, dims: outAxis === 0 ? [steps, 2] : [2, steps] },
      ],
      initializers: [{ name: 'half', type: FLOAT, dims: [], floats: [0.5] }],
    })
    expect(regions(model.graph)).toEqual(['loop'])
    const xs = Float32Array.from({ length: 2 * steps }, (_, i) => (i % 7) - 3)
    const get = (t: number, k: number): number => xs[inAxis === 0 ? 2 * t + k : k * steps + t] ?? Number.NaN
    let h = [1, 2]
    const ys = new Float32Array(2 * steps)
    for (let t = 0; t < steps; t++) {
      const from = inWay === 1 ? steps - 1 - t : t
      const to = outWay === 1 ? steps - 1 - t : t
      h = h.map((v, k) => Math.fround(v * 0.5 + get(from, k)))
      for (const [k, v] of h.entries()) ys[outAxis === 0 ? 2 * to + k : k * steps + to] = -v
    }
    expect(values(model, { h: Float32Array.of(1, 2), xs })).toEqual([h, Array.from(ys)])
    check(model.graph, {}, backend)
  })
})

describe('If', () => {
  const branch = (op: string) => ({
    graph: {
      nodes: [{ op, in: ['x'], out: [`${op}_out`] }],
      outputs: [{ name: `${op}_out`, type: FLOAT, dims: [2] }],
    },
  })
  it('runs the branch taken', () => {
    const model = load({
      nodes: [{ op: 'If', in: ['c'], out: ['y'], attrs: { then_branch: branch('Exp'), else_branch: branch('Abs') } }],
      inputs: [x, { name: 'c', type: BOOL, dims: [] }],
      outputs: [{ name: 'y', type: FLOAT, dims: [2] }],
    })
    expect(regions(model.graph)).toEqual(['cond'])
    const of = (c: number) => values(model, { x: Float32Array.of(0, -2), c: Uint8Array.of(c) })[0]
    expect([of(1)?.[0], of(0)]).toEqual([1, [0, 2]])
    check(model.graph, {}, backend)
  })
})
