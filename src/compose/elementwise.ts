/**
 * Elementwise operations with NumPy broadcasting and dtype promotion (docs/numerics.md, "Promotion"). Host numbers are
 * weak: they take the dtype of the tensor beside them, except that a fractional number beside integers makes f32.
 */
import { UserError } from '../diagnostics/errors.ts'
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { type BinaryName, greatestFinite, type Scalar, scalarInfo, type UnaryName } from '../scalar/ops.ts'
import { checkDType, computeDType, type DType, dtypeClass, isFloat, promote } from '../types/dtype.ts'
import { broadcastShapes, type Shape } from '../types/shape.ts'
import { broadcastTo } from './broadcast.ts'
import { fitsInteger, full } from './source.ts'

/** A node, or a host value that takes the dtype of what stands beside it. */
export type Operand = Node | Scalar

/** Whether an operand is a node. */
export const isNode = (x: Operand): x is Node => typeof x === 'object'

/** The dtype a lone host value has. */
function loneDType(x: Scalar): DType {
  if (typeof x === 'boolean') return 'bool'
  return typeof x === 'bigint' ? 'i64' : 'f32'
}

/** The dtype of `dtype` tensors together with a weak host value. */
function withWeak(dtype: DType, x: Scalar): DType {
  if (typeof x === 'boolean' || isFloat(dtype)) return dtype
  const whole = typeof x === 'bigint' || Number.isInteger(x)
  if (!whole) return 'f32'
  if (dtype === 'bool') return typeof x === 'bigint' ? 'i64' : 'i32'
  if (!fitsInteger(x, dtype))
    throw new UserError('E_OVERFLOW', `${String(x)} is no value of ${dtype}`, {
      help: 'cast the tensor to a wider dtype',
    })
  return dtype
}

/** The dtype operands meet in. */
export function commonDType(operands: readonly Operand[]): DType {
  let dtype: DType | undefined
  for (const x of operands) if (isNode(x)) dtype = dtype === undefined ? x.dtype : promote(dtype, x.dtype)
  for (const x of operands) if (!isNode(x)) dtype = dtype === undefined ? loneDType(x) : withWeak(dtype, x)
  return dtype ?? 'f32'
}

const commonShape = (operands: readonly Operand[]): Shape => {
  let shape: Shape | undefined
  for (const x of operands) if (isNode(x)) shape = shape === undefined ? x.shape : broadcastShapes(shape, x.shape)
  return shape ?? []
}

/** One operand as a node of a dtype and shape. */
export const materialise = (x: Operand, dtype: DType, shape: Shape): Node =>
  isNode(x) ? broadcastTo(cast(x, dtype), shape) : full(shape, x, dtype)

/** An operand as a node; a host value becomes a scalar tensor. */
export const asNode = (x: Operand): Node => (isNode(x) ? x : full([], x, loneDType(x)))

/** The nearest dtype to `dtype` that an operation is defined on: f32 for float functions of integers, i32 for arithmetic of bool. */
function admitted(op: UnaryName | BinaryName, dtype: DType): DType {
  const { on } = scalarInfo(op)
  if (on.includes(dtypeClass(dtype))) return dtype
  if (dtype === 'bool' && on.includes('signed')) return 'i32'
  return on.includes('float') ? 'f32' : dtype
}

/** A node of any plain elementwise op: a union of ops is one of them. */
const apply = (op: UnaryName | BinaryName, inputs: readonly Node[]): Node => makeNode(op, inputs, {}) as Node

/** A dtype to convert to: attributes are written out before a node's own dtype is checked. */
const known = (dtype: DType): DType => {
  checkDType(dtype)
  return dtype
}

/** Numeric conversion; no node when the dtype is already right. Throws E_DTYPE. */
export const cast = (x: Node, dtype: DType): Node =>
  x.dtype === dtype ? x : makeNode('cast', [x], { dtype: known(dtype) })

/** A result in its dtype: a conversion whose rounding `fast` may skip where it is used in the same kernel. */
export const settle = (x: Node, dtype: DType): Node =>
  x.dtype === dtype ? x : makeNode('cast', [x], { dtype, loose: true })

/** Same bits as another dtype of the same width. Throws E_DTYPE when the widths differ. */
export const bitcast = (x: Node, dtype: DType): Node =>
  x.dtype === dtype ? x : makeNode('bitcast', [x], { dtype: known(dtype) })

/** A host value with the shape and dtype of `x`. */
export const scalarLike = (x: Node, value: Scalar): Node => full(x.shape, value, x.dtype)

/** A unary operation; integers given to a float function become f32. Throws E_DTYPE. */
export function unary(op: UnaryName, x: Operand): Node {
  const node = asNode(x)
  return apply(op, [cast(node, admitted(op, node.dtype))])
}

/** A binary operation with broadcasting and promotion; integers given to a float function become f32. Throws E_SHAPE, E_DTYPE. */
export function binary(op: BinaryName, a: Operand, b: Operand): Node {
  const dtype = admitted(op, commonDType([a, b]))
  const shape = commonShape([a, b])
  return apply(op, [materialise(a, dtype, shape), materialise(b, dtype, shape)])
}

/** The comparisons. */
export type Comparison = 'eq' | 'ne' | 'lt' | 'le' | 'gt' | 'ge'

/** A comparison: bool. NaN compares unequal to everything. */
export const compare = (op: Comparison, a: Operand, b: Operand): Node => binary(op, a, b)

/** `a` where the bool `condition` holds, else `b`. Throws E_DTYPE for a condition that is not bool. */
export function where(condition: Operand, a: Operand, b: Operand): Node {
  const dtype = commonDType([a, b])
  const shape = commonShape([condition, a, b])
  const c = isNode(condition) ? broadcastTo(condition, shape) : full(shape, condition, 'bool')
  return makeNode('select', [c, materialise(a, dtype, shape), materialise(b, dtype, shape)], {})
}

/** Sum. */
export const add = (a: Operand, b: Operand): Node => binary('add', a, b)
/** Difference. */
export const sub = (a: Operand, b: Operand): Node => binary('sub', a, b)
/** Product. */
export const mul = (a: Operand, b: Operand): Node => binary('mul', a, b)
/** Quotient; of integers, truncated towards zero. */
export const div = (a: Operand, b: Operand): Node => binary('div', a, b)
/** Power (docs/numerics.md for its special cases). */
export const pow = (a: Operand, b: Operand): Node => binary('pow', a, b)
/** The larger; NaN when either is NaN. */
export const max = (a: Operand, b: Operand): Node => binary('max', a, b)
/** The smaller; NaN when either is NaN. */
export const min = (a: Operand, b: Operand): Node => binary('min', a, b)
/** Remainder with the sign of the dividend (C's fmod). */
export const rem = (a: Operand, b: Operand): Node => binary('rem', a, b)

/** True quotient: integers become f32 first (NumPy's `/`). */
export function trueDivide(a: Operand, b: Operand): Node {
  const dtype = commonDType([a, b])
  const to: DType = isFloat(dtype) ? dtype : 'f32'
  const shape = commonShape([a, b])
  return makeNode('div', [materialise(a, to, shape), materialise(b, to, shape)], {})
}

/** Remainder with the sign of the divisor (Python's `%`). */
export function floorMod(a: Operand, b: Operand): Node {
  const r = rem(a, b)
  if (r.dtype.startsWith('u')) return r
  const divisor = materialise(b, r.dtype, r.shape)
  const zero = scalarLike(r, 0)
  const wrong = makeNode(
    'and',
    [compare('ne', r, zero), compare('ne', compare('lt', r, zero), compare('lt', divisor, zero))],
    {},
  )
  return where(wrong, add(r, divisor), r)
}

/** Quotient rounded down (Python's `//`). */
export function floorDivide(a: Operand, b: Operand): Node {
  const dtype = admitted('div', commonDType([a, b]))
  if (isFloat(dtype)) return unary('floor', div(a, b))
  const shape = commonShape([a, b])
  const x = materialise(a, dtype, shape)
  const y = materialise(b, dtype, shape)
  const q = div(x, y)
  if (dtype.startsWith('u')) return q
  const r = rem(x, y)
  const inexact = compare('ne', r, 0)
  const opposite = compare('ne', compare('lt', r, 0), compare('lt', y, 0))
  return sub(q, cast(makeNode('and', [inexact, opposite], {}), dtype))
}

/** Limits values to [low, high]; either bound may be left out. `max(low)` first, so a low above high gives high. */
export function clip(x: Node, low?: Operand, high?: Operand): Node {
  const raised = low === undefined ? x : max(x, low)
  return high === undefined ? raised : min(raised, high)
}

/** Negation. */
export const neg = (x: Operand): Node => unary('neg', x)
/** e^x. */
export const exp = (x: Operand): Node => unary('exp', x)
/** Natural logarithm. */
export const log = (x: Operand): Node => unary('log', x)
/** Square root. */
export const sqrt = (x: Operand): Node => unary('sqrt', x)
/** Hyperbolic tangent. */
export const tanh = (x: Operand): Node => unary('tanh', x)

/** x * x. */
export function square(x: Operand): Node {
  const n = asNode(x)
  return mul(n, n)
}

/** 1/x; integers become f32. */
export const reciprocal = (x: Operand): Node => trueDivide(1, x)

/** 2 to the x, as pow(2, x): exp(x ln 2) would lose digits for large x. */
export function exp2(x: Operand): Node {
  const n = asNode(x)
  return pow(2, isFloat(n.dtype) ? n : cast(n, 'f32'))
}

/** Logarithm of base 2, within 2 ulp (log times a constant). */
export const log2 = (x: Operand): Node => mul(log(x), Math.LOG2E)
/** Logarithm of base 10, within 2 ulp (log times a constant). */
export const log10 = (x: Operand): Node => mul(log(x), Math.LOG10E)

/** log(exp(a) + exp(b)) without overflow. Equal operands, infinities among them, have no gap: each has half of the derivative. */
export function logAddExp(a: Operand, b: Operand): Node {
  const gap = unary('abs', where(compare('eq', a, b), 0, sub(a, b)))
  return add(max(a, b), unary('log1p', exp(neg(gap))))
}

/** Truth of each element: nonzero (NaN is true). */
export const truth = (x: Operand): Node => {
  const n = asNode(x)
  return n.dtype === 'bool' ? n : compare('ne', n, 0)
}

/** Both true. */
export const logicalAnd = (a: Operand, b: Operand): Node => binary('and', truth(a), truth(b))
/** Either true. */
export const logicalOr = (a: Operand, b: Operand): Node => binary('or', truth(a), truth(b))
/** Exactly one true. */
export const logicalXor = (a: Operand, b: Operand): Node => binary('xor', truth(a), truth(b))
/** Not true. */
export const logicalNot = (x: Operand): Node => unary('not', truth(x))

/** Neither NaN nor infinite. */
export const isfinite = (x: Operand): Node => logicalNot(binary('or', unary('isnan', x), unary('isinf', x)))

/** Options of comparisons within a tolerance: |a - b| <= absolute + relative * |b|. */
export interface ClosenessOptions {
  /** Relative to |b|; 1e-5 unless given. */
  readonly rtol?: number
  /** Absolute; 1e-8 unless given. */
  readonly atol?: number
  /** Whether NaN is close to NaN; not unless given. */
  readonly equalNan?: boolean
}

/** Whether |a - b| <= atol + rtol |b|, in f32 for half precision, integers and bools; infinities are close to themselves alone (NumPy's isclose). */
export function isclose(a: Operand, b: Operand, options: ClosenessOptions = {}): Node {
  const common = commonDType([a, b])
  const work = isFloat(common) ? computeDType(common) : 'f32'
  const [x, y] = [cast(asNode(a), work), cast(asNode(b), work)]
  const allowed = add(mul(unary('abs', y), options.rtol ?? 1e-5), options.atol ?? 1e-8)
  const within = compare('le', unary('abs', sub(x, y)), allowed)
  const close = logicalOr(compare('eq', x, y), logicalAnd(within, logicalAnd(isfinite(x), isfinite(y))))
  if (options.equalNan !== true) return close
  return logicalOr(close, logicalAnd(unary('isnan', x), unary('isnan', y)))
}

/** What `nanToNum` puts where. */
export interface NanToNumOptions {
  /** For NaN; 0 unless given. */
  readonly nan?: number
  /** For Infinity; the greatest number of the dtype unless given. */
  readonly posinf?: number
  /** For -Infinity; the least number of the dtype unless given. */
  readonly neginf?: number
}

/** NaN and infinities replaced by numbers; integers and bools as they are. */
export function nanToNum(x: Node, options: NanToNumOptions = {}): Node {
  if (!isFloat(x.dtype)) return x
  const greatest = greatestFinite[x.dtype]
  const least = where(compare('eq', x, Number.NEGATIVE_INFINITY), options.neginf ?? -greatest, x)
  const bounded = where(compare('eq', x, Number.POSITIVE_INFINITY), options.posinf ?? greatest, least)
  return where(unary('isnan', x), options.nan ?? 0, bounded)
}
