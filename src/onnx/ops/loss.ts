/** Losses: negative log likelihood and softmax cross-entropy. */
import { logSoftmax } from '../../compose/nn.ts'
import type { IndexSource } from '../../graph/node.ts'
import { sameShape, showShape } from '../../types/shape.ts'
import type { HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'

/**
 * Weighted negative log likelihood of `target` classes: log-probabilities [N, C, d...], target [N, d...]. Elements of the
 * class `ignore_index` weigh nothing, in the mean's divisor too.
 */
function negativeLogLikelihood(c: OpContext, logits: n.Node, target: n.Node, weight: n.Node | undefined): n.Node {
  const points = logits.shape.filter((_, i) => i !== 1)
  c.requireShape(logits.shape.length >= 2, logits.shape, 'the input')
  c.requireShape(sameShape(target.shape, points), target.shape, `the target of ${showShape(logits.shape)} scores`)
  const ignore = c.optInt('ignore_index')
  const index = n.cast(target, 'i64')
  const ignored = ignore === undefined ? undefined : n.compare('eq', index, ignore)
  const safe = ignored === undefined ? index : n.where(ignored, n.filled(index, index.shape, 0), index)
  const sources = logits.shape.map((_, i): IndexSource => (i === 1 ? { input: 0 } : { axis: i === 0 ? 0 : i - 1 }))
  const picked = n.neg(n.gather(logits, [safe], target.shape, sources))
  let factor = weight === undefined ? undefined : n.take(weight, safe, 0)
  if (ignored !== undefined) {
    const zero = n.filled(picked, picked.shape, 0)
    factor = n.where(ignored, zero, factor ?? n.filled(picked, picked.shape, 1))
  }
  const losses = factor === undefined ? picked : n.mul(picked, factor)
  const all = losses.shape.map((_, i) => i)
  switch (c.string('reduction', 'mean')) {
    case 'none':
      return losses
    case 'sum':
      return n.sum(losses, all)
    default:
      return factor === undefined ? n.mean(losses, all) : n.div(n.sum(losses, all), n.sum(factor, all))
  }
}

export const lossHandlers: HandlerTable = {
  NegativeLogLikelihoodLoss: (c) => negativeLogLikelihood(c, c.need(0), c.need(1), c.opt(2)),
  SoftmaxCrossEntropyLoss: (c) => {
    const logProb = logSoftmax(c.need(0), 1)
    return [negativeLogLikelihood(c, logProb, c.need(1), c.opt(2)), logProb]
  },
}
