/**
 * ONNX models as bytes (a protobuf writer for the few messages needed, field numbers from onnx.proto3), and the nodes of rows that
 * the CPU and the WebGPU benchmark have in common: inputs are in0, in1 ..., results out0 ... Contrib operators where they are the
 * fused form.
 */
import { epsilon } from './oracle.mjs'

export const microsoft = 'com.microsoft'

function varint(n) {
  const out = []
  let v = BigInt.asUintN(64, BigInt(n))
  do {
    const byte = Number(v & 127n)
    v >>= 7n
    out.push(v > 0n ? byte | 128 : byte)
  } while (v > 0n)
  return Buffer.from(out)
}
const int = (field, n) => Buffer.concat([varint(field << 3), varint(n)])
const bytes = (field, data) => Buffer.concat([varint((field << 3) | 2), varint(data.length), data])
const text = (field, s) => bytes(field, Buffer.from(s))
const message = (field, ...parts) => bytes(field, Buffer.concat(parts))
const float = (field, x) => {
  const b = Buffer.alloc(4)
  b.writeFloatLE(x)
  return Buffer.concat([varint((field << 3) | 5), b])
}

const FLOAT = 1
const INT64 = 7
const rawOf = (data) => Buffer.from(data.buffer, data.byteOffset, data.byteLength)

/** TensorProto.DataType of an array's elements. */
const types = new Map([
  [Float32Array, FLOAT],
  [Uint8Array, 2],
  [Int8Array, 3],
  [Int32Array, 6],
  [BigInt64Array, INT64],
])

/** TensorProto. */
const tensor = (field, name, shape, data) =>
  message(
    field,
    ...shape.map((d) => int(1, d)),
    int(2, types.get(data.constructor)),
    text(8, name),
    bytes(9, rawOf(data)),
  )

/** AttributeProto: integers, lists of integers, floats (a number with a fraction) and strings. */
function attribute(name, value) {
  if (typeof value === 'string') return message(5, text(1, name), text(4, value), int(20, 3))
  if (Array.isArray(value)) return message(5, text(1, name), ...value.map((v) => int(8, v)), int(20, 7))
  if (Number.isInteger(value)) return message(5, text(1, name), int(3, value), int(20, 2))
  return message(5, text(1, name), float(2, value), int(20, 1))
}

/** NodeProto: [op, inputs, outputs, attributes?, domain?]. */
const node = ([op, inputs, outputs, attributes = {}, domain = '']) =>
  message(
    1,
    ...inputs.map((n) => text(1, n)),
    ...outputs.map((n) => text(2, n)),
    text(4, op),
    ...Object.entries(attributes).map(([k, v]) => attribute(k, v)),
    ...(domain === '' ? [] : [text(7, domain)]),
  )

/** ValueInfoProto of a tensor of f32, or of i64. */
const value = (field, name, shape, dtype = 'f32') => {
  const type = dtype === 'i64' ? INT64 : FLOAT
  const dims = shape.map((d) => message(1, int(1, d)))
  return message(field, text(1, name), message(2, message(1, int(1, type), message(2, ...dims))))
}

/** A model of nodes, constants `[name, shape, data]`, and inputs and outputs `[name, shape, dtype?]`. */
export function model({ nodes, inputs, outputs, constants }) {
  const graph = [
    ...nodes.map(node),
    text(2, 'row'),
    ...constants.map(([name, shape, data]) => tensor(5, name, shape, data)),
    ...inputs.map((v) => value(11, ...v)),
    ...outputs.map((v) => value(12, ...v)),
  ]
  return Buffer.concat([
    int(1, 9),
    message(7, ...graph),
    message(8, text(1, ''), int(2, 20)),
    message(8, text(1, microsoft), int(2, 1)),
  ])
}

export const scalar = (name, x) => [name, [], new Float32Array([x])]

export const multiplyAdds = (pairs) => ({
  nodes: pairs.flatMap((_, i) => [
    ['Mul', [i === 0 ? 'in0' : `y${i - 1}`, `a${i}`], [`m${i}`]],
    ['Add', [`m${i}`, `b${i}`], [i + 1 === pairs.length ? 'out0' : `y${i}`]],
  ]),
  constants: pairs.flatMap(([a, b], i) => [scalar(`a${i}`, a), scalar(`b${i}`, b)]),
})

export const softmax = { nodes: [['Softmax', ['in0'], ['out0'], { axis: -1 }]] }

export const layernorm = {
  nodes: [['LayerNormalization', ['in0', 'in1', 'in2'], ['out0'], { axis: -1, epsilon }]],
}

export const sumexp = {
  nodes: [
    ['Exp', ['in0'], ['e']],
    ['ReduceSum', ['e'], ['out0'], { keepdims: 1 }],
  ],
}

export const rmsnorm = {
  nodes: [
    ['SkipSimplifiedLayerNormalization', ['in0', 'in1', 'in2'], ['out1', '', '', 'out0'], { epsilon }, microsoft],
  ],
}

export const matmul = { nodes: [['MatMul', ['in0', 'in1'], ['out0']]] }

export const conv = { nodes: [['Conv', ['in0', 'in1'], ['out0'], { kernel_shape: [3, 3], pads: [1, 1, 1, 1] }]] }

/** A model of a row: weights are constants with their data, the other inputs its inputs. */
export function modelOfRow({ weights }, { nodes, constants = [] }, shapes, data, outputs) {
  const named = shapes.map((shape, i) => [`in${i}`, shape])
  return model({
    nodes,
    constants: [...constants, ...weights.map((i) => [...named[i], data[i]])],
    inputs: named.filter((_, i) => !weights.includes(i)),
    outputs,
  })
}
