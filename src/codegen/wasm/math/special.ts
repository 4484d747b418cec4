/**
 * Special functions on registers: f32 by vector formulas (one element runs the same code in lane 0, so scalar and vector
 * results agree bit for bit), f64 by functions imported from JavaScript.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import { approximationOf } from '../../../scalar/approximations.ts'
import { floatBinary, floatUnary } from '../../../scalar/float.ts'
import type { BinaryName, UnaryName } from '../../../scalar/ops.ts'
import type { FunctionBuilder } from '../binary/builder.ts'
import { type Env, makeReg, part, perLane, type Reg, regClass, viaVector } from '../value/reg.ts'
import { acos, asin, atan, atan2 } from './arc.ts'
import { erf } from './erf.ts'
import { cosh, exp, expm1, sigmoid, sinh, tanh } from './exp.ts'
import { vectorAlgebra } from './formulas.ts'
import { acosh, asinh, atanh, log, log1p } from './log.ts'
import { pow, rem } from './pow.ts'
import { cos, sin, tan } from './trig.ts'
import { type Ex, Vector } from './vector.ts'

/** Module name of the imports that emitted code may ask for. */
export const mathModule = 'math'

/** What to instantiate modules with: `{ math: mathImports }`. */
export const mathImports: Readonly<Record<string, (a: number, b: number) => number>> = {
  ...floatUnary,
  ...floatBinary,
}

/** `exact` is the double-precision function on the stack, for rare operands. */
type VectorFunction = (v: Vector, x: Ex, y: Ex, exact: () => void) => Ex

const unary =
  (g: (v: Vector, x: Ex) => Ex): VectorFunction =>
  (v, x) =>
    g(v, x)
const periodic =
  (g: (v: Vector, x: Ex, exact: () => void) => Ex): VectorFunction =>
  (v, x, _, exact) =>
    g(v, x, exact)

/** Vector formulas on f32x4; operands may be evaluated any number of times. */
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

const formulaOf = (op: UnaryName | BinaryName): VectorFunction | undefined => {
  const approximation = approximationOf(op)
  return approximation === undefined ? formulas[op] : (v, x, y) => approximation.formula(vectorAlgebra(v), x, y)
}

/** Whether an operation is a special function: neither one instruction nor a few exact ones. */
export const isSpecial = (op: string): op is UnaryName | BinaryName => Object.hasOwn(mathImports, op)

function viaImport(f: FunctionBuilder, env: Env, op: UnaryName | BinaryName, args: readonly Reg[]): Reg {
  const [first] = args
  invariant(first !== undefined, `${op} without operands`)
  const narrow = regClass(first.dtype) === 'f32'
  const params = args.map(() => 'f64' as const)
  return makeReg(f, first.dtype, 1, () => {
    for (const a of args) {
      f.get(part(a, 0))
      if (narrow) f.op('f64.promote_f32')
    }
    f.call(env.module.importFunction(mathModule, op, params, ['f64']))
    if (narrow) f.op('f32.demote_f64')
  })
}

/** A special function of one or two operands of a float dtype. */
export function emitSpecial(f: FunctionBuilder, env: Env, op: UnaryName | BinaryName, args: readonly Reg[]): Reg {
  const [x, y = x] = args
  invariant(x !== undefined && y !== undefined, `${op} without operands`)
  const formula = x.dtype === 'f64' ? undefined : formulaOf(op)
  if (formula === undefined)
    return x.lanes === 1
      ? viaImport(f, env, op, args)
      : perLane(f, x.dtype, args, (elements) => viaImport(f, env, op, elements))
  if (x.lanes === 1) return viaVector(f, args, (wide) => emitSpecial(f, env, op, wide))
  const v = new Vector(f, env)
  const params = args.map(() => 'f64' as const)
  const exact = (): void => f.call(env.module.importFunction(mathModule, op, params, ['f64']))
  return { dtype: x.dtype, lanes: 4, locals: [v.result(formula(v, v.of(part(x, 0)), v.of(part(y, 0)), exact))] }
}
