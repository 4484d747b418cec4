/** Activation functions of onnxruntime, alone and behind what they are fused with, by their names and parameters. */
import {
  elu,
  gelu,
  hardSigmoid,
  leakyRelu,
  logSoftmax,
  relu,
  softmax,
  softplus,
  softsign,
} from '../../../compose/nn.ts'
import { computeDType } from '../../../types/dtype.ts'
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'

/** Parameters of a fused activation; undefined where the node gives none. */
export interface ActivationParameters {
  readonly alpha: number | undefined
  readonly beta: number | undefined
  readonly gamma?: number | undefined
  readonly axis?: number | undefined
}

type Activation = (x: n.Node, p: ActivationParameters) => n.Node

/** alpha where x < 0 makes alpha (exp(x) - 1), times gamma. */
const selu: Activation = (x, p) => n.mul(elu(x, p.alpha ?? 1.6732632423543772), p.gamma ?? 1.0507009873554805)

const activations: Readonly<Record<string, Activation>> = {
  Affine: (x, p) => n.add(n.mul(x, p.alpha ?? 1), p.beta ?? 0),
  Clip: (x, p) => n.clip(x, p.alpha, p.beta),
  Elu: (x, p) => elu(x, p.alpha ?? 1),
  Gelu: (x) => gelu(x),
  HardSigmoid: (x, p) => hardSigmoid(x, p.alpha ?? 0.2, p.beta ?? 0.5),
  HardSwish: (x) => n.mul(x, hardSigmoid(x)),
  Identity: (x) => x,
  LeakyRelu: (x, p) => leakyRelu(x, p.alpha ?? 0.01),
  LogSoftmax: (x, p) => logSoftmax(x, p.axis ?? -1),
  ParametricSoftplus: (x, p) => n.mul(softplus(n.mul(x, p.beta ?? 1)), p.alpha ?? 1),
  QuickGelu: (x, p) => quickGelu(x, p.alpha ?? 1.702),
  Relu: (x) => relu(x),
  ScaledTanh: (x, p) => n.mul(n.tanh(n.mul(x, p.beta ?? 1)), p.alpha ?? 1),
  Selu: selu,
  Sigmoid: (x) => n.unary('sigmoid', x),
  Softmax: (x, p) => softmax(x, p.axis ?? -1),
  Softplus: (x) => softplus(x),
  Softsign: (x) => softsign(x),
  Tanh: (x) => n.tanh(x),
  ThresholdedRelu: (x, p) => n.where(n.compare('gt', x, p.alpha ?? 1), x, n.filled(x, x.shape, 0)),
}

/** The activation that an attribute names, applied in the working dtype; none for "". */
export function activated(c: OpContext, x: n.Node, p: ActivationParameters): n.Node {
  const name = c.string('activation', '')
  if (name === '') return x
  const activation = Object.hasOwn(activations, name) ? activations[name] : undefined
  if (activation === undefined) return c.fail(`the activation "${name}"`)
  return n.cast(activation(n.cast(x, computeDType(x.dtype)), p), x.dtype)
}

/** x sigmoid(alpha x), in f32 for half precision. */
export function quickGelu(x: n.Node, alpha: number): n.Node {
  const v = n.cast(x, computeDType(x.dtype))
  return n.cast(n.mul(v, n.unary('sigmoid', alpha === 1 ? v : n.mul(v, alpha))), x.dtype)
}

/** x plus an optional input, both in f32 for half precision. */
function withBias(c: OpContext, bias: number): n.Node {
  const x = c.need(0)
  const shift = c.opt(bias)
  const v = n.cast(x, computeDType(x.dtype))
  return shift === undefined ? v : n.add(v, n.cast(shift, v.dtype))
}

const fastGelu: Handler = (c) => n.cast(gelu(withBias(c, 1), 'tanh'), c.need(0).dtype)
const biasGelu: Handler = (c) => n.cast(gelu(withBias(c, 1)), c.need(0).dtype)

/** The left half of the last axis times the gelu of the right one. */
const biasSplitGelu: Handler = (c) => {
  const x = withBias(c, 1)
  const last = x.shape.length - 1
  const width = x.shape[last] ?? 0
  c.requireShape(width % 2 === 0, x.shape, 'the input of two halves')
  const [left, right] = [n.sliceAxis(x, last, 0, width / 2), n.sliceAxis(x, last, width / 2, width)]
  return n.cast(n.mul(left, gelu(right)), c.need(0).dtype)
}

const biasAdd: Handler = (c) => n.add(n.add(c.need(0), c.need(1)), c.need(2))

/** X + Y gate, the product rounded first. */
const gatedAdd: Handler = (c) => n.add(c.need(0), n.mul(c.need(1), c.need(2)))

/** Dropout that drops nothing; what would be random is refused. */
function undropped(c: OpContext, ratio: number): void {
  const training = c.opt(ratio + 1)
  if (training === undefined || c.intOf(ratio + 1, 'training mode') === 0) return
  const rate = c.opt(ratio) === undefined ? 0.5 : (c.numbersOf(ratio, 'ratio')[0] ?? 0)
  if (rate !== 0) c.fail('it drops elements at random in its training mode')
}

const biasDropout: Handler = (c) => {
  undropped(c, 3)
  const residual = c.opt(2)
  const sum = n.add(c.need(0), c.need(1))
  const y = residual === undefined ? sum : n.add(sum, residual)
  return [y, n.full(y.shape, true, 'bool')]
}

/** Words of 32 bits, an element each bit, all set; the last word has as many as are left. */
function fullBitmask(count: number): n.Node {
  const words = Math.ceil(count / 32)
  const bits = n.sub(count, n.mul(n.iota([words], 0, 'i64'), 32))
  const rest = n.sub(n.binary('shl', n.full([words], 1n, 'i64'), n.clip(bits, 0, 32)), 1)
  return n.cast(rest, 'u32')
}

const bitmaskBiasDropout: Handler = (c) => {
  undropped(c, 3)
  const residual = c.opt(2)
  const sum = n.add(c.need(0), c.need(1))
  const y = residual === undefined ? sum : n.add(sum, residual)
  return [y, c.wants(1) ? fullBitmask(y.shape.reduce((a, b) => a * b, 1)) : undefined]
}

const bitmaskDropout: Handler = (c) => {
  undropped(c, 1)
  const x = c.need(0)
  return [x, c.wants(1) ? fullBitmask(x.shape.reduce((a, b) => a * b, 1)) : undefined]
}

/** softmax(x + bias) over all axes from `axis` on. */
const biasSoftmax: Handler = (c) => {
  const x = c.need(0)
  const bias = c.need(1)
  const rank = x.shape.length
  // A bias that inner axes share has the leading axes, and 1 in their places; one that outer axes share may lack these.
  c.requireShape(bias.shape.length <= rank, bias.shape, 'the bias')
  if (c.flag('is_inner_broadcast', false))
    c.requireShape(bias.shape.length === rank, bias.shape, 'the bias that inner axes share')
  const sum = n.broadcastTo(n.add(withBias(c, 2), n.cast(bias, computeDType(x.dtype))), x.shape)
  return n.cast(softmax(sum, n.axesFrom(c.axis(1, rank), rank)), x.dtype)
}

export const contribActivationHandlers: HandlerTable = {
  BiasAdd: biasAdd,
  BiasDropout: biasDropout,
  BiasGelu: biasGelu,
  BiasSoftmax: biasSoftmax,
  BiasSplitGelu: biasSplitGelu,
  BitmaskBiasDropout: bitmaskBiasDropout,
  BitmaskDropout: bitmaskDropout,
  FastGelu: fastGelu,
  GatedAdd: gatedAdd,
  Gelu: (c) => gelu(c.need(0)),
  QuickGelu: (c) => quickGelu(c.need(0), c.float('alpha', 1.702)),
}
