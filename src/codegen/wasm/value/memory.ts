/**
 * Between memory form and register form: loads and stores of one element, of four consecutive elements, of single lanes
 * and of the first n lanes. Formats are `plain`: f16 and bf16 as 16-bit patterns, bool as bytes (0 false, else true).
 */
import { type DType, dtypeBytes } from '../../../types/dtype.ts'
import type { Align, FunctionBuilder, LoadOp, Local, Operand, StoreLaneOp, StoreOp } from '../binary/builder.ts'
import { halfFromBits, halfToBits } from '../math/half.ts'
import { Vector } from '../math/vector.ts'
import {
  allocReg,
  type Env,
  emitSplat,
  isHalf,
  isPair,
  type Lanes,
  makeReg,
  part,
  pushLane,
  type Reg,
  releaseReg,
  setLane,
} from './reg.ts'

const scalarLoads = {
  f32: 'f32.load',
  f64: 'f64.load',
  f16: 'i32.load16_u',
  bf16: 'i32.load16_u',
  i8: 'i32.load8_s',
  i16: 'i32.load16_s',
  i32: 'i32.load',
  i64: 'i64.load',
  u8: 'i32.load8_u',
  u16: 'i32.load16_u',
  u32: 'i32.load',
  u64: 'i64.load',
  bool: 'i32.load8_u',
} as const satisfies Record<DType, LoadOp>

const scalarStores = {
  f32: 'f32.store',
  f64: 'f64.store',
  f16: 'i32.store16',
  bf16: 'i32.store16',
  i8: 'i32.store8',
  i16: 'i32.store16',
  i32: 'i32.store',
  i64: 'i64.store',
  u8: 'i32.store8',
  u16: 'i32.store16',
  u32: 'i32.store',
  u64: 'i64.store',
  bool: 'i32.store8',
} as const satisfies Record<DType, StoreOp>

const natural = { 1: 1, 2: 2, 4: 4, 8: 8 } as const
const alignOf = (dtype: DType): Align => natural[dtypeBytes(dtype) as 1 | 2 | 4 | 8]

/** A single element's register from the i32 pattern on the stack, for half dtypes. */
function halfOfTop(f: FunctionBuilder, env: Env, dtype: 'f16' | 'bf16'): void {
  if (dtype === 'bf16') {
    f.i32Const(16)
    f.ops('i32.shl', 'f32.reinterpret_i32')
    return
  }
  f.op('i32x4.splat')
  const bits = f.toLocal('v128')
  const v = new Vector(f, env)
  const l = v.result(halfFromBits(v, dtype, v.of(bits)))
  f.get(l)
  f.lane('f32x4.extract_lane', 0)
  f.release(bits, l)
}

/** Pushes one element at `address + offset` (bytes) as a scalar of its register class. */
function pushElement(f: FunctionBuilder, env: Env, dtype: DType, address: Operand, offset: number): void {
  f.push(address)
  f.load(scalarLoads[dtype], alignOf(dtype), offset)
  if (isHalf(dtype)) halfOfTop(f, env, dtype)
  else if (dtype === 'bool') {
    f.i32Const(0)
    f.op('i32.ne')
  }
}

/** One element, or four consecutive ones, at `address + offset` (bytes). */
export function emitLoadConvert(
  f: FunctionBuilder,
  env: Env,
  dtype: DType,
  lanes: Lanes,
  address: Operand,
  offset = 0,
): Reg {
  if (lanes === 1) return makeReg(f, dtype, 1, () => pushElement(f, env, dtype, address, offset))
  const load = (op: LoadOp, align: Align, at = offset): void => {
    f.push(address)
    f.load(op, align, at)
  }
  switch (dtype) {
    case 'f32':
    case 'i32':
    case 'u32':
      return makeReg(f, dtype, 4, () => load('v128.load', 4))
    case 'f64':
    case 'i64':
    case 'u64':
      return makeReg(f, dtype, 4, (i) => load('v128.load', 8, offset + 16 * i))
    case 'i16':
      return makeReg(f, dtype, 4, () => load('v128.load16x4_s', 2))
    case 'u16':
      return makeReg(f, dtype, 4, () => load('v128.load16x4_u', 2))
    case 'i8':
      return makeReg(f, dtype, 4, () => {
        load('v128.load32_zero', 1)
        f.ops('i16x8.extend_low_i8x16_s', 'i32x4.extend_low_i16x8_s')
      })
    case 'u8':
    case 'bool':
      return makeReg(f, dtype, 4, () => {
        load('v128.load32_zero', 1)
        f.ops('i16x8.extend_low_i8x16_u', 'i32x4.extend_low_i16x8_u')
        if (dtype === 'u8') return
        f.i32x4Const(0)
        f.op('i32x4.ne')
      })
    case 'f16':
    case 'bf16': {
      load('v128.load16x4_u', 2)
      const bits = f.toLocal('v128')
      return halvesOf(f, env, dtype, bits)
    }
  }
}

/** Four values of half precision from their bits in the low halves of a vector's words; the vector is released. */
function halvesOf(f: FunctionBuilder, env: Env, dtype: 'f16' | 'bf16', bits: Local): Reg {
  const v = new Vector(f, env)
  const l = v.result(halfFromBits(v, dtype, v.of(bits)))
  f.release(bits)
  return { dtype, lanes: 4, locals: [l] }
}

/** An address in memory: a local and bytes on top. */
interface At {
  readonly local: Operand
  readonly offset: number
}

/** Four values of half precision that stand anywhere: their bits are gathered, then converted at once. `each` calls for the lanes wanted. */
export function emitGatherHalves(
  f: FunctionBuilder,
  env: Env,
  dtype: 'f16' | 'bf16',
  addresses: readonly At[],
  each: (body: (lane: number) => void) => void,
): Reg {
  const bits = f.local('v128')
  each((lane) => {
    const at = addresses[lane]
    if (at === undefined) return
    f.push(at.local)
    if (lane === 0) {
      f.load('i32.load16_u', 2, at.offset)
      f.op('i32x4.splat')
    } else {
      f.get(bits)
      f.loadLane('v128.load16_lane', 2, at.offset, 2 * lane)
    }
    f.set(bits)
  })
  return halvesOf(f, env, dtype, bits)
}

/** Every second of eight consecutive values of half precision, the first one at the address. */
export function emitLoadEverySecondHalf(
  f: FunctionBuilder,
  env: Env,
  dtype: 'f16' | 'bf16',
  { local, offset }: At,
): Reg {
  f.push(local)
  f.load('v128.load', 2, offset)
  f.i32x4Const(0xffff)
  f.op('v128.and')
  return halvesOf(f, env, dtype, f.toLocal('v128'))
}

/** Stores four values of half precision anywhere: converted at once. `each` calls for the lanes wanted. */
export function emitScatterHalves(
  f: FunctionBuilder,
  env: Env,
  r: Reg,
  addresses: readonly At[],
  each: (body: (lane: number) => void) => void,
): void {
  pushPacked(f, env, r)
  const packed = f.toLocal('v128')
  each((lane) => {
    const at = addresses[lane]
    if (at === undefined) return
    f.push(at.local)
    f.get(packed)
    f.storeLane('v128.store16_lane', 2, at.offset, lane)
  })
  f.release(packed)
}

/** One element in every one of four lanes. */
export function emitLoadSplat(f: FunctionBuilder, env: Env, dtype: DType, address: Operand, offset = 0): Reg {
  if (dtype === 'f32' || dtype === 'i32' || dtype === 'u32')
    return makeReg(f, dtype, 4, () => {
      f.push(address)
      f.load('v128.load32_splat', 4, offset)
    })
  const one = emitLoadConvert(f, env, dtype, 1, address, offset)
  const out = emitSplat(f, one)
  releaseReg(f, one)
  return out
}

/** Loads one element at `address + offset` into a lane of a register, in place (gathers). */
export function emitLaneLoad(f: FunctionBuilder, env: Env, r: Reg, lane: number, address: Operand, offset = 0): void {
  if (r.lanes === 4 && (dtypeBytes(r.dtype) === 4 || isPair(r.dtype))) {
    const pair = isPair(r.dtype)
    const l = part(r, pair ? lane >> 1 : 0)
    f.push(address)
    f.get(l)
    if (pair) f.loadLane('v128.load64_lane', 8, offset, lane & 1)
    else f.loadLane('v128.load32_lane', 4, offset, lane)
    f.set(l)
    return
  }
  setLane(f, r, lane, () => pushElement(f, env, r.dtype, address, offset))
}

/** The first `count` (1 to 3, or any below 4 as a local) of four consecutive elements; the other lanes are `fill`'s. */
export function emitLoadLanes(
  f: FunctionBuilder,
  env: Env,
  dtype: DType,
  count: number | Local,
  address: Operand,
  fill: Reg,
  offset = 0,
): Reg {
  const out = allocReg(f, dtype, 4)
  out.locals.forEach((l, i) => {
    f.get(part(fill, i))
    f.set(l)
  })
  forLanes(f, count, (lane) => emitLaneLoad(f, env, out, lane, address, offset + lane * dtypeBytes(dtype)))
  return out
}

/** Emits `body` for lanes below `count`. */
function forLanes(f: FunctionBuilder, count: number | Local, body: (lane: number) => void): void {
  if (typeof count === 'number') {
    for (let lane = 0; lane < Math.min(4, count); lane++) body(lane)
    return
  }
  f.block((done) => {
    for (let lane = 0; lane < 4; lane++) {
      f.get(count)
      f.i32Const(lane)
      f.op('i32.le_s')
      f.brIf(done)
      body(lane)
    }
  })
}

/** Pushes the four elements' memory form packed into the low bytes of a vector (dtypes of at most 32 bits). */
function pushPacked(f: FunctionBuilder, env: Env, r: Reg): void {
  const l = part(r, 0)
  const bytes = dtypeBytes(r.dtype)
  if (isHalf(r.dtype)) {
    const v = new Vector(f, env)
    const bits = v.result(halfToBits(v, r.dtype, v.of(l)))
    f.get(bits)
    f.release(bits)
  } else {
    f.get(l)
    if (r.dtype === 'bool') {
      f.i32x4Const(1)
      f.op('v128.and')
    }
  }
  if (bytes === 4) return
  const packed = f.toLocal('v128')
  f.get(packed)
  f.get(packed)
  f.shuffle(
    bytes === 2
      ? [0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13]
      : [0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12],
  )
  f.release(packed)
}

/** Stores a register's element or four consecutive elements at `address + offset` (bytes). */
export function emitStoreConvert(f: FunctionBuilder, env: Env, r: Reg, address: Operand, offset = 0): void {
  if (r.lanes === 1) {
    storeElement(f, env, r, () => f.get(part(r, 0)), address, offset)
    return
  }
  if (isPair(r.dtype)) {
    r.locals.forEach((l, i) => {
      f.push(address)
      f.get(l)
      f.store('v128.store', 8, offset + 16 * i)
    })
    return
  }
  const bytes = dtypeBytes(r.dtype)
  f.push(address)
  pushPacked(f, env, r)
  if (bytes === 4) f.store('v128.store', 4, offset)
  else if (bytes === 2) f.storeLane('v128.store64_lane', 2, offset, 0)
  else f.storeLane('v128.store32_lane', 1, offset, 0)
}

/** Stores the scalar that `push` leaves. */
function storeElement(f: FunctionBuilder, env: Env, r: Reg, push: () => void, address: Operand, offset: number): void {
  f.push(address)
  push()
  if (isHalf(r.dtype)) {
    f.op('f32x4.splat')
    const x = f.toLocal('v128')
    const v = new Vector(f, env)
    const bits = v.result(halfToBits(v, r.dtype, v.of(x)))
    f.get(bits)
    f.lane('i32x4.extract_lane', 0)
    f.release(x, bits)
  }
  f.store(scalarStores[r.dtype], alignOf(r.dtype), offset)
}

const laneStores = { 1: 'v128.store8_lane', 2: 'v128.store16_lane', 4: 'v128.store32_lane' } as const satisfies Record<
  1 | 2 | 4,
  StoreLaneOp
>

/** Stores one lane of four at `address + offset`. */
export function emitLaneStore(f: FunctionBuilder, env: Env, r: Reg, lane: number, address: Operand, offset = 0): void {
  storeElement(f, env, r, () => pushLane(f, r, lane), address, offset)
}

/** Stores the first `count` (1 to 3, or any below 4 as a local) lanes as consecutive elements. */
export function emitStoreLanes(
  f: FunctionBuilder,
  env: Env,
  r: Reg,
  count: number | Local,
  address: Operand,
  offset = 0,
): void {
  const bytes = dtypeBytes(r.dtype)
  if (isPair(r.dtype)) {
    forLanes(f, count, (lane) => {
      f.push(address)
      f.get(part(r, lane >> 1))
      f.storeLane('v128.store64_lane', 8, offset + 8 * lane, lane & 1)
    })
    return
  }
  pushPacked(f, env, r)
  const packed = f.toLocal('v128')
  forLanes(f, count, (lane) => {
    f.push(address)
    f.get(packed)
    f.storeLane(laneStores[bytes as 1 | 2 | 4], natural[bytes as 1 | 2 | 4], offset + bytes * lane, lane)
  })
  f.release(packed)
}
