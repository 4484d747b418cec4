/** Linear models. */
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { labelsOf, pair, rowsOf, second, transformed, transformOf, winner } from './scores.ts'

/** x W' + b, with coefficients [targets, features] and an intercept for each target. */
function products(c: OpContext, x: n.Node, targets: number): n.Node {
  const coefficients = c.floats('coefficients') ?? []
  const features = x.shape[1] ?? 0
  c.requireLength('coefficients', coefficients, targets * features)
  const w = n.floats(coefficients, [targets, features], x.dtype)
  const y = n.contractLabelled(x, 'nf', w, 'tf', 'nt')
  const intercepts = c.floats('intercepts') ?? []
  if (intercepts.length === 0) return y
  c.requireLength('intercepts', intercepts, targets)
  return n.add(y, n.floats(intercepts, [targets], x.dtype))
}

const linearRegressor: Handler = (c) => transformed(products(c, rowsOf(c), c.int('targets', 1)), transformOf(c))

/** Of one row of coefficients the score tells between two classes: its sign chooses, and the other class has the rest of 1. */
const linearClassifier: Handler = (c) => {
  const x = n.cast(rowsOf(c), 'f32')
  const labels = labelsOf(c, 'classlabels_ints', 'classlabels_strings')
  const features = x.shape[1] ?? 1
  const rows = Math.max(1, Math.round((c.floats('coefficients') ?? []).length / Math.max(1, features)))
  const scores = products(c, x, rows)
  const t = transformOf(c)
  if (rows > 1) return [labels.at(winner(scores)), transformed(scores, t)]
  const score = n.indexAxis(scores, 1, 0)
  const chosen = second(n.compare('gt', score, 0))
  if (labels.count !== 2)
    return [labels.count === 0 ? chosen : labels.at(n.filled(chosen, chosen.shape, 0)), transformed(scores, t)]
  if (t === 'PROBIT') return [labels.at(chosen), transformed(scores, t)]
  return [labels.at(chosen), pair(n.sub(1, score), score)]
}

/** (x - offset) scale, for all features or each. */
const scaler: Handler = (c) => {
  const given = c.need(0)
  const x = n.cast(given, 'f32')
  const features = x.shape.at(-1) ?? 1
  const vector = (name: string, fallback: number): n.Node => {
    const values = c.floats(name) ?? [fallback]
    if (values.length !== 1) c.requireLength(name, values, features)
    return n.floats(values, [values.length])
  }
  return n.mul(n.sub(x, vector('offset', 0)), vector('scale', 1))
}

/** Rows over their greatest element, the sum of their magnitudes, or the root of the sum of their squares; rows of zeros stay. */
const normalizer: Handler = (c) => {
  const x = n.cast(c.need(0), 'f32')
  const last = [x.shape.length - 1]
  const which = c.string('norm', 'MAX')
  const norm =
    which === 'MAX'
      ? n.reduceMax(x, last, true)
      : which === 'L1'
        ? n.sum(n.unary('abs', x), last, true)
        : which === 'L2'
          ? n.sqrt(n.sum(n.square(x), last, true))
          : c.fail(`the norm "${which}"`)
  const none = n.compare('eq', norm, 0)
  return n.where(none, x, n.div(x, n.where(none, n.scalarAs(norm, 1), norm)))
}

export const mlLinearHandlers: HandlerTable = {
  LinearClassifier: linearClassifier,
  LinearRegressor: linearRegressor,
  Normalizer: normalizer,
  Scaler: scaler,
}
