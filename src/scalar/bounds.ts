/**
 * Error bounds of elementwise functions: the one table that docs/numerics.md mirrors and every backend is tested against.
 * A bound is in units in the last place of the exact result; 0.5 means correctly rounded.
 */
import { type DType, isFloat } from '../types/dtype.ts'
import { type Approximated, approximationOf } from './approximations.ts'
import type { ErrorBound } from './formula.ts'
import type { BinaryName, ScalarOp, UnaryName } from './ops.ts'

type FloatOp = Exclude<
  UnaryName | BinaryName,
  | Approximated
  | 'not'
  | 'isnan'
  | 'isinf'
  | 'and'
  | 'or'
  | 'xor'
  | 'shl'
  | 'shr'
  | 'eq'
  | 'ne'
  | 'lt'
  | 'le'
  | 'gt'
  | 'ge'
>

const exact: ErrorBound = { ulp: 0 }
const rounded: ErrorBound = { ulp: 0.5 }
const special: ErrorBound = { ulp: 4 }
const periodic: ErrorBound = { ulp: 4, absolute: 2 ** -23, within: 1e5 }

/** Bounds for f32. Half precision: the f32 result rounded once, so within one unit of the half. f64: see `ulpBound`. */
export const errorBounds = {
  neg: exact,
  abs: exact,
  sign: exact,
  floor: exact,
  ceil: exact,
  round: exact,
  trunc: exact,
  max: exact,
  min: exact,
  rem: exact,
  add: rounded,
  sub: rounded,
  mul: rounded,
  div: rounded,
  sqrt: rounded,
  rsqrt: { ulp: 2 },
  exp: special,
  expm1: special,
  log: special,
  log1p: special,
  tanh: special,
  sigmoid: special,
  erf: { ulp: 6 },
  sin: periodic,
  cos: periodic,
  tan: { ulp: 8, absolute: 2 ** -23, within: 1e5 },
  asin: special,
  acos: special,
  atan: special,
  atan2: special,
  sinh: special,
  cosh: special,
  asinh: special,
  acosh: special,
  atanh: special,
  pow: { ulp: 16 },
} as const satisfies Record<FloatOp, ErrorBound>

const isBounded = (op: ScalarOp): op is FloatOp => Object.hasOwn(errorBounds, op)

/** The f32 bound of an operation; operations without one are exact. */
export const boundOf = (op: ScalarOp): ErrorBound =>
  approximationOf(op)?.bound ?? (isBounded(op) ? errorBounds[op] : exact)

const formats = {
  f32: { digits: 24, leastExponent: -126, greatest: 3.4028234663852886e38 },
  f64: { digits: 53, leastExponent: -1022, greatest: Number.MAX_VALUE },
  f16: { digits: 11, leastExponent: -14, greatest: 65504 },
  bf16: { digits: 8, leastExponent: -126, greatest: 3.3895313892515355e38 },
} as const

/** Distance between neighbouring values of a float dtype at the magnitude of x. */
export function ulpOf(dtype: keyof typeof formats, x: number): number {
  const { digits, leastExponent, greatest } = formats[dtype]
  const a = Math.min(Math.abs(x), greatest)
  let e: number = leastExponent
  if (a >= 2 ** leastExponent) {
    e = Math.floor(Math.log2(a))
    if (2 ** e > a) e--
    else if (2 ** (e + 1) <= a) e++
  }
  return 2 ** Math.max(e - digits + 1, -1074)
}

/** Special functions may flush results below the least normal value to zero. */
const flushes = (bound: ErrorBound): boolean => bound.ulp > 0.5

/** The bound in units of the dtype's own last place. The double-precision oracle is itself good to 2 units of f64. */
export function ulpBound(op: ScalarOp, dtype: DType): number {
  const { ulp } = boundOf(op)
  if (dtype === 'f64') return ulp > 0.5 ? ulp + 2 : ulp
  return dtype === 'f32' || ulp <= 0.5 ? ulp : 1
}

/** Whether `actual` (a value of `dtype`) is within `op`'s bound of the exact result (an unrounded double). */
export function withinBound(op: ScalarOp, dtype: DType, actual: number, expected: number): boolean {
  if (Number.isNaN(expected)) return Number.isNaN(actual)
  if (actual === expected) return true
  if (!isFloat(dtype)) return false
  const bound = boundOf(op)
  const { greatest, leastExponent } = formats[dtype]
  const units = ulpBound(op, dtype)
  if (!Number.isFinite(actual)) {
    const spill = greatest + ulpOf(dtype, greatest) / 2
    return actual * expected > 0 && Math.abs(expected) >= spill - units * ulpOf(dtype, greatest)
  }
  if (!Number.isFinite(expected)) return false
  const slack = Math.max(bound.absolute ?? 0, flushes(bound) ? 2 ** leastExponent : 0)
  return Math.abs(actual - expected) <= Math.max(units * ulpOf(dtype, expected), slack)
}

/** Absolute error of a function whose uses ask for no more (docs/numerics.md, "Error bounds"). */
export const coarseError = 2 ** -19

/** Relative error of one whose uses keep it relative until it is rounded to half precision. */
export const coarseRelativeError = 2 ** -14
