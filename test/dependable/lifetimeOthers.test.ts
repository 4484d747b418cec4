/**
 * What else holds memory or code: imported models, program modules, functions given to transforms, and the tables in which nodes of one
 * form are found. After 60 of each (by day 15) were made, run and dropped `memory()` says what it said after a third of them, and what they were made of is
 * collected.
 *
 * Sites looked at: onnx.ts (parameters, the graph that apply writes out), api/jit/program.ts (tracing), api/transforms/derivatives.ts,
 * batching.ts and jacobians.ts (no tables), graph/build.ts (a table a context), api/tensor/lazy.ts (bounded programs, bindings that are weak),
 * graphKey.ts, ops/source.ts and ops/identity.ts (weak), api/tensor/scalars.ts (256 families of numbers), api/tensor/core.ts (pending tensors, weak),
 * plan/cost/candidateMemo.ts (one planning).
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as s from '../../src/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { importOnnx } from '../../src/onnx.ts'
import { encodeModel } from '../onnx/encode.ts'
import { nightly } from '../support/nightly.ts'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

async function collect(): Promise<void> {
  for (let i = 0; i < 4; i++) {
    gc()
    await new Promise((done) => setTimeout(done, 0))
  }
}

beforeAll(() => s.setDevice('wasm', { threads: 1 }))
afterAll(() => s.setDevice('reference'))

const { FLOAT, INT64 } = tensorType
const size = 64

/** y = (x @ w)[order], of weights of its own; the order is a literal of the graph. */
function modelBytes(i: number, order: number): Uint8Array {
  return encodeModel({
    nodes: [
      { op: 'MatMul', in: ['x', 'w'], out: ['h'] },
      { op: 'Gather', in: ['h', 'order'], out: ['y'] },
    ],
    inputs: [{ name: 'x', type: FLOAT, dims: [size, size] }],
    outputs: [{ name: 'y', type: FLOAT, dims: [] }],
    initializers: [
      {
        name: 'w',
        type: FLOAT,
        dims: [size, size],
        floats: Array.from({ length: size * size }, (_, k) => (k + i) % 7),
      },
      {
        name: 'order',
        type: INT64,
        dims: [order],
        int64s: Array.from({ length: order }, (_, k) => (k * 3 + i) % size),
      },
    ],
  })
}

const x = s.tensor(new Float32Array(size * size).fill(1), { shape: [size, size] })

/** Each makes something of its own, runs it, drops it, and gives what must be collected with it. */
const makers: Record<string, (i: number) => readonly object[]> = {
  'imported models, in jit': (i) => {
    const model = importOnnx(modelBytes(i, size))
    const f = s.jit((a: s.Tensor) => model.apply(model.parameters, { x: a }))
    f(x).y?.dataSync()
    return [model, f]
  },
  'imported models, applied at once': (i) => {
    const model = importOnnx(modelBytes(0, 8))
    model.apply(model.parameters, { x: x.add(i) }).y?.dataSync()
    return [model, ...Object.values(model.parameters)]
  },
  'program modules': (i) => {
    const w = s.tensor(new Float32Array(size * size).fill(i), { shape: [size, size] })
    const module = s.program(({ a }) => a.matmul(w).tanh(), { a: { shape: [size, size] } }, `p${i}`)
    const traced = module.trace()
    return [module, traced.graph, w]
  },
  'gradients and batches of functions, in jit': (i) => {
    const f = (a: s.Tensor): s.Tensor => a.mul(i).tanh().matmul(a).sum()
    const g = s.jit(s.grad(f))
    g(x).dataSync()
    const h = s.jit(s.vmap((row: s.Tensor) => row.mul(i).exp()))
    h(x).dataSync()
    return [f, g, h]
  },
  'gradients, batches, loops and tangents outside': (i) => {
    const f = (a: s.Tensor): s.Tensor => a.tanh().mul(a).sum()
    s.grad(f)(x.add(i)).dataSync()
    const h = (row: s.Tensor): s.Tensor => row.mul(2).exp()
    s.vmap(h)(x).dataSync()
    const body = (c: s.Tensor, row: s.Tensor): [s.Tensor, s.Tensor] => [c.add(row), c]
    s.scan(body, s.zeros([size]), x.add(i))[0].dataSync()
    s.jvp(f, [x], [x])[1].dataSync()
    return [f, h, body]
  },
}

const count = nightly ? 60 : 15

describe(`of ${count} that were dropped`, () => {
  test.each(Object.entries(makers))('%s', { timeout: 60_000 }, async (_, make) => {
    const states: object[] = []
    const made: WeakRef<object>[] = []
    for (let i = 1; i <= count; i++) {
      for (const one of make(i)) made.push(new WeakRef(one))
      if (i % (count / 3) !== 0) continue
      await collect()
      const { limit, ...state } = s.memory()
      expect(limit).toBeGreaterThan(0)
      if (i === count / 3 || i === count) states.push(state)
    }
    await collect()
    expect(states[1]).toEqual(states[0])
    // The engine may still hold what was made last.
    expect(made.slice(0, -5).filter((ref) => ref.deref() !== undefined).length).toBe(0)
  })
})
