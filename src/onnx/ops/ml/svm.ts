/** Support vector machines: one class, regression, and classes against each other. */
import { loopNodes } from '../../../compose/control.ts'
import { graphBetween } from '../../../graph/subgraph.ts'
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { stepParams } from '../../stepBody.ts'
import { labelsOf, pair, rowsOf, transformed, transformOf, winner } from './scores.ts'

/** Kernel of rows of x with rows of v [vectors, features], plus a number: [rows, vectors]. */
function kernelOf(c: OpContext, x: n.Node, v: n.Node, linear: boolean): n.Node {
  const [gamma = 0, coef0 = 0, degree = 0] = c.floats('kernel_params') ?? []
  const type = linear ? 'LINEAR' : c.string('kernel_type', 'LINEAR')
  if (type === 'RBF') {
    // Squared differences, so that near vectors lose no digits.
    const shape = [x.shape[0] ?? 0, v.shape[0] ?? 0, x.shape[1] ?? 0]
    const apart = n.sub(n.broadcastTo(n.expandDims(x, 1), shape), n.broadcastTo(n.expandDims(v, 0), shape))
    return n.exp(n.mul(n.sum(n.square(apart), [2]), -gamma))
  }
  const dot = n.contractLabelled(x, 'nf', v, 'vf', 'nv')
  if (type === 'LINEAR') return dot
  const moved = n.add(n.mul(dot, gamma), coef0)
  if (type === 'POLY') return n.pow(moved, degree)
  return type === 'SIGMOID' ? n.tanh(moved) : c.fail(`the kernel_type "${type}"`)
}

const vectors = (c: OpContext, values: readonly number[], count: number, features: number): n.Node => {
  c.requireLength('support_vectors', values, count * features)
  return n.floats(values, [count, features])
}

const svmRegressor: Handler = (c) => {
  const x = n.cast(rowsOf(c), 'f32')
  const features = x.shape[1] ?? 0
  const count = c.int('n_supports', 0)
  const coefficients = c.floats('coefficients') ?? []
  const [rho = 0] = c.floats('rho') ?? []
  let score: n.Node
  if (count > 0) {
    c.requireLength('coefficients', coefficients, count)
    const kernel = kernelOf(c, x, vectors(c, c.floats('support_vectors') ?? [], count, features), false)
    score = n.contractLabelled(kernel, 'nv', n.floats(coefficients, [count]), 'v', 'n')
  } else {
    c.requireLength('coefficients', coefficients, features)
    score = n.indexAxis(kernelOf(c, x, n.floats(coefficients, [1, features]), true), 1, 0)
  }
  const moved = n.expandDims(n.add(score, rho), 1)
  if (!c.flag('one_class', false)) return transformed(moved, transformOf(c))
  return n.where(n.compare('gt', moved, 0), 1, n.full(moved.shape, -1, 'f32'))
}

/** Scores of each pair of classes (i, j), i < j: [rows, pairs]; positive for i. */
function pairScores(c: OpContext, kernel: n.Node, each: readonly number[]): n.Node {
  const total = each.reduce((a, b) => a + b, 0)
  const coefficients = c.floats('coefficients') ?? []
  const rho = c.floats('rho') ?? []
  const starts = each.map((_, i) => each.slice(0, i).reduce((a, b) => a + b, 0))
  const count = (each.length * (each.length - 1)) / 2
  c.requireLength('coefficients', coefficients, (each.length - 1) * total)
  c.requireLength('rho', rho, count)
  const w = new Float64Array(count * total)
  let at = 0
  for (let i = 0; i < each.length; i++)
    for (let j = i + 1; j < each.length; j++, at++) {
      const copy = (from: number, row: number, size: number): void => {
        for (let m = 0; m < size; m++) w[at * total + from + m] = coefficients[row * total + from + m] ?? 0
      }
      copy(starts[i] ?? 0, j - 1, each[i] ?? 0)
      copy(starts[j] ?? 0, i, each[j] ?? 0)
    }
  const products = n.contractLabelled(kernel, 'nv', n.floats(w, [count, total]), 'pv', 'np')
  return n.add(products, n.floats(rho, [count]))
}

/** Votes of pairs [rows, pairs] for classes: [rows, classes]. */
function votesOf(scores: n.Node, classes: number): n.Node {
  const forFirst: number[] = []
  const forSecond: number[] = []
  for (let i = 0; i < classes; i++)
    for (let j = i + 1; j < classes; j++)
      for (let k = 0; k < classes; k++) {
        forFirst.push(k === i ? 1 : 0)
        forSecond.push(k === j ? 1 : 0)
      }
  const count = (classes * (classes - 1)) / 2
  const won = n.cast(n.compare('gt', scores, 0), 'f32')
  const first = n.contractLabelled(won, 'np', n.floats(forFirst, [count, classes]), 'pc', 'nc')
  return n.add(first, n.contractLabelled(n.sub(1, won), 'np', n.floats(forSecond, [count, classes]), 'pc', 'nc'))
}

/** Steps of coupling, as libsvm has them. */
const couplingSteps = 100

/**
 * Probabilities of classes from those of pairs [rows, classes, classes] (Wu, Lin and Weng 2004, second method): a class a step, until the
 * equations hold within 0.005 / classes for the row.
 */
function coupled(r: n.Node): n.Node {
  const [rows = 0, classes = 1] = r.shape
  const shape = [rows, classes, classes]
  const diagonal = n.compare('eq', n.iota(shape, 1), n.iota(shape, 2))
  const transposed = n.swapAxes(r, 1, 2)
  const zero = n.scalarAs(r, 0)
  const squares = n.sum(n.where(diagonal, zero, n.square(transposed)), [2])
  const q = n.where(diagonal, n.expandDims(squares, 2), n.neg(n.mul(transposed, r)))
  const own = n.sum(n.where(diagonal, q, zero), [2])
  const start = n.full([rows, classes], 1 / classes, r.dtype)
  const params = stepParams([
    { shape, dtype: r.dtype },
    { shape: [rows, classes], dtype: r.dtype },
    { shape: [rows, classes], dtype: r.dtype },
  ])
  const [matrix = q, diag = own, given = start] = params
  let p: n.Node = given
  let product: n.Node = n.contractLabelled(matrix, 'nij', p, 'nj', 'ni')
  let value: n.Node = n.sum(n.mul(p, product), [1], true)
  const off = n.reduceMax(n.unary('abs', n.sub(product, value)), [1], true)
  const done = n.compare('lt', off, 0.005 / classes)
  for (let t = 0; t < classes; t++) {
    const column = (x: n.Node): n.Node => n.sliceAxis(x, 1, t, t + 1)
    const own = column(diag)
    const diff = n.div(n.sub(value, column(product)), own)
    const scale = n.add(diff, 1)
    const row = n.indexAxis(matrix, 1, t)
    const pull = n.add(n.mul(diff, own), n.mul(column(product), 2))
    value = n.div(n.add(value, n.mul(diff, pull)), n.square(scale))
    product = n.div(n.add(product, n.mul(diff, row)), scale)
    const here = n.compare('eq', n.iota([rows, classes], 1), t)
    p = n.div(n.where(here, n.add(p, diff), p), scale)
  }
  const next = n.where(done, given, p)
  const { carries } = loopNodes(graphBetween(params, [next]), { length: couplingSteps }, [q, own], [start], [])
  return carries[0] ?? start
}

/** Probabilities of pairs by Platt's sigmoid, as [rows, classes, classes]: (i, j) and (j, i) add to 1. */
function pairProbabilities(c: OpContext, scores: n.Node, classes: number): n.Node {
  const [a, b] = [c.floats('prob_a') ?? [], c.floats('prob_b') ?? []]
  const count = (classes * (classes - 1)) / 2
  c.requireLength('prob_a', a, count)
  c.requireLength('prob_b', b, count)
  const moved = n.add(n.mul(scores, n.floats(a, [count])), n.floats(b, [count]))
  const p = n.clip(n.unary('sigmoid', n.neg(moved)), 1e-7, 1 - 1e-7)
  const index: number[] = []
  const place = (i: number, j: number): number => (i * (2 * classes - i - 1)) / 2 + j - i - 1
  for (let i = 0; i < classes; i++)
    for (let j = 0; j < classes; j++) index.push(i === j ? 0 : place(Math.min(i, j), Math.max(i, j)))
  const rows = scores.shape[0] ?? 0
  const square = n.reshape(n.takeKnown(p, index, 1), [rows, classes, classes])
  const upper = n.compare('lt', n.iota(square.shape, 1), n.iota(square.shape, 2))
  const diagonal = n.compare('eq', n.iota(square.shape, 1), n.iota(square.shape, 2))
  return n.where(diagonal, n.scalarAs(square, 0), n.where(upper, square, n.sub(1, square)))
}

const svmClassifier: Handler = (c) => {
  const x = n.cast(rowsOf(c), 'f32')
  const features = x.shape[1] ?? 0
  const labels = labelsOf(c, 'classlabels_ints', 'classlabels_strings')
  const coefficients = c.floats('coefficients') ?? []
  const each = c.ints('vectors_per_class') ?? []
  const total = each.reduce((a, b) => a + b, 0)
  const t = transformOf(c)
  if (total === 0) {
    const classes = labels.count
    c.requireLength('coefficients', coefficients, classes * features)
    const [rho = 0] = c.floats('rho') ?? []
    const w = n.floats(coefficients, [classes, features])
    const scores = n.add(kernelOf(c, x, w, true), rho)
    const positive = coefficients.every((v) => v >= 0)
    return [labels.at(chosenOf(scores, classes, positive)), transformed(scores, t)]
  }
  const classes = each.length
  const kernel = kernelOf(c, x, vectors(c, c.floats('support_vectors') ?? [], total, features), false)
  const scores = pairScores(c, kernel, each)
  const label = labels.at(winner(votesOf(scores, classes)))
  if ((c.floats('prob_a') ?? []).length > 0)
    return [label, transformed(coupled(pairProbabilities(c, scores, classes)), t)]
  if (classes > 2) return [label, transformed(scores, t)]
  const score = n.indexAxis(scores, 1, 0)
  return [label, t === 'NONE' ? pair(n.neg(score), score) : pair(n.sub(1, score), score)]
}

/** The class of the greatest score; of two, the second where that is large enough. */
function chosenOf(scores: n.Node, classes: number, positive: boolean): n.Node {
  const first = winner(scores)
  if (classes !== 2) return first
  const top = n.reduceMax(scores, [1])
  return n.where(positive ? n.compare('ge', top, 0.5) : n.compare('gt', top, 0), n.scalarAs(first, 1n), first)
}

export const mlSvmHandlers: HandlerTable = { SVMClassifier: svmClassifier, SVMRegressor: svmRegressor }
