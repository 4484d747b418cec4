/** Batching rules of elementwise operations: the operation itself, with operands that lack the batch repeated. */
import { makeNode } from '../../graph/build.ts'
import type { AttrsByOp, Node } from '../../graph/node.ts'
import type { BinaryName, UnaryName } from '../../scalar/ops.ts'
import { allBatched } from './operand.ts'
import type { BatchRule, BatchRules } from './rule.ts'

type ElementwiseName = UnaryName | BinaryName | 'select' | 'cast' | 'bitcast'

const lift = <O extends ElementwiseName>(op: O): BatchRule<O> => {
  return (b) => makeNode(op, allBatched(b), b.node.attrs as AttrsByOp[O]) as Node
}

export const elementwiseBatching: BatchRules<ElementwiseName> = {
  neg: lift('neg'),
  abs: lift('abs'),
  sign: lift('sign'),
  floor: lift('floor'),
  ceil: lift('ceil'),
  round: lift('round'),
  trunc: lift('trunc'),
  sqrt: lift('sqrt'),
  rsqrt: lift('rsqrt'),
  exp: lift('exp'),
  expm1: lift('expm1'),
  log: lift('log'),
  log1p: lift('log1p'),
  sin: lift('sin'),
  cos: lift('cos'),
  tan: lift('tan'),
  asin: lift('asin'),
  acos: lift('acos'),
  atan: lift('atan'),
  sinh: lift('sinh'),
  cosh: lift('cosh'),
  tanh: lift('tanh'),
  asinh: lift('asinh'),
  acosh: lift('acosh'),
  atanh: lift('atanh'),
  erf: lift('erf'),
  sigmoid: lift('sigmoid'),
  not: lift('not'),
  isnan: lift('isnan'),
  isinf: lift('isinf'),
  add: lift('add'),
  sub: lift('sub'),
  mul: lift('mul'),
  div: lift('div'),
  rem: lift('rem'),
  pow: lift('pow'),
  max: lift('max'),
  min: lift('min'),
  atan2: lift('atan2'),
  and: lift('and'),
  or: lift('or'),
  xor: lift('xor'),
  shl: lift('shl'),
  shr: lift('shr'),
  eq: lift('eq'),
  ne: lift('ne'),
  lt: lift('lt'),
  le: lift('le'),
  gt: lift('gt'),
  ge: lift('ge'),
  select: lift('select'),
  cast: lift('cast'),
  bitcast: lift('bitcast'),
}
