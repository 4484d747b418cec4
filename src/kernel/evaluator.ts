/** The scalar oracle with its operation and dtypes fixed: the dispatch is done once a statement, not once an element. */
import { evalScalar, isFloatBinary, isFloatUnary } from '../scalar/eval.ts'
import { floatBinary, floatUnary } from '../scalar/float.ts'
import type { Scalar, ScalarOp } from '../scalar/ops.ts'
import { type DType, isFloat } from '../types/dtype.ts'

/** `evalScalar(op, dtype, result, args)` as a function of its (up to three) operands. */
export function evaluatorOf(op: ScalarOp, dtype: DType, result: DType): (a: Scalar, b?: Scalar, c?: Scalar) => Scalar {
  if (isFloat(dtype) && isFloatUnary(op)) {
    const f = floatUnary[op]
    return (a) => f(Number(a))
  }
  if (isFloat(dtype) && isFloatBinary(op)) {
    const f = floatBinary[op]
    return (a, b) => f(Number(a), Number(b))
  }
  return (a, b, c) => evalScalar(op, dtype, result, b === undefined ? [a] : c === undefined ? [a, b] : [a, b, c])
}
