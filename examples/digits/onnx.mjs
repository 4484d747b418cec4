/** Writes the digit reader as an ONNX model (operator set 17), in the operations an exporter would use. */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { side } from './draw.mjs'
import { config } from './network.mjs'

const utf8 = new TextEncoder()

/** A message of [field number, value] pairs: strings, bytes, nested messages, integers (bigint), floats as { float }. */
function message(fields) {
  const w = new BinaryWriter()
  for (const [field, value] of fields) {
    if (typeof value === 'bigint') w.tag(field, WireType.Varint).int64(value)
    else if (typeof value === 'string') w.tag(field, WireType.LengthDelimited).bytes(utf8.encode(value))
    else if (value instanceof Uint8Array) w.tag(field, WireType.LengthDelimited).bytes(value)
    else w.tag(field, WireType.Bit32).float(value.float)
  }
  return w.finish()
}

const FLOAT = 1n
const INT64 = 7n

const attribute = (name, value) => {
  if (Array.isArray(value)) return message([[1, name], ...value.map((v) => [8, BigInt(v)]), [20, 7n]])
  if (typeof value === 'bigint')
    return message([
      [1, name],
      [3, value],
      [20, 2n],
    ])
  return message([
    [1, name],
    [2, { float: value }],
    [20, 1n],
  ])
}

const tensor = (name, dims, type, data) =>
  message([
    ...dims.map((d) => [1, BigInt(d)]),
    [2, type],
    [8, name],
    [9, new Uint8Array(data.buffer, data.byteOffset, data.byteLength)],
  ])

const valueInfo = (name, dims, type) => {
  const shape = message(dims.map((d) => [1, message([[1, BigInt(d)]])]))
  return message([
    [1, name],
    [
      2,
      message([
        [
          1,
          message([
            [1, type],
            [2, shape],
          ]),
        ],
      ]),
    ],
  ])
}

class Builder {
  nodes = []
  initialisers = []
  #count = 0

  constant(name, dims, type, data) {
    this.initialisers.push(tensor(name, dims, type, data))
    return name
  }
  integers(values) {
    return this.constant(`shape.${this.#count++}`, [values.length], INT64, BigInt64Array.from(values, BigInt))
  }
  number(value) {
    return this.constant(`number.${this.#count++}`, [], FLOAT, Float32Array.of(value))
  }
  /** Adds a node; gives its output's name, or names. */
  op(type, inputs, { attributes = {}, outputs = 1, name } = {}) {
    const node = `${type}_${this.#count++}`
    const out = name === undefined ? Array.from({ length: outputs }, (_, i) => `${node}.${i}`) : [name]
    this.nodes.push(
      message([
        ...inputs.map((x) => [1, x]),
        ...out.map((x) => [2, x]),
        [3, node],
        [4, type],
        ...Object.entries(attributes).map(([k, v]) => [5, attribute(k, v)]),
      ]),
    )
    return outputs === 1 ? out[0] : out
  }
}

/** The model's bytes for batches of `batch` images: probabilities [batch, 10] and the digit of each image. */
export function writeModel(parameters, batch) {
  const { patch, tokens, width, heads, layers, classes, epsilon } = config
  const across = side / patch
  const g = new Builder()
  for (const [name, m] of Object.entries(parameters))
    g.constant(name, name.endsWith('weight') || name === 'position' ? [m.rows, m.cols] : [m.cols], FLOAT, m.data)
  const dense = (x, name) => g.op('Add', [g.op('MatMul', [x, `${name}.weight`]), `${name}.bias`])
  const norm = (x, name) =>
    g.op('LayerNormalization', [x, `${name}.scale`, `${name}.bias`], { attributes: { axis: -1n, epsilon } })
  const reshape = (x, dims) => g.op('Reshape', [x, g.integers(dims)])
  const transpose = (x, perm) => g.op('Transpose', [x], { attributes: { perm } })

  const cut = transpose(reshape('image', [batch, across, patch, across, patch]), [0, 1, 3, 2, 4])
  let x = g.op('Add', [dense(reshape(cut, [batch, tokens, patch * patch]), 'patch'), 'position'])
  for (let l = 0; l < layers; l++) {
    const qkv = reshape(dense(norm(x, `layer${l}.norm1`), `layer${l}.qkv`), [batch, tokens, 3, heads, width / heads])
    const [q, k, v] = g
      .op('Split', [transpose(qkv, [2, 0, 3, 1, 4])], { attributes: { axis: 0n }, outputs: 3 })
      .map((part) => g.op('Squeeze', [part, g.integers([0])]))
    const scores = g.op('MatMul', [q, transpose(k, [0, 1, 3, 2])])
    const scaled = g.op('Mul', [scores, g.number(1 / Math.sqrt(width / heads))])
    const mixed = g.op('MatMul', [g.op('Softmax', [scaled], { attributes: { axis: -1n } }), v])
    const joined = reshape(transpose(mixed, [0, 2, 1, 3]), [batch, tokens, width])
    x = g.op('Add', [dense(joined, `layer${l}.out`), x])
    const up = dense(norm(x, `layer${l}.norm2`), `layer${l}.up`)
    const erf = g.op('Erf', [g.op('Div', [up, g.number(Math.SQRT2)])])
    const gelu = g.op('Mul', [g.op('Mul', [up, g.op('Add', [erf, g.number(1)])]), g.number(0.5)])
    x = g.op('Add', [dense(gelu, `layer${l}.down`), x])
  }
  const pooled = g.op('ReduceMean', [norm(x, 'norm')], { attributes: { axes: [1], keepdims: 0n } })
  const logits = dense(pooled, 'head')
  g.op('Softmax', [logits], { attributes: { axis: -1n }, name: 'probabilities' })
  g.op('ArgMax', [logits], { attributes: { axis: 1n, keepdims: 0n }, name: 'digit' })

  const graph = message([
    ...g.nodes.map((n) => [1, n]),
    [2, 'digits'],
    ...g.initialisers.map((t) => [5, t]),
    [11, valueInfo('image', [batch, 1, side, side], FLOAT)],
    [12, valueInfo('probabilities', [batch, classes], FLOAT)],
    [12, valueInfo('digit', [batch], INT64)],
  ])
  return message([
    [1, 8n],
    [2, 'sinter examples/digits'],
    [7, graph],
    [
      8,
      message([
        [1, ''],
        [2, 17n],
      ]),
    ],
  ])
}
