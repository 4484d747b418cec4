/**
 * The scalar oracle: what every elementwise operation yields on one element. Floats are computed in double precision and
 * not rounded (the caller rounds with `roundTo`); integers are exact and wrap. Edge cases are those of docs/numerics.md.
 */
import { InternalError, invariant } from '../diagnostics/errors.ts'
import { type DType, isFloat, isWide } from '../types/dtype.ts'
import { bitcastScalar, castScalar } from './cast.ts'
import { type CompareName, compareNumbers, floatBinary, floatUnary } from './float.ts'
import { type IntegerBinary, type IntegerUnary, integerBinary, integerUnary, wideBinary, wideUnary } from './integer.ts'
import type { Scalar, ScalarOp } from './ops.ts'

export { roundFloat, roundTo } from './cast.ts'
export { erf } from './float.ts'
export {
  elementsPerCall,
  isRandomDType,
  type RandomDType,
  randomDTypes,
  randomElement,
  randomWidth,
  threefry2x32,
} from './threefry.ts'

const isKey = <T extends object>(table: T, key: PropertyKey): key is keyof T => Object.hasOwn(table, key)

const integerUnaryNames = { neg: 1, abs: 1, sign: 1, floor: 1, ceil: 1, round: 1, trunc: 1, not: 1 } satisfies Record<
  IntegerUnary,
  1
>
const integerBinaryNames = {
  add: 1,
  sub: 1,
  mul: 1,
  div: 1,
  rem: 1,
  pow: 1,
  max: 1,
  min: 1,
  and: 1,
  or: 1,
  xor: 1,
  shl: 1,
  shr: 1,
} satisfies Record<IntegerBinary, 1>

export const isCompare = (op: ScalarOp): op is CompareName => isKey(compareNumbers, op)
export const isFloatUnary = (op: ScalarOp): op is keyof typeof floatUnary => isKey(floatUnary, op)
export const isFloatBinary = (op: ScalarOp): op is keyof typeof floatBinary => isKey(floatBinary, op)
export const isIntegerUnary = (op: ScalarOp): op is IntegerUnary => isKey(integerUnaryNames, op)
export const isIntegerBinary = (op: ScalarOp): op is IntegerBinary => isKey(integerBinaryNames, op)

function compare(op: CompareName, a: Scalar, b: Scalar): boolean {
  if (typeof a !== 'bigint' || typeof b !== 'bigint') return compareNumbers[op](Number(a), Number(b))
  return compareNumbers[op](a < b ? -1 : a > b ? 1 : 0, 0)
}

function evalBool(op: ScalarOp, a: boolean, b: boolean): boolean | undefined {
  switch (op) {
    case 'not':
      return !a
    case 'and':
    case 'min':
      return a && b
    case 'or':
    case 'max':
      return a || b
    case 'xor':
      return a !== b
    default:
      return undefined
  }
}

/**
 * One element of `op`. `dtype` is the operands' (for `select`, of the two choices), `result` the result's; `args` are
 * host scalars of `dtype` (`select`: a boolean first). Float results are unrounded doubles.
 */
export function evalScalar(op: ScalarOp, dtype: DType, result: DType, args: readonly Scalar[]): Scalar {
  const [a, b = a, c] = args
  invariant(a !== undefined && b !== undefined, `${op} without operands`)
  if (op === 'select') {
    invariant(c !== undefined, 'select takes three operands')
    return a ? b : c
  }
  if (op === 'cast') return castScalar(a, dtype, result)
  if (op === 'bitcast') return bitcastScalar(a, dtype, result)
  if (isCompare(op)) return compare(op, a, b)
  if (isFloat(dtype)) {
    if (op === 'isnan') return Number.isNaN(a)
    if (op === 'isinf') return a === Number.POSITIVE_INFINITY || a === Number.NEGATIVE_INFINITY
    if (isFloatUnary(op)) return floatUnary[op](Number(a))
    if (isFloatBinary(op)) return floatBinary[op](Number(a), Number(b))
  } else if (dtype === 'bool') {
    const r = evalBool(op, Boolean(a), Boolean(b))
    if (r !== undefined) return r
  } else if (isWide(dtype)) {
    if (isIntegerUnary(op)) return wideUnary(op, dtype)(BigInt(a))
    if (isIntegerBinary(op)) return wideBinary(op, dtype)(BigInt(a), BigInt(b))
  } else {
    if (isIntegerUnary(op)) return integerUnary(op, dtype)(Number(a))
    if (isIntegerBinary(op)) return integerBinary(op, dtype)(Number(a), Number(b))
  }
  throw new InternalError(`${op} is not defined on ${dtype}`)
}
