/**
 * Between memory form and register form: loads and stores of one element, of four consecutive elements, of single lanes
 * and of the first n lanes. Formats are `plain`: f16 and bf16 as 16-bit patterns, bool as bytes (0 false, else true).
 */
import { type DType, dtypeBytes } from '../../../types/dtype.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr, LoadForm, Register, StoreForm } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { halfFromBits, halfToBits } from '../math/half.ts'
import { Vector } from '../math/vector.ts'
import {
  allocReg,
  type Env,
  emitSplat,
  isHalf,
  isPair,
  type Lanes,
  laneOf,
  makeReg,
  part,
  partType,
  type Reg,
  read,
  releaseReg,
  setLane,
} from './reg.ts'

/** How one element stands in memory: as it is, or narrower than its register. */
const loadForms = {
  f32: 'plain',
  f64: 'plain',
  f16: '16_u',
  bf16: '16_u',
  i8: '8_s',
  i16: '16_s',
  i32: 'plain',
  i64: 'plain',
  u8: '8_u',
  u16: '16_u',
  u32: 'plain',
  u64: 'plain',
  bool: '8_u',
} as const satisfies Record<DType, LoadForm>

const storeForms = { 1: '8', 2: '16', 4: 'plain', 8: 'plain' } as const satisfies Record<number, StoreForm>

const sizeOf = (dtype: DType): 1 | 2 | 4 | 8 => dtypeBytes(dtype) as 1 | 2 | 4 | 8

/** One element of a half dtype from its bits in an i32. */
function halfOf(f: Builder, env: Env, dtype: 'f16' | 'bf16', pattern: Expr): Expr {
  if (dtype === 'bf16') return X.view(T.f32, X.shl(pattern, 16))
  const bits = f.keep(X.splat(T.i32x4, pattern))
  const v = new Vector(f, env)
  const l = v.result(halfFromBits(v, dtype, bits))
  const out = X.extract(l, 0)
  f.release(bits, l)
  return out
}

/** One element at `address + offset` (bytes) as a scalar of its register class. */
function elementAt(f: Builder, env: Env, dtype: DType, address: X.Operand, offset: number): Expr {
  const type = isHalf(dtype) ? T.i32 : partType(dtype, 1)
  const x = X.load(type, address, offset, sizeOf(dtype), loadForms[dtype])
  if (isHalf(dtype)) return halfOf(f, env, dtype, x)
  return dtype === 'bool' ? X.compare('ne', x, 0) : x
}

/** Four bytes, widened to lanes. */
function bytesAt(address: X.Operand, offset: number, signed: boolean): Expr {
  const four = X.load(T.i8x16, address, offset, 1, 'low')
  return X.convert(T.i32x4, X.convert(T.i16x8, four, signed), signed)
}

/** One element, or four consecutive ones, at `address + offset` (bytes). */
export function emitLoadConvert(f: Builder, env: Env, dtype: DType, lanes: Lanes, address: X.Operand, offset = 0): Reg {
  if (lanes === 1) return makeReg(f, dtype, 1, () => elementAt(f, env, dtype, address, offset))
  const type = partType(dtype, 4)
  switch (dtype) {
    case 'f32':
    case 'i32':
    case 'u32':
      return makeReg(f, dtype, 4, () => X.load(type, address, offset, 4))
    case 'f64':
    case 'i64':
    case 'u64':
      return makeReg(f, dtype, 4, (i) => X.load(type, address, offset + 16 * i, 8))
    case 'i16':
    case 'u16':
      return makeReg(f, dtype, 4, () => X.load(type, address, offset, 2, loadForms[dtype]))
    case 'i8':
      return makeReg(f, dtype, 4, () => bytesAt(address, offset, true))
    case 'u8':
      return makeReg(f, dtype, 4, () => bytesAt(address, offset, false))
    case 'bool':
      return makeReg(f, dtype, 4, () => X.compare('ne', bytesAt(address, offset, false), X.constant(T.i32x4, 0)))
    case 'f16':
    case 'bf16':
      return halvesOf(f, env, dtype, f.keep(X.load(T.i32x4, address, offset, 2, '16_u')))
  }
}

/** Four values of half precision from their bits in the low halves of a vector's words; the vector is released. */
function halvesOf(f: Builder, env: Env, dtype: 'f16' | 'bf16', bits: Register): Reg {
  const v = new Vector(f, env)
  const l = v.result(halfFromBits(v, dtype, bits))
  f.release(bits)
  return { dtype, lanes: 4, parts: [l] }
}

/** An address in memory: a register (or a known place) and bytes on top. */
interface At {
  readonly local: X.Operand
  readonly offset: number
}

/** Four values of half precision that stand anywhere: their bits are gathered, then converted at once. `each` calls for the lanes wanted. */
export function emitGatherHalves(
  f: Builder,
  env: Env,
  dtype: 'f16' | 'bf16',
  addresses: readonly At[],
  each: (body: (lane: number) => void) => void,
): Reg {
  const bits = f.register(T.i32x4)
  each((lane) => {
    const at = addresses[lane]
    if (at === undefined) return
    if (lane === 0) f.assign(bits, X.splat(T.i32x4, X.load(T.i32, at.local, at.offset, 2, '16_u')))
    else f.assign(bits, X.loadLane(X.view(T.i16x8, bits), 2 * lane, at.local, at.offset, 2))
  })
  return halvesOf(f, env, dtype, bits)
}

/** Every second of eight consecutive values of half precision, the first one at the address. */
export function emitLoadEverySecondHalf(f: Builder, env: Env, dtype: 'f16' | 'bf16', { local, offset }: At): Reg {
  return halvesOf(f, env, dtype, f.keep(X.and(X.load(T.i32x4, local, offset, 2), X.constant(T.i32x4, 0xffff))))
}

/** Stores four values of half precision anywhere: converted at once. `each` calls for the lanes wanted. */
export function emitScatterHalves(
  f: Builder,
  env: Env,
  r: Reg,
  addresses: readonly At[],
  each: (body: (lane: number) => void) => void,
): void {
  const packed = f.keep(packedForm(f, env, r))
  each((lane) => {
    const at = addresses[lane]
    if (at !== undefined) f.storeLane(at.local, X.view(T.i16x8, packed), lane, at.offset, 2)
  })
  f.release(packed)
}

/** One element in every one of four lanes. */
export function emitLoadSplat(f: Builder, env: Env, dtype: DType, address: X.Operand, offset = 0): Reg {
  if (dtype === 'f32' || dtype === 'i32' || dtype === 'u32')
    return makeReg(f, dtype, 4, () => X.load(partType(dtype, 4), address, offset, 4, 'splat'))
  const one = emitLoadConvert(f, env, dtype, 1, address, offset)
  const out = emitSplat(f, one)
  releaseReg(f, one)
  return out
}

/** Loads one element at `address + offset` into a lane of a register, in place (gathers). */
export function emitLaneLoad(f: Builder, env: Env, r: Reg, lane: number, address: X.Operand, offset = 0): void {
  if (r.lanes === 4 && (dtypeBytes(r.dtype) === 4 || isPair(r.dtype))) {
    const pair = isPair(r.dtype)
    const at = pair ? lane >> 1 : 0
    f.assign(part(r, at), X.loadLane(read(r, at), pair ? lane & 1 : lane, address, offset, pair ? 8 : 4))
    return
  }
  setLane(f, r, lane, () => elementAt(f, env, r.dtype, address, offset))
}

/** The first `count` (1 to 3, or any below 4 in a register) of four consecutive elements; the other lanes are `fill`'s. */
export function emitLoadLanes(
  f: Builder,
  env: Env,
  dtype: DType,
  count: number | Register,
  address: X.Operand,
  fill: Reg,
  offset = 0,
): Reg {
  const out = allocReg(f, dtype, 4)
  out.parts.forEach((l, i) => {
    f.assign(l, read(fill, i))
  })
  forLanes(f, count, (lane) => emitLaneLoad(f, env, out, lane, address, offset + lane * dtypeBytes(dtype)))
  return out
}

/** Emits `body` for lanes below `count`. */
function forLanes(f: Builder, count: number | Register, body: (lane: number) => void): void {
  if (typeof count === 'number') {
    for (let lane = 0; lane < Math.min(4, count); lane++) body(lane)
    return
  }
  f.scope((done) => {
    for (let lane = 0; lane < 4; lane++) {
      f.leave(done, X.compare('le_s', count, lane))
      body(lane)
    }
  })
}

/** The four elements' memory form packed into the low bytes of a vector (dtypes of at most 32 bits). */
function packedForm(f: Builder, env: Env, r: Reg): Expr {
  const bytes = dtypeBytes(r.dtype)
  let x = X.view(T.i32x4, read(r))
  if (isHalf(r.dtype)) {
    const v = new Vector(f, env)
    const bits = v.result(halfToBits(v, r.dtype, x, r.exact))
    x = bits
    f.release(bits)
  } else if (r.dtype === 'bool') x = X.and(x, X.constant(T.i32x4, 1))
  if (bytes === 4) return X.view(partType(r.dtype, 4), x)
  const wide = f.keep(x)
  const places =
    bytes === 2
      ? [0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13]
      : [0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12]
  const packed = X.shuffle(T.i8x16, wide, wide, places)
  f.release(wide)
  return packed
}

/** Stores a register's element or four consecutive elements at `address + offset` (bytes). */
export function emitStoreConvert(f: Builder, env: Env, r: Reg, address: X.Operand, offset = 0): void {
  if (r.lanes === 1) {
    storeElement(f, env, r, read(r), address, offset)
    return
  }
  if (isPair(r.dtype)) {
    r.parts.forEach((_, i) => {
      f.store(address, read(r, i), offset + 16 * i, 8)
    })
    return
  }
  const bytes = dtypeBytes(r.dtype)
  const packed = f.inline(() => packedForm(f, env, r))
  if (bytes === 4) f.store(address, packed, offset, 4)
  else if (bytes === 2) f.storeLane(address, X.view(T.i64x2, packed), 0, offset, 2)
  else f.storeLane(address, X.view(T.i32x4, packed), 0, offset, 1)
}

/** Stores a scalar of a register's class in its dtype's form. */
function storeElement(f: Builder, env: Env, r: Reg, x: Expr, address: X.Operand, offset: number): void {
  const { dtype } = r
  const size = sizeOf(dtype)
  if (!isHalf(dtype)) {
    f.store(address, x, offset, size, storeForms[size])
    return
  }
  const pattern = f.inline(() => {
    const wide = f.keep(X.splat(T.f32x4, x))
    const v = new Vector(f, env)
    const bits = v.result(halfToBits(v, dtype, wide, r.exact))
    f.release(wide, bits)
    return X.extract(X.view(T.i32x4, bits), 0)
  })
  f.store(address, pattern, offset, 2, '16')
}

/** Stores one lane of four at `address + offset`. */
export function emitLaneStore(f: Builder, env: Env, r: Reg, lane: number, address: X.Operand, offset = 0): void {
  storeElement(f, env, r, laneOf(r, lane), address, offset)
}

const laneTypes = { 1: T.i8x16, 2: T.i16x8, 4: T.i32x4 } as const

/** Stores the first `count` (1 to 3, or any below 4 in a register) lanes as consecutive elements. */
export function emitStoreLanes(
  f: Builder,
  env: Env,
  r: Reg,
  count: number | Register,
  address: X.Operand,
  offset = 0,
): void {
  const bytes = sizeOf(r.dtype)
  if (bytes === 8) {
    forLanes(f, count, (lane) => {
      f.storeLane(address, read(r, lane >> 1), lane & 1, offset + 8 * lane, 8)
    })
    return
  }
  const packed = f.keep(packedForm(f, env, r))
  forLanes(f, count, (lane) => {
    f.storeLane(address, X.view(laneTypes[bytes], packed), lane, offset + bytes * lane, bytes)
  })
  f.release(packed)
}
