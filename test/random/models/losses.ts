/** What random models end in: losses of rows [..., width], or the rows. */

import type { Tensor } from '../../../src/index.ts'
import * as s from '../../../src/index.ts'
import { dense, widthOf } from './layers.ts'
import type { Model } from './model.ts'

/** A scalar of what a model gives. */
export function lossOf(m: Model, x: Tensor): Tensor {
  const rows = x.shape.slice(0, -1)
  const kind = m.rng.int(0, 11)
  m.note(`loss ${kind}`)
  if (kind === 0) return x.sum()
  if (kind === 1) return x.square().mean()
  if (kind === 2) return x.sub(m.data(x.shape)).square().mean()
  if (kind <= 4) return s.crossEntropy(x, m.indices(rows, widthOf(x))).mean()
  if (kind === 5)
    return s
      .logSoftmax(x)
      .mul(s.softmax(m.data(x.shape, 2)))
      .sum(-1)
      .mean()
      .neg()
  if (kind === 6)
    return s
      .softplus(x)
      .sub(x.mul(m.data(x.shape)))
      .mean()
  if (kind === 7) return x.mul(m.data(x.shape)).sum()
  if (kind === 8) {
    const apart = x.sub(m.data(x.shape)).abs()
    return s.where(apart.less(0.5), apart.square(), apart.sub(0.25)).sum()
  }
  if (kind === 9) return x.logsumexp(-1).mean()
  if (kind === 10 && x.rank === 2) {
    const unit = x.div(x.square().sum(-1, true).add(0.1).sqrt())
    const scores = unit.matmul(dense(m, unit, widthOf(unit)).transpose()).mul(2)
    return s.crossEntropy(scores, s.arange(rows[0] ?? 1)).mean()
  }
  const at = m.indices([...rows, 1], widthOf(x))
  return s.logSoftmax(x).takeAlongAxis(at, -1).mean().neg()
}
