/** What the classical models share: inputs as rows of floats, transforms of scores, labels of classes. */
import { softmax } from '../../../compose/nn.ts'
import { UserError } from '../../../diagnostics/errors.ts'
import type { OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'

/** The input as [rows, features] of f32, or f64 where it is that; a vector is one row. */
export function rowsOf(c: OpContext): n.Node {
  const x = c.need(0)
  c.requireShape(x.shape.length <= 2, x.shape, 'the input')
  const rows = x.shape.length === 2 ? x : n.reshape(x, [1, x.shape[0] ?? 1])
  return rows.dtype === 'f64' ? rows : n.cast(rows, 'f32')
}

/** The attribute's transform, which scores pass through last. */
export type Transform = 'NONE' | 'SOFTMAX' | 'LOGISTIC' | 'SOFTMAX_ZERO' | 'PROBIT'

const transforms: readonly string[] = ['NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO', 'PROBIT'] satisfies Transform[]
const isTransform = (s: string): s is Transform => transforms.includes(s)

/** The transform by its name. Throws E_ONNX_MALFORMED. */
export function transformOf(c: OpContext): Transform {
  const name = c.string('post_transform', 'NONE')
  if (!isTransform(name)) throw new UserError('E_ONNX_MALFORMED', `${c.node.opType} has post_transform "${name}"`)
  return name
}

/** The inverse of the normal distribution function by Winitzki's approximation of erf (2008), which onnxruntime computes. */
function probit(x: n.Node): n.Node {
  const v = n.sub(n.mul(x, 2), 1)
  const log = n.log(n.mul(n.sub(1, v), n.add(v, 1)))
  const a = n.add(n.mul(log, 0.5), 2 / (Math.PI * 0.147))
  const root = n.sqrt(n.sub(n.sqrt(n.sub(n.square(a), n.div(log, 0.147))), a))
  return n.mul(n.mul(n.where(n.compare('lt', v, 0), -1, 1), root), Math.SQRT2)
}

/** Softmax over the last axis of the scores that are not 0, which stay 0. */
function softmaxZero(x: n.Node): n.Node {
  const last = [x.shape.length - 1]
  const counts = n.compare('gt', n.unary('abs', x), 1e-7)
  const e = n.where(counts, n.exp(n.sub(x, n.reduceMax(x, last, true))), n.scalarAs(x, 0))
  const kept = n.where(counts, e, x)
  const total = n.sum(e, last, true)
  return n.div(kept, n.where(n.compare('eq', total, 0), n.scalarAs(total, 1), total))
}

/** Scores [rows, targets] after a transform; a softmax of one target leaves it as it is. */
export function transformed(scores: n.Node, t: Transform): n.Node {
  switch (t) {
    case 'NONE':
      return scores
    case 'LOGISTIC':
      return n.unary('sigmoid', scores)
    case 'PROBIT':
      return probit(scores)
    case 'SOFTMAX':
      return scores.shape[1] === 1 ? scores : softmax(scores)
    case 'SOFTMAX_ZERO':
      return scores.shape[1] === 1 ? scores : softmaxZero(scores)
  }
}

export interface Labels {
  readonly count: number
  /** The labels at positions [rows], i64; undefined where they are strings and nobody reads them. */
  at(index: n.Node): n.Node | undefined
}

/** Labels of classes; strings are refused where they are read. */
export function labelsOf(c: OpContext, ints: string, strings: string): Labels {
  const names = c.strings(strings)
  if (names !== undefined && names.length > 0)
    return {
      count: names.length,
      at: () => (c.wants(0) ? c.fail(`labels that are strings (${strings})`) : undefined),
    }
  const values = c.ints(ints) ?? []
  return { count: values.length, at: (index) => n.take(n.integers(values), index, 0) }
}

/** Position of the greatest score of each row. */
export const winner = (scores: n.Node): n.Node => n.argReduce(scores, 'argmax', 1)

/** Position 1 where a condition [rows] holds, else 0. */
export const second = (condition: n.Node): n.Node => n.cast(condition, 'i64')

/** Two columns. */
export const pair = (a: n.Node, b: n.Node): n.Node => n.stack([a, b], 1)
