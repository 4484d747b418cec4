/** Normalisations. */
import { batchNorm, batchNormTraining } from '../../compose/nn.ts'
import { computeDType } from '../../types/dtype.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'

const axesOfNorm = (c: OpContext, x: n.Node): number[] => n.axesFrom(c.axis(-1, x.shape.length), x.shape.length)

/** Statistics in the stash type (f32), the result of the first stage in x's dtype, then scale and shift. */
const layerNormalization: Handler = (c) => {
  const x = c.need(0)
  const axes = axesOfNorm(c, x)
  const work = n.cast(x, computeDType(x.dtype))
  const mean = n.mean(work, axes, true)
  const centred = n.sub(work, mean)
  const inverse = n.unary('rsqrt', n.add(n.mean(n.square(centred), axes, true), c.float('epsilon', 1e-5)))
  const scaled = n.mul(n.cast(n.mul(centred, inverse), x.dtype), c.need(1))
  const bias = c.opt(2)
  return [bias === undefined ? scaled : n.add(scaled, bias), mean, inverse]
}

const rmsNormalization: Handler = (c) => {
  const x = c.need(0)
  const axes = axesOfNorm(c, x)
  const work = n.cast(x, computeDType(x.dtype))
  const inverse = n.unary('rsqrt', n.add(n.mean(n.square(work), axes, true), c.float('epsilon', 1e-5)))
  const scale = c.need(1)
  return n.mul(n.cast(n.mul(work, inverse), scale.dtype), scale)
}

const perChannel = (v: n.Node, x: n.Node): n.Node => n.alongAxis(v, 1, x.shape.length)

const batchNormalization: Handler = (c) => {
  const x = c.need(0)
  const options = { scale: c.need(1), bias: c.need(2), epsilon: c.float('epsilon', 1e-5) }
  if (!c.flag('training_mode', false)) return batchNorm(x, c.need(3), c.need(4), options)
  const { output, mean, variance } = batchNormTraining(x, options)
  const momentum = c.float('momentum', 0.9)
  const running = (old: n.Node, now: n.Node): n.Node =>
    n.add(n.mul(old, momentum), n.mul(n.cast(now, old.dtype), 1 - momentum))
  return [output, running(c.need(3), mean), running(c.need(4), variance)]
}

/** Zero mean and unit variance over axes, in the working dtype. */
function standardise(x: n.Node, axes: readonly number[], epsilon: number): n.Node {
  const work = n.cast(x, computeDType(x.dtype))
  const centred = n.sub(work, n.mean(work, axes, true))
  const spread = n.mean(n.square(centred), axes, true)
  return n.cast(n.mul(centred, n.unary('rsqrt', n.add(spread, epsilon))), x.dtype)
}

const instanceNormalization: Handler = (c) => {
  const x = c.need(0)
  const y = standardise(x, n.axesFrom(2, x.shape.length), c.float('epsilon', 1e-5))
  return n.add(n.mul(y, perChannel(c.need(1), x)), perChannel(c.need(2), x))
}

/** Scale and bias are per group before operator set 21, per channel since. */
const groupNormalization: Handler = (c) => {
  const x = c.need(0)
  const [batch = 1, channels = 1] = x.shape
  const groups = c.int('num_groups', 1)
  const rows = n.reshape(x, [batch, groups, channels / groups, ...x.shape.slice(2)])
  const normal = standardise(rows, n.axesFrom(2, rows.shape.length), c.float('epsilon', 1e-5))
  const affine = (v: n.Node): n.Node =>
    c.opset < 21
      ? n.alongAxis(v, 1, rows.shape.length)
      : n.reshape(v, [groups, channels / groups, ...x.shape.slice(2).map(() => 1)])
  return n.reshape(n.add(n.mul(normal, affine(c.need(1))), affine(c.need(2))), x.shape)
}

/** x / (bias + alpha / size * sum of squares over neighbouring channels) ^ beta. */
const lrn: Handler = (c) => {
  const x = c.need(0)
  const size = c.int('size', 1)
  const before = Math.floor((size - 1) / 2)
  const widths = x.shape.map((_, i): [number, number] => (i === 1 ? [before, size - 1 - before] : [0, 0]))
  const squares = n.sum(n.slidingWindow(n.pad(n.square(x), widths), 1, size), [2])
  const base = n.add(n.mul(squares, c.float('alpha', 1e-4) / size), c.float('bias', 1))
  return n.div(x, n.pow(base, c.float('beta', 0.75)))
}

/** A zero norm gives zeros. */
const lpNormalization: Handler = (c) => {
  const x = c.need(0)
  const axis = c.axis(-1, x.shape.length)
  const norm = c.int('p', 2) === 1 ? n.sum(n.unary('abs', x), [axis], true) : n.sqrt(n.sum(n.square(x), [axis], true))
  const zero = n.compare('eq', norm, 0)
  return n.where(zero, n.filled(x, x.shape, 0), n.div(x, n.where(zero, n.filled(norm, norm.shape, 1), norm)))
}

const meanVariance: Handler = (c) => standardise(c.need(0), c.ints('axes') ?? [0, 2, 3], 1e-9)

export const normHandlers: HandlerTable = {
  BatchNormalization: batchNormalization,
  GroupNormalization: groupNormalization,
  InstanceNormalization: instanceNormalization,
  LRN: lrn,
  LayerNormalization: layerNormalization,
  LpNormalization: lpNormalization,
  MeanVarianceNormalization: meanVariance,
  RMSNormalization: rmsNormalization,
}
