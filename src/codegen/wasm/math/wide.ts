/** 64-bit integers in registers: i64, or two i64x2; division, powers and variable shifts go lane by lane. */
import { InternalError } from '../../../diagnostics/errors.ts'
import type { BinaryName, UnaryName } from '../../../scalar/ops.ts'
import type { FunctionBuilder, WasmOp } from '../binary/builder.ts'
import { copyReg, isUnsigned, makeReg, part, perLane, type Reg } from '../value/reg.ts'
import { type Compare, packMask } from './float.ts'

const leastI64 = -(1n << 63n)

const scalarSigned = { eq: 'eq', ne: 'ne', lt: 'lt_s', le: 'le_s', gt: 'gt_s', ge: 'ge_s' } as const
const scalarUnsigned = { eq: 'eq', ne: 'ne', lt: 'lt_u', le: 'le_u', gt: 'gt_u', ge: 'ge_u' } as const

/** Pushes the i64x2 mask of a comparison of parts; unsigned ones flip the top bits first. */
function pushCompare(f: FunctionBuilder, op: Compare, a: Reg, b: Reg, i: number): void {
  const flip = isUnsigned(a.dtype) && op !== 'eq' && op !== 'ne'
  for (const x of [a, b]) {
    f.get(part(x, i))
    if (!flip) continue
    f.i64x2Const(leastI64)
    f.op('v128.xor')
  }
  f.op(`i64x2.${scalarSigned[op]}`)
}

export function emitWideCompare(f: FunctionBuilder, op: Compare, a: Reg, b: Reg): Reg {
  if (a.lanes === 4) return packMask(f, (i) => pushCompare(f, op, a, b, i))
  return makeReg(f, 'bool', 1, () => {
    f.get(part(a, 0))
    f.get(part(b, 0))
    f.op(`i64.${isUnsigned(a.dtype) ? scalarUnsigned[op] : scalarSigned[op]}`)
  })
}

export function emitWideUnary(f: FunctionBuilder, op: UnaryName, x: Reg): Reg {
  const vector = x.lanes === 4
  const zero = (): void => (vector ? f.i64x2Const(0n) : f.i64Const(0n))
  /** Pushes the sign everywhere: 0 or -1. */
  const signs = (i: number): void => {
    f.get(part(x, i))
    if (vector) f.i32Const(63)
    else f.i64Const(63n)
    f.op(vector ? 'i64x2.shr_s' : 'i64.shr_s')
  }
  const make = (push: (i: number) => void): Reg => makeReg(f, x.dtype, x.lanes, push)
  switch (op) {
    case 'floor':
    case 'ceil':
    case 'round':
    case 'trunc':
      return copyReg(f, x)
    case 'neg':
      return make((i) => {
        zero()
        f.get(part(x, i))
        f.op(vector ? 'i64x2.sub' : 'i64.sub')
      })
    case 'not':
      return make((i) => {
        f.get(part(x, i))
        if (vector) f.op('v128.not')
        else {
          f.i64Const(-1n)
          f.op('i64.xor')
        }
      })
    case 'abs':
      if (isUnsigned(x.dtype)) return copyReg(f, x)
      return make((i) => {
        f.get(part(x, i))
        signs(i)
        f.op(vector ? 'v128.xor' : 'i64.xor')
        signs(i)
        f.op(vector ? 'i64x2.sub' : 'i64.sub')
      })
    case 'sign':
      return make((i) => {
        f.get(part(x, i))
        zero()
        if (vector) {
          f.op('i64x2.ne')
          f.i64x2Const(1n)
          f.op('v128.and')
        } else f.ops('i64.ne', 'i64.extend_i32_u')
        if (isUnsigned(x.dtype)) return
        signs(i)
        f.op(vector ? 'v128.or' : 'i64.or')
      })
    default:
      throw new InternalError(`${op} on ${x.dtype}`)
  }
}

const arithmetic = { add: 'add', sub: 'sub', mul: 'mul' } as const
const bitwise = { and: 'and', or: 'or', xor: 'xor' } as const

export function emitWideBinary(f: FunctionBuilder, op: BinaryName, a: Reg, b: Reg): Reg {
  const vector = a.lanes === 4
  const { dtype } = a
  const direct = (name: WasmOp): Reg =>
    makeReg(f, dtype, a.lanes, (i) => {
      f.get(part(a, i))
      f.get(part(b, i))
      f.op(name)
    })
  switch (op) {
    case 'add':
    case 'sub':
    case 'mul':
      return direct(vector ? `i64x2.${arithmetic[op]}` : `i64.${arithmetic[op]}`)
    case 'and':
    case 'or':
    case 'xor':
      return direct(vector ? `v128.${bitwise[op]}` : `i64.${bitwise[op]}`)
    case 'max':
    case 'min':
      return makeReg(f, dtype, a.lanes, (i) => {
        const order = op === 'max' ? 'gt' : 'lt'
        f.get(part(a, i))
        f.get(part(b, i))
        if (vector) {
          pushCompare(f, order, a, b, i)
          f.op('v128.bitselect')
          return
        }
        f.get(part(a, i))
        f.get(part(b, i))
        f.ops(`i64.${order}_${isUnsigned(dtype) ? 'u' : 's'}`, 'select')
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

function constantShift(f: FunctionBuilder, op: 'shl' | 'shr', a: Reg, count: bigint): Reg {
  const signed = op === 'shr' && !isUnsigned(a.dtype)
  const beyond = count < 0n || count >= 64n
  return makeReg(f, a.dtype, 4, (i) => {
    if (beyond && !signed) {
      f.i64x2Const(0n)
      return
    }
    f.get(part(a, i))
    f.i32Const(beyond ? 63 : Number(count))
    f.op(op === 'shl' ? 'i64x2.shl' : signed ? 'i64x2.shr_s' : 'i64x2.shr_u')
  })
}

function scalarShift(f: FunctionBuilder, op: 'shl' | 'shr', a: Reg, b: Reg): Reg {
  const inRange = (): void => {
    f.get(part(b, 0))
    f.i64Const(64n)
    f.op('i64.lt_u')
  }
  return makeReg(f, a.dtype, 1, () => {
    f.get(part(a, 0))
    f.get(part(b, 0))
    if (op === 'shr' && !isUnsigned(a.dtype)) {
      f.i64Const(63n)
      inRange()
      f.ops('select', 'i64.shr_s')
      return
    }
    f.op(op === 'shl' ? 'i64.shl' : 'i64.shr_u')
    f.i64Const(0n)
    inRange()
    f.op('select')
  })
}

function divide(f: FunctionBuilder, op: 'div' | 'rem', a: Reg, b: Reg): Reg {
  const unsigned = isUnsigned(a.dtype)
  const quotient = (): void => {
    f.get(part(a, 0))
    f.get(part(b, 0))
    f.op(`i64.${op}_${unsigned ? 'u' : 's'}`)
  }
  return makeReg(f, a.dtype, 1, () => {
    f.get(part(b, 0))
    f.op('i64.eqz')
    f.if(
      () => (op === 'div' ? f.i64Const(0n) : f.get(part(a, 0))),
      () => {
        if (unsigned) return quotient()
        f.get(part(b, 0))
        f.i64Const(-1n)
        f.op('i64.eq')
        f.if(
          () => {
            f.i64Const(0n)
            if (op === 'rem') return
            f.get(part(a, 0))
            f.op('i64.sub')
          },
          quotient,
          'i64',
        )
      },
      'i64',
    )
  })
}

/** Repeated squaring modulo 2^64; see the 32-bit one for negative exponents. */
function power(f: FunctionBuilder, a: Reg, b: Reg): Reg {
  const base = part(a, 0)
  const exponent = part(b, 0)
  const square = f.local('i64')
  const left = f.local('i64')
  const result = f.local('i64')
  f.i64Const(1n)
  f.set(result)
  f.get(base)
  f.set(square)
  f.get(exponent)
  f.set(left)
  if (!isUnsigned(a.dtype)) {
    f.get(exponent)
    f.i64Const(0n)
    f.op('i64.lt_s')
    f.if(() => {
      f.get(base)
      f.i64Const(0n)
      f.get(base)
      f.i64Const(1n)
      f.op('i64.add')
      f.i64Const(2n)
      f.ops('i64.le_u', 'select')
      f.set(square)
      f.get(exponent)
      f.i64Const(1n)
      f.op('i64.and')
      f.set(left)
      f.get(square)
      f.i64Const(0n)
      f.ops('i64.ne', 'i64.extend_i32_u')
      f.set(result)
    })
  }
  f.block((done) => {
    f.loop((again) => {
      f.get(left)
      f.op('i64.eqz')
      f.brIf(done)
      f.get(result)
      f.get(square)
      f.op('i64.mul')
      f.get(result)
      f.get(left)
      f.op('i32.wrap_i64')
      f.i32Const(1)
      f.ops('i32.and', 'select')
      f.set(result)
      f.get(square)
      f.get(square)
      f.op('i64.mul')
      f.set(square)
      f.get(left)
      f.i64Const(1n)
      f.op('i64.shr_u')
      f.set(left)
      f.br(again)
    })
  })
  const out = makeReg(f, a.dtype, 1, () => f.get(result))
  f.release(square, left, result)
  return out
}
