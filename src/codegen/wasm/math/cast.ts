/** Casts and bitcasts between all dtypes in registers (docs/numerics.md, "Casts"). */
import { type DType, dtypeBits } from '../../../types/dtype.ts'
import type { FunctionBuilder, WasmOp } from '../binary/builder.ts'
import {
  copyReg,
  type Env,
  isHalf,
  isUnsigned,
  makeReg,
  normaliseTop,
  part,
  perLane,
  type Reg,
  regClass,
  releaseReg,
  viaVector,
} from '../value/reg.ts'
import { packMask, widenMask } from './float.ts'
import { emitRoundTo, halfFromBits, halfToBits } from './half.ts'
import { Vector } from './vector.ts'

const sign = (d: DType): 's' | 'u' => (isUnsigned(d) ? 'u' : 's')

/** Clamps the saturated i32 (lanes) on the stack to a narrower dtype's range. */
function clampTop(f: FunctionBuilder, to: DType, lanes: 1 | 4): void {
  const bits = dtypeBits(to)
  if (bits >= 32) return
  const unsigned = isUnsigned(to)
  const greatest = unsigned ? 2 ** bits - 1 : 2 ** (bits - 1) - 1
  const bound = (least: boolean, value: number): void => {
    if (lanes === 4) {
      f.i32x4Const(value)
      f.op(least ? 'i32x4.max_s' : unsigned ? 'i32x4.min_u' : 'i32x4.min_s')
      return
    }
    const x = f.toLocal('i32')
    f.get(x)
    f.i32Const(value)
    f.get(x)
    f.i32Const(value)
    f.ops(least ? 'i32.gt_s' : unsigned ? 'i32.lt_u' : 'i32.lt_s', 'select')
    f.release(x)
  }
  bound(false, greatest)
  if (!unsigned) bound(true, -greatest - 1)
}

/** One element by one instruction, then nothing more. */
const scalarOp = (f: FunctionBuilder, to: DType, x: Reg, name: WasmOp): Reg =>
  makeReg(f, to, 1, () => {
    f.get(part(x, 0))
    f.op(name)
  })

/** Rounds a fresh f32 register to a half target and releases it; f32 passes through. */
function finishHalf(f: FunctionBuilder, env: Env, to: DType, r: Reg): Reg {
  if (!isHalf(to)) return r
  const out = emitRoundTo(f, env, to, r)
  releaseReg(f, r)
  return out
}

const lanewise = (f: FunctionBuilder, env: Env, to: DType, x: Reg): Reg =>
  perLane(f, to, [x], ([e]) => emitCast(f, env, to, e ?? x))

function toF32(f: FunctionBuilder, env: Env, to: DType, x: Reg): Reg {
  const vector = x.lanes === 4
  const from = regClass(x.dtype)
  const raw = (): Reg => {
    switch (from) {
      case 'f32':
        return copyReg(f, x, 'f32')
      case 'f64':
        if (!vector) return scalarOp(f, 'f32', x, 'f32.demote_f64')
        return makeReg(f, 'f32', 4, () => {
          for (const i of [0, 1]) {
            f.get(part(x, i))
            f.op('f32x4.demote_f64x2_zero')
          }
          f.shuffle32(0, 1, 4, 5)
        })
      case 'int':
        return makeReg(f, 'f32', x.lanes, () => {
          f.get(part(x, 0))
          f.op(vector ? `f32x4.convert_i32x4_${sign(x.dtype)}` : `f32.convert_i32_${sign(x.dtype)}`)
        })
      case 'wide':
        if (vector) return lanewise(f, env, 'f32', x)
        return scalarOp(f, 'f32', x, `f32.convert_i64_${sign(x.dtype)}`)
      case 'bool':
        return makeReg(f, 'f32', x.lanes, () => {
          f.get(part(x, 0))
          if (!vector) {
            f.op('f32.convert_i32_u')
            return
          }
          f.f32x4Const(1)
          f.op('v128.and')
        })
    }
  }
  return finishHalf(f, env, to, raw())
}

function toF64(f: FunctionBuilder, env: Env, x: Reg): Reg {
  const vector = x.lanes === 4
  const s = sign(x.dtype)
  /** Pushes lanes 2i and 2i+1 of a vector of 32-bit lanes as the low half. */
  const low = (i: number): void => {
    f.get(part(x, 0))
    if (i === 0) return
    f.get(part(x, 0))
    f.shuffle32(2, 3, 2, 3)
  }
  switch (regClass(x.dtype)) {
    case 'f32':
      if (!vector) return scalarOp(f, 'f64', x, 'f64.promote_f32')
      return makeReg(f, 'f64', 4, (i) => {
        low(i)
        f.op('f64x2.promote_low_f32x4')
      })
    case 'f64':
      return copyReg(f, x)
    case 'int':
      if (!vector) return scalarOp(f, 'f64', x, `f64.convert_i32_${s}`)
      return makeReg(f, 'f64', 4, (i) => {
        low(i)
        f.op(`f64x2.convert_low_i32x4_${s}`)
      })
    case 'wide':
      return vector ? lanewise(f, env, 'f64', x) : scalarOp(f, 'f64', x, `f64.convert_i64_${s}`)
    case 'bool':
      if (!vector) return scalarOp(f, 'f64', x, 'f64.convert_i32_u')
      return makeReg(f, 'f64', 4, (i) => {
        widenMask(f, x, i)
        f.f64x2Const(1)
        f.op('v128.and')
      })
  }
}

function toInt(f: FunctionBuilder, to: DType, x: Reg): Reg {
  const vector = x.lanes === 4
  const s = sign(to)
  switch (regClass(x.dtype)) {
    case 'f32':
      return makeReg(f, to, x.lanes, () => {
        f.get(part(x, 0))
        f.op(vector ? `i32x4.trunc_sat_f32x4_${s}` : `i32.trunc_sat_f32_${s}`)
        clampTop(f, to, x.lanes)
      })
    case 'f64':
      return makeReg(f, to, x.lanes, () => {
        if (vector) {
          for (const i of [0, 1]) {
            f.get(part(x, i))
            f.op(`i32x4.trunc_sat_f64x2_${s}_zero`)
          }
          f.shuffle32(0, 1, 4, 5)
        } else {
          f.get(part(x, 0))
          f.op(`i32.trunc_sat_f64_${s}`)
        }
        clampTop(f, to, x.lanes)
      })
    case 'int':
      return makeReg(f, to, x.lanes, () => {
        f.get(part(x, 0))
        if (to !== x.dtype) normaliseTop(f, to, x.lanes)
      })
    case 'wide':
      return makeReg(f, to, x.lanes, () => {
        f.get(part(x, 0))
        if (vector) {
          f.get(part(x, 1))
          f.shuffle32(0, 2, 4, 6)
        } else f.op('i32.wrap_i64')
        normaliseTop(f, to, x.lanes)
      })
    case 'bool':
      return makeReg(f, to, x.lanes, () => {
        f.get(part(x, 0))
        if (vector) f.op('i32x4.neg')
      })
  }
}

function toWide(f: FunctionBuilder, env: Env, to: DType, x: Reg): Reg {
  const vector = x.lanes === 4
  const from = regClass(x.dtype)
  switch (from) {
    case 'f32':
    case 'f64':
      return vector ? lanewise(f, env, to, x) : scalarOp(f, to, x, `i64.trunc_sat_${from}_${sign(to)}`)
    case 'wide':
      return copyReg(f, x, to)
    case 'int': {
      const s = sign(x.dtype)
      if (!vector) return scalarOp(f, to, x, `i64.extend_i32_${s}`)
      return makeReg(f, to, 4, (i) => {
        f.get(part(x, 0))
        f.op(i === 0 ? `i64x2.extend_low_i32x4_${s}` : `i64x2.extend_high_i32x4_${s}`)
      })
    }
    case 'bool':
      if (!vector) return scalarOp(f, to, x, 'i64.extend_i32_u')
      return makeReg(f, to, 4, (i) => {
        widenMask(f, x, i)
        f.i64x2Const(1n)
        f.op('v128.and')
      })
  }
}

function toBool(f: FunctionBuilder, x: Reg): Reg {
  const vector = x.lanes === 4
  const from = regClass(x.dtype)
  if (from === 'bool') return copyReg(f, x)
  const push = (i: number): void => {
    f.get(part(x, i))
    switch (from) {
      case 'f32':
        if (vector) f.f32x4Const(0)
        else f.f32Const(0)
        f.op(vector ? 'f32x4.ne' : 'f32.ne')
        return
      case 'f64':
        if (vector) f.f64x2Const(0)
        else f.f64Const(0)
        f.op(vector ? 'f64x2.ne' : 'f64.ne')
        return
      case 'int':
        if (vector) f.i32x4Const(0)
        else f.i32Const(0)
        f.op(vector ? 'i32x4.ne' : 'i32.ne')
        return
      case 'wide':
        if (vector) f.i64x2Const(0n)
        else f.i64Const(0n)
        f.op(vector ? 'i64x2.ne' : 'i64.ne')
        return
    }
  }
  return vector && (from === 'f64' || from === 'wide') ? packMask(f, push) : makeReg(f, 'bool', x.lanes, push)
}

/** The conversion of a register to another dtype. */
export function emitCast(f: FunctionBuilder, env: Env, to: DType, x: Reg): Reg {
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
function bitsOf(f: FunctionBuilder, env: Env, x: Reg): Reg {
  if (isHalf(x.dtype)) {
    const half = x.dtype
    const encode = (r: Reg): Reg => {
      const v = new Vector(f, env)
      return { dtype: 'u16', lanes: 4, locals: [v.result(halfToBits(v, half, v.of(part(r, 0))))] }
    }
    return x.lanes === 4 ? encode(x) : viaVector(f, [x], ([r]) => encode(r ?? x))
  }
  if (x.dtype === 'f32')
    return makeReg(f, 'i32', x.lanes, () => {
      f.get(part(x, 0))
      if (x.lanes === 1) f.op('i32.reinterpret_f32')
    })
  return x.dtype === 'bool' ? toInt(f, 'u8', x) : copyReg(f, x)
}

/** The same bits under another dtype of the same width. */
export function emitBitcast(f: FunctionBuilder, env: Env, to: DType, x: Reg): Reg {
  if (x.dtype === to) return copyReg(f, x)
  if (dtypeBits(to) === 64) {
    const name = to === 'f64' ? 'f64.reinterpret_i64' : 'i64.reinterpret_f64'
    return x.lanes === 4 || regClass(to) === regClass(x.dtype) ? copyReg(f, x, to) : scalarOp(f, to, x, name)
  }
  const bits = bitsOf(f, env, x)
  const decode = (): Reg => {
    if (to === 'bool') return toBool(f, bits)
    if (to === 'f32')
      return makeReg(f, 'f32', x.lanes, () => {
        f.get(part(bits, 0))
        if (x.lanes === 1) f.op('f32.reinterpret_i32')
      })
    if (!isHalf(to)) return toInt(f, to, bits)
    const half = (r: Reg): Reg => {
      const v = new Vector(f, env)
      const low = v.let(v.and(v.of(part(r, 0)), v.i(0xffff)))
      return { dtype: to, lanes: 4, locals: [v.result(halfFromBits(v, to, low))] }
    }
    return x.lanes === 4 ? half(bits) : viaVector(f, [bits], ([r]) => half(r ?? bits))
  }
  const out = decode()
  releaseReg(f, bits)
  return out
}
