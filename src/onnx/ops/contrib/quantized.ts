/** Operators on 8-bit data with scales and zero points: elementwise, pooling, softmax, convolutions of data with channels last. */
import { leakyRelu, softmax } from '../../../compose/nn.ts'
import { normaliseAxis } from '../../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { centred, dequantizeLinear, qLinearConv, quantizeLinear, saturate } from '../quantize.ts'
import { averagePoolOf, maxPoolOf } from '../window.ts'
import { embeddingSum, maskLengths } from './embed.ts'
import { layerNormed } from './norm.ts'

const scalar = (x: n.Node | undefined): n.Node | undefined => (x === undefined ? undefined : n.asScalar(x))

/** Input i, its scale behind it and its zero point behind that, as f32. */
function real(c: OpContext, i: number): n.Node {
  const whole = n.cast(centred(c.need(i), scalar(c.opt(i + 2))), 'f32')
  return n.mul(whole, n.asScalar(c.need(i + 1)))
}

/** f32 as codes by the scale at input i and the zero point behind it, in the dtype of another input. */
function coded(c: OpContext, y: n.Node, i: number, like: n.Node): n.Node {
  return saturate(n.div(y, n.asScalar(c.need(i))), scalar(c.opt(i + 1)), like.dtype)
}

const binaryOf =
  (f: (a: n.Node, b: n.Node) => n.Node): Handler =>
  (c) =>
    coded(c, f(real(c, 0), real(c, 3)), 6, c.need(0))

const unaryOf =
  (f: (x: n.Node, c: OpContext) => n.Node): Handler =>
  (c) =>
    coded(c, f(real(c, 0), c), 3, c.need(0))

/** Before operator set 13 over all axes from `axis` on together. */
function softmaxOf(x: n.Node, c: OpContext): n.Node {
  const rank = x.shape.length
  const axis = normaliseAxis(c.int('axis', -1), rank)
  return softmax(x, c.int('opset', 13) < 13 ? n.axesFrom(axis, rank) : axis)
}

const channelsSecond = (x: n.Node): n.Node =>
  n.permute(x, [0, x.shape.length - 1, ...n.axesFrom(1, x.shape.length - 1)])
const channelsLast = (x: n.Node): n.Node => n.permute(x, [0, ...n.axesFrom(2, x.shape.length), 1])

/** What f makes of data with channels second, of data that has them where the node says. */
function byChannels(c: OpContext, x: n.Node, f: (x: n.Node) => n.Node): n.Node {
  return c.flag('channels_last', false) ? channelsLast(f(channelsSecond(x))) : f(x)
}

/** The one result of a handler on the first input replaced. */
function applied(c: OpContext, handler: Handler, x: n.Node): n.Node {
  const made = handler(c.withInputs([x, ...c.inputs.slice(1)]))
  const [y] = Array.isArray(made) ? made : [made]
  return y
}

/** Input pairs of codes, scale and zero point, from the third on, joined in the range of the result. */
const qLinearConcat: Handler = (c) => {
  const zero = n.asScalar(c.need(1))
  const parts = Array.from({ length: Math.floor((c.inputs.length - 2) / 3) }, (_, i) => real(c, 2 + 3 * i))
  const joined = n.concat(parts, c.axis(0, parts[0]?.shape.length ?? 0))
  return saturate(n.div(joined, n.asScalar(c.need(0))), zero, zero.dtype)
}

const qLinearWhere: Handler = (c) => coded(c, n.where(c.need(0), real(c, 1), real(c, 4)), 7, c.need(1))

const qLinearReduceMean: Handler = (c) => {
  const x = real(c, 0)
  const axes = (c.ints('axes') ?? x.shape.map((_, i) => i)).map((a) => normaliseAxis(a, x.shape.length))
  return coded(c, n.mean(x, axes, c.flag('keepdims', true)), 3, c.need(0))
}

/** Tables, gamma and beta of 8 bits, with their scales behind the mask and their zero points behind those. */
const qEmbedLayerNormalization: Handler = (c) => {
  const ids = c.need(0)
  const table = (i: number, scale: number): n.Node => {
    const whole = n.cast(centred(c.need(i), scalar(c.opt(scale + 5))), 'f32')
    return n.mul(whole, n.asScalar(c.need(scale)))
  }
  const sum = embeddingSum({
    ids,
    segments: c.opt(1),
    word: table(2, 8),
    position: table(3, 9),
    segment: c.opt(4) === undefined ? undefined : table(4, 10),
    positions: undefined,
  })
  const { y } = layerNormed(sum, table(5, 11), table(6, 12), c.float('epsilon', 1e-12))
  return [y, maskLengths(ids, c.opt(7))]
}

export const contribQuantizedHandlers: HandlerTable = {
  DequantizeLinear: dequantizeLinear,
  NhwcMaxPool: (c) => channelsLast(applied(c, maxPoolOf, channelsSecond(c.need(0)))),
  QEmbedLayerNormalization: qEmbedLayerNormalization,
  QLinearAdd: binaryOf((a, b) => n.add(a, b)),
  QLinearAveragePool: unaryOf((x, c) => byChannels(c, x, (y) => applied(c, averagePoolOf, y))),
  QLinearConcat: qLinearConcat,
  QLinearConv: (c) => byChannels(c, c.need(0), (x) => applied(c, qLinearConv, x)),
  QLinearGlobalAveragePool: unaryOf((x, c) => byChannels(c, x, (y) => n.mean(y, n.axesFrom(2, y.shape.length), true))),
  QLinearLeakyRelu: unaryOf((x, c) => leakyRelu(x, c.float('alpha', 0.01))),
  QLinearMul: binaryOf((a, b) => n.mul(a, b)),
  QLinearReduceMean: qLinearReduceMean,
  QLinearSigmoid: unaryOf((x) => n.unary('sigmoid', x)),
  QLinearSoftmax: unaryOf(softmaxOf),
  QLinearWhere: qLinearWhere,
  QuantizeLinear: quantizeLinear,
}
