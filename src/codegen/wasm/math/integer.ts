/** Integers of at most 32 bits and bools in registers (docs/numerics.md, "Integers"): normalised in, normalised out. */
import { InternalError } from '../../../diagnostics/errors.ts'
import type { BinaryName, UnaryName } from '../../../scalar/ops.ts'
import { dtypeBits } from '../../../types/dtype.ts'
import type { FunctionBuilder, Local, WasmOp } from '../binary/builder.ts'
import { copyReg, isUnsigned, makeReg, normaliseTop, part, perLane, type Reg } from '../value/reg.ts'
import type { Compare } from './float.ts'

const vectorOps = {
  add: 'i32x4.add',
  sub: 'i32x4.sub',
  mul: 'i32x4.mul',
  and: 'v128.and',
  or: 'v128.or',
  xor: 'v128.xor',
} as const
const scalarOps = {
  add: 'i32.add',
  sub: 'i32.sub',
  mul: 'i32.mul',
  and: 'i32.and',
  or: 'i32.or',
  xor: 'i32.xor',
} as const
type Plain = keyof typeof vectorOps
const isPlain = (op: string): op is Plain => Object.hasOwn(vectorOps, op)

const signed = { eq: 'eq', ne: 'ne', lt: 'lt_s', le: 'le_s', gt: 'gt_s', ge: 'ge_s' } as const
const unsigned = { eq: 'eq', ne: 'ne', lt: 'lt_u', le: 'le_u', gt: 'gt_u', ge: 'ge_u' } as const

export function emitIntegerCompare(f: FunctionBuilder, op: Compare, a: Reg, b: Reg): Reg {
  const suffix = isUnsigned(a.dtype) ? unsigned[op] : signed[op]
  const name: WasmOp = a.lanes === 1 ? `i32.${suffix}` : `i32x4.${suffix}`
  // Before AVX-512 unsigned lanes compare by their least: "at most" takes half of the instructions of "less".
  const limit = Number(b.constant ?? 0)
  if (name === 'i32x4.lt_u' && limit > 0)
    return makeReg(f, 'bool', 4, () => {
      f.get(part(a, 0))
      f.i32x4Const((limit - 1) | 0)
      f.op('i32x4.le_u')
    })
  return makeReg(f, 'bool', a.lanes, () => {
    f.get(part(a, 0))
    f.get(part(b, 0))
    f.op(name)
  })
}

export function emitIntegerUnary(f: FunctionBuilder, op: UnaryName, x: Reg): Reg {
  const vector = x.lanes === 4
  const get = (): void => f.get(part(x, 0))
  const make = (push: () => void): Reg => makeReg(f, x.dtype, x.lanes, push)
  const zero = (): void => (vector ? f.i32x4Const(0) : f.i32Const(0))
  switch (op) {
    case 'floor':
    case 'ceil':
    case 'round':
    case 'trunc':
      return copyReg(f, x)
    case 'neg':
      return make(() => {
        zero()
        get()
        f.op(vector ? 'i32x4.sub' : 'i32.sub')
        normaliseTop(f, x.dtype, x.lanes)
      })
    case 'not':
      return make(() => {
        get()
        if (vector) f.op('v128.not')
        else {
          f.i32Const(-1)
          f.op('i32.xor')
        }
        normaliseTop(f, x.dtype, x.lanes)
      })
    case 'abs':
      if (isUnsigned(x.dtype)) return copyReg(f, x)
      return make(() => {
        if (vector) {
          get()
          f.op('i32x4.abs')
        } else {
          // (x ^ s) - s with s the sign everywhere.
          get()
          get()
          f.i32Const(31)
          f.ops('i32.shr_s', 'i32.xor')
          get()
          f.i32Const(31)
          f.ops('i32.shr_s', 'i32.sub')
        }
        normaliseTop(f, x.dtype, x.lanes)
      })
    case 'sign':
      // (x >> 31) | (x != 0); unsigned: x != 0.
      return make(() => {
        if (vector) {
          get()
          zero()
          f.ops('i32x4.ne')
          f.i32x4Const(1)
          f.op('v128.and')
        } else {
          get()
          zero()
          f.op('i32.ne')
        }
        if (isUnsigned(x.dtype)) return
        get()
        f.i32Const(31)
        f.ops(vector ? 'i32x4.shr_s' : 'i32.shr_s', vector ? 'v128.or' : 'i32.or')
      })
    default:
      throw new InternalError(`${op} on ${x.dtype}`)
  }
}

export function emitIntegerBinary(f: FunctionBuilder, op: BinaryName, a: Reg, b: Reg): Reg {
  const vector = a.lanes === 4
  const { dtype } = a
  const both = (): void => {
    f.get(part(a, 0))
    f.get(part(b, 0))
  }
  if (isPlain(op))
    return makeReg(f, dtype, a.lanes, () => {
      both()
      f.op(vector ? vectorOps[op] : scalarOps[op])
      if (op === 'add' || op === 'sub' || op === 'mul') normaliseTop(f, dtype, a.lanes)
    })
  switch (op) {
    case 'max':
    case 'min': {
      const s = isUnsigned(dtype) ? 'u' : 's'
      return makeReg(f, dtype, a.lanes, () => {
        both()
        if (vector) {
          f.op(`i32x4.${op}_${s}`)
          return
        }
        both()
        f.ops(op === 'max' ? `i32.gt_${s}` : `i32.lt_${s}`, 'select')
      })
    }
    case 'div':
      return vector ? vectorDivide(f, a, b) : scalarDivide(f, a, b)
    case 'rem': {
      if (!vector) return scalarRemainder(f, a, b)
      // a - (a / b) * b, where a / 0 = 0 gives a.
      const q = vectorDivide(f, a, b)
      const r = makeReg(f, dtype, 4, () => {
        f.get(part(a, 0))
        f.get(part(q, 0))
        f.get(part(b, 0))
        f.ops('i32x4.mul', 'i32x4.sub')
        normaliseTop(f, dtype, 4)
      })
      f.release(...q.locals)
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

/** Runs a scalar body only where the divisor is neither 0 nor, signed, -1; `zero` and `minusOne` give the results there. */
function guarded(
  f: FunctionBuilder,
  a: Reg,
  b: Reg,
  cases: { readonly zero: () => void; readonly minusOne: () => void; readonly else: () => void },
): Reg {
  return makeReg(f, a.dtype, 1, () => {
    f.get(part(b, 0))
    f.op('i32.eqz')
    f.if(
      cases.zero,
      () => {
        if (isUnsigned(a.dtype)) {
          cases.else()
          return
        }
        f.get(part(b, 0))
        f.i32Const(-1)
        f.op('i32.eq')
        f.if(cases.minusOne, cases.else, 'i32')
      },
      'i32',
    )
    normaliseTop(f, a.dtype, 1)
  })
}

const scalarDivide = (f: FunctionBuilder, a: Reg, b: Reg): Reg =>
  guarded(f, a, b, {
    zero: () => f.i32Const(0),
    minusOne: () => {
      f.i32Const(0)
      f.get(part(a, 0))
      f.op('i32.sub')
    },
    else: () => {
      f.get(part(a, 0))
      f.get(part(b, 0))
      f.op(isUnsigned(a.dtype) ? 'i32.div_u' : 'i32.div_s')
    },
  })

const scalarRemainder = (f: FunctionBuilder, a: Reg, b: Reg): Reg =>
  guarded(f, a, b, {
    zero: () => f.get(part(a, 0)),
    minusOne: () => f.i32Const(0),
    else: () => {
      f.get(part(a, 0))
      f.get(part(b, 0))
      f.op(isUnsigned(a.dtype) ? 'i32.rem_u' : 'i32.rem_s')
    },
  })

/**
 * Quotients through floats of twice the width: of two integers of n bits the quotient is a whole number or at least 2^-n
 * (relatively) away from one, so a correctly rounded quotient with more than n bits truncates right.
 */
function vectorDivide(f: FunctionBuilder, a: Reg, b: Reg): Reg {
  const { dtype } = a
  const s = isUnsigned(dtype) ? 'u' : 's'
  return makeReg(f, dtype, 4, () => {
    if (dtypeBits(dtype) < 32) {
      for (const x of [a, b]) {
        f.get(part(x, 0))
        f.op('f32x4.convert_i32x4_s')
      }
      f.ops('f32x4.div', 'i32x4.trunc_sat_f32x4_s')
    } else {
      for (const half of [0, 1]) {
        for (const x of [a, b]) {
          f.get(part(x, 0))
          if (half === 1) {
            f.get(part(x, 0))
            f.shuffle32(2, 3, 2, 3)
          }
          f.op(`f64x2.convert_low_i32x4_${s}`)
        }
        f.ops('f64x2.div', `i32x4.trunc_sat_f64x2_${s}_zero`)
      }
      f.shuffle32(0, 1, 4, 5)
      if (dtype === 'i32') {
        // least / -1 saturated to 2^31 - 1: one more wraps to the least.
        f.get(part(a, 0))
        f.i32x4Const(-0x80000000)
        f.op('i32x4.eq')
        f.get(part(b, 0))
        f.i32x4Const(-1)
        f.ops('i32x4.eq', 'v128.and', 'i32x4.sub')
      }
    }
    f.get(part(b, 0))
    f.i32x4Const(0)
    f.ops('i32x4.eq', 'v128.andnot')
    normaliseTop(f, dtype, 4)
  })
}

/** Shifts by counts below the width; larger ones (read as unsigned) give 0, or the sign of a signed right shift. */
function shift(f: FunctionBuilder, op: 'shl' | 'shr', a: Reg, b: Reg): Reg {
  const { dtype } = a
  const bits = dtypeBits(dtype)
  const arithmetic = op === 'shr' && !isUnsigned(dtype)
  const suffix = op === 'shl' ? 'shl' : arithmetic ? 'shr_s' : 'shr_u'
  if (a.lanes === 4) {
    const count = b.constant === undefined ? undefined : Number(b.constant)
    if (count === undefined) return perLane(f, dtype, [a, b], ([x, y]) => shift(f, op, x ?? a, y ?? b))
    const beyond = count < 0 || count >= bits
    return makeReg(f, dtype, 4, () => {
      if (beyond && !arithmetic) {
        f.i32x4Const(0)
        return
      }
      f.get(part(a, 0))
      f.i32Const(beyond ? 31 : count)
      f.op(`i32x4.${suffix}`)
      if (op === 'shl') normaliseTop(f, dtype, 4)
    })
  }
  return makeReg(f, dtype, 1, () => {
    f.get(part(a, 0))
    f.get(part(b, 0))
    if (arithmetic) {
      // The least of the count and 31, unsigned.
      f.i32Const(31)
      f.get(part(b, 0))
      f.i32Const(bits)
      f.ops('i32.lt_u', 'select', 'i32.shr_s')
      return
    }
    f.op(`i32.${suffix}`)
    if (op === 'shl') normaliseTop(f, dtype, 1)
    f.i32Const(0)
    f.get(part(b, 0))
    f.i32Const(bits)
    f.ops('i32.lt_u', 'select')
  })
}

/** base^exponent by repeated squaring, modulo 2^32; negative exponents: 0, but 1 for base 1 and +-1 for base -1. */
function scalarPower(f: FunctionBuilder, a: Reg, b: Reg): Reg {
  const base = part(a, 0)
  const exponent = part(b, 0)
  const square = f.local('i32')
  const left = f.local('i32')
  const power = (result: Local): void => {
    f.i32Const(1)
    f.set(result)
    f.get(base)
    f.set(square)
    f.get(exponent)
    f.set(left)
    if (!isUnsigned(a.dtype)) {
      // base^-n is base^n for base 1 and -1 and truncates to 0 elsewhere: |base| > 1 becomes 0, and n its low bit.
      f.get(exponent)
      f.i32Const(0)
      f.op('i32.lt_s')
      f.if(() => {
        f.get(base)
        f.i32Const(0)
        f.get(base)
        f.i32Const(1)
        f.op('i32.add')
        f.i32Const(2)
        f.ops('i32.le_u', 'select')
        f.set(square)
        f.get(exponent)
        f.i32Const(1)
        f.ops('i32.and')
        f.set(left)
        f.get(square)
        f.i32Const(0)
        f.op('i32.ne')
        f.set(result)
      })
    }
    f.block((done) => {
      f.loop((again) => {
        f.get(left)
        f.op('i32.eqz')
        f.brIf(done)
        f.get(result)
        f.get(square)
        f.op('i32.mul')
        f.get(result)
        f.get(left)
        f.i32Const(1)
        f.ops('i32.and', 'select')
        f.set(result)
        f.get(square)
        f.get(square)
        f.op('i32.mul')
        f.set(square)
        f.get(left)
        f.i32Const(1)
        f.op('i32.shr_u')
        f.set(left)
        f.br(again)
      })
    })
  }
  const result = f.local('i32')
  power(result)
  const out = makeReg(f, a.dtype, 1, () => {
    f.get(result)
    normaliseTop(f, a.dtype, 1)
  })
  f.release(square, left, result)
  return out
}
