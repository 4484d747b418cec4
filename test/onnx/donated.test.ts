/** Models whose bytes are given away: large weights stand in them, moved to where they are aligned, and results are those of copies. */
import { expect, test } from 'vitest'
import { jit, tensor } from '../../src/index.ts'
import { decodeModel, readModel } from '../../src/onnx/index.ts'
import { tensorFromProto } from '../../src/onnx/tensors.ts'
import { importOnnx } from '../../src/onnx.ts'
import { encodeModel, type ModelSpec } from './encode.ts'

const rows = 48
const columns = 120
const floats = Float32Array.from({ length: rows * columns }, (_, i) => Math.sin(i))
const raw = (data: ArrayBufferView): Uint8Array => new Uint8Array(data.buffer, data.byteOffset, data.byteLength)

/** x @ w + b, where names are so long that weights begin at other remainders. */
const network = (more: number, batch: number | string = 3): ModelSpec => ({
  nodes: [
    { op: 'MatMul', in: ['x', 'w'], out: ['h'] },
    { op: 'Add', in: ['h', 'b'], out: ['y'] },
  ],
  inputs: [{ name: 'x', type: 1, dims: [batch, rows] }],
  outputs: [{ name: 'y', type: 1 }],
  initializers: [
    { name: 'z'.repeat(1 + more), type: 7, dims: [1], int64s: [0] },
    { name: 'w', type: 1, dims: [rows, columns], raw: raw(floats) },
    { name: 'b', type: 1, dims: [columns], raw: raw(floats.subarray(0, columns)) },
  ],
  opset: 17,
})

const weightsOf = (bytes: Uint8Array, isGiven: boolean) => {
  const { model } = readModel(bytes, isGiven)
  return model.graph.initializer.flatMap((t) =>
    t.rawData === undefined ? [] : [tensorFromProto(t, undefined, isGiven)],
  )
}

/** A copy of bytes that begins at a multiple of 64. */
const aligned = (bytes: Uint8Array): Uint8Array => Uint8Array.from(bytes)

test('weights are views of bytes that are given away, whatever they begin at, and small ones copies', () => {
  const remainders = new Set<number>()
  for (const more of [0, 1, 2, 3]) {
    const bytes = aligned(encodeModel(network(more)))
    remainders.add((decodeModel(bytes).graph.initializer.find((t) => t.name === 'w')?.rawData?.byteOffset ?? 0) % 4)
    const [w, b] = weightsOf(bytes, true)
    expect(w?.data.buffer).toBe(bytes.buffer)
    expect(b?.data.buffer).not.toBe(bytes.buffer)
    expect(w?.data).toEqual(floats)
    expect(b?.data).toEqual(floats.subarray(0, columns))
  }
  expect(remainders.size).toBe(4)
})

test('a tensor that was read before is found where it stands now', () => {
  const bytes = aligned(encodeModel(network(1)))
  const proto = decodeModel(bytes).graph.initializer.find((t) => t.name === 'w')
  if (proto === undefined) throw new Error('no weights')
  for (let i = 0; i < 3; i++) expect(tensorFromProto(proto, undefined, true).data).toEqual(floats)
})

test('bytes that the caller keeps stay as they are', () => {
  const bytes = aligned(encodeModel(network(2)))
  const before = bytes.slice()
  for (const { data } of weightsOf(bytes, false)) expect(data.buffer).not.toBe(bytes.buffer)
  expect(bytes).toEqual(before)
})

test.each([
  ['f64', 11, Float64Array.from(floats)],
  ['i64', 7, BigInt64Array.from(floats, (x) => BigInt(Math.round(1e9 * x)))],
  ['i32', 6, Int32Array.from(floats, (x) => 1e9 * x)],
  ['f16', 10, Uint16Array.from(floats, (_, i) => i)],
  ['i8', 3, Int8Array.from({ length: 4 * floats.length }, (_, i) => i)],
  ['bool', 9, Uint8Array.from({ length: 4 * floats.length }, (_, i) => i % 2)],
] as const)('%s at every remainder, as copies have it', (_, type, data) => {
  for (let more = 0; more < 8; more++) {
    const spec = network(more)
    const w = { name: 'w', type, dims: [data.length], raw: raw(data) }
    const bytes = aligned(encodeModel({ ...spec, initializers: [...(spec.initializers ?? []).slice(0, 1), w] }))
    const [kept] = weightsOf(aligned(bytes), false)
    const [given] = weightsOf(bytes, true)
    expect(given).toEqual(kept)
    expect(given?.data).toEqual(data)
  }
})

test('external data that is given away stands where it was read, if that is aligned', () => {
  const [t] = decodeModel(encodeModel(network(0))).graph.initializer.filter((x) => x.name === 'w')
  if (t === undefined) throw new Error('no weights')
  const external = { ...t, rawData: undefined, external: true, externalData: new Map([['location', 'weights']]) }
  const file = new Uint8Array(8 + floats.byteLength)
  for (const at of [0, 1, 4]) {
    file.set(raw(floats), at)
    const before = file.slice()
    const load = (): Uint8Array => file.subarray(at, at + floats.byteLength)
    const { data } = tensorFromProto(external, load, true)
    expect(data).toEqual(floats)
    expect(data.buffer === file.buffer).toBe(at % 4 === 0)
    expect(tensorFromProto(external, load).data.buffer).not.toBe(file.buffer)
    expect(file).toEqual(before)
  }
})

test('results are those of bytes that are kept, also at other lengths of one model', () => {
  const bytes = encodeModel(network(3, 'batch'))
  const outputs = (isGiven: boolean): Float32Array[] => {
    const model = importOnnx(aligned(bytes), { lengths: { batch: [1, 8] }, donated: isGiven })
    return [2, 5, 8].map((n) => {
      const x = tensor(floats.subarray(0, n * rows), { shape: [n, rows] })
      const { y } = jit(model.apply)(model.parameters, { x })
      return y?.dataSync() as Float32Array
    })
  }
  expect(outputs(true)).toEqual(outputs(false))
})
