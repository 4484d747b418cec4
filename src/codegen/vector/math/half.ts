/**
 * Half precision in f32x4 registers: f16 and bf16 bits to f32, f32 to bits, and rounding a value to a half dtype, by integer
 * arithmetic on bit patterns (round to nearest even). The formulas follow from the formats: f16 has bias 15 and 10 fraction
 * bits, bf16 is the upper half of an f32.
 */
import type { Builder } from '../ir/builder.ts'
import { copyReg, type Env, isHalf, type Reg, read, viaVector } from '../value/reg.ts'
import { type Ex, Vector } from './vector.ts'

const infinity = 0x7f800000
/** Least f32 that rounds to f16 infinity: 65520, half way between 65504 and 65536, is odd-to-even up. */
const f16Spill = 0x477ff000
/** Least normal f16 as f32 bits, 2^-14. */
const f16LeastNormal = 0x38800000

/** f32 of f16 bits in the low halves of i32 lanes (upper halves zero). */
export function f16ToF32(v: Vector, bits: Ex): Ex {
  const magnitude = v.let(v.shl(v.and(bits, v.i(0x7fff)), 13))
  // Scaling by 2^(127 - 15) moves the exponent bias, exactly, for normal and subnormal f16 alike.
  const scaled = v.mul(magnitude, v.c(2 ** 112))
  const special = v.and(v.ige(magnitude, v.i(0x7c00 << 13)), v.i(infinity))
  return v.or(v.or(scaled, special), v.shl(v.and(bits, v.i(0x8000)), 16))
}

/** f32 of bf16 bits in the low halves of i32 lanes. */
export const bf16ToF32 = (v: Vector, bits: Ex): Ex => v.shl(bits, 16)

/** The nearest bf16 value, as f32: the lower half of the bits is rounded away; NaN becomes a quiet NaN. */
export function roundToBf16(v: Vector, x: Ex): Ex {
  const odd = v.and(v.shrU(x, 16), v.i(1))
  const rounded = v.and(v.iadd(v.iadd(x, v.i(0x7fff)), odd), v.i(-0x10000))
  return v.select(v.eq(x, x), rounded, v.i(0x7fc00000))
}

/** The nearest f16 value, as f32. */
export function roundToF16(v: Vector, x: Ex): Ex {
  const a = v.let(v.abs(x))
  const odd = v.and(v.shrU(a, 13), v.i(1))
  const normal = v.and(v.iadd(v.iadd(a, v.i(0xfff)), odd), v.i(-0x2000))
  // Below the least normal the spacing is 2^-24, that of f32 values in [1/2, 1).
  const subnormal = v.sub(v.add(a, v.c(0.5)), v.c(0.5))
  const finite = v.select(v.ilt(a, v.i(f16LeastNormal)), subnormal, normal)
  const beyond = v.imax(a, v.i(infinity))
  return v.or(v.select(v.ige(a, v.i(f16Spill)), beyond, finite), v.signOf(x))
}

/**
 * f16 bits (in i32 lanes) of the nearest f16: a power of two that is 2^13 times that of the magnitude (of the least normal at least) leaves ten of its bits
 * when it is added, rounded to nearest even.
 */
export function f32ToF16(v: Vector, x: Ex): Ex {
  // What is beyond 2^16, and NaN, stands for infinity.
  const a = v.let(v.imin(v.abs(x), v.i(0x47800000)))
  const exponent = v.let(v.imax(v.isub(v.and(a, v.i(infinity)), v.i(f16LeastNormal)), v.i(0)))
  const power = v.let(v.iadd(exponent, v.i(f16LeastNormal + (13 << 23))))
  const magnitude = v.iadd(v.isub(v.add(a, power), power), v.shrU(exponent, 13))
  const quiet = v.and(v.ne(x, x), v.i(0x0200))
  return v.or(v.or(magnitude, quiet), v.and(v.shrU(x, 16), v.i(0x8000)))
}

/** bf16 bits (in i32 lanes) of the nearest bf16. */
export function f32ToBf16(v: Vector, x: Ex): Ex {
  const odd = v.and(v.shrU(x, 16), v.i(1))
  const rounded = v.shrU(v.iadd(v.iadd(x, v.i(0x7fff)), odd), 16)
  return v.or(rounded, v.and(v.ne(x, x), v.i(0x7fc0)))
}

export const roundToHalf = (v: Vector, dtype: 'f16' | 'bf16', x: Ex): Ex =>
  dtype === 'f16' ? roundToF16(v, x) : roundToBf16(v, x)

export const halfFromBits = (v: Vector, dtype: 'f16' | 'bf16', bits: Ex): Ex =>
  dtype === 'f16' ? f16ToF32(v, bits) : bf16ToF32(v, bits)

/** `exact`: the value has no more bits than the format. */
export function halfToBits(v: Vector, dtype: 'f16' | 'bf16', x: Ex, exact = false): Ex {
  if (dtype === 'f16') return f32ToF16(v, x)
  return exact ? v.shrU(x, 16) : f32ToBf16(v, x)
}

/** A register of f32 class rounded to `dtype` (f32 itself: a copy) and named so. */
export function emitRoundTo(f: Builder, env: Env, dtype: Reg['dtype'], r: Reg): Reg {
  if (!isHalf(dtype)) return copyReg(f, r, dtype)
  const one = ([x]: readonly Reg[]): Reg => {
    const v = new Vector(f, env)
    const value = x === undefined ? r : x
    return { dtype, lanes: 4, parts: [v.result(roundToHalf(v, dtype, read(value)))] }
  }
  return r.lanes === 4 ? one([r]) : viaVector(f, [r], one)
}
