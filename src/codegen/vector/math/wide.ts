/** 64-bit integers in registers: i64, or two i64x2; division, powers and variable shifts go lane by lane. */
import { InternalError } from '../../../diagnostics/errors.ts'
import type { BinaryName, UnaryName } from '../../../scalar/ops.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { copyReg, isUnsigned, makeReg, partType, perLane, type Reg, read } from '../value/reg.ts'
import { type Compare, packMask } from './float.ts'

const leastI64 = -(1n << 63n)

const scalarSigned = { eq: 'eq', ne: 'ne', lt: 'lt_s', le: 'le_s', gt: 'gt_s', ge: 'ge_s' } as const
const scalarUnsigned = { eq: 'eq', ne: 'ne', lt: 'lt_u', le: 'le_u', gt: 'gt_u', ge: 'ge_u' } as const

/** The mask of a comparison of parts; unsigned ones flip the top bits first. */
function comparePart(op: Compare, a: Reg, b: Reg, i: number): Expr {
  const flip = isUnsigned(a.dtype) && op !== 'eq' && op !== 'ne'
  const [x, y] = [a, b].map((r) => (flip ? X.xor(read(r, i), X.constant(T.i64x2, leastI64)) : read(r, i)))
  return X.compare(scalarSigned[op], x ?? read(a, i), y ?? read(b, i))
}

export function emitWideCompare(f: Builder, op: Compare, a: Reg, b: Reg): Reg {
  if (a.lanes === 4) return packMask(f, (i) => comparePart(op, a, b, i))
  const name = isUnsigned(a.dtype) ? scalarUnsigned[op] : scalarSigned[op]
  return makeReg(f, 'bool', 1, () => X.compare(name, read(a), read(b)))
}

export function emitWideUnary(f: Builder, op: UnaryName, x: Reg): Reg {
  const vector = x.lanes === 4
  const type = partType(x.dtype, x.lanes)
  const zero = X.constant(type, 0n)
  /** The sign everywhere: 0 or -1. */
  const signs = (i: number): Expr => X.shrS(read(x, i), 63)
  const make = (value: (i: number) => Expr): Reg => makeReg(f, x.dtype, x.lanes, value)
  switch (op) {
    case 'floor':
    case 'ceil':
    case 'round':
    case 'trunc':
      return copyReg(f, x)
    case 'neg':
      return make((i) => X.sub(zero, read(x, i)))
    case 'not':
      return make((i) => (vector ? X.unary('not', read(x, i)) : X.xor(read(x), X.long(-1n))))
    case 'abs':
      if (isUnsigned(x.dtype)) return copyReg(f, x)
      return make((i) => X.sub(X.xor(read(x, i), signs(i)), signs(i)))
    case 'sign':
      return make((i) => {
        const differs = X.compare('ne', read(x, i), zero)
        const one = vector ? X.and(differs, X.constant(T.i64x2, 1n)) : X.convert(T.i64, differs, false)
        return isUnsigned(x.dtype) ? one : X.or(one, signs(i))
      })
    default:
      throw new InternalError(`${op} on ${x.dtype}`)
  }
}

export function emitWideBinary(f: Builder, op: BinaryName, a: Reg, b: Reg): Reg {
  const vector = a.lanes === 4
  const { dtype } = a
  switch (op) {
    case 'add':
    case 'sub':
    case 'mul':
    case 'and':
    case 'or':
    case 'xor':
      return makeReg(f, dtype, a.lanes, (i) => X.binary(op, read(a, i), read(b, i)))
    case 'max':
    case 'min':
      return makeReg(f, dtype, a.lanes, (i) => {
        const order = op === 'max' ? 'gt' : 'lt'
        const first = vector
          ? comparePart(order, a, b, i)
          : X.compare(isUnsigned(dtype) ? `${order}_u` : `${order}_s`, read(a), read(b))
        return X.select(first, read(a, i), read(b, i))
      })
    default:
      break
  }
  if (vector) {
    const count = b.constant === undefined ? undefined : BigInt(b.constant)
    if ((op === 'shl' || op === 'shr') && count !== undefined) return constantShift(f, op, a, count)
    return perLane(f, dtype, [a, b], ([x, y]) => emitWideBinary(f, op, x ?? a, y ?? b))
  }
  switch (op) {
    case 'div':
    case 'rem':
      return divide(f, op, a, b)
    case 'shl':
    case 'shr':
      return scalarShift(f, op, a, b)
    case 'pow':
      return power(f, a, b)
    default:
      throw new InternalError(`${op} on ${dtype}`)
  }
}

function constantShift(f: Builder, op: 'shl' | 'shr', a: Reg, count: bigint): Reg {
  const signed = op === 'shr' && !isUnsigned(a.dtype)
  const beyond = count < 0n || count >= 64n
  return makeReg(f, a.dtype, 4, (i) => {
    if (beyond && !signed) return X.constant(T.i64x2, 0n)
    return X.shift(op === 'shl' ? 'shl' : signed ? 'shr_s' : 'shr_u', read(a, i), beyond ? 63 : Number(count))
  })
}

function scalarShift(f: Builder, op: 'shl' | 'shr', a: Reg, b: Reg): Reg {
  return makeReg(f, a.dtype, 1, () => {
    const inRange = X.compare('lt_u', read(b), X.long(64n))
    if (op === 'shr' && !isUnsigned(a.dtype)) return X.shrS(read(a), X.select(inRange, read(b), X.long(63n)))
    return X.select(inRange, X.shift(op === 'shl' ? 'shl' : 'shr_u', read(a), read(b)), X.long(0n))
  })
}

function divide(f: Builder, op: 'div' | 'rem', a: Reg, b: Reg): Reg {
  const unsigned = isUnsigned(a.dtype)
  const zero = X.long(0n)
  return makeReg(f, a.dtype, 1, () => {
    const quotient = X.binary(`${op}_${unsigned ? 'u' : 's'}`, read(a), read(b))
    const minusOne = op === 'rem' ? zero : X.sub(zero, read(a))
    const other = unsigned ? quotient : X.branch(X.compare('eq', read(b), X.long(-1n)), minusOne, quotient)
    return X.branch(X.isZero(read(b)), op === 'div' ? zero : read(a), other)
  })
}

/** Repeated squaring modulo 2^64; see the 32-bit one for negative exponents. */
function power(f: Builder, a: Reg, b: Reg): Reg {
  const [base, exponent] = [read(a), read(b)]
  const square = f.register(T.i64)
  const left = f.register(T.i64)
  const result = f.register(T.i64)
  const zero = X.long(0n)
  const one = X.long(1n)
  f.assign(result, one)
  f.assign(square, base)
  f.assign(left, exponent)
  if (!isUnsigned(a.dtype))
    f.if(X.compare('lt_s', exponent, zero), () => {
      f.assign(square, X.select(X.compare('le_u', X.add(base, one), X.long(2n)), base, zero))
      f.assign(left, X.and(exponent, one))
      f.assign(result, X.convert(T.i64, X.compare('ne', square, zero), false))
    })
  f.until(X.isZero(left), () => {
    f.assign(result, X.select(X.and(X.convert(T.i32, left), 1), X.mul(result, square), result))
    f.assign(square, X.mul(square, square))
    f.assign(left, X.shrU(left, 1))
  })
  const out = makeReg(f, a.dtype, 1, () => result)
  f.release(square, left, result)
  return out
}
