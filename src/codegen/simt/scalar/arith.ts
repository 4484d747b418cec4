/** Scalar operations on register values: what docs/numerics.md says, in terms of plain operators and library functions. */
import { InternalError, invariant, unreachable } from '../../../diagnostics/errors.ts'
import type { NumericsMode } from '../../../kernel/ir.ts'
import { isFloatBinary, isFloatUnary } from '../../../scalar/eval.ts'
import { extreme, type Scalar, type ScalarOp } from '../../../scalar/ops.ts'
import { type DType, dtypeBits, dtypeClass, isFloat, isInteger } from '../../../types/dtype.ts'
import {
  and,
  bin,
  bitcast,
  call,
  cast,
  type Ex,
  int,
  isWideType,
  lit,
  neg,
  no,
  not,
  regType,
  select,
  type Type,
  uint,
} from '../ir/ir.ts'

/** A constant of a dtype. */
export const constant = (dtype: DType, value: Scalar): Ex => lit(regType(dtype), value)

/** The low bits of an i32 or u32 as a narrow integer dtype. */
export function wrapTo(dtype: DType, x: Ex): Ex {
  switch (dtype) {
    case 'i8':
    case 'i16': {
      const shift = uint(32 - dtypeBits(dtype))
      return bin('>>', bin('<<', x, shift), shift)
    }
    case 'u8':
    case 'u16':
      return bin('&', x, uint(2 ** dtypeBits(dtype) - 1))
    default:
      return x
  }
}

/** Rounds an f32 to a half dtype. */
export const roundTo = (dtype: DType, x: Ex): Ex =>
  dtype === 'f16' ? call('f32', 'round_f16', x) : dtype === 'bf16' ? call('f32', 'round_bf16', x) : x

const operators = { add: '+', sub: '-', mul: '*' } as const
const comparisons = { eq: '==', lt: '<', le: '<=', gt: '>', ge: '>=' } as const
/** Operations on floats that are no operators: calls of the function of that name. */
const isFloatFunction = (op: ScalarOp): boolean => isFloatUnary(op) || isFloatBinary(op)
const bitwise = { and: '&', or: '|', xor: '^' } as const
const has = <T extends object>(table: T, key: PropertyKey): key is keyof T => Object.hasOwn(table, key)

/** One operation on operands of a dtype (of `select`, its choices) with a result dtype. */
export function scalarEx(op: ScalarOp, dtype: DType, result: DType, args: readonly Ex[], mode: NumericsMode): Ex {
  const [a, b, c] = args
  invariant(a !== undefined, `${op} without operands`)
  if (op === 'select') {
    invariant(b !== undefined && c !== undefined, 'select takes three operands')
    return select(a, b, c)
  }
  if (op === 'cast') return castEx(dtype, result, a)
  if (op === 'bitcast') return bitcastEx(dtype, result, a)
  if (op === 'isnan' || op === 'isinf') return call('bool', `${a.type}_${op}`, a)
  if (has(comparisons, op) || op === 'ne') {
    invariant(b !== undefined, `${op} takes two operands`)
    const number = (x: Ex): Ex => (x.type === 'bool' ? cast('u32', x) : x)
    if (op === 'ne') return not(bin('==', number(a), number(b)))
    return bin(comparisons[op], number(a), number(b))
  }
  if (isFloat(dtype)) {
    const y = floatOp(op, a, b)
    return mode === 'strict' ? roundTo(dtype, y) : y
  }
  return dtype === 'bool' ? boolOp(op, a, b) : wrapTo(dtype, integerOp(op, dtype, a, b))
}

function floatOp(op: ScalarOp, a: Ex, b: Ex | undefined): Ex {
  if (op === 'neg') return neg(a)
  if (has(operators, op) && b !== undefined) return bin(operators[op], a, b)
  if (op === 'div' && b !== undefined) return call(a.type, `${a.type}_div`, a, b)
  if (isFloatFunction(op)) return call(a.type, `${a.type}_${op}`, ...(b === undefined ? [a] : [a, b]))
  throw new InternalError(`${op} is not defined on floats`)
}

function boolOp(op: ScalarOp, a: Ex, b: Ex | undefined): Ex {
  if (op === 'not') return not(a)
  invariant(b !== undefined, `${op} takes two operands`)
  switch (op) {
    // Both sides are evaluated: one may be an exchange between lanes.
    case 'and':
    case 'min':
      return bin('&', a, b)
    case 'or':
    case 'max':
      return bin('|', a, b)
    case 'xor':
      return bin('!=', cast('u32', a), cast('u32', b))
    default:
      throw new InternalError(`${op} is not defined on bool`)
  }
}

/** Wraps modulo 2^32 (2^64); the caller narrows. */
function integerOp(op: ScalarOp, dtype: DType, a: Ex, b: Ex | undefined): Ex {
  const t = a.type
  const fn = (name: string, ...rest: readonly Ex[]): Ex => call(t, `${t}_${name}`, ...rest)
  switch (op) {
    case 'floor':
    case 'ceil':
    case 'round':
    case 'trunc':
      return a
    case 'neg':
      return fn('sub', lit(t, 0), a)
    case 'abs':
      return dtypeClass(dtype) === 'unsigned' ? a : fn('abs', a)
    case 'sign':
      return fn('sign', a)
    case 'not':
      return { k: 'not', type: t, a }
    default:
  }
  invariant(b !== undefined, `${op} takes two operands`)
  if (has(bitwise, op)) return bin(bitwise[op], a, b)
  if (t === 'u32' && has(operators, op)) return bin(operators[op], a, b)
  switch (op) {
    case 'add':
    case 'sub':
    case 'mul':
    case 'div':
    case 'rem':
    case 'pow':
    case 'max':
    case 'min':
      return fn(op, a, b)
    case 'shl':
    case 'shr': {
      // Counts are read as unsigned; at least the width clears (or leaves the sign).
      const bits = dtypeBits(dtype)
      if (isWideType(t)) return fn(op, a, b)
      const n = cast('u32', b)
      const inside = bin('<', n, uint(bits))
      const count = bin('&', n, uint(31))
      if (op === 'shl') return select(inside, bin('<<', a, count), lit(t, 0))
      return t === 'u32'
        ? select(inside, bin('>>', a, count), lit(t, 0))
        : bin('>>', a, select(inside, count, uint(31)))
    }
    default:
      throw new InternalError(`${op} is not defined on integers`)
  }
}

/** docs/numerics.md, "Casts". */
export function castEx(from: DType, to: DType, x: Ex): Ex {
  if (from === to && !isFloat(from)) return x
  const t = regType(to)
  if (to === 'bool') {
    if (from === 'bool') return x
    return not(bin('==', x, lit(x.type, 0)))
  }
  if (isFloat(to)) {
    if (isFloat(from)) return from === to && to !== 'f64' ? roundTo(to, x) : roundTo(to, cast(t, x))
    // Narrow unsigned numbers are exact as signed ones, which convert in one instruction everywhere.
    const value = cast(t, from === 'u8' || from === 'u16' ? cast('i32', x) : x)
    // Eight bits are exact in every float.
    return from === 'bool' || from === 'i8' || from === 'u8' ? value : roundTo(to, value)
  }
  if (isFloat(from)) {
    if (isWideType(t)) return call(t, `${x.type}_to_${t}`, x)
    const bits = dtypeBits(to)
    const whole = call(t, `${x.type}_to_${t}`, x)
    if (bits === 32) return whole
    return call(
      t,
      `${t}_min`,
      call(t, `${t}_max`, whole, lit(t, Number(extreme(to, 'least')))),
      lit(t, Number(extreme(to, 'greatest'))),
    )
  }
  return wrapTo(to, cast(t, x))
}

/** The bits of a register value as an unsigned number of the dtype's width (at most 32 bits). */
export function bitsOf(dtype: DType, x: Ex): Ex {
  switch (dtype) {
    case 'f16':
      return call('u32', 'f16_bits', x)
    case 'bf16':
      return call('u32', 'bf16_bits', x)
    case 'bool':
      return cast('u32', x)
    case 'f32':
      return bitcast('u32', x)
    case 'i8':
    case 'i16':
      return bin('&', cast('u32', x), uint(2 ** dtypeBits(dtype) - 1))
    case 'i32':
    case 'u8':
    case 'u16':
    case 'u32':
      return cast('u32', x)
    default:
      throw new InternalError(`${dtype} is wider than a word`)
  }
}

/** What a lower half is taken out of, where nothing asks for the bits above it. */
export const unmaskedHalf = (bits: Ex): Ex =>
  bits.k === 'bin' && bits.op === '&' && bits.b.k === 'lit' && bits.b.value === 0xffff ? bits.a : bits

/** The register value of a dtype whose bits are the low ones of a word; `clean`: the others are zero. */
export function fromBits(dtype: DType, word: Ex, clean: boolean): Ex {
  switch (dtype) {
    case 'f16':
      return call('f32', 'f16_value', clean ? word : bin('&', word, uint(0xffff)))
    case 'bf16':
      return bitcast('f32', bin('<<', word, uint(16)))
    case 'bool':
      return not(bin('==', clean ? word : bin('&', word, uint(255)), uint(0)))
    case 'f32':
      return bitcast('f32', word)
    case 'i8':
    case 'i16':
      return wrapTo(dtype, cast('i32', word))
    case 'u8':
    case 'u16':
      return clean ? word : wrapTo(dtype, word)
    case 'i32':
      return cast('i32', word)
    case 'u32':
      return word
    default:
      throw new InternalError(`${dtype} is wider than a word`)
  }
}

function bitcastEx(from: DType, to: DType, x: Ex): Ex {
  if (from === to) return x
  const t = regType(to)
  if (dtypeBits(from) === 64) {
    if (isInteger(from) && isInteger(to)) return cast(t, x)
    return bitcast(t, x)
  }
  // A NaN keeps its bits.
  const bits = from === 'f16' || from === 'bf16' ? call('u32', `${from}_bits_exact`, x) : bitsOf(from, x)
  return fromBits(to, bits, true)
}

/** What two partial results of a combiner merge to. */
export function mergeEx(combiner: 'sum' | 'prod' | 'max' | 'min', dtype: DType, a: Ex, b: Ex): Ex {
  const op = { sum: 'add', prod: 'mul', max: 'max', min: 'min' } as const
  return scalarEx(op[combiner], dtype, dtype, [a, b], 'fast')
}

/** A candidate of an arg-fold: a value and where it is; below 0 it is none. */
export interface Candidate {
  readonly value: Ex
  readonly at: Ex
}

/**
 * Whether one candidate wins over another in an arg-fold. `follows`: it is one, and further on than the other, so that positions need no comparison.
 */
export function beatsEx(
  combiner: 'argmax' | 'argmin',
  last: boolean,
  { value: v, at: p }: Candidate,
  { value: w, at: q }: Candidate,
  follows = false,
): Ex {
  const number = (x: Ex): Ex => (x.type === 'bool' ? cast('u32', x) : x)
  const [x, y] = [number(v), number(w)]
  const beats = combiner === 'argmax' ? bin('>', x, y) : bin('<', x, y)
  const even = bin('==', x, y)
  const closer = follows ? lit('bool', last) : bin(last ? '>' : '<', p, q)
  let wins = either(beats, both(even, closer))
  if (v.type === 'f32' || v.type === 'f64') {
    const [nv, nw] = [call('bool', `${v.type}_isnan`, v), call('bool', `${v.type}_isnan`, w)]
    wins = either(both(not(nw), either(nv, wins)), both(nv, both(nw, closer)))
  }
  const isWon = either(bin('<', q, lit(q.type, 0)), wins)
  return follows ? isWon : both(bin('>=', p, lit(p.type, 0)), isWon)
}

/** Of two truths that cost nothing to find: no branch goes around the second, which would keep later loads behind it. */
const both = (a: Ex, b: Ex): Ex => (a.k === 'lit' || b.k === 'lit' ? and(a, b) : bin('&', a, b))
const either = (a: Ex, b: Ex): Ex => (a.k === 'lit' || b.k === 'lit' ? bin('||', a, b) : bin('|', a, b))

/** A literal zero of a register type. */
export const zeroOf = (t: Type): Ex => (t === 'bool' ? no : t === 'i32' ? int(0) : lit(t, 0))

/** Numbers as Ex types must match in every dialect; narrow integers convert by value, floats by rounding. */
export function convert(to: Type, x: Ex): Ex {
  switch (to) {
    case 'bool':
      return x.type === 'bool' ? x : not(bin('==', x, lit(x.type, 0)))
    case 'i32':
    case 'u32':
    case 'i64':
    case 'u64':
    case 'f32':
    case 'f64':
      return cast(to, x)
    default:
      return unreachable(to, 'type')
  }
}
