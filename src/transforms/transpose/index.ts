/** The transpose rule of every op. */
import { makeNode } from '../../graph/build.ts'
import { spreadBack } from '../jvp/reduction.ts'
import { operand } from '../rule.ts'
import { contractionTranspose } from './contraction.ts'
import { elementwiseTranspose } from './elementwise.ts'
import { indexingTranspose } from './indexing.ts'
import type { TransposeRules } from './rule.ts'
import { viewTranspose } from './views.ts'

export { regionTranspose } from './region.ts'
export type {
  RegionTransposeRules,
  RegionTransposition,
  TransposedGraph,
  TransposeRule,
  TransposeRules,
  Transposition,
} from './rule.ts'

const reductionTranspose: TransposeRules<'reduce' | 'scan'> = {
  reduce: ({ node, cotangent, give }) => {
    const x = operand(node, 0)
    give(x, spreadBack(cotangent, x.shape, node.attrs.axes))
  },
  scan: ({ node, cotangent, give }) =>
    give(operand(node, 0), makeNode('scan', [cotangent], { ...node.attrs, reverse: !node.attrs.reverse })),
}

const sourceTranspose: TransposeRules<
  'param' | 'constant' | 'full' | 'iota' | 'randomBits' | 'randomMask' | 'opaque' | 'inspect'
> = {
  param: 'nonlinear',
  constant: 'nonlinear',
  full: 'nonlinear',
  iota: 'nonlinear',
  randomBits: 'nonlinear',
  randomMask: 'nonlinear',
  opaque: 'nonlinear',
  inspect: 'nonlinear',
}

export const transposeRules = {
  ...elementwiseTranspose,
  ...sourceTranspose,
  ...viewTranspose,
  ...indexingTranspose,
  ...reductionTranspose,
  ...contractionTranspose,
} satisfies TransposeRules
