/** Transpose rules of elementwise operations: of those that are linear in one operand while the others are known; the others have none. */
import { cast, div, mul, neg, where } from '../../compose/elementwise.ts'
import { invariant } from '../../diagnostics/errors.ts'
import { type BinaryName, scalarOps, type UnaryName } from '../../scalar/ops.ts'
import { operand } from '../rule.ts'
import type { TransposeRules } from './rule.ts'

type ElementwiseName = UnaryName | BinaryName | 'select' | 'cast' | 'bitcast'

const linear = {
  neg: ({ node, cotangent, give }) => give(operand(node, 0), neg(cotangent)),
  add: ({ node, cotangent, give }) => {
    give(operand(node, 0), cotangent)
    give(operand(node, 1), cotangent)
  },
  sub: ({ node, cotangent, give, isLinear }) => {
    give(operand(node, 0), cotangent)
    if (isLinear(operand(node, 1))) give(operand(node, 1), neg(cotangent))
  },
  mul: ({ node, cotangent, give, isLinear }) => {
    const [a, b] = [operand(node, 0), operand(node, 1)]
    invariant(isLinear(a) !== isLinear(b), 'a product of two tangents')
    if (isLinear(a)) give(a, mul(cotangent, b))
    else give(b, mul(cotangent, a))
  },
  div: ({ node, cotangent, give, isLinear }) => {
    invariant(!isLinear(operand(node, 1)), 'a quotient by a tangent')
    give(operand(node, 0), div(cotangent, operand(node, 1)))
  },
  select: ({ node, cotangent, give, isLinear }) => {
    const [condition, a, b] = [operand(node, 0), operand(node, 1), operand(node, 2)]
    if (isLinear(a)) give(a, where(condition, cotangent, 0))
    if (isLinear(b)) give(b, where(condition, 0, cotangent))
  },
  cast: ({ node, cotangent, give }) => give(operand(node, 0), cast(cotangent, operand(node, 0).dtype)),
} satisfies Partial<TransposeRules<ElementwiseName>>

export const elementwiseTranspose: TransposeRules<ElementwiseName> = {
  ...(Object.fromEntries(Object.keys(scalarOps).map((op) => [op, 'nonlinear'])) as Record<
    ElementwiseName,
    'nonlinear'
  >),
  ...linear,
}
