/** Neural-network functions: plain compositions of primitives, which the compiler fuses without knowing their names. */

import type { AttentionOptions, Axes } from '../compose/index.ts'
import * as c from '../compose/index.ts'
import type { Node } from '../graph/node.ts'
import { named, recordMany } from './core.ts'
import { checkChoice, checkOptions, kinds, type OptionNames, optionNames, real, whole } from './options.ts'
import { many, one, type Tensor, type TensorLike, two, wrap } from './tensor.ts'

/** max(x, 0). */
export const relu = (x: TensorLike): Tensor => one('relu', x, c.relu)
/** x for x >= 0, else slope * x. */
export const leakyRelu = (x: TensorLike, slope = 0.01): Tensor =>
  one('leakyRelu', x, (a) => c.leakyRelu(a, real(slope, 'the slope')))
/** x for x > 0, else alpha (e^x - 1). */
export const elu = (x: TensorLike, alpha = 1): Tensor => one('elu', x, (a) => c.elu(a, real(alpha, 'alpha')))
/** Scaled elu with self-normalising constants (Klambauer et al. 2017). */
export const selu = (x: TensorLike): Tensor => one('selu', x, (a) => c.selu(a))
/** x times the normal distribution function, exact or by the tanh approximation (Hendrycks and Gimpel 2016). */
export const gelu = (x: TensorLike, approximate: 'none' | 'tanh' = 'none'): Tensor =>
  one('gelu', x, (a) => {
    checkChoice(approximate, ['none', 'tanh'], 'approximation')
    return c.gelu(a, approximate)
  })
/** x * sigmoid(x). */
export const silu = (x: TensorLike): Tensor => one('silu', x, c.silu)
/** log(1 + e^x) without overflow. */
export const softplus = (x: TensorLike): Tensor => one('softplus', x, c.softplus)
/** x / (1 + |x|). */
export const softsign = (x: TensorLike): Tensor => one('softsign', x, c.softsign)
/** Clip of x / 6 + 1/2 to [0, 1]. */
export const hardSigmoid = (x: TensorLike): Tensor => one('hardSigmoid', x, (a) => c.hardSigmoid(a))
/** x * hardSigmoid(x). */
export const hardSwish = (x: TensorLike): Tensor => one('hardSwish', x, c.hardSwish)
/** x * tanh(softplus(x)). */
export const mish = (x: TensorLike): Tensor => one('mish', x, c.mish)
/** exp(x) over its sum along axes; a row of only -Infinity gives NaN. */
export const softmax = (x: TensorLike, axes: Axes = -1): Tensor => one('softmax', x, (a) => c.softmax(a, axes))
/** log(softmax(x)) along axes. */
export const logSoftmax = (x: TensorLike, axes: Axes = -1): Tensor => one('logSoftmax', x, (a) => c.logSoftmax(a, axes))

/** Scale and bias broadcast against the data; epsilon is added to the variance (default 1e-5). */
export interface NormalisationOptions {
  readonly scale?: Tensor
  readonly bias?: Tensor
  readonly epsilon?: number
}

/** Normalisation over axes: the last, unless given. */
interface RowOptions extends NormalisationOptions {
  readonly axes?: Axes
}

const normalisationNames = { scale: kinds.anything, bias: kinds.anything, epsilon: kinds.number } as const
const channelOptions = optionNames<NormalisationOptions>('{ scale, bias }', normalisationNames)
const rowOptions = optionNames<RowOptions>('{ scale, bias }', { ...normalisationNames, axes: kinds.anything })

interface NodeOptions {
  readonly scale: Node | undefined
  readonly bias: Node | undefined
  readonly epsilon: number | undefined
}

/** Operands of a normalisation after the data, and the options as nodes. */
function parameters(
  name: string,
  options: NormalisationOptions,
  known: OptionNames<NormalisationOptions> = channelOptions,
): {
  readonly operands: Tensor[]
  readonly read: (nodes: readonly Node[]) => NodeOptions
} {
  named(name, () => checkOptions(options, name, known))
  const { scale, bias, epsilon } = options
  const operands = [scale, bias].filter((t): t is Tensor => t !== undefined)
  return {
    operands,
    read: (nodes) => ({
      scale: scale === undefined ? undefined : nodes[0],
      bias: bias === undefined ? undefined : nodes[scale === undefined ? 0 : 1],
      epsilon,
    }),
  }
}

const zero = (): Node => c.asNode(0)

/** Zero mean and unit variance over axes (the last, unless given), then scale and bias (Ba et al. 2016). */
export function layerNorm(x: Tensor, options: RowOptions = {}): Tensor {
  const p = parameters('layerNorm', options, rowOptions)
  return many('layerNorm', [x, ...p.operands], ([a = zero(), ...rest]) =>
    c.layerNorm(a, { ...p.read(rest), axes: options.axes }),
  )
}

/** x over its root mean square along axes (the last, unless given), then scale (Zhang and Sennrich 2019). */
export function rmsNorm(x: Tensor, options: RowOptions = {}): Tensor {
  const p = parameters('rmsNorm', options, rowOptions)
  return many('rmsNorm', [x, ...p.operands], ([a = zero(), ...rest]) =>
    c.rmsNorm(a, { ...p.read(rest), axes: options.axes }),
  )
}

/** Inference: x normalised by running statistics per channel (axis 1), then scale and bias (Ioffe and Szegedy 2015). */
export function batchNorm(x: Tensor, mean: Tensor, variance: Tensor, options: NormalisationOptions = {}): Tensor {
  const p = parameters('batchNorm', options)
  return many('batchNorm', [x, mean, variance, ...p.operands], ([a = zero(), m = a, v = a, ...rest]) =>
    c.batchNorm(a, m, v, p.read(rest)),
  )
}

/** Training: x normalised by its own statistics per channel; gives output, mean and (biased) variance. */
export function batchNormTraining(
  x: Tensor,
  options: NormalisationOptions = {},
): { output: Tensor; mean: Tensor; variance: Tensor } {
  const p = parameters('batchNormTraining', options)
  const states = recordMany('batchNormTraining', [x, ...p.operands], (operands) => {
    const [a = zero(), ...rest] = operands.map(c.asNode)
    const r = c.batchNormTraining(a, p.read(rest))
    return [r.output, r.mean, r.variance]
  })
  const [output = x, mean = x, variance = x] = states.map(wrap)
  return { output, mean, variance }
}

/** Normalisation over groups of channels (axis 1), then scale and bias per channel (Wu and He 2018). Throws E_SHAPE. */
export function groupNorm(x: Tensor, groups: number, options: NormalisationOptions = {}): Tensor {
  const p = parameters('groupNorm', options)
  return many('groupNorm', [x, ...p.operands], ([a = zero(), ...rest]) =>
    c.groupNorm(a, whole(groups, 'the number of groups'), p.read(rest)),
  )
}

/** Each element zeroed with probability `rate`, the others divided by 1 - rate. Throws E_ARGUMENT unless 0 <= rate < 1. */
export const dropout = (x: Tensor, key: Tensor, rate: number): Tensor =>
  two('dropout', x, key, (a, k) => c.dropout(c.asNode(a), c.asNode(k), real(rate, 'the rate')))

/** x @ w + b, with w [in, out]. */
export const linear = (x: Tensor, w: Tensor, b?: Tensor): Tensor =>
  many('linear', b === undefined ? [x, w] : [x, w, b], ([a = zero(), m = a, bias]) => c.linear(a, m, bias))

/** Rows of a table at integer indices. */
export const embedding = (table: Tensor, indices: Tensor): Tensor =>
  two('embedding', table, indices, (t, i) => c.embedding(c.asNode(t), c.asNode(i)))

/** -log softmax(logits)[label] for each row; integer labels without the class axis. Take the mean for the usual loss. */
export const crossEntropy = (logits: Tensor, labels: Tensor, axis = -1): Tensor =>
  two('crossEntropy', logits, labels, (a, l) => c.crossEntropy(c.asNode(a), c.asNode(l), axis))

type AttentionCallOptions = Omit<AttentionOptions, 'mask'> & { readonly mask?: Tensor }

const attentionOptions = optionNames<AttentionCallOptions>('{ mask }', {
  mask: kinds.anything,
  causal: kinds.flag,
  causalOffset: kinds.whole,
  window: kinds.count,
  scale: kinds.number,
  softcap: kinds.positive,
})

/**
 * softmax(scale q k^T, masked) v: q [..., heads, queries, width], k and v [..., kv heads, keys, width]; heads may be a
 * multiple of kv heads. A bool mask hides keys where false, a float mask adds to the scores. Throws E_SHAPE.
 */
export function attention(q: Tensor, k: Tensor, v: Tensor, options: AttentionCallOptions = {}): Tensor {
  named('attention', () => checkOptions(options, 'attention', attentionOptions))
  const { mask, ...rest } = options
  return many('attention', mask === undefined ? [q, k, v] : [q, k, v, mask], ([a = zero(), b = a, d = a, m]) =>
    c.attention(a, b, d, { ...rest, mask: m }),
  )
}

interface RotaryOptions {
  readonly positions?: Tensor
  readonly base?: number
  readonly interleaved?: boolean
}

const rotaryOptions = optionNames<RotaryOptions>('{ base: 10000 }', {
  positions: kinds.anything,
  base: kinds.positive,
  interleaved: kinds.flag,
})

/** Rotary position embedding of x [..., length, width] (Su et al. 2021). Throws E_SHAPE for an odd width. */
export function rotary(x: Tensor, options: RotaryOptions = {}): Tensor {
  named('rotary', () => checkOptions(options, 'rotary', rotaryOptions))
  const { positions, ...rest } = options
  return many('rotary', positions === undefined ? [x] : [x, positions], ([a = zero(), p]) =>
    c.rotary(a, { ...rest, positions: p }),
  )
}
