/**
 * JVP rules of reductions and scans. max and min share a tie equally (as JAX does); a running max or min follows the first
 * element that attains it. Products multiply by the product of the others, found by scans or by doubling, never by division,
 * so they hold where factors are zero, to every order.
 */
import { add, cast, compare, div, mul, where } from '../../compose/elementwise.ts'
import { sum } from '../../compose/reduce.ts'
import { iota, zeros } from '../../compose/source.ts'
import { permute, reshape } from '../../compose/views.ts'
import { makeNode } from '../../graph/build.ts'
import type { IndexSource, Node, NodeOf } from '../../graph/node.ts'
import { combinerIdentity } from '../../scalar/ops.ts'
import { operand } from '../rule.ts'
import { flipAxis, shiftUp } from '../shift.ts'
import type { JvpRules, Tangent } from './rule.ts'

/** A reduced value repeated over the axes it was reduced from. */
export function spreadBack(y: Node, shape: readonly number[], axes: readonly number[]): Node {
  const dims = shape.map((_, i) => i).filter((i) => !axes.includes(i))
  return makeNode('broadcast', [y], { shape, dims })
}

/** Mean of the tangents of the elements equal to the result. */
function extremumJvp(node: NodeOf<'reduce'>, t: Node): Node {
  const x = operand(node, 0)
  const { axes } = node.attrs
  const attains = compare('eq', x, spreadBack(node, x.shape, axes))
  return div(sum(where(attains, t, 0), axes), sum(cast(attains, node.dtype), axes))
}

/** Each tangent times the product of the other factors: those before it times those after it. */
function productJvp(node: NodeOf<'reduce'>, t: Node): Node {
  const { axes } = node.attrs
  const kept = node.inputs[0]?.shape.map((_, i) => i).filter((i) => !axes.includes(i)) ?? []
  const asRow = (x: Node): Node => {
    const rows = permute(x, [...kept, ...axes])
    return reshape(rows, [...kept.map((i) => x.shape[i] ?? 1), axes.reduce((n, a) => n * (x.shape[a] ?? 1), 1)])
  }
  const x = asRow(operand(node, 0))
  const axis = kept.length
  const scan = (reverse: boolean): Node => makeNode('scan', [x], { combiner: 'prod', axis, reverse, exclusive: true })
  return sum(mul(asRow(t), mul(scan(false), scan(true))), [axis])
}

/**
 * Tangents of running products by doubling (Hillis and Steele 1986): pairs (product, its tangent) of runs of length 2^k
 * combine as (p q, s q + p t).
 */
function runningProduct(factors: Node, tangents: Node, axis: number): Node {
  const n = factors.shape[axis] ?? 0
  let [p, t] = [factors, tangents]
  for (let by = 1; by < n; by *= 2) {
    const before = shiftUp(p, axis, by, 1)
    t = add(mul(t, before), mul(shiftUp(t, axis, by, 0), p))
    if (2 * by < n) p = mul(p, before)
  }
  return t
}

/** The tangent at the first position that attains the running extremum. */
function runningExtremum(x: Node, t: Node, axis: number, combiner: 'max' | 'min'): Node {
  const before = makeNode('scan', [x], { combiner, axis, reverse: false, exclusive: true })
  const record = compare(combiner === 'max' ? 'gt' : 'lt', x, before)
  const place = where(record, iota(x.shape, axis), 0)
  const last = makeNode('scan', [place], { combiner: 'max', axis, reverse: false, exclusive: false })
  const sources = x.shape.map((_, i): IndexSource => (i === axis ? { input: 0 } : { axis: i }))
  return makeNode('gather', [t, last], { shape: x.shape, sources })
}

function scanJvp(node: NodeOf<'scan'>, t: Node): Node {
  const { combiner, axis, reverse, exclusive } = node.attrs
  if (combiner === 'sum') return makeNode('scan', [t], node.attrs)
  if (node.shape.includes(0)) return zeros(node.shape, node.dtype)
  const forward = (x: Node): Node => (reverse ? flipAxis(x, axis) : x)
  const x = forward(operand(node, 0))
  const along = forward(t)
  const shifted = (v: Node, fill: number): Node => (exclusive ? shiftUp(v, axis, 1, fill) : v)
  const running =
    combiner === 'prod'
      ? runningProduct(shifted(x, Number(combinerIdentity('prod', node.dtype))), shifted(along, 0), axis)
      : shifted(runningExtremum(x, along, axis, combiner), 0)
  return forward(running)
}

function reduceJvp(node: NodeOf<'reduce'>, t: Node): Tangent {
  switch (node.attrs.combiner) {
    case 'sum':
      return makeNode('reduce', [t], node.attrs)
    case 'prod':
      return productJvp(node, t)
    case 'max':
    case 'min':
      return extremumJvp(node, t)
    case 'argmax':
    case 'argmin':
      return undefined
  }
}

export const reductionJvp: JvpRules<'reduce' | 'scan'> = {
  reduce: (node, [t]) => (t === undefined ? undefined : reduceJvp(node, t)),
  scan: (node, [t]) => (t === undefined ? undefined : scanJvp(node, t)),
}
