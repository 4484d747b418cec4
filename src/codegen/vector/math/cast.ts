/** Casts and bitcasts between all dtypes in registers (docs/numerics.md, "Casts"). */
import { type DType, dtypeBits, isWide } from '../../../types/dtype.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr, Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import {
  copyReg,
  type Env,
  isHalf,
  isPair,
  isUnsigned,
  makeReg,
  normalised,
  partType,
  perLane,
  type Reg,
  read,
  regClass,
  releaseReg,
  viaVector,
} from '../value/reg.ts'
import { packMask, wideMask } from './float.ts'
import { emitRoundTo, halfFromBits, halfToBits } from './half.ts'
import { Vector } from './vector.ts'

/** A saturated i32 (in lanes) clamped to a narrower dtype's range. */
function clamped(f: Builder, to: DType, x: Expr): Expr {
  const bits = dtypeBits(to)
  if (bits >= 32) return x
  const unsigned = isUnsigned(to)
  const greatest = unsigned ? 2 ** bits - 1 : 2 ** (bits - 1) - 1
  const bound = (least: boolean, y: Expr, value: number): Expr => {
    if (y.type.lanes > 1) return X.binary(least ? 'max_s' : unsigned ? 'min_u' : 'min_s', y, X.constant(T.i32x4, value))
    const r = f.keep(y)
    const out = X.select(X.compare(least ? 'gt_s' : unsigned ? 'lt_u' : 'lt_s', r, value), r, value)
    f.release(r)
    return out
  }
  const above = bound(false, x, greatest)
  return unsigned ? above : bound(true, above, -greatest - 1)
}

/** One element by one conversion. */
const scalarOf = (f: Builder, to: DType, x: Reg, signed = true): Reg =>
  makeReg(f, to, 1, () => X.convert(partType(to, 1), read(x), signed))

/** Rounds a fresh f32 register to a half target and releases it; f32 passes through. */
function finishHalf(f: Builder, env: Env, to: DType, r: Reg): Reg {
  if (!isHalf(to)) return r
  const out = emitRoundTo(f, env, to, r)
  releaseReg(f, r)
  return out
}

const lanewise = (f: Builder, env: Env, to: DType, x: Reg): Reg =>
  perLane(f, to, [x], ([e]) => emitCast(f, env, to, e ?? x))

/** The converted parts of a register of two, as the lower lanes of each in one. */
const narrowed = (to: DType, x: Reg, signed: boolean): Expr => {
  const type = partType(to, 4)
  const [low, high] = [0, 1].map((i) => X.convert(type, read(x, i), signed))
  return X.shuffle(type, low ?? read(x), high ?? read(x), [0, 1, 4, 5])
}

function toF32(f: Builder, env: Env, to: DType, x: Reg): Reg {
  const vector = x.lanes === 4
  const signed = !isUnsigned(x.dtype)
  const raw = (): Reg => {
    switch (regClass(x.dtype)) {
      case 'f32':
        return copyReg(f, x, 'f32')
      case 'f64':
        if (!vector) return scalarOf(f, 'f32', x)
        return makeReg(f, 'f32', 4, () => narrowed('f32', x, true))
      case 'int':
        return makeReg(f, 'f32', x.lanes, () => X.convert(partType('f32', x.lanes), read(x), signed))
      case 'wide':
        return vector ? lanewise(f, env, 'f32', x) : scalarOf(f, 'f32', x, signed)
      case 'bool':
        return makeReg(f, 'f32', x.lanes, () =>
          vector ? X.and(read(x), X.constant(T.f32x4, 1)) : X.convert(T.f32, read(x), false),
        )
    }
  }
  return finishHalf(f, env, to, raw())
}

function toF64(f: Builder, env: Env, x: Reg): Reg {
  const vector = x.lanes === 4
  const signed = !isUnsigned(x.dtype)
  /** Lanes 2i and 2i+1 of a vector of 32-bit lanes, in the low half. */
  const low = (i: number): Expr => (i === 0 ? read(x) : X.shuffle(partType(x.dtype, 4), read(x), read(x), [2, 3, 2, 3]))
  switch (regClass(x.dtype)) {
    case 'f32':
    case 'int':
      return vector ? makeReg(f, 'f64', 4, (i) => X.convert(T.f64x2, low(i), signed)) : scalarOf(f, 'f64', x, signed)
    case 'f64':
      return copyReg(f, x)
    case 'wide':
      return vector ? lanewise(f, env, 'f64', x) : scalarOf(f, 'f64', x, signed)
    case 'bool':
      return vector
        ? makeReg(f, 'f64', 4, (i) => X.and(wideMask(x, i), X.constant(T.f64x2, 1)))
        : scalarOf(f, 'f64', x, false)
  }
}

function toInt(f: Builder, to: DType, x: Reg): Reg {
  const vector = x.lanes === 4
  const signed = !isUnsigned(to)
  const type = partType(to, x.lanes)
  switch (regClass(x.dtype)) {
    case 'f32':
      return makeReg(f, to, x.lanes, () => clamped(f, to, X.convert(type, read(x), signed)))
    case 'f64':
      return makeReg(f, to, x.lanes, () =>
        clamped(f, to, vector ? narrowed(to, x, signed) : X.convert(type, read(x), signed)),
      )
    case 'int':
      return makeReg(f, to, x.lanes, () => (to === x.dtype ? read(x) : normalised(to, read(x))))
    case 'wide':
      return makeReg(f, to, x.lanes, () =>
        normalised(to, vector ? X.shuffle(T.i32x4, read(x, 0), read(x, 1), [0, 2, 4, 6]) : X.convert(T.i32, read(x))),
      )
    case 'bool':
      return makeReg(f, to, x.lanes, () => (vector ? X.unary('neg', read(x), T.i32x4) : read(x)))
  }
}

function toWide(f: Builder, env: Env, to: DType, x: Reg): Reg {
  const vector = x.lanes === 4
  switch (regClass(x.dtype)) {
    case 'f32':
    case 'f64':
      return vector ? lanewise(f, env, to, x) : scalarOf(f, to, x, !isUnsigned(to))
    case 'wide':
      return copyReg(f, x, to)
    case 'int': {
      const signed = !isUnsigned(x.dtype)
      if (!vector) return scalarOf(f, to, x, signed)
      return makeReg(f, to, 4, (i) => X.convert(T.i64x2, read(x), signed, i === 1))
    }
    case 'bool':
      if (!vector) return scalarOf(f, to, x, false)
      return makeReg(f, to, 4, (i) => X.and(wideMask(x, i), X.constant(T.i64x2, 1n)))
  }
}

function toBool(f: Builder, x: Reg): Reg {
  if (regClass(x.dtype) === 'bool') return copyReg(f, x)
  const zero = X.constant(partType(x.dtype, x.lanes), isWide(x.dtype) ? 0n : 0)
  const differs = (i: number): Expr => X.compare('ne', read(x, i), zero)
  return x.lanes === 4 && isPair(x.dtype) ? packMask(f, differs) : makeReg(f, 'bool', x.lanes, differs)
}

/**
 * Four i64 held to bounds that i32 and the target have, as integers of at most 32 bits: high words say which of them fit, so nothing is compared in 64 bits. What
 * does not fit is the least or the greatest i32, by its sign.
 */
export function emitSaturated(f: Builder, to: DType, x: Reg, lo: number, hi: number): Reg {
  const words = (of: readonly number[]): Register => f.keep(X.shuffle(T.i32x4, read(x, 0), read(x, 1), of))
  const [low, high] = [words([0, 2, 4, 6]), words([1, 3, 5, 7])]
  const fits = X.compare('eq', X.shrS(low, 31), high)
  const nearest = X.xor(X.shrS(high, 31), X.constant(T.i32x4, 2 ** 31 - 1))
  const bounded = (op: 'max_s' | 'min_s', y: Expr, bound: number, widest: number): Expr =>
    bound === widest ? y : X.binary(op, y, X.constant(T.i32x4, bound))
  const above = bounded('max_s', X.select(fits, low, nearest), lo, -(2 ** 31))
  const out = makeReg(f, to, 4, () => bounded('min_s', above, hi, 2 ** 31 - 1))
  f.release(low, high)
  return out
}

/** The conversion of a register to another dtype. */
export function emitCast(f: Builder, env: Env, to: DType, x: Reg): Reg {
  switch (regClass(to)) {
    case 'f32':
      return toF32(f, env, to, x)
    case 'f64':
      return toF64(f, env, x)
    case 'int':
      return toInt(f, to, x)
    case 'wide':
      return toWide(f, env, to, x)
    case 'bool':
      return toBool(f, x)
  }
}

/** The register's memory bits as an unsigned (or signed, normalised) integer of the same width, at most 32 bits. */
function bitsOf(f: Builder, env: Env, x: Reg): Reg {
  if (isHalf(x.dtype)) {
    const half = x.dtype
    const encode = (r: Reg): Reg => {
      const v = new Vector(f, env)
      return { dtype: 'u16', lanes: 4, parts: [v.result(halfToBits(v, half, read(r)))] }
    }
    return x.lanes === 4 ? encode(x) : viaVector(f, [x], ([r]) => encode(r ?? x))
  }
  if (x.dtype === 'f32') return makeReg(f, 'i32', x.lanes, () => read(x))
  return x.dtype === 'bool' ? toInt(f, 'u8', x) : copyReg(f, x)
}

/** The same bits under another dtype of the same width. */
export function emitBitcast(f: Builder, env: Env, to: DType, x: Reg): Reg {
  if (x.dtype === to) return copyReg(f, x)
  if (dtypeBits(to) === 64) return copyReg(f, x, to)
  const bits = bitsOf(f, env, x)
  const decode = (): Reg => {
    if (to === 'bool') return toBool(f, bits)
    if (to === 'f32') return makeReg(f, 'f32', x.lanes, () => read(bits))
    if (!isHalf(to)) return toInt(f, to, bits)
    const half = (r: Reg): Reg => {
      const v = new Vector(f, env)
      const low = v.let(v.and(read(r), v.i(0xffff)))
      return { dtype: to, lanes: 4, parts: [v.result(halfFromBits(v, to, low))] }
    }
    return x.lanes === 4 ? half(bits) : viaVector(f, [bits], ([r]) => half(r ?? bits))
  }
  const out = decode()
  releaseReg(f, bits)
  return out
}
