/** Integer arithmetic of the oracle: exact, wrapping at the dtype's width (docs/numerics.md, "Integers"). */
import { type DType, dtypeBits, dtypeClass } from '../types/dtype.ts'

export type IntegerUnary = 'neg' | 'abs' | 'sign' | 'floor' | 'ceil' | 'round' | 'trunc' | 'not'
export type IntegerBinary =
  | 'add'
  | 'sub'
  | 'mul'
  | 'div'
  | 'rem'
  | 'pow'
  | 'max'
  | 'min'
  | 'and'
  | 'or'
  | 'xor'
  | 'shl'
  | 'shr'

/** A whole number modulo 2^bits as an integer of at most 32 bits (of |x| < 2^53). */
export function wrapNarrow(dtype: DType, x: number): number {
  switch (dtype) {
    case 'i8':
      return (x << 24) >> 24
    case 'i16':
      return (x << 16) >> 16
    case 'u8':
      return x & 255
    case 'u16':
      return x & 65535
    case 'u32':
      return x >>> 0
    default:
      return x | 0
  }
}

/** A bigint modulo 2^64 as i64 or u64. */
export const wrapWide = (dtype: DType, x: bigint): bigint =>
  dtype === 'u64' ? BigInt.asUintN(64, x) : BigInt.asIntN(64, x)

/** base^exponent modulo 2^32, by repeated squaring; a negative exponent gives 0 except on bases 1 and -1. */
function powNarrow(base: number, exponent: number): number {
  if (exponent < 0) return base === 1 ? 1 : base === -1 ? (exponent % 2 === 0 ? 1 : -1) : 0
  let result = 1
  let square = base
  for (let e = exponent; e > 0; e = Math.floor(e / 2)) {
    if (e % 2 === 1) result = Math.imul(result, square)
    square = Math.imul(square, square)
  }
  return result
}

function powWide(base: bigint, exponent: bigint): bigint {
  if (exponent < 0n) return base === 1n ? 1n : base === -1n ? (exponent % 2n === 0n ? 1n : -1n) : 0n
  let result = 1n
  let square = base
  for (let e = exponent; e > 0n; e >>= 1n) {
    if (e & 1n) result = BigInt.asUintN(64, result * square)
    square = BigInt.asUintN(64, square * square)
  }
  return result
}

const same = (a: number): number => a
const unary = {
  neg: (a) => -a,
  abs: Math.abs,
  sign: Math.sign,
  floor: same,
  ceil: same,
  round: same,
  trunc: same,
  not: (a) => ~a,
} satisfies Record<IntegerUnary, (a: number) => number>

const sameWide = (a: bigint): bigint => a
const unaryWide = {
  neg: (a) => -a,
  abs: (a) => (a < 0n ? -a : a),
  sign: (a) => (a > 0n ? 1n : a < 0n ? -1n : 0n),
  floor: sameWide,
  ceil: sameWide,
  round: sameWide,
  trunc: sameWide,
  not: (a) => ~a,
} satisfies Record<IntegerUnary, (a: bigint) => bigint>

const binary = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => Math.imul(a, b),
  div: (a, b) => (b === 0 ? 0 : Math.trunc(a / b)),
  rem: (a, b) => (b === 0 ? a : a % b),
  pow: powNarrow,
  max: (a, b) => (a > b ? a : b),
  min: (a, b) => (a < b ? a : b),
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
} satisfies Record<Exclude<IntegerBinary, 'shl' | 'shr'>, (a: number, b: number) => number>

const binaryWide = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => (b === 0n ? 0n : a / b),
  rem: (a, b) => (b === 0n ? a : a % b),
  pow: powWide,
  max: (a, b) => (a > b ? a : b),
  min: (a, b) => (a < b ? a : b),
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
  // Counts below 0 read as unsigned are at least the width.
  shl: (a, b) => (b < 0n || b >= 64n ? 0n : a << b),
  shr: (a, b) => (b < 0n || b >= 64n ? (a < 0n ? -1n : 0n) : a >> b),
} satisfies Record<IntegerBinary, (a: bigint, b: bigint) => bigint>

/** A unary operation on integers of at most 32 bits. */
export function integerUnary(op: IntegerUnary, dtype: DType): (a: number) => number {
  const f = unary[op]
  return (a) => wrapNarrow(dtype, f(a))
}

/** A binary operation on integers of at most 32 bits. */
export function integerBinary(op: IntegerBinary, dtype: DType): (a: number, b: number) => number {
  const bits = dtypeBits(dtype)
  if (op === 'shl') return (a, b) => (b < 0 || b >= bits ? 0 : wrapNarrow(dtype, a << b))
  if (op === 'shr')
    return dtypeClass(dtype) === 'unsigned'
      ? (a, b) => (b >= bits ? 0 : a >>> b)
      : (a, b) => (b < 0 || b >= bits ? (a < 0 ? -1 : 0) : a >> b)
  const f = binary[op]
  return (a, b) => wrapNarrow(dtype, f(a, b))
}

/** A unary operation on i64 or u64. */
export function wideUnary(op: IntegerUnary, dtype: DType): (a: bigint) => bigint {
  const f = unaryWide[op]
  return (a) => wrapWide(dtype, f(a))
}

/** A binary operation on i64 or u64. */
export function wideBinary(op: IntegerBinary, dtype: DType): (a: bigint, b: bigint) => bigint {
  const f = binaryWide[op]
  return (a, b) => wrapWide(dtype, f(a, b))
}
