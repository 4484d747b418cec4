/**
 * Register values: one element (lanes 1) or four consecutive elements (lanes 4) of a dtype in wasm locals.
 *
 * lanes 1: f32 for f32, f16, bf16; f64; i32 for integers of at most 32 bits, kept sign- or zero-extended from their width,
 * and for bool (0 or 1); i64 for i64, u64. lanes 4: one v128 for 32-bit classes (f32x4, i32x4 normalised by lane; bool as an
 * i32x4 mask of all ones or zero), two v128 of two lanes each for f64, i64, u64.
 *
 * Contract of every emitter of registers: operands are left as they are and stay their owner's; the result stands in fresh
 * locals, which the caller releases with `releaseReg`.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import type { NumericsMode } from '../../../kernel/ir.ts'
import type { Scalar } from '../../../scalar/ops.ts'
import type { Machine } from '../../../target/machine.ts'
import { type DType, dtypeBits, dtypeClass, isWide } from '../../../types/dtype.ts'
import type { FunctionBuilder, Local, ModuleBuilder, WasmType } from '../binary/builder.ts'

export type Lanes = 1 | 4

export interface Reg {
  readonly dtype: DType
  readonly lanes: Lanes
  readonly locals: readonly Local[]
  /** The value of every lane, where it is known. */
  readonly constant?: Scalar
}

/** What emission depends on beside the operands. */
export interface Env {
  readonly mode: NumericsMode
  /** What schedules are priced by. */
  readonly machine: Machine
  /** Relaxed SIMD is available on the engine. */
  readonly relaxed: boolean
  /** Where rare functions are imported from (module `math`, see `mathImports`). */
  readonly module: ModuleBuilder
}

/** How a dtype stands in registers. */
export type RegClass = 'f32' | 'f64' | 'int' | 'wide' | 'bool'

const classes = {
  f32: 'f32',
  f16: 'f32',
  bf16: 'f32',
  f64: 'f64',
  i8: 'int',
  i16: 'int',
  i32: 'int',
  u8: 'int',
  u16: 'int',
  u32: 'int',
  i64: 'wide',
  u64: 'wide',
  bool: 'bool',
} as const satisfies Record<DType, RegClass>

export const regClass = (d: DType): RegClass => classes[d]
export const isUnsigned = (d: DType): boolean => dtypeClass(d) === 'unsigned'
export const isHalf = (d: DType): d is 'f16' | 'bf16' => d === 'f16' || d === 'bf16'
/** Whether four lanes take two vectors. */
export const isPair = (d: DType): boolean => classes[d] === 'f64' || classes[d] === 'wide'

const scalarTypes = { f32: 'f32', f64: 'f64', int: 'i32', wide: 'i64', bool: 'i32' } as const satisfies Record<
  RegClass,
  WasmType
>

/** Wasm type of a register's locals. */
export const wasmTypeOf = (d: DType, lanes: Lanes): WasmType => (lanes === 4 ? 'v128' : scalarTypes[classes[d]])

/** Number of locals of a register. */
export const localCount = (d: DType, lanes: Lanes): number => (lanes === 4 && isPair(d) ? 2 : 1)

/** The locals of a register with undefined content. */
export function allocReg(f: FunctionBuilder, dtype: DType, lanes: Lanes): Reg {
  const type = wasmTypeOf(dtype, lanes)
  return { dtype, lanes, locals: Array.from({ length: localCount(dtype, lanes) }, () => f.local(type)) }
}

export function releaseReg(f: FunctionBuilder, ...regs: readonly Reg[]): void {
  for (const r of regs) f.release(...r.locals)
}

/** Part `i` of a register's locals. */
export function part(r: Reg, i: number): Local {
  const l = r.locals[i]
  invariant(l !== undefined, `a register of ${r.dtype} x ${r.lanes} has no part ${i}`)
  return l
}

/** A fresh register whose parts are what `push` leaves on the stack for each. */
export function makeReg(f: FunctionBuilder, dtype: DType, lanes: Lanes, push: (part: number) => void): Reg {
  const type = wasmTypeOf(dtype, lanes)
  const locals: Local[] = []
  for (let i = 0; i < localCount(dtype, lanes); i++) {
    push(i)
    locals.push(f.toLocal(type))
  }
  return { dtype, lanes, locals }
}

/** A copy, possibly under another dtype of the same register class. */
export function copyReg(f: FunctionBuilder, r: Reg, dtype: DType = r.dtype): Reg {
  return makeReg(f, dtype, r.lanes, (i) => f.get(part(r, i)))
}

/** Overwrites a register (an accumulator) with another of its dtype and lanes. */
export function assignReg(f: FunctionBuilder, to: Reg, from: Reg): void {
  to.locals.forEach((l, i) => {
    f.get(part(from, i))
    f.set(l)
  })
}

/** A constant in every lane; `value` is a value of the dtype. */
export function emitConst(f: FunctionBuilder, dtype: DType, lanes: Lanes, value: Scalar): Reg {
  const n = (): number => Number(value)
  const push = (): void => {
    switch (regClass(dtype)) {
      case 'f32':
        if (lanes === 1) f.f32Const(n())
        else f.f32x4Const(n())
        return
      case 'f64':
        if (lanes === 1) f.f64Const(n())
        else f.f64x2Const(n())
        return
      case 'int':
        if (lanes === 1) f.i32Const(n() | 0)
        else f.i32x4Const(n() | 0)
        return
      case 'wide':
        if (lanes === 1) f.i64Const(BigInt(value))
        else f.i64x2Const(BigInt(value))
        return
      case 'bool':
        if (lanes === 1) f.i32Const(value ? 1 : 0)
        else f.i32x4Const(value ? -1 : 0)
        return
    }
  }
  return { ...makeReg(f, dtype, lanes, push), constant: value }
}

/** Pushes a vector whose lanes are all the scalar on the stack (a bool as a mask). */
export function splatTop(f: FunctionBuilder, dtype: DType): void {
  switch (regClass(dtype)) {
    case 'f32':
      f.op('f32x4.splat')
      return
    case 'f64':
      f.op('f64x2.splat')
      return
    case 'int':
      f.op('i32x4.splat')
      return
    case 'wide':
      f.op('i64x2.splat')
      return
    case 'bool':
      f.ops('i32x4.splat', 'i32x4.neg')
      return
  }
}

/** Four lanes of one element; a register of four lanes is copied. */
export function emitSplat(f: FunctionBuilder, r: Reg): Reg {
  if (r.lanes === 4) return copyReg(f, r)
  const out = makeReg(f, r.dtype, 4, () => {
    f.get(part(r, 0))
    splatTop(f, r.dtype)
  })
  return r.constant === undefined ? out : { ...out, constant: r.constant }
}

/** Pushes one lane as a scalar of the register's class. */
export function pushLane(f: FunctionBuilder, r: Reg, lane: number): void {
  if (r.lanes === 1) {
    f.get(part(r, 0))
    return
  }
  const pair = isPair(r.dtype)
  f.get(part(r, pair ? lane >> 1 : 0))
  switch (regClass(r.dtype)) {
    case 'f32':
      f.lane('f32x4.extract_lane', lane)
      return
    case 'f64':
      f.lane('f64x2.extract_lane', lane & 1)
      return
    case 'int':
      f.lane('i32x4.extract_lane', lane)
      return
    case 'wide':
      f.lane('i64x2.extract_lane', lane & 1)
      return
    case 'bool':
      f.lane('i32x4.extract_lane', lane)
      f.i32Const(1)
      f.op('i32.and')
      return
  }
}

/** One lane as a register of one element. */
export function emitExtractLane(f: FunctionBuilder, r: Reg, lane: number): Reg {
  return makeReg(f, r.dtype, 1, () => pushLane(f, r, lane))
}

/** Replaces a lane of a register (in place) by the scalar that `push` leaves on the stack. */
export function setLane(f: FunctionBuilder, r: Reg, lane: number, push: () => void): void {
  const pair = isPair(r.dtype)
  const l = part(r, pair && r.lanes === 4 ? lane >> 1 : 0)
  if (r.lanes === 1) {
    push()
    f.set(l)
    return
  }
  f.get(l)
  push()
  switch (regClass(r.dtype)) {
    case 'f32':
      f.lane('f32x4.replace_lane', lane)
      break
    case 'f64':
      f.lane('f64x2.replace_lane', lane & 1)
      break
    case 'int':
      f.lane('i32x4.replace_lane', lane)
      break
    case 'wide':
      f.lane('i64x2.replace_lane', lane & 1)
      break
    case 'bool':
      f.op('i32.eqz')
      f.i32Const(1)
      f.op('i32.sub')
      f.lane('i32x4.replace_lane', lane)
      break
  }
  f.set(l)
}

/** Four elements, each by a scalar emitter on the operands' elements of its lane. */
export function perLane(
  f: FunctionBuilder,
  dtype: DType,
  args: readonly Reg[],
  scalar: (args: readonly Reg[]) => Reg,
): Reg {
  const results: Reg[] = []
  for (let lane = 0; lane < 4; lane++) {
    const elements = args.map((a) => emitExtractLane(f, a, lane))
    results.push(scalar(elements))
    releaseReg(f, ...elements)
  }
  const out = combineLanes(f, dtype, results)
  releaseReg(f, ...results)
  return out
}

/** Four elements as one register. */
export function combineLanes(f: FunctionBuilder, dtype: DType, elements: readonly Reg[]): Reg {
  const out = makeReg(f, dtype, 4, (i) => {
    const first = elements[isPair(dtype) ? 2 * i : 0]
    invariant(first !== undefined, 'four elements make a vector')
    f.get(part(first, 0))
    splatTop(f, dtype)
  })
  elements.forEach((e, lane) => {
    if (lane === 0 || (isPair(dtype) && lane === 2)) return
    setLane(f, out, lane, () => f.get(part(e, 0)))
  })
  return out
}

/** Runs an emitter of four lanes on one element: splat, compute, extract lane 0, so both agree bit for bit. */
export function viaVector(f: FunctionBuilder, args: readonly Reg[], vector: (args: readonly Reg[]) => Reg): Reg {
  const wide = args.map((a) => emitSplat(f, a))
  const result = vector(wide)
  const out = emitExtractLane(f, result, 0)
  releaseReg(f, result, ...wide)
  return out
}

/** Sign- or zero-extends the i32 (or each i32x4 lane) on the stack from the dtype's width. */
export function normaliseTop(f: FunctionBuilder, dtype: DType, lanes: Lanes): void {
  const bits = dtypeBits(dtype)
  if (bits >= 32 || isWide(dtype)) return
  if (isUnsigned(dtype)) {
    const mask = 2 ** bits - 1
    if (lanes === 1) {
      f.i32Const(mask)
      f.op('i32.and')
    } else {
      f.i32x4Const(mask)
      f.op('v128.and')
    }
    return
  }
  if (lanes === 1) {
    f.op(bits === 8 ? 'i32.extend8_s' : 'i32.extend16_s')
    return
  }
  f.i32Const(32 - bits)
  f.op('i32x4.shl')
  f.i32Const(32 - bits)
  f.op('i32x4.shr_s')
}
