/** Arithmetic, rounding and comparison of floats in registers: what one or a few instructions do exactly. */
import type { BinaryName, UnaryName } from '../../../scalar/ops.ts'
import type { FunctionBuilder, WasmOp } from '../binary/builder.ts'
import { type Env, makeReg, part, type Reg, viaVector } from '../value/reg.ts'

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
export const isCompareName = (op: string): op is Compare => compares.some((c) => c === op)

type FloatShape = 'f32' | 'f64' | 'f32x4' | 'f64x2'

const shapeOf = (r: Reg): FloatShape => {
  const double = r.dtype === 'f64'
  return r.lanes === 1 ? (double ? 'f64' : 'f32') : double ? 'f64x2' : 'f32x4'
}

/** One instruction per local. */
export function emitDirectFloat(f: FunctionBuilder, op: Direct, args: readonly Reg[], like: Reg): Reg {
  const name: WasmOp = `${shapeOf(like)}.${direct[op]}`
  return makeReg(f, like.dtype, like.lanes, (i) => {
    for (const a of args) f.get(part(a, i))
    f.op(name)
  })
}

/** Packs two i64x2 masks into an i32x4 mask: `push(i)` pushes mask i. */
export function packMask(f: FunctionBuilder, push: (part: number) => void): Reg {
  return makeReg(f, 'bool', 4, () => {
    push(0)
    push(1)
    f.shuffle32(0, 2, 4, 6)
  })
}

/** Pushes lanes (2 part, 2 part + 1) of an i32x4 mask as an i64x2 mask. */
export function widenMask(f: FunctionBuilder, mask: Reg, part0: number): void {
  f.get(part(mask, 0))
  f.get(part(mask, 0))
  if (part0 === 0) f.shuffle32(0, 0, 1, 1)
  else f.shuffle32(2, 2, 3, 3)
}

/** A comparison of floats. */
export function emitFloatCompare(f: FunctionBuilder, op: Compare, a: Reg, b: Reg): Reg {
  const name: WasmOp = `${shapeOf(a)}.${op}`
  const push = (i: number): void => {
    f.get(part(a, i))
    f.get(part(b, i))
    f.op(name)
  }
  return a.lanes === 4 && a.dtype === 'f64' ? packMask(f, push) : makeReg(f, 'bool', a.lanes, push)
}

function pushConstant(f: FunctionBuilder, shape: FloatShape, x: number): void {
  if (shape === 'f32') f.f32Const(x)
  else if (shape === 'f64') f.f64Const(x)
  else if (shape === 'f32x4') f.f32x4Const(x)
  else f.f64x2Const(x)
}

/** sign, isnan, isinf, rsqrt. Undefined: not one of them. */
export function emitSmallFloat(f: FunctionBuilder, env: Env, op: UnaryName | BinaryName, x: Reg): Reg | undefined {
  const shape = shapeOf(x)
  const get = (i: number): void => f.get(part(x, i))
  switch (op) {
    case 'isnan':
      return emitFloatCompare(f, 'ne', x, x)
    case 'isinf': {
      const push = (i: number): void => {
        get(i)
        f.op(`${shape}.abs`)
        pushConstant(f, shape, Number.POSITIVE_INFINITY)
        f.op(`${shape}.eq`)
      }
      return x.lanes === 4 && x.dtype === 'f64' ? packMask(f, push) : makeReg(f, 'bool', x.lanes, push)
    }
    case 'rsqrt':
      return makeReg(f, x.dtype, x.lanes, (i) => {
        pushConstant(f, shape, 1)
        get(i)
        f.ops(`${shape}.sqrt`, `${shape}.div`)
      })
    case 'sign': {
      if (x.lanes === 1) return viaVector(f, [x], ([r]) => emitSmallFloat(f, env, op, r ?? x) ?? x)
      const vector = x.dtype === 'f64' ? 'f64x2' : 'f32x4'
      return makeReg(f, x.dtype, 4, (i) => {
        get(i)
        pushConstant(f, vector, -0)
        f.op('v128.and')
        pushConstant(f, vector, 1)
        f.op('v128.or')
        get(i)
        get(i)
        f.op(`${vector}.abs`)
        pushConstant(f, vector, 0)
        f.ops(`${vector}.gt`, 'v128.bitselect')
      })
    }
    default:
      return undefined
  }
}
