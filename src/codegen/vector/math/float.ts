/** Arithmetic, rounding and comparison of floats in registers: what one or a few instructions do exactly. */
import type { BinaryName, UnaryName } from '../../../scalar/ops.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { BinaryOp, Expr, UnaryOp } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { type Env, makeReg, partType, type Reg, read, viaVector } from '../value/reg.ts'

/** Operations with an instruction of their own on f32, f64, f32x4 and f64x2. */
const direct = {
  neg: 'neg',
  abs: 'abs',
  floor: 'floor',
  ceil: 'ceil',
  trunc: 'trunc',
  round: 'nearest',
  sqrt: 'sqrt',
  add: 'add',
  sub: 'sub',
  mul: 'mul',
  div: 'div',
  max: 'max',
  min: 'min',
} as const

type Direct = keyof typeof direct

export const isDirectFloat = (op: string): op is Direct => Object.hasOwn(direct, op)

const compares = ['eq', 'ne', 'lt', 'le', 'gt', 'ge'] as const
export type Compare = (typeof compares)[number]
export const isCompareName = (op: string): op is Compare => (compares as readonly string[]).includes(op)

/** One operation per part. */
export function emitDirectFloat(f: Builder, op: Direct, args: readonly Reg[], like: Reg): Reg {
  const name = direct[op]
  const [a = like, b] = args
  if ((op === 'max' || op === 'min') && b !== undefined && like.lanes > 1) {
    const bounded = emitBound(f, op, a, b) ?? emitBound(f, op, b, a)
    if (bounded !== undefined) return bounded
  }
  return makeReg(f, like.dtype, like.lanes, (i) =>
    b === undefined ? X.unary(name as UnaryOp, read(a, i)) : X.binary(name as BinaryOp, read(a, i), read(b, i)),
  )
}

/**
 * The greater or the lesser of a value and a known number: engines give `max` and `min` eight instructions, for NaN on either side and zeros of two signs.
 * Here NaN can be on one side only, and the zero that `pmax` keeps the sign of gets its own by adding zero.
 */
function emitBound(f: Builder, op: 'max' | 'min', x: Reg, bound: Reg): Reg | undefined {
  const { constant } = bound
  if (typeof constant !== 'number' || Number.isNaN(constant) || Object.is(constant, -0)) return undefined
  const zero = X.constant(partType(x.dtype, x.lanes), 0)
  return makeReg(f, x.dtype, x.lanes, (i) => {
    const chosen = X.binary(op === 'max' ? 'pmax' : 'pmin', read(x, i), read(bound, i))
    return op === 'max' && constant === 0 ? X.add(chosen, zero) : chosen
  })
}

/** Packs two masks of 64-bit lanes into one of 32-bit lanes: `mask(i)` is mask i. */
export function packMask(f: Builder, mask: (part: number) => Expr): Reg {
  return makeReg(f, 'bool', 4, () => X.shuffle(T.i32x4, mask(0), mask(1), [0, 2, 4, 6]))
}

/** Lanes (2 part, 2 part + 1) of a mask of 32-bit lanes as one of 64-bit lanes. */
export function wideMask(mask: Reg, part: number): Expr {
  const m = read(mask)
  return X.view(T.m64x2, X.shuffle(T.i32x4, m, m, part === 0 ? [0, 0, 1, 1] : [2, 2, 3, 3]))
}

/** A comparison of floats. */
export function emitFloatCompare(f: Builder, op: Compare, a: Reg, b: Reg): Reg {
  const holds = (i: number): Expr => X.compare(op, read(a, i), read(b, i))
  return a.lanes === 4 && a.dtype === 'f64' ? packMask(f, holds) : makeReg(f, 'bool', a.lanes, holds)
}

/** sign, isnan, isinf, rsqrt. Undefined: not one of them. */
export function emitSmallFloat(f: Builder, env: Env, op: UnaryName | BinaryName, x: Reg): Reg | undefined {
  const type = partType(x.dtype, x.lanes)
  switch (op) {
    case 'isnan':
      return emitFloatCompare(f, 'ne', x, x)
    case 'isinf': {
      const holds = (i: number): Expr =>
        X.compare('eq', X.unary('abs', read(x, i)), X.constant(type, Number.POSITIVE_INFINITY))
      return x.lanes === 4 && x.dtype === 'f64' ? packMask(f, holds) : makeReg(f, 'bool', x.lanes, holds)
    }
    case 'rsqrt':
      return makeReg(f, x.dtype, x.lanes, (i) => X.binary('div', X.constant(type, 1), X.unary('sqrt', read(x, i))))
    case 'sign': {
      if (x.lanes === 1) return viaVector(f, [x], ([r]) => emitSmallFloat(f, env, op, r ?? x) ?? x)
      return makeReg(f, x.dtype, 4, (i) => {
        const one = X.or(X.and(read(x, i), X.constant(type, -0)), X.constant(type, 1))
        return X.select(X.compare('gt', X.unary('abs', read(x, i)), X.constant(type, 0)), one, read(x, i))
      })
    }
    default:
      return undefined
  }
}
