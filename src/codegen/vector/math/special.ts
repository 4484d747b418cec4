/**
 * Special functions on registers: by vector formulas (one element runs the same code in lane 0, so scalar and vector
 * results agree bit for bit), or by functions outside the program: f64 in strict mode, and where it has no formula.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import { approximationOf } from '../../../scalar/approximations.ts'
import { engineBinary, engineUnary, floatBinary, floatUnary } from '../../../scalar/float.ts'
import type { BinaryName, UnaryName } from '../../../scalar/ops.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { External } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { type Env, makeReg, perLane, type Reg, read, regClass, viaVector } from '../value/reg.ts'
import { acos, asin, atan, atan2 } from './arc.ts'
import { erf } from './erf.ts'
import { cosh, exp, expm1, sigmoid, sinh, tanh } from './exp.ts'
import { vectorAlgebra } from './formulas.ts'
import { acosh, asinh, atanh, log, log1p } from './log.ts'
import { pow, rem } from './pow.ts'
import { cos, sin, tan } from './trig.ts'
import { type Ex, type Exact, Vector } from './vector.ts'

type Scalar = (a: number, b: number) => number

/** Strict mode's functions of f64 scalars: the same bits on every engine. */
const strictFunctions: Readonly<Record<string, Scalar>> = { ...floatUnary, ...floatBinary }

/** The functions of f64 scalars that emitted code may call, by name; those of strict mode have names of their own. */
export const mathImports: Readonly<Record<string, Scalar>> = {
  ...engineUnary,
  ...engineBinary,
  ...Object.fromEntries(Object.entries(strictFunctions).map(([op, f]) => [`strict.${op}`, f])),
}

/** `exact` is the double-precision function on the stack, for rare operands. */
type VectorFunction = (v: Vector, x: Ex, y: Ex, exact: Exact) => Ex

const unary =
  (g: (v: Vector, x: Ex) => Ex): VectorFunction =>
  (v, x) =>
    g(v, x)
const periodic =
  (g: (v: Vector, x: Ex, exact: Exact) => Ex): VectorFunction =>
  (v, x, _, exact) =>
    g(v, x, exact)

/** Vector formulas; operands may be evaluated any number of times. */
const formulas: Partial<Record<UnaryName | BinaryName, VectorFunction>> = {
  exp: unary(exp),
  expm1: unary(expm1),
  sigmoid: unary(sigmoid),
  sinh: unary(sinh),
  cosh: unary(cosh),
  tanh: unary(tanh),
  erf: unary(erf),
  log: unary(log),
  log1p: unary(log1p),
  asinh: unary(asinh),
  acosh: unary(acosh),
  atanh: unary(atanh),
  sin: periodic(sin),
  cos: periodic(cos),
  tan: periodic(tan),
  atan: unary(atan),
  asin: unary(asin),
  acos: unary(acos),
  atan2,
  pow,
  rem,
}

/** Those of f32 alone. */
const single: ReadonlySet<string> = new Set(['sin', 'cos', 'tan', 'atan', 'asin', 'acos', 'atan2', 'rem'])

function formulaOf(op: UnaryName | BinaryName, isWide: boolean): VectorFunction | undefined {
  const approximation = approximationOf(op)
  if (approximation !== undefined) return (v, x, y) => approximation.formula(vectorAlgebra(v), x, y)
  return isWide && single.has(op) ? undefined : formulas[op]
}

/** Whether an operation is a special function: neither one instruction nor a few exact ones. */
export const isSpecial = (op: string): op is UnaryName | BinaryName => Object.hasOwn(strictFunctions, op)

/** A function outside the program, of so many f64 operands. */
const external = (f: Builder, env: Env, op: UnaryName | BinaryName, operands: number): External =>
  f.external(
    env.mode === 'strict' ? `strict.${op}` : op,
    Array.from({ length: operands }, () => T.f64),
    T.f64,
  )

function viaCall(f: Builder, env: Env, op: UnaryName | BinaryName, args: readonly Reg[]): Reg {
  const [first] = args
  invariant(first !== undefined, `${op} without operands`)
  const narrow = regClass(first.dtype) === 'f32'
  const callee = external(f, env, op, args.length)
  return makeReg(f, first.dtype, 1, () => {
    const out = X.call(
      callee,
      args.map((a) => (narrow ? X.convert(T.f64, read(a)) : read(a))),
    )
    return narrow ? X.convert(T.f32, out) : out
  })
}

/** A special function of one or two operands of a float dtype. */
export function emitSpecial(f: Builder, env: Env, op: UnaryName | BinaryName, args: readonly Reg[]): Reg {
  const [x, y = x] = args
  invariant(x !== undefined && y !== undefined, `${op} without operands`)
  const isWide = x.dtype === 'f64'
  const formula = isWide && env.mode === 'strict' ? undefined : formulaOf(op, isWide)
  if (formula === undefined)
    return x.lanes === 1
      ? viaCall(f, env, op, args)
      : perLane(f, x.dtype, args, (elements) => viaCall(f, env, op, elements))
  if (x.lanes === 1) return viaVector(f, args, (wide) => emitSpecial(f, env, op, wide))
  const v = new Vector(f, env, isWide)
  const exact: Exact = (elements) => X.call(external(f, env, op, args.length), elements)
  return { dtype: x.dtype, lanes: 4, parts: x.parts.map((_, i) => v.result(formula(v, read(x, i), read(y, i), exact))) }
}
