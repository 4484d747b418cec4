/** Integers of at most 32 bits and bools in registers (docs/numerics.md, "Integers"): normalised in, normalised out. */
import { InternalError } from '../../../diagnostics/errors.ts'
import type { BinaryName, UnaryName } from '../../../scalar/ops.ts'
import { dtypeBits } from '../../../types/dtype.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { copyReg, isUnsigned, makeReg, normalised, partType, perLane, type Reg, read } from '../value/reg.ts'
import type { Compare } from './float.ts'

const plain = ['add', 'sub', 'mul', 'and', 'or', 'xor'] as const
type Plain = (typeof plain)[number]
const isPlain = (op: string): op is Plain => plain.some((p) => p === op)

const signed = { eq: 'eq', ne: 'ne', lt: 'lt_s', le: 'le_s', gt: 'gt_s', ge: 'ge_s' } as const
const unsigned = { eq: 'eq', ne: 'ne', lt: 'lt_u', le: 'le_u', gt: 'gt_u', ge: 'ge_u' } as const

export function emitIntegerCompare(f: Builder, op: Compare, a: Reg, b: Reg): Reg {
  const name = isUnsigned(a.dtype) ? unsigned[op] : signed[op]
  // Before AVX-512 unsigned lanes compare by their least: "at most" takes half of the instructions of "less".
  const limit = Number(b.constant ?? 0)
  if (a.lanes === 4 && name === 'lt_u' && limit > 0)
    return makeReg(f, 'bool', 4, () => X.compare('le_u', read(a), X.constant(T.i32x4, (limit - 1) | 0)))
  return makeReg(f, 'bool', a.lanes, () => X.compare(name, read(a), read(b)))
}

export function emitIntegerUnary(f: Builder, op: UnaryName, x: Reg): Reg {
  const vector = x.lanes === 4
  const type = partType(x.dtype, x.lanes)
  const make = (value: () => Expr): Reg => makeReg(f, x.dtype, x.lanes, value)
  const zero = X.constant(type, 0)
  const signs = (): Expr => X.shrS(read(x), 31)
  switch (op) {
    case 'floor':
    case 'ceil':
    case 'round':
    case 'trunc':
      return copyReg(f, x)
    case 'neg':
      return make(() => normalised(x.dtype, X.sub(zero, read(x))))
    case 'not':
      return make(() => normalised(x.dtype, vector ? X.unary('not', read(x)) : X.xor(read(x), -1)))
    case 'abs':
      if (isUnsigned(x.dtype)) return copyReg(f, x)
      // Of a scalar (x ^ s) - s with s the sign everywhere.
      return make(() => normalised(x.dtype, vector ? X.unary('abs', read(x)) : X.sub(X.xor(read(x), signs()), signs())))
    case 'sign':
      // (x >> 31) | (x != 0); unsigned: x != 0.
      return make(() => {
        const differs = X.compare('ne', read(x), zero)
        const one = vector ? X.and(differs, X.constant(type, 1)) : differs
        return isUnsigned(x.dtype) ? one : X.or(one, signs())
      })
    default:
      throw new InternalError(`${op} on ${x.dtype}`)
  }
}

export function emitIntegerBinary(f: Builder, op: BinaryName, a: Reg, b: Reg): Reg {
  const vector = a.lanes === 4
  const { dtype } = a
  if (isPlain(op))
    return makeReg(f, dtype, a.lanes, () => {
      const x = X.binary(op, read(a), read(b))
      return op === 'add' || op === 'sub' || op === 'mul' ? normalised(dtype, x) : x
    })
  switch (op) {
    case 'max':
    case 'min': {
      const s = isUnsigned(dtype) ? 'u' : 's'
      return makeReg(f, dtype, a.lanes, () => {
        if (vector) return X.binary(`${op}_${s}`, read(a), read(b))
        const first = X.compare(op === 'max' ? `gt_${s}` : `lt_${s}`, read(a), read(b))
        return X.select(first, read(a), read(b))
      })
    }
    case 'div':
      return vector ? vectorDivide(f, a, b) : scalarDivide(f, a, b)
    case 'rem': {
      if (!vector) return scalarRemainder(f, a, b)
      // a - (a / b) * b, where a / 0 = 0 gives a.
      const q = vectorDivide(f, a, b)
      const r = makeReg(f, dtype, 4, () => normalised(dtype, X.sub(read(a), X.mul(read(q), read(b)))))
      f.release(...q.parts)
      return r
    }
    case 'shl':
    case 'shr':
      return shift(f, op, a, b)
    case 'pow':
      return vector
        ? perLane(f, dtype, [a, b], ([x, y]) => emitIntegerBinary(f, 'pow', x ?? a, y ?? b))
        : scalarPower(f, a, b)
    default:
      throw new InternalError(`${op} on ${dtype}`)
  }
}

/** A scalar operation where the divisor is neither 0 nor, signed, -1; `zero` and `minusOne` are the results there. */
function guarded(
  f: Builder,
  a: Reg,
  b: Reg,
  cases: { readonly zero: Expr; readonly minusOne: Expr; readonly else: Expr },
): Reg {
  return makeReg(f, a.dtype, 1, () => {
    const other = isUnsigned(a.dtype) ? cases.else : X.branch(X.compare('eq', read(b), -1), cases.minusOne, cases.else)
    return normalised(a.dtype, X.branch(X.isZero(read(b)), cases.zero, other))
  })
}

const scalarDivide = (f: Builder, a: Reg, b: Reg): Reg =>
  guarded(f, a, b, {
    zero: X.int(0),
    minusOne: X.sub(0, read(a)),
    else: X.binary(isUnsigned(a.dtype) ? 'div_u' : 'div_s', read(a), read(b)),
  })

const scalarRemainder = (f: Builder, a: Reg, b: Reg): Reg =>
  guarded(f, a, b, {
    zero: read(a),
    minusOne: X.int(0),
    else: X.binary(isUnsigned(a.dtype) ? 'rem_u' : 'rem_s', read(a), read(b)),
  })

/**
 * Quotients through floats of twice the width: of two integers of n bits the quotient is a whole number or at least 2^-n
 * (relatively) away from one, so a correctly rounded quotient with more than n bits truncates right.
 */
function vectorDivide(f: Builder, a: Reg, b: Reg): Reg {
  const { dtype } = a
  const signed = !isUnsigned(dtype)
  const quotients = (): Expr => {
    if (dtypeBits(dtype) < 32)
      return X.convert(T.i32x4, X.binary('div', X.convert(T.f32x4, read(a)), X.convert(T.f32x4, read(b))))
    const [low = read(a), high = low] = [0, 1].map((half) => {
      const [x = read(a), y = x] = [a, b].map((r) => {
        const lanes = half === 0 ? read(r) : X.shuffle(T.i32x4, read(r), read(r), [2, 3, 2, 3])
        return X.convert(T.f64x2, lanes, signed)
      })
      return X.convert(T.i32x4, X.binary('div', x, y), signed)
    })
    const q = X.shuffle(T.i32x4, low, high, [0, 1, 4, 5])
    if (dtype !== 'i32') return q
    // least / -1 saturated to 2^31 - 1: one more wraps to the least.
    const isLeast = X.compare('eq', read(a), X.constant(T.i32x4, -0x80000000))
    return X.sub(q, X.and(isLeast, X.compare('eq', read(b), X.constant(T.i32x4, -1))))
  }
  return makeReg(f, dtype, 4, () => {
    const q = quotients()
    return normalised(dtype, X.bitwise('andnot', q, X.compare('eq', read(b), X.constant(T.i32x4, 0))))
  })
}

/** Shifts by counts below the width; larger ones (read as unsigned) give 0, or the sign of a signed right shift. */
function shift(f: Builder, op: 'shl' | 'shr', a: Reg, b: Reg): Reg {
  const { dtype } = a
  const bits = dtypeBits(dtype)
  const arithmetic = op === 'shr' && !isUnsigned(dtype)
  const name = op === 'shl' ? 'shl' : arithmetic ? 'shr_s' : 'shr_u'
  if (a.lanes === 4) {
    const count = b.constant === undefined ? undefined : Number(b.constant)
    if (count === undefined) return perLane(f, dtype, [a, b], ([x, y]) => shift(f, op, x ?? a, y ?? b))
    const beyond = count < 0 || count >= bits
    return makeReg(f, dtype, 4, () => {
      if (beyond && !arithmetic) return X.constant(T.i32x4, 0)
      const x = X.shift(name, read(a), beyond ? 31 : count)
      return op === 'shl' ? normalised(dtype, x) : x
    })
  }
  return makeReg(f, dtype, 1, () => {
    const inRange = X.compare('lt_u', read(b), bits)
    // The least of the count and 31, unsigned.
    if (arithmetic) return X.shrS(read(a), X.select(inRange, read(b), 31))
    const x = X.shift(name, read(a), read(b))
    return X.select(inRange, op === 'shl' ? normalised(dtype, x) : x, 0)
  })
}

/** base^exponent by repeated squaring, modulo 2^32; negative exponents: 0, but 1 for base 1 and +-1 for base -1. */
function scalarPower(f: Builder, a: Reg, b: Reg): Reg {
  const [base, exponent] = [read(a), read(b)]
  const square = f.register(T.i32)
  const left = f.register(T.i32)
  const result = f.register(T.i32)
  f.assign(result, 1)
  f.assign(square, base)
  f.assign(left, exponent)
  if (!isUnsigned(a.dtype))
    // base^-n is base^n for base 1 and -1 and truncates to 0 elsewhere: |base| > 1 becomes 0, and n its low bit.
    f.if(X.compare('lt_s', exponent, 0), () => {
      f.assign(square, X.select(X.compare('le_u', X.add(base, 1), 2), base, 0))
      f.assign(left, X.and(exponent, 1))
      f.assign(result, X.compare('ne', square, 0))
    })
  f.until(X.isZero(left), () => {
    f.assign(result, X.select(X.and(left, 1), X.mul(result, square), result))
    f.assign(square, X.mul(square, square))
    f.assign(left, X.shrU(left, 1))
  })
  const out = makeReg(f, a.dtype, 1, () => normalised(a.dtype, result))
  f.release(square, left, result)
  return out
}
