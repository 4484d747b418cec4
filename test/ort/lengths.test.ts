/** `sinter/ort`: from the second set of extents on, one program serves a range of them. */
import { expect, test } from 'vitest'
import { memory, setDevice } from '../../src/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { InferenceSession, Tensor } from '../../src/ort.ts'
import { encodeModel, type ModelSpec } from '../onnx/encode.ts'

// Sessions run on this device, whose memory is looked at.
setDevice('wasm', { threads: 1 })

const { FLOAT } = tensorType

const numbers = (seed: number, dims: readonly number[]): Tensor => {
  let s = seed
  const next = (): number => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return s / 2 ** 32 - 0.5
  }
  return new Tensor('float32', Float32Array.from({ length: dims.reduce((n, d) => n * d, 1) }, next), dims)
}

/** One head of attention with a cache: the keys so far, and those of new tokens behind them. */
const cached: ModelSpec = {
  nodes: [
    { op: 'Concat', in: ['past', 'x'], out: ['present'], attrs: { axis: { int: 1 } } },
    { op: 'Transpose', in: ['present'], out: ['turned'], attrs: { perm: { ints: [0, 2, 1] } } },
    { op: 'MatMul', in: ['x', 'turned'], out: ['scores'] },
    { op: 'Softmax', in: ['scores'], out: ['shares'], attrs: { axis: { int: -1 } } },
    { op: 'MatMul', in: ['shares', 'present'], out: ['read'] },
    { op: 'MatMul', in: ['read', 'w'], out: ['y'] },
  ],
  inputs: [
    { name: 'x', type: FLOAT, dims: ['batch', 'new', 8] },
    { name: 'past', type: FLOAT, dims: ['batch', 'past', 8] },
  ],
  outputs: [
    { name: 'y', type: FLOAT, dims: ['batch', 'new', 4] },
    { name: 'present', type: FLOAT, dims: ['batch', 'total', 8] },
  ],
  initializers: [{ name: 'w', type: FLOAT, dims: [8, 4], floats: Array.from({ length: 32 }, (_, i) => i / 32) }],
  opset: 17,
}

const softmaxed = (row: readonly number[]): number[] => {
  const e = row.map((v) => Math.exp(v - Math.max(...row)))
  return e.map((v) => v / e.reduce((a, b) => a + b, 0))
}

/** What the model gives for one new token, in doubles. */
function expected(x: readonly number[], present: readonly number[]): number[] {
  const rows = Array.from({ length: present.length / 8 }, (_, i) => present.slice(8 * i, 8 * i + 8))
  const shares = softmaxed(rows.map((r) => r.reduce((n, v, d) => n + v * (x[d] ?? 0), 0)))
  const read = Array.from({ length: 8 }, (_, d) => rows.reduce((n, r, i) => n + (r[d] ?? 0) * (shares[i] ?? 0), 0))
  return Array.from({ length: 4 }, (_, j) => read.reduce((n, v, d) => n + (v * (4 * d + j)) / 32, 0))
}

test('a decoder with a cache takes 200 tokens in a few programs, its memory flat', async () => {
  const session = await InferenceSession.create(encodeModel(cached))
  let past = numbers(1, [1, 12, 8])
  const before = memory().programs
  for (let token = 0; token < 200; token++) {
    const x = numbers(token, [1, 1, 8])
    const { y, present } = await session.run({ x, past })
    if (y === undefined || present === undefined) expect.fail('no results')
    expect(present.dims).toEqual([1, 13 + token, 8])
    const want = expected([...(x.data as Float32Array)], [...(present.data as Float32Array)])
    want.forEach((v, i) => {
      expect((y.data as Float32Array)[i]).toBeCloseTo(v, 5)
    })
    past = present as Tensor
    // The program of the first call, which goes when there were sixteen others, and those of parts of the range to 256.
    expect(memory().programs - before, `at token ${token}`).toBeLessThanOrEqual(5)
    expect(memory().arenaBytes, `at token ${token}`).toBeLessThan(4096)
  }
  await session.release()
})
