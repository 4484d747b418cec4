/** ONNX models of the rows of the CPU benchmark. */
import { chainConstants, compileProgram, compileSide } from './rows.mjs'
import {
  conv,
  layernorm,
  matmul,
  microsoft,
  modelOfRow,
  multiplyAdds,
  rmsnorm,
  scalar,
  softmax,
  sumexp,
} from './shared/onnx.mjs'

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

/** The nodes of a row. */
const graphs = {
  chain10: multiplyAdds(chainConstants),
  exp: { nodes: [['Exp', ['in0'], ['out0']]] },
  tanh: { nodes: [['Tanh', ['in0'], ['out0']]] },
  softmax,
  layernorm,
  sumexp,
  residual_rmsnorm: rmsnorm,
  bias_gelu: { nodes: [['BiasGelu', ['in0', 'in1'], ['out0'], {}, microsoft]] },
  matmul1024: matmul,
  matmul1023: matmul,
  linear_relu: {
    nodes: [
      ['Gemm', ['in0', 'in1', 'in2'], ['g']],
      ['Relu', ['g'], ['out0']],
    ],
  },
  attention: {
    nodes: [
      ['Transpose', ['in1'], ['kt'], { perm: [1, 0] }],
      ['MatMul', ['in0', 'kt'], ['s']],
      ['Mul', ['s', 'scale'], ['t']],
      ['Softmax', ['t'], ['p'], { axis: -1 }],
      ['MatMul', ['p', 'in2'], ['out0']],
    ],
    constants: [scalar('scale', 0.125)],
  },
  conv3x3: conv,
  call64: {
    nodes: [
      ['Mul', ['in0', 'two'], ['m']],
      ['Add', ['m', 'one'], ['a']],
      ['Tanh', ['a'], ['out0']],
    ],
    constants: [scalar('two', 2), scalar('one', 1)],
  },
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
  const { nodes, constants = [] } = row.fresh ? compileNodes(seed) : graphs[row.name]
  const shapes = row.fresh ? [[compileSide, compileSide]] : row.inputs.map((p) => p.shape)
  const tips = row.outputs.flatMap((shape, i) => (isLarge(shape) ? [{ i, shape: [1, ...shape.slice(1)] }] : []))
  const bounds = ['zero', 'one_'].map((n, i) => [n, [1], new BigInt64Array([BigInt(i)])])
  const sliced = {
    nodes: [...nodes, ...tips.map(({ i }) => ['Slice', [`out${i}`, 'zero', 'one_', 'zero'], [`tip${i}`]])],
    constants: [...constants, ...(tips.length > 0 ? bounds : [])],
  }
  return modelOfRow(row, sliced, shapes, data, [
    ...row.outputs.map((s, i) => [`out${i}`, s]),
    ...tips.map(({ i, shape }) => [`tip${i}`, shape]),
  ])
}
