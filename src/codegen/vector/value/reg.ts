/**
 * Register values: one element (lanes 1) or four consecutive elements (lanes 4) of a dtype in virtual registers.
 *
 * lanes 1: f32 for f32, f16, bf16; f64; i32 for integers of at most 32 bits, kept sign- or zero-extended from their width,
 * and for bool (0 or 1); i64 for i64, u64. lanes 4: one vector for 32-bit classes (f32x4, i32x4 normalised by lane; bool as a
 * mask), two vectors of two lanes each for f64, i64, u64.
 *
 * Contract of every emitter of registers: operands are left as they are and stay their owner's; the result stands in fresh
 * registers, which the caller releases with `releaseReg`.
 */
import { InternalError, invariant } from '../../../diagnostics/errors.ts'
import type { NumericsMode } from '../../../kernel/ir.ts'
import type { Scalar } from '../../../scalar/ops.ts'
import type { Machine } from '../../../target/machine.ts'
import { type DType, dtypeBits, dtypeClass, isHalf, isWide } from '../../../types/dtype.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr, Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'

export type Lanes = 1 | 4

export interface Reg {
  readonly dtype: DType
  readonly lanes: Lanes
  readonly parts: readonly Register[]
  /** The value of every lane, where it is known. */
  readonly constant?: Scalar
  /** Of half precision: what is stored has no more bits than the format, so it is not rounded. */
  readonly exact?: boolean
}

/** What emission depends on beside the operands. */
export interface Env {
  readonly mode: NumericsMode
  /** What schedules are priced by. */
  readonly machine: Machine
  /** Whether code may multiply and add with one rounding, in fast mode. */
  readonly hasMultiplyAdd: boolean
}

/** How a dtype stands in registers. */
export type RegClass = 'f32' | 'f64' | 'int' | 'wide' | 'bool'

const classes = {
  f32: 'f32',
  f16: 'f32',
  bf16: 'f32',
  f64: 'f64',
  i8: 'int',
  i16: 'int',
  i32: 'int',
  u8: 'int',
  u16: 'int',
  u32: 'int',
  i64: 'wide',
  u64: 'wide',
  bool: 'bool',
} as const satisfies Record<DType, RegClass>

export const regClass = (d: DType): RegClass => classes[d]
export const isUnsigned = (d: DType): boolean => dtypeClass(d) === 'unsigned'
export { isHalf }
/** Whether four lanes take two vectors. */
export const isPair = (d: DType): boolean => classes[d] === 'f64' || classes[d] === 'wide'

const scalarTypes = {
  f32: T.f32,
  f64: T.f64,
  int: T.i32,
  wide: T.i64,
  bool: T.i32,
} as const satisfies Record<RegClass, T.Type>
const vectorTypes = {
  f32: T.f32x4,
  f64: T.f64x2,
  int: T.i32x4,
  wide: T.i64x2,
  bool: T.m32x4,
} as const satisfies Record<RegClass, T.Type>

/** Type of a register's parts. */
export const partType = (d: DType, lanes: Lanes): T.Type => (lanes === 4 ? vectorTypes : scalarTypes)[classes[d]]

/** Number of parts of a register. */
export const partCount = (d: DType, lanes: Lanes): number => (lanes === 4 && isPair(d) ? 2 : 1)

/** A register with undefined content. */
export function allocReg(f: Builder, dtype: DType, lanes: Lanes): Reg {
  const type = partType(dtype, lanes)
  return { dtype, lanes, parts: Array.from({ length: partCount(dtype, lanes) }, () => f.register(type)) }
}

export function releaseReg(f: Builder, ...regs: readonly Reg[]): void {
  for (const r of regs) f.release(...r.parts)
}

/** Part `i` of a register. */
export function part(r: Reg, i: number): Register {
  const l = r.parts[i]
  if (l === undefined) throw new InternalError(`a register of ${r.dtype} x ${r.lanes} has no part ${i}`)
  return l
}

/** What part `i` holds. */
export function read(r: Reg, i = 0): Expr {
  const type = partType(r.dtype, r.lanes)
  const held = r.parts[i] ?? part(r, i)
  return held.type === type ? held : X.view(type, held)
}

/** A fresh register of the values that `value` gives for each part. */
export function makeReg(f: Builder, dtype: DType, lanes: Lanes, value: (part: number) => Expr): Reg {
  const type = partType(dtype, lanes)
  const count = partCount(dtype, lanes)
  const parts: Register[] = []
  for (let i = 0; i < count; i++) parts.push(f.keep(X.view(type, value(i))))
  return { dtype, lanes, parts }
}

/** A copy, possibly under another dtype of the same register class. */
export function copyReg(f: Builder, r: Reg, dtype: DType = r.dtype): Reg {
  return makeReg(f, dtype, r.lanes, (i) => read(r, i))
}

/** Overwrites a register (an accumulator) with another of its dtype and lanes. */
export function assignReg(f: Builder, to: Reg, from: Reg): void {
  to.parts.forEach((l, i) => {
    f.assign(l, read(from, i))
  })
}

/** A value of a dtype as a constant, in every lane. */
function constantOf(dtype: DType, lanes: Lanes, value: Scalar): Expr {
  const type = partType(dtype, lanes)
  switch (regClass(dtype)) {
    case 'f32':
    case 'f64':
      return X.constant(type, Number(value))
    case 'int':
      return X.constant(type, Number(value) | 0)
    case 'wide':
      return X.constant(type, BigInt(value))
    case 'bool':
      return X.constant(type, value ? (lanes === 1 ? 1 : -1) : 0)
  }
}

/** A constant in every lane; `value` is a value of the dtype. */
export function emitConst(f: Builder, dtype: DType, lanes: Lanes, value: Scalar): Reg {
  return { ...makeReg(f, dtype, lanes, () => constantOf(dtype, lanes, value)), constant: value }
}

/** A vector whose lanes are all one scalar of a dtype's class (of a bool, a mask). */
export function splatOf(dtype: DType, x: Expr): Expr {
  if (regClass(dtype) !== 'bool') return X.splat(partType(dtype, 4), x)
  return X.view(T.m32x4, X.unary('neg', X.splat(T.i32x4, x)))
}

/** Four lanes of one element; a register of four lanes is copied. */
export function emitSplat(f: Builder, r: Reg): Reg {
  if (r.lanes === 4) return copyReg(f, r)
  const out = makeReg(f, r.dtype, 4, () => splatOf(r.dtype, read(r)))
  return r.constant === undefined ? out : { ...out, constant: r.constant }
}

/** One lane as a scalar of the register's class. */
export function laneOf(r: Reg, lane: number): Expr {
  if (r.lanes === 1) return read(r)
  const pair = isPair(r.dtype)
  const x = read(r, pair ? lane >> 1 : 0)
  if (regClass(r.dtype) === 'bool') return X.and(X.extract(X.view(T.i32x4, x), lane), 1)
  return X.extract(x, pair ? lane & 1 : lane)
}

/** One lane as a register of one element. */
export function emitExtractLane(f: Builder, r: Reg, lane: number): Reg {
  return makeReg(f, r.dtype, 1, () => laneOf(r, lane))
}

/** Replaces a lane of a register (in place) by a scalar. */
export function setLane(f: Builder, r: Reg, lane: number, value: () => Expr): void {
  const pair = isPair(r.dtype)
  const l = part(r, pair && r.lanes === 4 ? lane >> 1 : 0)
  const x = f.inline(value)
  if (r.lanes === 1) f.assign(l, x)
  else if (regClass(r.dtype) === 'bool') f.assign(l, X.replace(X.view(T.i32x4, l), lane, X.sub(X.isZero(x), 1)))
  else f.assign(l, X.replace(X.view(partType(r.dtype, 4), l), pair ? lane & 1 : lane, x))
}

/** Four elements, each by a scalar emitter on the operands' elements of its lane. */
export function perLane(f: Builder, dtype: DType, args: readonly Reg[], scalar: (args: readonly Reg[]) => Reg): Reg {
  const results: Reg[] = []
  for (let lane = 0; lane < 4; lane++) {
    const elements = args.map((a) => emitExtractLane(f, a, lane))
    results.push(scalar(elements))
    releaseReg(f, ...elements)
  }
  const out = combineLanes(f, dtype, results)
  releaseReg(f, ...results)
  return out
}

/** Four elements as one register. */
export function combineLanes(f: Builder, dtype: DType, elements: readonly Reg[]): Reg {
  const out = makeReg(f, dtype, 4, (i) => {
    const first = elements[isPair(dtype) ? 2 * i : 0]
    invariant(first !== undefined, 'four elements make a vector')
    return splatOf(dtype, read(first))
  })
  elements.forEach((e, lane) => {
    if (lane === 0 || (isPair(dtype) && lane === 2)) return
    setLane(f, out, lane, () => read(e))
  })
  return out
}

/** Runs an emitter of four lanes on one element: splat, compute, extract lane 0, so both agree bit for bit. */
export function viaVector(f: Builder, args: readonly Reg[], vector: (args: readonly Reg[]) => Reg): Reg {
  const wide = args.map((a) => emitSplat(f, a))
  const result = vector(wide)
  const out = emitExtractLane(f, result, 0)
  releaseReg(f, result, ...wide)
  return out
}

/** An i32 (or each lane of an i32x4) sign- or zero-extended from the dtype's width. */
export function normalised(dtype: DType, x: Expr): Expr {
  const bits = dtypeBits(dtype)
  if (bits >= 32 || isWide(dtype)) return x
  const vector = x.type.lanes > 1
  if (isUnsigned(dtype)) {
    const mask = 2 ** bits - 1
    return X.and(x, vector ? X.constant(T.i32x4, mask) : mask)
  }
  if (!vector) return X.unary(bits === 8 ? 'extend8' : 'extend16', x)
  return X.shrS(X.shl(x, 32 - bits), 32 - bits)
}
