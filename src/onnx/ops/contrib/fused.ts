/** Matrix products and convolutions with what onnxruntime fuses into them: transposes, a factor, a sum, an activation. */
import { gelu, relu } from '../../../compose/nn.ts'
import { computeDType, isFloat } from '../../../types/dtype.ts'
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { gemm } from '../linear.ts'
import { convolve } from '../window.ts'
import { type ActivationParameters, activated } from './activation.ts'

/** An operand of a product: batch axes before the first one (`transBatch`), then the last two exchanged. */
function arranged(x: n.Node, trans: boolean, batch: boolean): n.Node {
  const rank = x.shape.length
  const moved = batch && rank > 2 ? n.permute(x, [...n.axesFrom(1, rank - 1), 0, rank - 1]) : x
  return trans && rank > 1 ? n.swapAxes(moved, -1, -2) : moved
}

/** alpha A B. */
function fusedProduct(c: OpContext): n.Node {
  const a = arranged(c.need(0), c.flag('transA', false), c.flag('transBatchA', false))
  const b = arranged(c.need(1), c.flag('transB', false), c.flag('transBatchB', false))
  const alpha = c.float('alpha', 1)
  const product = n.matmul(a, b)
  return alpha === 1 ? product : n.mul(product, alpha)
}

/** Parameters kept one by one. */
const named = (c: OpContext): ActivationParameters => ({
  alpha: c.optFloat('activation_alpha') ?? c.optFloat('leaky_relu_alpha'),
  beta: c.optFloat('activation_beta'),
  gamma: c.optFloat('activation_gamma'),
  axis: c.optInt('activation_axis'),
})

/** Parameters kept as a list: of Clip the bounds, of others alpha and beta. */
function listed(c: OpContext): ActivationParameters {
  const [alpha, beta] = c.floats('activation_params') ?? []
  return { alpha, beta }
}

const fusedConv: Handler = (c) => {
  const y = convolve(c, c.need(0), c.need(1), c.opt(2))
  const other = c.opt(3)
  return activated(c, other === undefined ? y : n.add(y, other), listed(c))
}

const channelsSecond = (x: n.Node): n.Node =>
  n.permute(x, [0, x.shape.length - 1, ...n.axesFrom(1, x.shape.length - 1)])
const channelsLast = (x: n.Node): n.Node => n.permute(x, [0, ...n.axesFrom(2, x.shape.length), 1])

/** The convolution of data with channels last; weights are as always. */
const nhwcFusedConv: Handler = (c) => {
  const y = channelsLast(convolve(c, channelsSecond(c.need(0)), c.need(1), c.opt(2)))
  const other = c.opt(3)
  return activated(c, other === undefined ? y : n.add(y, other), listed(c))
}

const gemmFastGelu: Handler = (c) => {
  const product = n.matmul(c.need(0), c.need(1))
  const bias = c.opt(2)
  const v = n.cast(product, computeDType(product.dtype))
  return n.cast(gelu(bias === undefined ? v : n.add(v, n.cast(bias, v.dtype)), 'tanh'), product.dtype)
}

/** alpha A' B' + beta C, activated, in an asked dtype; floats of 8 bits are refused. */
const gemmFloat8: Handler = (c) => {
  for (const i of [3, 4, 5]) if (c.opt(i) !== undefined) c.fail('it scales floats of 8 bits')
  const y = gemm(c.withInputs(c.inputs.slice(0, 3)))
  const to = c.dtype('dtype', 1)
  if (!isFloat(to)) c.fail(`results of ${to}`)
  const activation = c.string('activation', 'NONE')
  const made = activation === 'NONE' ? y : activation === 'RELU' ? relu(y) : activation === 'GELU' ? gelu(y) : undefined
  return n.cast(made ?? c.fail(`the activation "${activation}"`), to)
}

export const contribFusedHandlers: HandlerTable = {
  FusedConv: fusedConv,
  FusedGemm: (c) => activated(c, gemm(c), named(c)),
  FusedMatMul: fusedProduct,
  FusedMatMulActivation: (c) => activated(c, fusedProduct(c), named(c)),
  GemmFastGelu: gemmFastGelu,
  GemmFloat8: gemmFloat8,
  NhwcConv: nhwcFusedConv,
  NhwcFusedConv: nhwcFusedConv,
  TransposeMatMul: fusedProduct,
}
