/** ONNX models of the rows, as bytes: a protobuf writer for the few messages needed (field numbers from onnx.proto3). */
import { chainConstants, compileProgram, compileSide, epsilon } from './rows.mjs'

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

/** TensorProto. */
const tensor = (field, name, shape, data) =>
  message(
    field,
    ...shape.map((d) => int(1, d)),
    int(2, data instanceof BigInt64Array ? INT64 : FLOAT),
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

/** ValueInfoProto of an f32 tensor. */
const value = (field, name, shape) =>
  message(
    field,
    text(1, name),
    message(2, message(1, int(1, FLOAT), message(2, ...shape.map((d) => message(1, int(1, d)))))),
  )

export function model({ nodes, inputs, outputs, constants }) {
  const graph = [
    ...nodes.map(node),
    text(2, 'row'),
    ...constants.map(([name, shape, data]) => tensor(5, name, shape, data)),
    ...inputs.map(([name, shape]) => value(11, name, shape)),
    ...outputs.map(([name, shape]) => value(12, name, shape)),
  ]
  return Buffer.concat([
    int(1, 9),
    message(7, ...graph),
    message(8, text(1, ''), int(2, 20)),
    message(8, text(1, 'com.microsoft'), int(2, 1)),
  ])
}

export const scalar = (name, x) => [name, [], new Float32Array([x])]

function chain(names) {
  const nodes = []
  const constants = []
  chainConstants.forEach(([a, b], i) => {
    constants.push(scalar(`a${i}`, a), scalar(`b${i}`, b))
    nodes.push(['Mul', [i === 0 ? names[0] : `y${i - 1}`, `a${i}`], [`m${i}`]])
    nodes.push(['Add', [`m${i}`, `b${i}`], [i === 4 ? 'out0' : `y${i}`]])
  })
  return { nodes, constants }
}

function compileNodes(seed) {
  const nodes = []
  const program = compileProgram(seed)
  const name = (i) => (i === 0 ? 'in0' : i === program.length ? 'out0' : `v${i}`)
  const ops = { add: 'Add', sub: 'Sub', mul: 'Mul', max: 'Max', matmul: 'MatMul' }
  program.forEach(({ op, other }, i) => {
    if (op === 'center') {
      nodes.push(['ReduceMean', [name(i), 'axes'], [`r${i}`], { keepdims: 1 }])
      nodes.push(['Sub', [name(i), `r${i}`], [`c${i}`]])
    } else nodes.push([ops[op], [name(i), name(other)], [`c${i}`]])
    nodes.push(['Tanh', [`c${i}`], [name(i + 1)]])
  })
  return { nodes, constants: [['axes', [1], new BigInt64Array([-1n])]] }
}

/** Nodes of a row; inputs are in0, in1 ..., outputs out0 ... Contrib operators where they are the fused form. */
const graphs = {
  chain10: () => chain(['in0']),
  exp: () => ({ nodes: [['Exp', ['in0'], ['out0']]] }),
  tanh: () => ({ nodes: [['Tanh', ['in0'], ['out0']]] }),
  softmax: () => ({ nodes: [['Softmax', ['in0'], ['out0'], { axis: -1 }]] }),
  layernorm: () => ({ nodes: [['LayerNormalization', ['in0', 'in1', 'in2'], ['out0'], { axis: -1, epsilon }]] }),
  sumexp: () => ({
    nodes: [
      ['Exp', ['in0'], ['e']],
      ['ReduceSum', ['e'], ['out0'], { keepdims: 1 }],
    ],
  }),
  residual_rmsnorm: () => ({
    nodes: [
      [
        'SkipSimplifiedLayerNormalization',
        ['in0', 'in1', 'in2'],
        ['out1', '', '', 'out0'],
        { epsilon },
        'com.microsoft',
      ],
    ],
  }),
  bias_gelu: () => ({ nodes: [['BiasGelu', ['in0', 'in1'], ['out0'], {}, 'com.microsoft']] }),
  matmul1024: () => ({ nodes: [['MatMul', ['in0', 'in1'], ['out0']]] }),
  matmul1023: () => ({ nodes: [['MatMul', ['in0', 'in1'], ['out0']]] }),
  linear_relu: () => ({
    nodes: [
      ['Gemm', ['in0', 'in1', 'in2'], ['g']],
      ['Relu', ['g'], ['out0']],
    ],
  }),
  attention: () => ({
    nodes: [
      ['Transpose', ['in1'], ['kt'], { perm: [1, 0] }],
      ['MatMul', ['in0', 'kt'], ['s']],
      ['Mul', ['s', 'scale'], ['t']],
      ['Softmax', ['t'], ['p'], { axis: -1 }],
      ['MatMul', ['p', 'in2'], ['out0']],
    ],
    constants: [scalar('scale', 0.125)],
  }),
  conv3x3: () => ({ nodes: [['Conv', ['in0', 'in1'], ['out0'], { kernel_shape: [3, 3], pads: [1, 1, 1, 1] }]] }),
  call64: () => ({
    nodes: [
      ['Mul', ['in0', 'two'], ['m']],
      ['Add', ['m', 'one'], ['a']],
      ['Tanh', ['a'], ['out0']],
    ],
    constants: [scalar('two', 2), scalar('one', 1)],
  }),
}

export const hasModel = (row) => row.fresh === true || row.name in graphs

const isLarge = (shape) => shape.reduce((a, b) => a * b, 1) > 1 << 16

/**
 * Names of the outputs to ask for when timing: a large output `outN` has a first slice `tipN` beside it. Asking for the slice
 * alone runs every operator, but the result stays in the runtime's memory, as it does in the other systems.
 */
export const timedOutputs = (row) => row.outputs.map((shape, i) => (isLarge(shape) ? `tip${i}` : `out${i}`))

/** The model of a row: weights are initializers, the rest inputs. `seed` selects the program of `compile100`. */
export function modelOf(row, data, seed = 0) {
  const { nodes, constants = [] } = row.fresh ? compileNodes(seed) : graphs[row.name]()
  const shapes = row.fresh ? [[compileSide, compileSide]] : row.inputs.map((p) => p.shape)
  const tips = row.outputs.flatMap((shape, i) => (isLarge(shape) ? [{ i, shape: [1, ...shape.slice(1)] }] : []))
  const bounds = ['zero', 'one_'].map((n, i) => [n, [1], new BigInt64Array([BigInt(i)])])
  return model({
    nodes: [...nodes, ...tips.map(({ i }) => ['Slice', [`out${i}`, 'zero', 'one_', 'zero'], [`tip${i}`]])],
    constants: [
      ...constants,
      ...(tips.length > 0 ? bounds : []),
      ...row.weights.map((i) => [`in${i}`, shapes[i], data[i]]),
    ],
    inputs: shapes.map((s, i) => [`in${i}`, s]).filter((_, i) => !row.weights.includes(i)),
    outputs: [...row.outputs.map((s, i) => [`out${i}`, s]), ...tips.map(({ i, shape }) => [`tip${i}`, shape])],
  })
}
