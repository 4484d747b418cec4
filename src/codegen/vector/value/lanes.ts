/**
 * Emission of scalar operations on registers of one or four elements, with the semantics of docs/numerics.md; and what
 * kernels need beside them: multiply-add, horizontal reduction. Register contract: `reg.ts`; memory: `memory.ts`.
 */
import { InternalError, invariant } from '../../../diagnostics/errors.ts'
import { isIntegerBinary, isIntegerUnary } from '../../../scalar/eval.ts'
import { combinerOp, type ScalarOp } from '../../../scalar/ops.ts'
import type { DType } from '../../../types/dtype.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import { emitBool } from '../math/bool.ts'
import { emitBitcast, emitCast } from '../math/cast.ts'
import {
  emitDirectFloat,
  emitFloatCompare,
  emitSmallFloat,
  isCompareName,
  isDirectFloat,
  wideMask,
} from '../math/float.ts'
import { emitRoundTo } from '../math/half.ts'
import { emitIntegerBinary, emitIntegerCompare, emitIntegerUnary } from '../math/integer.ts'
import { emitSpecial, isSpecial } from '../math/special.ts'
import { emitWideBinary, emitWideCompare, emitWideUnary } from '../math/wide.ts'
import {
  copyReg,
  type Env,
  emitExtractLane,
  isHalf,
  isPair,
  makeReg,
  partType,
  type Reg,
  read,
  regClass,
  releaseReg,
} from './reg.ts'

export { mathImports } from '../math/special.ts'
export { emitThreefry } from '../math/threefry.ts'
export {
  emitGatherHalves,
  emitLaneLoad,
  emitLaneStore,
  emitLoadConvert,
  emitLoadEverySecondHalf,
  emitLoadLanes,
  emitLoadSplat,
  emitScatterHalves,
  emitStoreConvert,
  emitStoreLanes,
} from './memory.ts'
export {
  allocReg,
  assignReg,
  combineLanes,
  copyReg,
  type Env,
  emitConst,
  emitExtractLane,
  emitSplat,
  isPair,
  type Lanes,
  laneOf,
  makeReg,
  partCount,
  partType,
  perLane,
  type Reg,
  read,
  regClass,
  releaseReg,
  setLane,
} from './reg.ts'

/** Operations whose result on half-precision operands is a value of the dtype already. */
const keepsHalf: ReadonlySet<ScalarOp> = new Set<ScalarOp>([
  'neg',
  'abs',
  'sign',
  'floor',
  'ceil',
  'round',
  'trunc',
  'max',
  'min',
  'rem',
  'select',
])

/**
 * One scalar operation. `operand` is the operands' dtype (of `select`: the choices'), `result` the result's; `args` have one
 * lane count. In `strict`, half-precision results are rounded to their dtype; in `fast` they stay in f32 until cast or stored.
 */
export function emitScalarOp(
  f: Builder,
  env: Env,
  op: ScalarOp,
  operand: DType,
  result: DType,
  args: readonly Reg[],
): Reg {
  const out = emitUnrounded(f, env, op, operand, result, args)
  if (env.mode !== 'strict' || !isHalf(result) || op === 'cast' || op === 'bitcast' || keepsHalf.has(op)) return out
  const rounded = emitRoundTo(f, env, result, out)
  releaseReg(f, out)
  return rounded
}

function emitUnrounded(f: Builder, env: Env, op: ScalarOp, operand: DType, result: DType, args: readonly Reg[]): Reg {
  const [a, b = a, c] = args
  invariant(a !== undefined && b !== undefined, `${op} without operands`)
  if (op === 'cast') return emitCast(f, env, result, a)
  if (op === 'bitcast') return emitBitcast(f, env, result, a)
  if (op === 'select') {
    invariant(c !== undefined, 'select takes three operands')
    return emitSelect(f, a, b, c)
  }
  const kind = regClass(operand)
  if (kind === 'bool') return emitBool(f, op, a, b)
  if (isCompareName(op)) {
    if (kind === 'int') return emitIntegerCompare(f, op, a, b)
    return kind === 'wide' ? emitWideCompare(f, op, a, b) : emitFloatCompare(f, op, a, b)
  }
  if (kind === 'f32' || kind === 'f64') {
    if (isDirectFloat(op)) return emitDirectFloat(f, op, args, a)
    const small = emitSmallFloat(f, env, op, a)
    if (small !== undefined) return small
    if (isSpecial(op)) return emitSpecial(f, env, op, args)
    throw new InternalError(`${op} on ${operand}`)
  }
  const wide = kind === 'wide'
  if (isIntegerUnary(op)) return wide ? emitWideUnary(f, op, a) : emitIntegerUnary(f, op, a)
  if (isIntegerBinary(op)) return wide ? emitWideBinary(f, op, a, b) : emitIntegerBinary(f, op, a, b)
  throw new InternalError(`${op} on ${operand}`)
}

/** `condition ? a : b`, lane by lane. */
function emitSelect(f: Builder, condition: Reg, a: Reg, b: Reg): Reg {
  return makeReg(f, a.dtype, a.lanes, (i) => {
    const where = a.lanes === 4 && isPair(a.dtype) ? wideMask(condition, i) : read(condition)
    return X.select(where, read(a, i), read(b, i))
  })
}

/**
 * a * b + c of one dtype. In `fast`, four f32 (or f64) lanes use the engine's multiply-add where it has one; in `strict` the
 * product and the sum round apart (halves to their dtype).
 */
export function emitFma(f: Builder, env: Env, a: Reg, b: Reg, c: Reg): Reg {
  const { dtype, lanes } = a
  const kind = regClass(dtype)
  if (env.mode === 'fast' && env.hasMultiplyAdd && lanes === 4 && (kind === 'f32' || kind === 'f64'))
    return makeReg(f, dtype, lanes, (i) => X.fma(partType(dtype, 4), read(a, i), read(b, i), read(c, i)))
  const product = emitScalarOp(f, env, 'mul', dtype, dtype, [a, b])
  const sum = emitScalarOp(f, env, 'add', dtype, dtype, [product, c])
  releaseReg(f, product)
  return sum
}

/**
 * Folds the four lanes of a register into one element: in `strict` in lane order, else in the order
 * (0 + 2) + (1 + 3). A register of one element is copied.
 */
export function emitReduceLanes(f: Builder, env: Env, combiner: 'sum' | 'prod' | 'max' | 'min', r: Reg): Reg {
  if (r.lanes === 1) return copyReg(f, r)
  const op = combinerOp[combiner]
  const fold = (a: Reg, b: Reg): Reg => {
    const out = emitScalarOp(f, env, op, r.dtype, r.dtype, [a, b])
    releaseReg(f, a, b)
    return out
  }
  const lane = (i: number): Reg => emitExtractLane(f, r, i)
  if (env.mode === 'strict') return fold(fold(fold(lane(0), lane(1)), lane(2)), lane(3))
  if (isPair(r.dtype) || r.dtype === 'bool') return fold(fold(lane(0), lane(2)), fold(lane(1), lane(3)))
  const upper = makeReg(f, r.dtype, 4, () => X.shuffle(partType(r.dtype, 4), read(r), read(r), [2, 3, 2, 3]))
  const halves = fold(copyReg(f, r), upper)
  const out = fold(emitExtractLane(f, halves, 0), emitExtractLane(f, halves, 1))
  releaseReg(f, halves)
  return out
}
