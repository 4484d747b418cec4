/** Results over donated inputs: taken over where that is safe, and right on the interpreter and in WebAssembly. */
import { afterAll, describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { at, check, type Input, trace } from './support.ts'

const backend = createWasmBackend({ threads: 1 })
afterAll(() => backend.dispose())

/** Small blocks: many programs a kernel. */
const blocks: Machine = { ...wasmTarget, elementBlock: 24, dotBlock: { m: 8, n: 16, k: 5 }, minPrograms: 6 }

/** For each output the donated input it stands on, or `undefined`. */
function hosts(inputs: readonly Input[], build: (p: readonly Node[]) => Node | Node[], donate: readonly number[]) {
  const graph = trace(inputs, build)
  const donated = inputs.map((_, i) => donate.includes(i))
  const [small, large] = [blocks, wasmTarget].map((target) => {
    const { program } = check(graph, { donated, target }, backend)
    return program.outputs.map((o) => {
      const i = program.inputs.indexOf(o)
      return i < 0 ? undefined : i
    })
  })
  expect(small).toEqual(large)
  return large
}

const x: Input = { shape: [37, 29] }
const square: Input = { shape: [30, 30] }

describe('taken over', () => {
  test('elementwise', () => {
    expect(hosts([x], (p) => c.tanh(at(p, 0)), [0])).toEqual([0])
  })
  test('an input that is not donated is kept', () => {
    expect(hosts([x], (p) => c.tanh(at(p, 0)), [])).toEqual([undefined])
  })
  test('an optimiser step: parameters and moments', () => {
    const step = (p: readonly Node[]): Node[] => {
      const m = c.add(c.mul(at(p, 1), 0.9), c.mul(at(p, 3), 0.1))
      const v = c.add(c.mul(at(p, 2), 0.99), c.mul(c.mul(at(p, 3), at(p, 3)), 0.01))
      return [c.sub(at(p, 0), c.div(m, c.add(c.sqrt(c.unary('abs', v)), 1e-3))), m, v]
    }
    const taken = hosts([x, x, x, x], step, [0, 1, 2])
    expect(taken?.sort()).toEqual([0, 1, 2])
  })
  test('two results of one kernel, each over the input that the other reads', () => {
    const inputs = [x, x, x]
    const scaled = (p: readonly Node[], a: number): Node => c.mul(c.tanh(at(p, a)), at(p, 2))
    expect(hosts(inputs, (p) => [scaled(p, 1), scaled(p, 0)], [0, 1])?.sort()).toEqual([0, 1])
    expect(hosts(inputs, (p) => [scaled(p, 1), scaled(p, 0)], [0])?.filter((h) => h === 0)).toEqual([0])
  })
  test('a result over an input that a transposed result of the same kernel reads', () => {
    const build = (p: readonly Node[]): Node[] => [c.exp(at(p, 1)), c.permute(c.mul(c.tanh(at(p, 0)), at(p, 1)))]
    hosts([square, square], build, [0])
    hosts([x, x], build, [0])
  })
  test('softmax over its rows', () => {
    expect(hosts([x], (p) => c.softmax(at(p, 0), -1), [0])).toEqual([0])
    expect(hosts([x], (p) => c.softmax(at(p, 0), 0), [0])).toEqual([0])
  })
  test('scans', () => {
    for (const reverse of [false, true])
      for (const exclusive of [false, true])
        expect(hosts([x], (p) => c.add(at(p, 0), c.cumsum(at(p, 0), 1, { reverse, exclusive })), [0])).toEqual([0])
  })
  test('the residual of a matrix product', () => {
    const inputs = [{ shape: [37, 20] }, { shape: [20, 29] }, x]
    expect(hosts(inputs, (p) => c.add(c.matmul(at(p, 0), at(p, 1)), at(p, 2)), [2])).toEqual([2])
  })
  test('a reshaped result', () => {
    expect(hosts([x], (p) => c.reshape(c.exp(at(p, 0)), [29 * 37]), [0])).toEqual([0])
  })
  test('an input that is a result too, by that result', () => {
    expect(hosts([x], (p) => [c.exp(at(p, 0)), at(p, 0)], [0])).toEqual([undefined, 0])
  })
  test('another dtype of the same size', () => {
    expect(hosts([{ shape: [50], dtype: 'i32' }], (p) => c.cast(at(p, 0), 'f32'), [0])).toEqual([0])
  })
})

describe('not taken over', () => {
  test('a permuted read', () => {
    expect(hosts([square], (p) => c.add(c.permute(at(p, 0)), 1), [0])).toEqual([undefined])
    expect(hosts([square], (p) => c.add(c.permute(at(p, 0)), at(p, 0)), [0])).toEqual([undefined])
  })
  test('a reversed read', () => {
    expect(hosts([x], (p) => c.exp(c.flip(at(p, 0), 0)), [0])).toEqual([undefined])
  })
  test('a shifted read', () => {
    expect(hosts([x], (p) => c.add(c.roll(at(p, 0), 1, 0), at(p, 0)), [0])).toEqual([undefined])
  })
  test('an operand of a matrix product', () => {
    expect(hosts([square, square], (p) => c.matmul(at(p, 0), at(p, 1)), [0, 1])).toEqual([undefined])
    expect(hosts([square], (p) => c.add(c.matmul(at(p, 0), at(p, 0)), at(p, 0)), [0])).toEqual([undefined])
  })
  test('a gathered read', () => {
    const inputs: Input[] = [{ shape: [40] }, { shape: [40], dtype: 'i32' }]
    expect(hosts(inputs, (p) => c.take(at(p, 0), at(p, 1)), [0])).toEqual([undefined])
  })
  test('another size', () => {
    expect(hosts([{ shape: [8] }], (p) => c.cast(at(p, 0), 'bool'), [0])).toEqual([undefined])
  })
  test('an input that a later kernel reads', () => {
    const r = hosts(
      [square, square],
      (p) => c.matmul(c.softmax(c.matmul(c.exp(at(p, 0)), at(p, 1)), -1), at(p, 0)),
      [0],
    )
    expect(r).toEqual([undefined])
  })
})
