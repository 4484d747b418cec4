/** Normalisations of onnxruntime: by the root mean square, with a residual added first, of embeddings, of groups, gated. */
import { silu } from '../../../compose/nn.ts'
import { computeDType } from '../../../types/dtype.ts'
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { embeddingSum, maskLengths } from './embed.ts'

/** A node in the dtype that normalisations compute in. */
const wide = (x: n.Node): n.Node => n.cast(x, computeDType(x.dtype))

/** 1 / sqrt(mean square + epsilon) over axes, kept. */
const inverseRms = (x: n.Node, axes: readonly number[], epsilon: number): n.Node =>
  n.unary('rsqrt', n.add(n.mean(n.square(x), axes, true), epsilon))

interface Normalised {
  readonly y: n.Node
  readonly mean: n.Node
  readonly inverse: n.Node
}

/** Zero mean and unit variance over the last axis, then scale and shift; x is wide. */
export function layerNormed(x: n.Node, gamma: n.Node, beta: n.Node | undefined, epsilon: number): Normalised {
  const last = [x.shape.length - 1]
  const mean = n.mean(x, last, true)
  const centred = n.sub(x, mean)
  const inverse = inverseRms(centred, last, epsilon)
  const scaled = n.mul(n.mul(centred, inverse), n.cast(gamma, x.dtype))
  return { y: beta === undefined ? scaled : n.add(scaled, n.cast(beta, x.dtype)), mean, inverse }
}

/** x scale / sqrt(mean square + epsilon) over the axes from `axis` on; computed in f32 for half precision. */
const simplified: Handler = (c) => {
  const x = wide(c.need(0))
  const scale = c.need(1)
  const axes = n.axesFrom(c.axis(-1, x.shape.length), x.shape.length)
  const inverse = inverseRms(x, axes, c.float('epsilon', 1e-5))
  return [n.cast(n.mul(n.mul(x, inverse), n.cast(scale, x.dtype)), scale.dtype), inverse]
}

/** Input, residual and bias added in f32 for half precision. The residual may have a batch of 1, or no batch axis. */
function residualSum(c: OpContext, bias: number): n.Node {
  const x = c.need(0)
  const skip = c.need(1)
  c.requireShape(skip.shape.length <= x.shape.length, skip.shape, 'the residual')
  const sum = n.broadcastTo(n.add(wide(x), wide(skip)), x.shape)
  const shift = c.opt(bias)
  return shift === undefined ? sum : n.add(sum, wide(shift))
}

/** Outputs: the normalised sum, mean and 1 / deviation, the sum itself. */
const skipLayerNormalization: Handler = (c) => {
  const { dtype } = c.need(0)
  const sum = residualSum(c, 4)
  const { y, mean, inverse } = layerNormed(sum, c.need(2), c.opt(3), c.float('epsilon', 1e-12))
  return [n.cast(y, dtype), mean, inverse, n.cast(sum, dtype)]
}

/** Outputs: the normalised sum, nothing for the mean, 1 / root mean square, the sum itself. */
const skipSimplified: Handler = (c) => {
  const { dtype } = c.need(0)
  const sum = residualSum(c, 3)
  const inverse = inverseRms(sum, [sum.shape.length - 1], c.float('epsilon', 1e-12))
  const y = n.mul(n.mul(sum, inverse), wide(c.need(2)))
  return [n.cast(y, dtype), undefined, inverse, n.cast(sum, dtype)]
}

/** Outputs: the normalised sum of embeddings, the lengths that the mask tells, the sum itself. */
const embedLayerNormalization: Handler = (c) => {
  const ids = c.need(0)
  const word = c.need(2)
  const sum = embeddingSum({
    ids,
    segments: c.opt(1),
    word: wide(word),
    position: wide(c.need(3)),
    segment: c.opt(4) === undefined ? undefined : wide(c.need(4)),
    positions: c.opt(8),
  })
  const { y } = layerNormed(sum, c.need(5), c.need(6), c.float('epsilon', 1e-12))
  return [n.cast(y, word.dtype), maskLengths(ids, c.opt(7)), n.cast(sum, word.dtype)]
}

/** Per group of as many elements as the scale has: x scale / root mean square, times the activated gate; all in f32. */
const gatedRmsNorm: Handler = (c) => {
  const x = c.need(0)
  const scale = c.need(1)
  const width = scale.shape[0] ?? 1
  const [last = 1, lead] = [x.shape.at(-1), x.shape.slice(0, -1)]
  c.requireShape(scale.shape.length === 1 && last % width === 0, x.shape, `the input of groups of ${width} elements`)
  const activation = c.string('activation', 'silu')
  const gate = wide(c.need(2))
  const opened =
    activation === 'silu' || activation === 'swish'
      ? silu(gate)
      : activation === 'sigmoid'
        ? n.unary('sigmoid', gate)
        : c.fail(`the activation "${activation}"`)
  const rows = n.reshape(wide(x), [...lead, last / width, width])
  const inverse = inverseRms(rows, [rows.shape.length - 1], c.float('epsilon', 1e-5))
  const normal = n.reshape(n.mul(n.mul(rows, inverse), wide(scale)), x.shape)
  return n.cast(n.mul(normal, opened), x.dtype)
}

/** Group normalisation of x, channels last or second; scale and shift per channel; activation 1 is SiLU. */
function grouped(c: OpContext, x: n.Node, gamma: n.Node, beta: n.Node): n.Node {
  const last = c.flag('channels_last', true)
  const rank = x.shape.length
  const groups = c.int('groups', 1)
  const channels = x.shape[last ? rank - 1 : 1] ?? 1
  c.requireShape(rank > 2 && channels % groups === 0, x.shape, `the input in ${groups} groups of channels`)
  const spatial = last ? x.shape.slice(1, -1) : x.shape.slice(2)
  const split = [groups, channels / groups]
  const rows = n.reshape(wide(x), [x.shape[0] ?? 1, ...(last ? [...spatial, ...split] : [...split, ...spatial])])
  const axes = last ? [...spatial.map((_, i) => i + 1), spatial.length + 2] : [2, ...spatial.map((_, i) => i + 3)]
  const centred = n.sub(rows, n.mean(rows, axes, true))
  const normal = n.mul(centred, inverseRms(centred, axes, c.float('epsilon', 1e-5)))
  const vector = (v: n.Node): n.Node =>
    n.reshape(wide(v), [...(last ? [] : split), ...spatial.map(() => 1), ...(last ? split : [])])
  const y = n.reshape(n.add(n.mul(normal, vector(gamma)), vector(beta)), x.shape)
  const activation = c.int('activation', 0)
  if (activation !== 0 && activation !== 1) c.fail(`the activation ${activation}`)
  return activation === 1 ? silu(y) : y
}

const groupNorm: Handler = (c) => n.cast(grouped(c, c.need(0), c.need(1), c.need(2)), c.need(0).dtype)

/** Outputs: the normalised sum of input, residual and bias, the sum itself. A residual [batch, channels] counts everywhere. */
const skipGroupNorm: Handler = (c) => {
  const x = c.need(0)
  const last = c.flag('channels_last', true)
  const along = (v: n.Node): n.Node => {
    if (v.shape.length >= x.shape.length) return wide(v)
    const ones = x.shape.slice(2).map(() => 1)
    const [batch = 1, channels = batch] = v.shape.length === 1 ? [1, v.shape[0] ?? 1] : v.shape
    return n.reshape(wide(v), last ? [batch, ...ones, channels] : [batch, channels, ...ones])
  }
  const bias = c.opt(4)
  const added = n.add(wide(x), along(c.need(3)))
  const sum = bias === undefined ? added : n.add(added, along(bias))
  return [n.cast(grouped(c, sum, c.need(1), c.need(2)), x.dtype), n.cast(sum, x.dtype)]
}

export const defaultNormHandlers: HandlerTable = { SimplifiedLayerNormalization: simplified }

export const contribNormHandlers: HandlerTable = {
  EmbedLayerNormalization: embedLayerNormalization,
  GatedRMSNorm: gatedRmsNorm,
  GroupNorm: groupNorm,
  SimplifiedLayerNormalization: simplified,
  SkipGroupNorm: skipGroupNorm,
  SkipLayerNormalization: skipLayerNormalization,
  SkipSimplifiedLayerNormalization: skipSimplified,
}
