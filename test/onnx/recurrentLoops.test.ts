/** Recurrent layers of more steps than are written out: loops of the program, against the definitions in plain loops (onnx.ai/onnx/operators: RNN, GRU, LSTM). */
import { afterAll, describe, expect, it } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { topologicalOrder } from '../../src/graph/traverse.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { check } from '../compile/support.ts'
import { load } from './models.ts'

const { FLOAT, INT32 } = tensorType
const backend = createWasmBackend({ threads: 1 })
afterAll(() => backend.dispose())

type Op = 'RNN' | 'GRU' | 'LSTM'
const gatesOf = { RNN: 1, GRU: 3, LSTM: 4 } as const
const [batch, features, hidden] = [3, 4, 5]

const numbers = (n: number, seed: number): Float32Array => {
  let s = seed
  return Float32Array.from({ length: n }, () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return s / 2 ** 31 - 1
  })
}

const sigmoid = (v: number): number => 1 / (1 + Math.exp(-v))

interface Operands {
  readonly x: Float32Array
  readonly w: Float32Array
  readonly r: Float32Array
  readonly b: Float32Array
  readonly lengths: Int32Array
}

/** Y [steps, directions, batch, hidden] of a layer. */
function expected(op: Op, steps: number, directions: readonly ('forward' | 'reverse')[], o: Operands): number[] {
  const gates = gatesOf[op]
  const y = new Array<number>(steps * directions.length * batch * hidden).fill(0)
  directions.forEach((direction, d) => {
    for (let i = 0; i < batch; i++) {
      let h = new Array<number>(hidden).fill(0)
      let cell = new Array<number>(hidden).fill(0)
      for (let s = 0; s < steps; s++) {
        const t = direction === 'forward' ? s : steps - 1 - s
        if (t >= (o.lengths[i] ?? 0)) continue
        const input = (row: number): number => {
          let sum = o.b[d * 2 * gates * hidden + row] ?? 0
          for (let f = 0; f < features; f++)
            sum += (o.x[(t * batch + i) * features + f] ?? 0) * (o.w[(d * gates * hidden + row) * features + f] ?? 0)
          return sum
        }
        const recurrent = (row: number, of: readonly number[]): number => {
          let sum = o.b[(d * 2 + 1) * gates * hidden + row] ?? 0
          of.forEach((v, k) => {
            sum += v * (o.r[(d * gates * hidden + row) * hidden + k] ?? 0)
          })
          return sum
        }
        const before = h
        const both = (g: number, k: number): number => input(g * hidden + k) + recurrent(g * hidden + k, before)
        if (op === 'RNN') h = before.map((_, k) => Math.tanh(both(0, k)))
        else if (op === 'GRU') {
          const reset = before.map((v, k) => v * sigmoid(both(1, k)))
          h = before.map((v, k) => {
            const z = sigmoid(both(0, k))
            return (1 - z) * Math.tanh(input(2 * hidden + k) + recurrent(2 * hidden + k, reset)) + z * v
          })
        } else {
          cell = cell.map((v, k) => sigmoid(both(2, k)) * v + sigmoid(both(0, k)) * Math.tanh(both(3, k)))
          h = cell.map((v, k) => sigmoid(both(1, k)) * Math.tanh(v))
        }
        h.forEach((v, k) => {
          y[((t * directions.length + d) * batch + i) * hidden + k] = v
        })
      }
    }
  })
  return y
}

describe.each(['RNN', 'GRU', 'LSTM'] as const)('%s', (op) => {
  it.each([
    ['forward', 9],
    ['reverse', 20],
    ['bidirectional', 13],
    ['forward', 8],
  ] as const)('%s, %i steps', (direction, steps) => {
    const directions = direction === 'bidirectional' ? (['forward', 'reverse'] as const) : ([direction] as const)
    const g = gatesOf[op] * hidden
    const n = directions.length
    const dims = { X: [steps, batch, features], W: [n, g, features], R: [n, g, hidden], B: [n, 2 * g], L: [batch] }
    const model = load({
      nodes: [{ op, in: ['X', 'W', 'R', 'B', 'L'], out: ['Y'], attrs: { direction: { string: direction } } }],
      inputs: Object.entries(dims).map(([name, d]) => ({ name, type: name === 'L' ? INT32 : FLOAT, dims: d })),
      outputs: [{ name: 'Y', type: FLOAT, dims: [] }],
    })
    const loops = topologicalOrder(model.graph.outputs).filter((x) => x.op === 'loop').length
    expect(loops).toBe(steps > 8 ? n : 0)
    const size = (d: readonly number[]): number => d.reduce((p, q) => p * q, 1)
    const o: Operands = {
      x: numbers(size(dims.X), 1),
      w: numbers(size(dims.W), 2),
      r: numbers(size(dims.R), 3),
      b: numbers(size(dims.B), 4),
      lengths: Int32Array.from([steps, 5, 0]),
    }
    const [y] = evaluateGraph(model.graph, [o.x, o.w, o.r, o.b, o.lengths], { rounding: 'dtype' })
    const want = expected(op, steps, directions, o)
    const got = y === undefined ? [] : Array.from(toHostArray(y), Number)
    expect(got.length).toBe(want.length)
    want.forEach((v, k) => {
      expect(got[k]).toBeCloseTo(v, 5)
    })
    check(model.graph, {}, backend)
  })
})
