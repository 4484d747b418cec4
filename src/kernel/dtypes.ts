/** Dtype rules of the kernel's tile operations: what is wrong with a statement's dtypes, or undefined. */
import { type Scalar, type ScalarOp, scalarInfo } from '../scalar/ops.ts'
import {
  computeDType,
  type DType,
  dtypeBits,
  dtypeClass,
  holdsInteger,
  isFloat,
  isInteger,
  isWide,
} from '../types/dtype.ts'

/** Whether a host scalar is a value of a dtype (float constants need not be exact). */
export function isScalarOf(dtype: DType, v: Scalar): boolean {
  if (dtype === 'bool') return typeof v === 'boolean'
  if (isWide(dtype))
    return typeof v === 'bigint' && (dtype === 'i64' ? BigInt.asIntN(64, v) : BigInt.asUintN(64, v)) === v
  if (typeof v !== 'number') return false
  if (isFloat(dtype)) return true
  return Number.isInteger(v) && holdsInteger(dtype, v)
}

/** Elementwise operations: the classes of the table, equal operand dtypes, the result it names. */
export function scalarDTypeFault(op: ScalarOp, args: readonly DType[], result: DType): string | undefined {
  const info = scalarInfo(op)
  if (args.length !== info.arity) return `${op} takes ${info.arity} operands, not ${args.length}`
  const data = op === 'select' ? args.slice(1) : args
  const [first] = data
  if (first === undefined) return `${op} has no operand`
  if (op === 'select' && args[0] !== 'bool') return `the condition of select is ${args[0]}, not bool`
  const odd = data.find((d) => d !== first)
  if (odd !== undefined) return `${op} of ${first} and ${odd}`
  if (!info.on.includes(dtypeClass(first))) return `${op} is not defined on ${first}`
  if (op === 'bitcast' && dtypeBits(first) !== dtypeBits(result))
    return `bitcast of ${first} to ${result}: widths differ`
  const want = info.result === 'bool' ? 'bool' : info.result === 'same' ? first : result
  return want === result ? undefined : `${op} of ${first} gives ${want}, not ${result}`
}

/** A product sum: both operands floats of one dtype, or both integers; the result accumulates, so it may be wider. */
export function dotDTypeFault(a: DType, b: DType, acc: DType | undefined, result: DType): string | undefined {
  const floats = isFloat(a) && a === b
  const integers = isInteger(a) && isInteger(b)
  if (!floats && !integers) return `dot of ${a} and ${b}`
  const least = Math.max(dtypeBits(a), dtypeBits(b))
  const fits = floats
    ? result === a || result === computeDType(a) || result === 'f64'
    : isInteger(result) && dtypeBits(result) >= least
  if (!fits) return `dot of ${a} and ${b} cannot accumulate in ${result}`
  return acc === undefined || acc === result ? undefined : `dot in ${result} onto an accumulator of ${acc}`
}

/** Folds keep the dtype; sums and products are for numbers; arg-folds give i32 or i64. */
export function foldDTypeFault(combiner: string, arg: DType, result: DType): string | undefined {
  if (combiner === 'argmax' || combiner === 'argmin')
    return result === 'i32' || result === 'i64' ? undefined : `${combiner} gives i32 or i64, not ${result}`
  if (arg === 'bool' && (combiner === 'sum' || combiner === 'prod')) return `${combiner} of bool`
  return arg === result ? undefined : `${combiner} of ${arg} gives ${arg}, not ${result}`
}
