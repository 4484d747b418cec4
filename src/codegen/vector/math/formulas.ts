/** Approximated functions on vectors: the formulas of `scalar/approximations.ts` as vector instructions. */
import type { Algebra } from '../../../scalar/formula.ts'
import { erf } from './erf.ts'
import { exp } from './exp.ts'
import { log } from './log.ts'
import type { Ex, Vector } from './vector.ts'

export const vectorAlgebra = (v: Vector): Algebra<Ex, Ex> => ({
  wide: v.wide,
  lit: (x) => v.c(x),
  let: (x) => v.let(x),
  add: v.add,
  sub: v.sub,
  mul: v.mul,
  div: v.div,
  fma: (a, b, c) => v.fma(a, b, c),
  neg: v.neg,
  abs: v.abs,
  sqrt: v.sqrt,
  round: (a) => v.float('nearest', a),
  exp: (a) => exp(v, v.let(a)),
  log: (a) => log(v, v.let(a)),
  erf: (a) => erf(v, v.let(a)),
  lt: v.lt,
  eq: v.eq,
  isnan: (a) => v.ne(a, a),
  isinf: (a) => v.eq(v.abs(a), v.c(Number.POSITIVE_INFINITY)),
  select: v.select,
})
