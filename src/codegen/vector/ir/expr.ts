/**
 * Constructors of expressions. Types follow from operands; where an operand has the same bits under another name (lanes of floats for those of
 * integers, a mask for either), it is viewed as what the operation takes.
 */
import { InternalError, invariant } from '../../../diagnostics/errors.ts'
import type { BinaryOp, CompareOp, Expr, External, LoadForm, UnaryOp } from './ir.ts'
import { bytesOf, f32, f64, i8x16, i32, i32x4, i64, m8x16, m16x8, m32x4, type Type, truthOf } from './types.ts'

/** An operand: a number is a constant i32. */
export type Operand = Expr | number

export const int = (n: number): Expr => ({ kind: 'const', type: i32, value: n | 0 })
export const long = (n: bigint): Expr => ({ kind: 'const', type: i64, value: n })

/** A value in every lane, or one for each lane. */
export const constant = (type: Type, value: number | bigint | readonly number[]): Expr => ({
  kind: 'const',
  type,
  value,
})

export const asExpr = (x: Operand): Expr => (typeof x === 'number' ? int(x) : x)

/** The same bits in another type. */
export function view(type: Type, x: Operand): Expr {
  const given = typeof x === 'number' ? int(x) : x
  if (given.type === type) return given
  const a = given.kind === 'view' && type.lanes > 1 ? given.a : given
  if (a.type === type) return a
  if (bytesOf(a.type) !== bytesOf(type)) throw new InternalError(`${a.type.name} has not the bits of ${type.name}`)
  return { kind: 'view', type, a }
}

/** In the operand's type, or in one of its bits. */
export function unary(op: UnaryOp, x: Operand, type?: Type): Expr {
  const a = asExpr(x)
  const t = type ?? a.type
  return { kind: 'unary', type: t, op, a: view(t, a) }
}

/** In the first operand's type, or in one of its bits. */
export function binary(op: BinaryOp, x: Operand, y: Operand, type?: Type): Expr {
  const a = typeof x === 'number' ? int(x) : x
  const t = type ?? a.type
  const b = typeof y === 'number' ? int(y) : y
  return { kind: 'binary', type: t, op, a: a.type === t ? a : view(t, a), b: b.type === t ? b : view(t, b) }
}

/** Of bits: a mask of masks; of a mask and other lanes, those lanes. */
export function bitwise(op: 'and' | 'or' | 'xor' | 'andnot', x: Operand, y: Operand): Expr {
  const [a, b] = [asExpr(x), asExpr(y)]
  return binary(op, a, b, a.type.isMask ? b.type : a.type)
}

export const add = (a: Operand, b: Operand): Expr => binary('add', a, b)
export const sub = (a: Operand, b: Operand): Expr => binary('sub', a, b)
export const mul = (a: Operand, b: Operand): Expr => binary('mul', a, b)
export const and = (a: Operand, b: Operand): Expr => bitwise('and', a, b)
export const or = (a: Operand, b: Operand): Expr => bitwise('or', a, b)
export const xor = (a: Operand, b: Operand): Expr => bitwise('xor', a, b)
export const shl = (a: Operand, count: Operand): Expr => shift('shl', a, count)
export const shrS = (a: Operand, count: Operand): Expr => shift('shr_s', a, count)
export const shrU = (a: Operand, count: Operand): Expr => shift('shr_u', a, count)

/** A scalar by a count of its type, or all lanes of integers (`type`, where the operand is of others) by an i32. */
export function shift(op: 'shl' | 'shr_s' | 'shr_u', x: Operand, count: Operand, type?: Type): Expr {
  const a = asExpr(x)
  const t = type ?? a.type
  if (t.lanes === 1) return binary(op, a, t === i64 && typeof count === 'number' ? long(BigInt(count)) : count)
  return { kind: 'shift', type: t, op, a: view(t, a), count: asExpr(count) }
}

export const isZero = (a: Operand): Expr => ({ kind: 'isZero', type: i32, a: asExpr(a) })

/** Of the first operand's type, or of one of its bits. */
export function compare(op: CompareOp, x: Operand, y: Operand, type?: Type): Expr {
  const a = asExpr(x)
  const t = type ?? a.type
  return { kind: 'compare', type: truthOf(t), op, a: view(t, a), b: view(t, y) }
}

/** In the first choice's type. */
export function select(condition: Operand, x: Operand, y: Operand): Expr {
  const a = asExpr(x)
  return { kind: 'select', type: a.type, condition: view(truthOf(a.type), condition), a, b: view(a.type, y) }
}

/** The least (greatest) of two i32s. */
export const least = (a: Operand, b: Operand): Expr => select(compare('lt_s', a, b), a, b)
export const greatest = (a: Operand, b: Operand): Expr => select(compare('gt_s', a, b), a, b)

/** a b + c in a type of float lanes, rounded once. */
export const fma = (type: Type, a: Operand, b: Operand, c: Operand, negated = false): Expr => ({
  kind: 'fma',
  type,
  negated,
  a: view(type, a),
  b: view(type, b),
  c: view(type, c),
})

export const load = (type: Type, address: Operand, offset: number, align: number, form: LoadForm = 'plain'): Expr => ({
  kind: 'load',
  type,
  form,
  address: asExpr(address),
  offset,
  align,
})

export const loadLane = (a: Expr, lane: number, address: Operand, offset: number, align: number): Expr => ({
  kind: 'loadLane',
  type: a.type,
  a,
  lane,
  address: asExpr(address),
  offset,
  align,
})

export const splat = (type: Type, a: Operand): Expr => ({ kind: 'splat', type, a: asExpr(a) })

const scalars = { i8: i32, i16: i32, i32, i64, f32, f64 } as const satisfies Record<Type['element'], Type>

/** A lane of a vector of elements that have a scalar type. */
export const extract = (a: Expr, lane: number): Expr => ({ kind: 'extract', type: scalars[a.type.element], a, lane })
export const replace = (a: Expr, lane: number, value: Operand): Expr => ({
  kind: 'replace',
  type: a.type,
  a,
  lane,
  value: asExpr(value),
})

/** Lanes of `a`, then of `b`, by number, in `type`. */
export function shuffle(type: Type, a: Expr, b: Expr, lanes: readonly number[]): Expr {
  invariant(lanes.length === type.lanes, 'a shuffle gives every lane')
  return { kind: 'shuffle', type, a: view(type, a), b: view(type, b), lanes }
}

export const lookup = (a: Expr, indices: Expr): Expr => ({
  kind: 'lookup',
  type: i8x16,
  a: view(i8x16, a),
  indices: view(i8x16, indices),
})

export const convert = (type: Type, a: Operand, signed = true, high = false): Expr => ({
  kind: 'convert',
  type,
  a: asExpr(a),
  signed,
  high,
})

const half = new Map<Type, Type>([
  [m32x4, m16x8],
  [m16x8, m8x16],
])

export function pack(a: Expr, b: Expr): Expr {
  const type = half.get(a.type)
  if (type === undefined) throw new InternalError(`no mask has half the lanes' width of ${a.type.name}`)
  return { kind: 'pack', type, a, b }
}

export const dotPairs = (a: Expr, b: Expr): Expr => ({ kind: 'dotPairs', type: i32x4, a, b })

export const bits = (a: Expr): Expr => ({ kind: 'bits', type: i32, a })
export const any = (a: Expr): Expr => ({ kind: 'any', type: i32, a: a.type.isMask ? a : view(truthOf(a.type), a) })
export const call = (callee: External, args: readonly Expr[]): Expr => ({
  kind: 'call',
  type: callee.result,
  callee,
  args,
})

/** One of two values by a condition; the other is not evaluated. */
export const branch = (condition: Operand, a: Expr, b: Expr): Expr => ({
  kind: 'branch',
  type: a.type,
  condition: asExpr(condition),
  a,
  b,
})

/** Whatever the register that it is assigned to holds. */
export const undefinedOf = (type: Type): Expr => ({ kind: 'undefined', type })
