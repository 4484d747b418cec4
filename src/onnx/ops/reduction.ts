/** Reductions, arg-reductions and running folds. */
import { logSumExp } from '../../compose/reduce.ts'
import { isFloat } from '../../types/dtype.ts'
import { normaliseAxis } from '../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'

/** Operator set from which the axes are an input: ReduceSum moved first. */
function reduceAxes(c: OpContext): number[] | undefined {
  const rank = c.need(0).shape.length
  const list = c.intsFrom('axes', 1)
  if (list === undefined || list.length === 0)
    return c.flag('noop_with_empty_axes', false) ? undefined : c.need(0).shape.map((_, i) => i)
  return [...new Set(list.map((a) => normaliseAxis(a, rank)))].sort((a, b) => a - b)
}

type Fold = (x: n.Node, axes: readonly number[], keep: boolean) => n.Node

/** `before` is applied elementwise even when no axis is reduced, `fold` is the reduction. */
const reduction =
  (fold: Fold, before: (x: n.Node) => n.Node = (x) => x, after: (x: n.Node) => n.Node = (x) => x): Handler =>
  (c) => {
    const axes = reduceAxes(c)
    const x = before(c.need(0))
    return after(axes === undefined ? x : fold(x, axes, c.flag('keepdims', true)))
  }

const sum: Fold = (x, axes, keep) => n.sum(x, axes, keep)

/** Mean of whole numbers is truncated to their dtype. */
const mean: Fold = (x, axes, keep) =>
  isFloat(x.dtype)
    ? n.mean(x, axes, keep)
    : n.div(
        n.sum(x, axes, keep),
        axes.reduce((p, a) => p * (x.shape[a] ?? 1), 1),
      )

/** Square root and logarithm of whole numbers go through floats. */
const inFloat =
  (f: (x: n.Node) => n.Node) =>
  (x: n.Node): n.Node =>
    isFloat(x.dtype) ? f(x) : n.cast(f(n.cast(x, 'f64')), x.dtype)

const logSumExpOf: Fold = (x, axes, keep) => inFloat((v) => logSumExp(v, axes, keep))(x)

const argOf =
  (which: 'argmax' | 'argmin'): Handler =>
  (c) => {
    const x = c.need(0)
    const axis = c.axis(0, x.shape.length)
    const y = n.argReduce(x, which, axis, c.flag('select_last_index', false))
    if (!c.flag('keepdims', true)) return y
    return n.reshape(
      y,
      x.shape.map((d, i) => (i === axis ? 1 : d)),
    )
  }

const running =
  (combiner: 'sum' | 'prod'): Handler =>
  (c) => {
    const x = c.need(0)
    const axis = normaliseAxis(c.intOf(1, 'axis'), x.shape.length)
    return n.scan(combiner, x, axis, { reverse: c.flag('reverse', false), exclusive: c.flag('exclusive', false) })
  }

export const reductionHandlers: HandlerTable = {
  ArgMax: argOf('argmax'),
  ArgMin: argOf('argmin'),
  CumProd: running('prod'),
  CumSum: running('sum'),
  ReduceL1: reduction(sum, (x) => n.unary('abs', x)),
  ReduceL2: reduction(sum, (x) => n.mul(x, x), inFloat(n.sqrt)),
  ReduceLogSum: reduction(sum, undefined, inFloat(n.log)),
  ReduceLogSumExp: reduction(logSumExpOf),
  ReduceMax: reduction((x, axes, keep) => n.reduce('max', x, axes, keep)),
  ReduceMean: reduction(mean),
  ReduceMin: reduction((x, axes, keep) => n.reduce('min', x, axes, keep)),
  ReduceProd: reduction((x, axes, keep) => n.reduce('prod', x, axes, keep)),
  ReduceSum: reduction(sum),
  ReduceSumSquare: reduction(sum, (x) => n.mul(x, x)),
}
