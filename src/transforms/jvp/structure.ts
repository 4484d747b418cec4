/** JVP rules of sources, views, contractions and boundaries: the op itself on the tangents, since all of it is linear. */
import { makeNode } from '../../graph/build.ts'
import type { Node, NodeOf, OpName } from '../../graph/node.ts'
import { operand, unsupported } from '../rule.ts'
import { addTangents, type JvpRules, materialised, type Tangent } from './rule.ts'

/** A view of the value is the same view of its tangent. */
const sameView =
  <O extends OpName>(op: O) =>
  (node: NodeOf<O>, [t]: readonly Tangent[]): Tangent =>
    t === undefined ? undefined : (makeNode(op, [t], node.attrs) as Node)

export const sourceJvp: JvpRules<'param' | 'constant' | 'full' | 'iota' | 'randomBits' | 'randomMask'> = {
  param: 'zero',
  constant: 'zero',
  full: 'zero',
  iota: 'zero',
  randomBits: 'zero',
  randomMask: 'zero',
}

export const viewJvp: JvpRules<'reshape' | 'permute' | 'broadcast' | 'slice' | 'flip' | 'pad' | 'concat' | 'window'> = {
  reshape: sameView('reshape'),
  permute: sameView('permute'),
  broadcast: sameView('broadcast'),
  slice: sameView('slice'),
  flip: sameView('flip'),
  // What padding adds is constant.
  pad: (node, [t]) => (t === undefined ? undefined : makeNode('pad', [t], { ...node.attrs, value: 0 })),
  concat: (node, tangents) =>
    makeNode(
      'concat',
      node.inputs.map((x, i) => materialised(tangents[i], x)),
      node.attrs,
    ),
  window: sameView('window'),
}

export const contractionJvp: JvpRules<'contract'> = {
  contract: (node, [s, t]) =>
    addTangents(
      s === undefined ? undefined : makeNode('contract', [s, operand(node, 1)], node.attrs),
      t === undefined ? undefined : makeNode('contract', [operand(node, 0), t], node.attrs),
    ),
}

export const boundaryJvp: JvpRules<'opaque' | 'inspect'> = {
  opaque: unsupported(
    'a kernel of the user has no derivative of its own',
    'give it a rule (customJvp, customVjp), or stop the gradient before it (stopGradient)',
  ),
  // The tangent is not seen by the callback.
  inspect: (_, [t]) => t,
}
