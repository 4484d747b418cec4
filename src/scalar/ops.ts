/**
 * Scalar operations: the one place that says, for every elementwise operation, its arity, result dtype, algebra and cost.
 * Evaluators (the oracle's arithmetic) stand beside it in `eval.ts`. The graph's op table and the kernel IR both draw on it.
 */
import type { DType, DTypeClass, FloatDType } from '../types/dtype.ts'

export type UnaryName =
  | 'neg'
  | 'abs'
  | 'sign'
  | 'floor'
  | 'ceil'
  | 'round'
  | 'trunc'
  | 'sqrt'
  | 'rsqrt'
  | 'exp'
  | 'expm1'
  | 'log'
  | 'log1p'
  | 'sin'
  | 'cos'
  | 'tan'
  | 'asin'
  | 'acos'
  | 'atan'
  | 'sinh'
  | 'cosh'
  | 'tanh'
  | 'asinh'
  | 'acosh'
  | 'atanh'
  | 'erf'
  | 'erfc'
  | 'erfinv'
  | 'lgamma'
  | 'digamma'
  | 'trigamma'
  | 'cbrt'
  | 'sigmoid'
  | 'not'
  | 'isnan'
  | 'isinf'
export type BinaryName =
  | 'add'
  | 'sub'
  | 'mul'
  | 'div'
  | 'rem'
  | 'pow'
  | 'max'
  | 'min'
  | 'atan2'
  | 'hypot'
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
/** Elementwise operations on same-dtype operands. `select(cond, a, b)` takes a bool first. `cast` and `bitcast` change the dtype. */
export type ScalarOp = UnaryName | BinaryName | 'select' | 'cast' | 'bitcast'

/** What an operation costs on one element, as the cost model counts it: an instruction's worth, or a special function. */
export type ScalarCost = 'free' | 'simple' | 'divide' | 'special'

export interface ScalarInfo {
  readonly arity: 1 | 2 | 3
  /** 'same': the operands' dtype; 'bool': a comparison; 'attr': given by the node (casts). */
  readonly result: 'same' | 'bool' | 'attr'
  /** Dtype classes of operands the operation is defined on. */
  readonly on: readonly DTypeClass[]
  readonly cost: ScalarCost
  readonly commutative?: true
  /** Nondecreasing in its (only) operand: commutes with max and min. */
  readonly monotone?: true
  /** f(-x) = -f(x). */
  readonly odd?: true
  /** f(f(x)) = f(x). */
  readonly idempotent?: true
  /** Discontinuous: the oracle must round its operands to their dtype before it is compared. */
  readonly discontinuous?: true
  /** Relative errors of the operands pass to the result and at most add up. */
  readonly proportional?: true
  /** No result is below zero. */
  readonly nonnegative?: true
  /** Arithmetic that a NaN among the operands goes through on every target. */
  readonly passesNaN?: true
  /** The result is an operand (after the condition of `select`), or one with its sign changed: bits are kept or NaN stays NaN. */
  readonly chooses?: true
  /** The result is the sum of the operands with these signs. */
  readonly terms?: readonly (1 | -1)[]
  /** The result is the product of the operands to these powers. */
  readonly factors?: readonly (1 | -1)[]
  /** Sums in this operand become products: f(a + b) = f(a) f(b). */
  readonly exponentialIn?: 0 | 1
  /** One result for all finite operands. */
  readonly sameWhereFinite?: true
}

const num: readonly DTypeClass[] = ['float', 'signed', 'unsigned']
const any: readonly DTypeClass[] = ['float', 'signed', 'unsigned', 'bool']
const float: readonly DTypeClass[] = ['float']
const bits: readonly DTypeClass[] = ['signed', 'unsigned', 'bool']
const ints: readonly DTypeClass[] = ['signed', 'unsigned']

const special = (extra: Partial<ScalarInfo> = {}): ScalarInfo => ({
  arity: 1,
  result: 'same',
  on: float,
  cost: 'special',
  ...extra,
})
const compare = (extra: Partial<ScalarInfo> = {}): ScalarInfo => ({
  arity: 2,
  result: 'bool',
  on: any,
  cost: 'simple',
  discontinuous: true,
  ...extra,
})

export const scalarOps = {
  neg: {
    arity: 1,
    result: 'same',
    on: num,
    cost: 'simple',
    proportional: true,
    passesNaN: true,
    chooses: true,
    terms: [-1],
  },
  abs: {
    arity: 1,
    result: 'same',
    on: num,
    cost: 'simple',
    idempotent: true,
    proportional: true,
    nonnegative: true,
    passesNaN: true,
    chooses: true,
  },
  sign: { arity: 1, result: 'same', on: num, cost: 'simple', monotone: true, idempotent: true, discontinuous: true },
  floor: { arity: 1, result: 'same', on: num, cost: 'simple', monotone: true, idempotent: true, discontinuous: true },
  ceil: { arity: 1, result: 'same', on: num, cost: 'simple', monotone: true, idempotent: true, discontinuous: true },
  round: { arity: 1, result: 'same', on: num, cost: 'simple', monotone: true, idempotent: true, discontinuous: true },
  trunc: { arity: 1, result: 'same', on: num, cost: 'simple', monotone: true, idempotent: true, discontinuous: true },
  sqrt: { arity: 1, result: 'same', on: float, cost: 'divide', monotone: true, proportional: true, nonnegative: true },
  rsqrt: { arity: 1, result: 'same', on: float, cost: 'divide', proportional: true, nonnegative: true },
  exp: special({ monotone: true, nonnegative: true, exponentialIn: 0 }),
  expm1: special({ monotone: true }),
  log: special({ monotone: true }),
  log1p: special({ monotone: true }),
  sin: special({ odd: true }),
  cos: special(),
  tan: special({ odd: true }),
  asin: special({ monotone: true, odd: true }),
  acos: special(),
  atan: special({ monotone: true, odd: true }),
  sinh: special({ monotone: true, odd: true }),
  cosh: special(),
  tanh: special({ monotone: true, odd: true }),
  asinh: special({ monotone: true, odd: true }),
  acosh: special({ monotone: true }),
  atanh: special({ monotone: true, odd: true }),
  erf: special({ monotone: true, odd: true }),
  erfc: special({ nonnegative: true }),
  erfinv: special({ monotone: true, odd: true }),
  lgamma: special(),
  digamma: special(),
  trigamma: special(),
  cbrt: special({ monotone: true, odd: true, proportional: true }),
  sigmoid: special({ monotone: true, nonnegative: true }),
  not: { arity: 1, result: 'same', on: bits, cost: 'simple' },
  isnan: { arity: 1, result: 'bool', on: float, cost: 'simple', discontinuous: true, sameWhereFinite: true },
  isinf: { arity: 1, result: 'bool', on: float, cost: 'simple', discontinuous: true, sameWhereFinite: true },
  add: { arity: 2, result: 'same', on: num, cost: 'simple', commutative: true, passesNaN: true, terms: [1, 1] },
  sub: { arity: 2, result: 'same', on: num, cost: 'simple', passesNaN: true, terms: [1, -1] },
  mul: {
    arity: 2,
    result: 'same',
    on: num,
    cost: 'simple',
    commutative: true,
    proportional: true,
    passesNaN: true,
    factors: [1, 1],
  },
  div: { arity: 2, result: 'same', on: num, cost: 'divide', proportional: true, passesNaN: true, factors: [1, -1] },
  rem: { arity: 2, result: 'same', on: num, cost: 'divide', discontinuous: true },
  pow: { arity: 2, result: 'same', on: num, cost: 'special', exponentialIn: 1 },
  max: { arity: 2, result: 'same', on: any, cost: 'simple', commutative: true, proportional: true, chooses: true },
  min: { arity: 2, result: 'same', on: any, cost: 'simple', commutative: true, proportional: true, chooses: true },
  atan2: { arity: 2, result: 'same', on: float, cost: 'special' },
  hypot: special({ arity: 2, commutative: true, nonnegative: true, proportional: true }),
  and: { arity: 2, result: 'same', on: bits, cost: 'simple', commutative: true },
  or: { arity: 2, result: 'same', on: bits, cost: 'simple', commutative: true },
  xor: { arity: 2, result: 'same', on: bits, cost: 'simple', commutative: true },
  shl: { arity: 2, result: 'same', on: ints, cost: 'simple' },
  shr: { arity: 2, result: 'same', on: ints, cost: 'simple' },
  eq: compare({ commutative: true }),
  ne: compare({ commutative: true }),
  lt: compare(),
  le: compare(),
  gt: compare(),
  ge: compare(),
  select: { arity: 3, result: 'same', on: any, cost: 'simple', proportional: true, chooses: true },
  cast: { arity: 1, result: 'attr', on: any, cost: 'simple', discontinuous: true },
  bitcast: { arity: 1, result: 'attr', on: any, cost: 'free', discontinuous: true },
} as const satisfies Record<ScalarOp, ScalarInfo>

export const scalarInfo = (op: ScalarOp): ScalarInfo => scalarOps[op]
/** Whether an operation takes as long as a division or a function. */
export const isLong = (op: ScalarOp): boolean => ['divide', 'special'].includes(scalarInfo(op).cost)

export const isScalarOp = (name: string): name is ScalarOp => Object.hasOwn(scalarOps, name)

/** A host value of one element: bigint for 64-bit integers, boolean for bool, number otherwise. */
export type Scalar = number | bigint | boolean

/** How values combine in reductions, scans and scatters. `argmax`/`argmin` combine (value, index) and yield the index. */
export type Combiner = 'sum' | 'prod' | 'max' | 'min' | 'argmax' | 'argmin'

/** The scalar operation two partial results of a combiner are merged with (tuple combiners have their own law). */
export const combinerOp = { sum: 'add', prod: 'mul', max: 'max', min: 'min' } as const satisfies Partial<
  Record<Combiner, BinaryName>
>

export const isArgCombiner = (c: Combiner): c is 'argmax' | 'argmin' => c === 'argmax' || c === 'argmin'

/** The combiner's identity on a dtype. */
export function combinerIdentity(c: 'sum' | 'prod' | 'max' | 'min', dtype: DType): Scalar {
  if (dtype === 'bool') return c === 'prod' || c === 'min'
  const wide = dtype === 'i64' || dtype === 'u64'
  if (c === 'sum') return wide ? 0n : 0
  if (c === 'prod') return wide ? 1n : 1
  return extreme(dtype, c === 'max' ? 'least' : 'greatest')
}

/** The greatest finite number of each float dtype, by its bits of precision (bf16: 8, f16: 11, f32: 24, f64: 53). */
export const greatestFinite: Readonly<Record<FloatDType, number>> = {
  f16: 65504,
  bf16: (2 - 2 ** -7) * 2 ** 127,
  f32: (2 - 2 ** -23) * 2 ** 127,
  f64: Number.MAX_VALUE,
}

/** The least or greatest value of a dtype (infinities for floats). */
export function extreme(dtype: DType, which: 'least' | 'greatest'): Scalar {
  const least = which === 'least'
  switch (dtype) {
    case 'f32':
    case 'f64':
    case 'f16':
    case 'bf16':
      return least ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
    case 'bool':
      return !least
    case 'i8':
      return least ? -128 : 127
    case 'i16':
      return least ? -32768 : 32767
    case 'i32':
      return least ? -2147483648 : 2147483647
    case 'i64':
      return least ? -(1n << 63n) : (1n << 63n) - 1n
    case 'u8':
      return least ? 0 : 255
    case 'u16':
      return least ? 0 : 65535
    case 'u32':
      return least ? 0 : 4294967295
    case 'u64':
      return least ? 0n : (1n << 64n) - 1n
  }
}
