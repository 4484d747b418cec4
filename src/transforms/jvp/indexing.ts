/** JVP rules of gather and scatter: indices are known, so reading and adding are linear; max and min share a tie equally. */
import { cast, compare, div, logicalAnd, mul, where } from '../../compose/elementwise.ts'
import { ones } from '../../compose/source.ts'
import { makeNode } from '../../graph/build.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
import { inRange } from '../points.ts'
import { operand, refuse } from '../rule.ts'
import { type JvpRules, materialised, type Tangent } from './rule.ts'

/** Mean of the tangents of those, target and updates, that are equal to the result. */
function extremumJvp(node: NodeOf<'scatter'>, tx: Tangent, tu: Tangent): Node {
  const [x, updates] = [operand(node, 0), operand(node, 1)]
  const indices = node.inputs.slice(2)
  const { sources } = node.attrs
  const points = { shape: updates.shape, indices, sources }
  const result = makeNode('gather', [node, ...indices], { shape: updates.shape, sources })
  const within = inRange(points, x.shape)
  const equal = compare('eq', updates, result)
  const attains = within === undefined ? equal : logicalAnd(equal, within)
  const stays = compare('eq', x, node)
  const collect = (target: Node, values: Node): Node =>
    makeNode('scatter', [target, values, ...indices], { sources, combiner: 'sum' })
  const count = collect(cast(stays, x.dtype), cast(attains, x.dtype))
  const total = collect(where(stays, materialised(tx, x), 0), where(attains, materialised(tu, updates), 0))
  return div(total, count)
}

function scatterJvp(node: NodeOf<'scatter'>, tx: Tangent, tu: Tangent): Tangent {
  const [x, updates] = [operand(node, 0), operand(node, 1)]
  const indices = node.inputs.slice(2)
  const { combiner } = node.attrs
  if (tx === undefined && tu === undefined) return undefined
  switch (combiner) {
    case 'sum':
    case 'set':
      return makeNode('scatter', [materialised(tx, x), materialised(tu, updates), ...indices], node.attrs)
    case 'prod':
      if (tu !== undefined)
        return refuse(
          node,
          'the derivative',
          'a product scattered has none in its updates',
          'multiply before scattering',
        )
      return tx === undefined
        ? undefined
        : mul(tx, makeNode('scatter', [ones(x.shape, x.dtype), updates, ...indices], node.attrs))
    case 'max':
    case 'min':
      return extremumJvp(node, tx, tu)
  }
}

export const indexingJvp: JvpRules<'gather' | 'scatter'> = {
  gather: (node, [t]) => (t === undefined ? undefined : makeNode('gather', [t, ...node.inputs.slice(1)], node.attrs)),
  scatter: (node, [tx, tu]) => scatterJvp(node, tx, tu),
}
