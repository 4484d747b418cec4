/** Elementwise operations of the reference backend: one loop an operation, its scalar function looked up before it. */
import { InternalError, invariant } from '../diagnostics/errors.ts'
import { bitcastScalar, castScalar } from '../scalar/cast.ts'
import { evalScalar, isCompare, isFloatBinary, isFloatUnary, isIntegerBinary, isIntegerUnary } from '../scalar/eval.ts'
import { compareNumbers, floatBinary, floatUnary } from '../scalar/float.ts'
import { integerBinary, integerUnary } from '../scalar/integer.ts'
import { type Scalar, type ScalarOp, scalarInfo } from '../scalar/ops.ts'
import { type DType, isFloat } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { allocate, isNarrow, narrow, type RefTensor, type Rounding, rounded, roundInPlace } from './tensor.ts'

/** One elementwise node on evaluated operands. */
export function elementwise(op: ScalarOp, inputs: readonly RefTensor[], dtype: DType, rounding: Rounding): RefTensor {
  const exactOperands = rounding === 'f64' && scalarInfo(op).discontinuous === true
  const args = exactOperands ? inputs.map(rounded) : inputs
  const [a, b, c] = args
  invariant(a !== undefined, `${op} without operands`)
  if (op === 'select' && b !== undefined && c !== undefined) return select(a, b, c)
  const out = allocate(dtype, sizeOf(a.shape))
  if (op === 'cast' || op === 'bitcast') convert(op, a, out, dtype)
  else if (!isNarrow(a.data) || !isNarrow(out)) general(op, args, out, dtype)
  else if (isNarrow(out)) {
    if (b === undefined) unary(op, a, out)
    else binary(op, a, b, out)
  }
  if (rounding !== 'f64' || op === 'cast') roundInPlace(out, dtype)
  return { dtype, shape: a.shape, data: out }
}

function select(cond: RefTensor, a: RefTensor, b: RefTensor): RefTensor {
  const out = allocate(a.dtype, cond.data.length)
  const yes = narrow(cond)
  if (isNarrow(out)) {
    const x = narrow(a)
    const y = narrow(b)
    for (let i = 0; i < out.length; i++) out[i] = (yes[i] === 0 ? y[i] : x[i]) ?? 0
  } else for (let i = 0; i < out.length; i++) out[i] = BigInt((yes[i] === 0 ? b.data[i] : a.data[i]) ?? 0n)
  return { dtype: a.dtype, shape: cond.shape, data: out }
}

function unaryFunction(op: ScalarOp, dtype: DType): (x: number) => number {
  if (isFloat(dtype)) {
    if (isFloatUnary(op)) return floatUnary[op]
    if (op === 'isnan') return (x) => (Number.isNaN(x) ? 1 : 0)
    if (op === 'isinf') return (x) => (Math.abs(x) === Number.POSITIVE_INFINITY ? 1 : 0)
  } else if (dtype === 'bool') {
    if (op === 'not') return (x) => 1 - x
  } else if (isIntegerUnary(op)) return integerUnary(op, dtype)
  throw new InternalError(`${op} is not defined on ${dtype}`)
}

function binaryFunction(op: ScalarOp, dtype: DType): (x: number, y: number) => number {
  if (isCompare(op)) {
    const f = compareNumbers[op]
    return (x, y) => (f(x, y) ? 1 : 0)
  }
  if (isFloat(dtype)) {
    if (isFloatBinary(op)) return floatBinary[op]
  } else if (isIntegerBinary(op)) return integerBinary(op, dtype === 'bool' ? 'u8' : dtype)
  throw new InternalError(`${op} is not defined on ${dtype}`)
}

function unary(op: ScalarOp, a: RefTensor, out: Float64Array): void {
  const f = unaryFunction(op, a.dtype)
  const x = narrow(a)
  for (let i = 0; i < out.length; i++) out[i] = f(x[i] ?? 0)
}

function binary(op: ScalarOp, a: RefTensor, b: RefTensor, out: Float64Array): void {
  const f = binaryFunction(op, a.dtype)
  const x = narrow(a)
  const y = narrow(b)
  for (let i = 0; i < out.length; i++) out[i] = f(x[i] ?? 0, y[i] ?? 0)
}

/** 64-bit integers: an element at a time through the scalar oracle. */
function general(op: ScalarOp, args: readonly RefTensor[], out: RefTensor['data'], dtype: DType): void {
  const operand = args[0]?.dtype ?? dtype
  for (let i = 0; i < out.length; i++) {
    const values = args.map((x): Scalar => x.data[i] ?? 0)
    const r = evalScalar(op, operand, dtype, values)
    if (isNarrow(out)) out[i] = Number(r)
    else out[i] = BigInt(r)
  }
}

function convert(op: 'cast' | 'bitcast', a: RefTensor, out: RefTensor['data'], dtype: DType): void {
  const f = op === 'cast' ? castScalar : bitcastScalar
  if (isNarrow(out)) {
    if (op === 'cast' && isFloat(dtype) && isNarrow(a.data)) out.set(a.data)
    else for (let i = 0; i < out.length; i++) out[i] = Number(f(a.data[i] ?? 0, a.dtype, dtype))
  } else for (let i = 0; i < out.length; i++) out[i] = BigInt(f(a.data[i] ?? 0, a.dtype, dtype))
}
