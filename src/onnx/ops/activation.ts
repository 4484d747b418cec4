/** Activation functions, with the constants ONNX gives them by default. */
import {
  elu,
  gelu,
  hardSigmoid,
  leakyRelu,
  logSoftmax,
  mish,
  relu,
  softmax,
  softplus,
  softsign,
} from '../../compose/nn.ts'
import { sizeOf } from '../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'

/** Before operator set 13 the softmax family works on the tensor flattened to two axes at `axis`. */
function softmaxFamily(f: (x: n.Node, axis: number) => n.Node): Handler {
  return (c) => {
    const x = c.need(0)
    const rank = x.shape.length
    if (c.opset >= 13) return f(x, c.axis(-1, rank))
    const axis = c.int('axis', 1)
    const at = axis < 0 ? axis + rank : axis
    const rows = sizeOf(x.shape.slice(0, at))
    return n.reshape(f(n.reshape(x, [rows, sizeOf(x.shape.slice(at))]), 1), x.shape)
  }
}

/** 1 at the first largest element along the axis, else 0. */
function hardmax(x: n.Node, axis: number): n.Node {
  const at = n.argReduce(x, 'argmax', axis)
  const kept = n.reshape(
    at,
    x.shape.map((d, i) => (i === axis ? 1 : d)),
  )
  return n.cast(n.compare('eq', n.iota(x.shape, axis, 'i64'), kept), x.dtype)
}

const selu = (c: OpContext): n.Node =>
  n.mul(elu(c.need(0), c.float('alpha', 1.6732632423543772)), c.float('gamma', 1.0507009873554805))

/** max(0, x) + min(0, alpha (exp(x / alpha) - 1)). */
function celu(c: OpContext): n.Node {
  const x = c.need(0)
  const alpha = c.float('alpha', 1)
  return n.add(n.max(x, 0), n.min(n.mul(n.unary('expm1', n.div(x, alpha)), alpha), 0))
}

function shrink(c: OpContext): n.Node {
  const x = c.need(0)
  const bias = c.float('bias', 0)
  const lambd = c.float('lambd', 0.5)
  const zero = n.filled(x, x.shape, 0)
  return n.where(n.compare('lt', x, -lambd), n.add(x, bias), n.where(n.compare('gt', x, lambd), n.sub(x, bias), zero))
}

function preluOf(c: OpContext): n.Node {
  const x = c.need(0)
  const slope = c.need(1)
  return n.where(n.compare('lt', x, 0), n.mul(x, slope), x)
}

/** x * sigmoid(alpha * x). */
const swish = (x: n.Node, alpha: number): n.Node => n.mul(x, n.unary('sigmoid', alpha === 1 ? x : n.mul(x, alpha)))

const thresholded = (c: OpContext): n.Node => {
  const x = c.need(0)
  return n.where(n.compare('gt', x, c.float('alpha', 1)), x, n.filled(x, x.shape, 0))
}

export const activationHandlers: HandlerTable = {
  Celu: celu,
  Elu: (c) => elu(c.need(0), c.float('alpha', 1)),
  Gelu: (c) => gelu(c.need(0), c.string('approximate', 'none') === 'tanh' ? 'tanh' : 'none'),
  HardSigmoid: (c) => hardSigmoid(c.need(0), c.float('alpha', 0.2), c.float('beta', 0.5)),
  HardSwish: (c) => n.mul(c.need(0), hardSigmoid(c.need(0))),
  Hardmax: softmaxFamily(hardmax),
  LeakyRelu: (c) => leakyRelu(c.need(0), c.float('alpha', 0.01)),
  LogSoftmax: softmaxFamily(logSoftmax),
  Mish: (c) => mish(c.need(0)),
  PRelu: preluOf,
  Relu: (c) => relu(c.need(0)),
  Selu: selu,
  Shrink: shrink,
  Softmax: softmaxFamily(softmax),
  Softplus: (c) => softplus(c.need(0)),
  Softsign: (c) => softsign(c.need(0)),
  SwiGLU: (c) => n.mul(swish(c.need(0), c.float('alpha', 1)), c.need(1)),
  Swish: (c) => swish(c.need(0), c.float('alpha', 1)),
  ThresholdedRelu: thresholded,
}
