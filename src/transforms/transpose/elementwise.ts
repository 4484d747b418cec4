/** Transpose rules of elementwise operations: those that are linear in one operand while the others are known. */
import { cast, div, mul, neg, where } from '../../compose/elementwise.ts'
import { invariant } from '../../diagnostics/errors.ts'
import type { BinaryName, UnaryName } from '../../scalar/ops.ts'
import { operand } from '../rule.ts'
import type { TransposeRules } from './rule.ts'

export const elementwiseTranspose: TransposeRules<UnaryName | BinaryName | 'select' | 'cast' | 'bitcast'> = {
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
  abs: 'nonlinear',
  sign: 'nonlinear',
  floor: 'nonlinear',
  ceil: 'nonlinear',
  round: 'nonlinear',
  trunc: 'nonlinear',
  sqrt: 'nonlinear',
  rsqrt: 'nonlinear',
  exp: 'nonlinear',
  expm1: 'nonlinear',
  log: 'nonlinear',
  log1p: 'nonlinear',
  sin: 'nonlinear',
  cos: 'nonlinear',
  tan: 'nonlinear',
  asin: 'nonlinear',
  acos: 'nonlinear',
  atan: 'nonlinear',
  sinh: 'nonlinear',
  cosh: 'nonlinear',
  tanh: 'nonlinear',
  asinh: 'nonlinear',
  acosh: 'nonlinear',
  atanh: 'nonlinear',
  erf: 'nonlinear',
  sigmoid: 'nonlinear',
  not: 'nonlinear',
  isnan: 'nonlinear',
  isinf: 'nonlinear',
  rem: 'nonlinear',
  pow: 'nonlinear',
  max: 'nonlinear',
  min: 'nonlinear',
  atan2: 'nonlinear',
  and: 'nonlinear',
  or: 'nonlinear',
  xor: 'nonlinear',
  shl: 'nonlinear',
  shr: 'nonlinear',
  eq: 'nonlinear',
  ne: 'nonlinear',
  lt: 'nonlinear',
  le: 'nonlinear',
  gt: 'nonlinear',
  ge: 'nonlinear',
  bitcast: 'nonlinear',
}
