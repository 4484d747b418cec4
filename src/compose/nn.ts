/** Neural-network activations, normalisations, losses and layers: plain compositions, unknown to every pass by name. */
import { UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { computeDType, isFloat, isInteger } from '../types/dtype.ts'
import { normaliseAxis, sameShape, showShape } from '../types/shape.ts'
import { expandDims, reshape, squeeze } from './broadcast.ts'
import { matmul } from './contract.ts'
import {
  add,
  cast,
  clip,
  compare,
  div,
  exp,
  log,
  max,
  min,
  mul,
  neg,
  scalarLike,
  settle,
  sqrt,
  square,
  sub,
  tanh,
  trueDivide,
  unary,
  where,
} from './elementwise.ts'
import { pickAlongAxis, take } from './indexing.ts'
import { bernoulli, sixteenBitChance } from './random.ts'
import { type Axes, logSumExp, mean, reduceMax, sum, variance } from './reduce.ts'
import { stopGradient } from './stopGradient.ts'
import { sliceAxis } from './views.ts'

/** Runs `f` in f32 for half precision, giving the operand's dtype back; integers become f32. */
function inCompute(x: Node, f: (x: Node) => Node): Node {
  if (!isFloat(x.dtype)) return f(cast(x, 'f32'))
  return settle(f(cast(x, computeDType(x.dtype))), x.dtype)
}

/** max(x, 0). */
export const relu = (x: Node): Node => max(x, 0)
/** 1 / (1 + exp(-x)). */
export const sigmoid = (x: Node): Node => unary('sigmoid', x)

/** x for x >= 0, else slope * x. */
export const leakyRelu = (x: Node, slope = 0.01): Node => where(compare('ge', x, 0), x, mul(x, slope))

/** x for x > 0, else alpha (exp(x) - 1). */
export const elu = (x: Node, alpha = 1): Node => where(compare('gt', x, 0), x, mul(unary('expm1', min(x, 0)), alpha))

/** Barron 2017: x for x > 0, else alpha (exp(x / alpha) - 1), whose slope is continuous for every alpha. */
export const celu = (x: Node, alpha = 1): Node =>
  where(compare('gt', x, 0), x, mul(unary('expm1', trueDivide(min(x, 0), alpha)), alpha))

/** min(max(x, 0), 6). */
export const relu6 = (x: Node): Node => clip(x, 0, 6)

/** Klambauer et al. 2017: scaled elu with the constants that keep unit variance. */
export const selu = (x: Node, alpha = 1.6732632423543772, scale = 1.0507009873554805): Node => mul(elu(x, alpha), scale)

/** Hendrycks and Gimpel 2016: x times the normal distribution function, by erf or by the tanh approximation. */
export function gelu(x: Node, approximate: 'none' | 'tanh' = 'none'): Node {
  return inCompute(x, (v) => {
    const half = mul(v, 0.5)
    if (approximate === 'none') return mul(half, add(unary('erf', mul(v, Math.SQRT1_2)), 1))
    const inner = mul(add(v, mul(mul(square(v), v), 0.044715)), Math.sqrt(2 / Math.PI))
    return mul(half, add(tanh(inner), 1))
  })
}

/** x * sigmoid(x). */
export const silu = (x: Node): Node => mul(x, sigmoid(x))

/** log(1 + exp(x)), without overflow. */
export const softplus = (x: Node): Node => add(max(x, 0), unary('log1p', exp(neg(unary('abs', x)))))

/** log(sigmoid(x)), without overflow. */
export const logSigmoid = (x: Node): Node => neg(softplus(neg(isFloat(x.dtype) ? x : cast(x, 'f32'))))

/** Dauphin et al. 2017: the first half of an axis times the sigmoid of the second. Throws E_AXIS, E_SHAPE for an odd extent. */
export function glu(x: Node, axis = -1): Node {
  const a = normaliseAxis(axis, x.shape.length)
  const n = x.shape[a] ?? 0
  if (n % 2 !== 0)
    throw new UserError('E_SHAPE', `glu of axis ${a} of ${showShape(x.shape)}: its extent is odd`, {
      help: 'the axis holds values and their gates, as many of each',
    })
  return mul(sliceAxis(x, a, 0, n / 2), sigmoid(sliceAxis(x, a, n / 2, n)))
}

/** x / (1 + |x|). */
export const softsign = (x: Node): Node => trueDivide(x, add(unary('abs', x), 1))

/** Clip of alpha * x + beta to [0, 1]. */
export const hardSigmoid = (x: Node, alpha = 1 / 6, beta = 0.5): Node => clip(add(mul(x, alpha), beta), 0, 1)

/** x * hardSigmoid(x) (Howard et al. 2019). */
export const hardSwish = (x: Node): Node => mul(x, hardSigmoid(x))

/** x * tanh(softplus(x)) (Misra 2019). */
export const mish = (x: Node): Node => mul(x, tanh(softplus(x)))

/** The largest element along axes, kept: to subtract where that changes no result, so that its derivative cancels and is left out. */
const anchor = (x: Node, axes: Axes): Node => stopGradient(reduceMax(x, axes, true))

/** exp(x - max) / sum of it along axes. A row of only -Infinity gives NaN. */
export function softmax(x: Node, axes: Axes = -1): Node {
  return inCompute(x, (v) => {
    const e = exp(sub(v, anchor(v, axes)))
    return div(e, sum(e, axes, true))
  })
}

/** x - log(sum(exp(x))) along axes, anchored at the maximum. */
export function logSoftmax(x: Node, axes: Axes = -1): Node {
  return inCompute(x, (v) => {
    const centred = sub(v, anchor(v, axes))
    return sub(centred, log(sum(exp(centred), axes, true)))
  })
}

/** Options of layer and RMS normalisation. */
export interface NormOptions {
  readonly scale?: Node | undefined
  readonly bias?: Node | undefined
  /** Added to the variance. */
  readonly epsilon?: number | undefined
  /** Axes normalised over (default: the last). */
  readonly axes?: Axes
}

const affine = (x: Node, scale: Node | undefined, bias: Node | undefined): Node => {
  const scaled = scale === undefined ? x : mul(x, cast(scale, x.dtype))
  return bias === undefined ? scaled : add(scaled, cast(bias, x.dtype))
}

/** Ba et al. 2016: zero mean and unit variance over the last axes, then scale and bias, which broadcast. Statistics in f32 for half precision. */
export function layerNorm(x: Node, options: NormOptions = {}): Node {
  const axes = options.axes ?? -1
  return inCompute(x, (v) => {
    const centred = sub(v, mean(v, axes, true))
    const spread = mean(square(centred), axes, true)
    return affine(mul(centred, unary('rsqrt', add(spread, options.epsilon ?? 1e-5))), options.scale, options.bias)
  })
}

/** Zhang and Sennrich 2019: x over its root mean square along the last axes, then scale. */
export function rmsNorm(x: Node, options: NormOptions = {}): Node {
  const axes = options.axes ?? -1
  return inCompute(x, (v) => {
    const power = mean(square(v), axes, true)
    return affine(mul(v, unary('rsqrt', add(power, options.epsilon ?? 1e-5))), options.scale, options.bias)
  })
}

/** A per-channel vector beside data [batch, channels, ...spatial]. */
const perChannel = (v: Node, x: Node): Node => reshape(v, [1, -1, ...x.shape.slice(2).map(() => 1)])

/** Options of batch and group normalisation. */
export interface BatchNormOptions {
  readonly scale?: Node | undefined
  readonly bias?: Node | undefined
  readonly epsilon?: number | undefined
}

/** Ioffe and Szegedy 2015, inference: (x - mean) / sqrt(variance + epsilon) * scale + bias; vectors are per channel (axis 1). */
export function batchNorm(x: Node, runningMean: Node, runningVariance: Node, options: BatchNormOptions = {}): Node {
  return inCompute(x, (v) => {
    const factor = div(
      cast(options.scale ?? scalarLike(runningVariance, 1), v.dtype),
      sqrt(add(cast(runningVariance, v.dtype), options.epsilon ?? 1e-5)),
    )
    const scaled = mul(sub(v, perChannel(cast(runningMean, v.dtype), v)), perChannel(factor, v))
    return options.bias === undefined ? scaled : add(scaled, perChannel(cast(options.bias, v.dtype), v))
  })
}

/** Batch normalisation by the statistics of `x` itself over every axis but channels; gives them too (biased variance). They are of f32 for half precision, and rounded only where they are given. */
export function batchNormTraining(
  x: Node,
  options: BatchNormOptions = {},
): { readonly output: Node; readonly mean: Node; readonly variance: Node } {
  if (!isFloat(x.dtype)) return batchNormTraining(cast(x, 'f32'), options)
  const axes = x.shape.map((_, i) => i).filter((i) => i !== 1)
  const work = cast(x, computeDType(x.dtype))
  const m = mean(work, axes)
  const v = variance(work, axes)
  return { output: batchNorm(x, m, v, options), mean: cast(m, x.dtype), variance: cast(v, x.dtype) }
}

/** Wu and He 2018: normalisation over groups of channels of data [batch, channels, ...spatial]; scale and bias per channel. Throws E_SHAPE. */
export function groupNorm(x: Node, groups: number, options: BatchNormOptions = {}): Node {
  const [n, c, ...spatial] = x.shape
  if (n === undefined || c === undefined || c % groups !== 0)
    throw new UserError('E_SHAPE', `groupNorm of ${showShape(x.shape)} in ${groups} groups`, {
      help: 'channels (axis 1) must divide into the groups',
    })
  return inCompute(x, (v) => {
    const rows = reshape(v, [n, groups, -1])
    const normal = reshape(layerNorm(rows, { epsilon: options.epsilon }), [n, c, ...spatial])
    const vector = (t: Node | undefined): Node | undefined => (t === undefined ? undefined : perChannel(t, x))
    return affine(normal, vector(options.scale), vector(options.bias))
  })
}

/**
 * Zeroes each element with probability `rate` and divides the others by the probability of staying, 1 - rate as a multiple of
 * 2^-16: the expectation is exact. Throws E_ARGUMENT unless 0 <= rate < 1.
 */
export function dropout(x: Node, key: Node, rate: number): Node {
  if (!(rate >= 0 && rate < 1))
    throw new UserError('E_ARGUMENT', `a dropout rate of ${rate}`, { help: 'give a rate in [0, 1)' })
  if (rate === 0) return x
  const kept = sixteenBitChance(1 - rate)
  return inCompute(x, (v) => where(bernoulli(key, kept / 65536, v.shape), mul(v, 65536 / kept), 0))
}

/** x @ w + b, with w [in, out]. */
export const linear = (x: Node, w: Node, b?: Node): Node => (b === undefined ? matmul(x, w) : add(matmul(x, w), b))

/** Rows of a table [count, width] at integer indices: indices.shape + [width]. */
export const embedding = (table: Node, indices: Node): Node => take(table, indices, 0)

/** -log softmax(logits)[label] for each row: logits [..., classes] (or classes at `axis`), integer labels without that axis. Throws E_SHAPE. */
export function crossEntropy(logits: Node, labels: Node, axis = -1): Node {
  const a = normaliseAxis(axis, logits.shape.length)
  const rows = logits.shape.toSpliced(a, 1)
  if (sameShape(labels.shape, logits.shape))
    throw new UserError('E_SHAPE', `labels ${showShape(labels.shape)} have the class axis, as one-hot labels do`, {
      help: `pass the number of each row's class: argmax(labels, ${axis}); for probabilities use logSoftmax(logits, ${axis}).mul(labels).sum(${axis}).neg()`,
    })
  if (!sameShape(labels.shape, rows))
    throw new UserError('E_SHAPE', `labels ${showShape(labels.shape)} for logits ${showShape(logits.shape)}`, {
      help: `labels have the shape of the logits without the class axis: ${showShape(rows)}`,
    })
  if (!isInteger(labels.dtype))
    throw new UserError('E_DTYPE', `the labels are ${labels.dtype}`, {
      help: "labels are the numbers of classes: cast them with astype('i32')",
    })
  return inCompute(logits, (v) => {
    return sub(logSumExp(v, a), squeeze(pickAlongAxis(v, expandDims(labels, a), a), a))
  })
}
