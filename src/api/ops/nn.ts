/** Neural-network functions: plain compositions of primitives, which the compiler fuses without knowing their names. */

import type { Axes } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { Node } from '../../graph/node.ts'
import { showShape } from '../../types/shape.ts'
import { checkOptions, kinds, type OptionNames, optionNames, real, whole } from '../calls/options.ts'
import { named, recordMany } from '../tensor/core.ts'
import { many, type Tensor, two, wrap } from '../tensor/tensor.ts'

export * from './activations.ts'

/** Scale and bias broadcast against the data; epsilon is added to the variance. */
export interface NormalisationOptions {
  /** Factor after normalisation; 1 unless given. */
  readonly scale?: Tensor
  /** Added last; 0 unless given. */
  readonly bias?: Tensor
  /** Added to the variance; 1e-5 unless given. */
  readonly epsilon?: number
}

/** Options of normalisation over rows. */
export interface RowNormalisationOptions extends NormalisationOptions {
  /** The axes of a row: the last, unless given. */
  readonly axes?: Axes
}

const normalisationNames = { scale: kinds.anything, bias: kinds.anything, epsilon: kinds.number } as const
const channelOptions = optionNames<NormalisationOptions>('{ scale, bias }', normalisationNames)
const rowOptions = optionNames<RowNormalisationOptions>('{ scale, bias }', {
  ...normalisationNames,
  axes: kinds.anything,
})

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

/** Data with channels. Throws E_SHAPE. */
function channelled(x: Node): Node {
  if (x.shape.length >= 2) return x
  throw new UserError('E_SHAPE', `data of shape ${showShape(x.shape)}`, {
    help: 'data is [batch, channels, ...spatial]',
  })
}

/**
 * Zero mean and unit variance over axes (the last, unless given), then scale and bias (Ba et al. 2016). Half precision computes
 * in f32. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_AXIS for an axis there is not, E_SHAPE for scale or bias that do not broadcast, E_ARGUMENT for what is no tensor
 * and for options that are none
 * @example layerNorm(tensor([[1, 3], [2, 6]]), { bias: tensor([10, 20]) }) // [[9.00001, 20.99999], [9, 21]]
 */
export function layerNorm(x: Tensor, options: RowNormalisationOptions = {}): Tensor {
  const p = parameters('layerNorm', options, rowOptions)
  return many('layerNorm', [x, ...p.operands], ([a = zero(), ...rest]) =>
    c.layerNorm(a, { ...p.read(rest), axes: options.axes }),
  )
}

/**
 * x over its root mean square along axes (the last, unless given), then scale and bias (Zhang and Sennrich 2019). Half
 * precision computes in f32. Shape of `x`; a float dtype stays, integers and bools become f32.
 * @throws E_AXIS for an axis there is not, E_SHAPE for scale or bias that do not broadcast, E_ARGUMENT for what is no tensor
 * and for options that are none
 * @example rmsNorm(tensor([3, 4])) // [0.848528, 1.13137]
 */
export function rmsNorm(x: Tensor, options: RowNormalisationOptions = {}): Tensor {
  const p = parameters('rmsNorm', options, rowOptions)
  return many('rmsNorm', [x, ...p.operands], ([a = zero(), ...rest]) =>
    c.rmsNorm(a, { ...p.read(rest), axes: options.axes }),
  )
}

/**
 * Inference: x [batch, channels, ...] normalised by running statistics [channels], then scale and bias (Ioffe and Szegedy
 * 2015).
 * @throws E_SHAPE for data without channels and statistics, scale or bias of other ones, E_ARGUMENT for what is no tensor and for options that are
 * none
 * @example batchNorm(tensor([[1, 3]]), tensor([1, 1]), tensor([1, 4]), { epsilon: 0 }) // [[0, 1]]
 */
export function batchNorm(x: Tensor, mean: Tensor, variance: Tensor, options: NormalisationOptions = {}): Tensor {
  const p = parameters('batchNorm', options)
  return many('batchNorm', [x, mean, variance, ...p.operands], ([a = zero(), m = a, v = a, ...rest]) =>
    c.batchNorm(channelled(a), m, v, p.read(rest)),
  )
}

/**
 * Training: x [batch, channels, ...] normalised by its own statistics for each channel, then scale and bias; gives the output,
 * and mean and (biased) variance [channels].
 * @throws E_SHAPE for data without channels and scale or bias of other ones, E_ARGUMENT for what is no tensor and for options that are none
 * @example
 * const { output, mean, variance } = batchNormTraining(tensor([[1, 2], [3, 6]]), { epsilon: 0 })
 * output // [[-1, -1], [1, 1]]
 * mean // [2, 4]
 * variance // [1, 4]
 */
export function batchNormTraining(
  x: Tensor,
  options: NormalisationOptions = {},
): { output: Tensor; mean: Tensor; variance: Tensor } {
  const p = parameters('batchNormTraining', options)
  const states = recordMany('batchNormTraining', [x, ...p.operands], (operands) => {
    const [a = zero(), ...rest] = operands.map(c.asNode)
    const r = c.batchNormTraining(channelled(a), p.read(rest))
    return [r.output, r.mean, r.variance]
  })
  const [output = x, mean = x, variance = x] = states.map(wrap)
  return { output, mean, variance }
}

/**
 * x [batch, channels, ...] normalised over groups of channels and what follows them, then scale and bias for each channel (Wu
 * and He 2018).
 * @throws E_SHAPE for channels that do not divide into groups, and for scale or bias of other channels; E_ARGUMENT for what is
 * no tensor and for options that are none
 * @example groupNorm(tensor([[1, 3, 2, 6]]), 2, { epsilon: 0 }) // [[-1, 1, -1, 1]]
 */
export function groupNorm(x: Tensor, groups: number, options: NormalisationOptions = {}): Tensor {
  const p = parameters('groupNorm', options)
  return many('groupNorm', [x, ...p.operands], ([a = zero(), ...rest]) =>
    c.groupNorm(a, whole(groups, 'the number of groups'), p.read(rest)),
  )
}

/**
 * Each element zeroed with probability `rate` (a multiple of 2^-16), the others divided by 1 - rate (Srivastava et al. 2014).
 * The mask depends on key and position alone. Shape and dtype of `x`.
 * @throws E_ARGUMENT unless 0 <= rate < 1, and for a key that is none
 * @example dropout(ones([1000]), random.key(0), 0.5).max() // 2
 */
export const dropout = (x: Tensor, key: Tensor, rate: number): Tensor =>
  two('dropout', x, key, (a, k) => c.dropout(c.asNode(a), c.asNode(k), real(rate, 'the rate')))

/**
 * x @ w + b: x [..., in], w [in, out], b [out]. The common dtype.
 * @throws E_SHAPE for extents that do not fit, E_ARGUMENT for what is no tensor
 * @example linear(tensor([[1, 2]]), tensor([[1], [1]]), tensor([3])) // [[6]]
 */
export const linear = (x: Tensor, w: Tensor, b?: Tensor): Tensor =>
  many('linear', b === undefined ? [x, w] : [x, w, b], ([a = zero(), m = a, bias]) => c.linear(a, m, bias))

/**
 * Rows of a table [rows, ...] at integer indices: the indices' shape, then the row's. Out of range clamps.
 * @throws E_DTYPE for indices that are no integers, E_ARGUMENT for what is no tensor
 * @example embedding(tensor([[1, 2], [3, 4]]), tensor([1, 0], { dtype: 'i32' })) // [[3, 4], [1, 2]]
 */
export const embedding = (table: Tensor, indices: Tensor): Tensor =>
  two('embedding', table, indices, (t, i) => c.embedding(c.asNode(t), c.asNode(i)))

/**
 * -log softmax(logits)[label] for each row, in nats; integer labels have the logits' shape without the class axis. Take the
 * mean for the usual loss. The dtype of the logits.
 * @throws E_DTYPE for labels that are no integers, E_SHAPE for labels of another shape, E_AXIS for an axis there is not,
 * E_ARGUMENT for what is no tensor
 * @example crossEntropy(tensor([[0, 0], [100, 0]]), tensor([1, 0], { dtype: 'i32' })) // [0.693147, 0]
 */
export const crossEntropy = (logits: Tensor, labels: Tensor, axis = -1): Tensor =>
  two('crossEntropy', logits, labels, (a, l) => c.crossEntropy(c.asNode(a), c.asNode(l), axis))

/** Options of `attention`. */
export interface AttentionOptions {
  /** bool: false hides the key. float: added to the scores. Broadcasts to [..., heads, queries, keys]. */
  readonly mask?: Tensor
  /** Query i sees keys up to i + (keys - queries). */
  readonly causal?: boolean
  /** Causal offset: query i sees keys up to i + offset. */
  readonly causalOffset?: number
  /** Each query sees at most this many keys up to its own position. */
  readonly window?: number
  /** Factor of the scores; 1 / sqrt(width) unless given. */
  readonly scale?: number
  /** Scores become cap * tanh(scores / cap). */
  readonly softcap?: number
}

const attentionOptions = optionNames<AttentionOptions>('{ mask }', {
  mask: kinds.anything,
  causal: kinds.flag,
  causalOffset: kinds.whole,
  window: kinds.count,
  scale: kinds.number,
  softcap: kinds.positive,
})

/**
 * softmax(scale q k^T, masked) v (Vaswani et al. 2017): q [..., heads, queries, width], k and v [..., kv heads, keys, width];
 * heads may be a multiple of kv heads (Ainslie et al. 2023). A bool mask hides keys where false, a float mask adds to the
 * scores; the scale is 1 / sqrt(width) unless given. Half precision accumulates in f32.
 * @throws E_SHAPE for shapes that do not fit, E_ARGUMENT for what is no tensor and for options that are none
 * @example
 * attention(ones([1, 2, 4]), ones([1, 3, 4]), ones([1, 3, 4]), { causal: true }) // f32[1, 2, 4]
 * attention(tensor([[0]]), tensor([[1], [1]]), tensor([[2], [4]])) // [[3]]
 */
export function attention(q: Tensor, k: Tensor, v: Tensor, options: AttentionOptions = {}): Tensor {
  named('attention', () => checkOptions(options, 'attention', attentionOptions))
  const { mask, ...rest } = options
  return many('attention', mask === undefined ? [q, k, v] : [q, k, v, mask], ([a = zero(), b = a, d = a, m]) =>
    c.attention(a, b, d, { ...rest, mask: m }),
  )
}

/** Options of `rotary`. */
export interface RotaryOptions {
  /** Positions of the rows, broadcast against x without its last axis; 0, 1, 2, ... unless given. */
  readonly positions?: Tensor
  /** Pair i turns by base^(-2i / width) a position; 10000 unless given. */
  readonly base?: number
  /** Pairs are neighbours, not (i, i + width / 2). */
  readonly interleaved?: boolean
}

const rotaryOptions = optionNames<RotaryOptions>('{ base: 10000 }', {
  positions: kinds.anything,
  base: kinds.positive,
  interleaved: kinds.flag,
})

/**
 * Rotary position embedding of x [..., length, width] (Su et al. 2021): pairs of elements turned by angles position * base^(-2i
 * / width). Positions are 0, 1, 2, ... unless given; pairs are (i, i + width / 2), or neighbours if interleaved. Shape and
 * dtype of a float `x`.
 * @throws E_SHAPE for an odd width, E_ARGUMENT for what is no tensor and for options that are none
 * @example rotary(ones([2, 2])) // [[1, 1], [-0.301169, 1.381773]]
 */
export function rotary(x: Tensor, options: RotaryOptions = {}): Tensor {
  named('rotary', () => checkOptions(options, 'rotary', rotaryOptions))
  const { positions, ...rest } = options
  return many('rotary', positions === undefined ? [x] : [x, positions], ([a = zero(), p]) =>
    c.rotary(a, { ...rest, positions: p }),
  )
}
