/** Elements in packed formats: bools eight to a byte, signed 4-bit integers two to a byte. */

import { addConst, type Expr, flatten, strideOf } from '../../../affine/expr.ts'
import { invariant } from '../../../diagnostics/errors.ts'
import type { KernelParam } from '../../../kernel/ir.ts'
import type { Local } from '../binary/builder.ts'
import { alignmentOf, forValidLanes, laneLocal, lanePattern } from './laneIndex.ts'
import { makeReg, pushLane, type Reg, releaseReg, setLane } from './lanes.ts'
import type { Access, LaneReader, Point } from './point.ts'
import { part } from './reg.ts'
import type { Index } from './scope.ts'

/** Bits of an element, as a power of two. */
const log2Bits = (p: KernelParam): 0 | 2 => (p.format === 'bits' ? 0 : 2)

/** Pushes the address of the byte (or, for lanes, the first byte) of element `at`. */
function pushByteAddress(values: Point, base: Local, p: KernelParam, at: Index): void {
  const { f } = values
  f.push(at)
  f.i32Const(3 - log2Bits(p))
  f.op('i32.shr_u')
  f.get(base)
  f.op('i32.add')
}

/** Pushes the bit position of element `at` inside its byte. */
function pushBitPosition(values: Point, p: KernelParam, at: Index): void {
  const { f } = values
  f.push(at)
  f.i32Const(p.format === 'bits' ? 7 : 1)
  f.op('i32.and')
  if (p.format === 'bits') return
  f.i32Const(2)
  f.op('i32.shl')
}

/** Pushes element `at`: 0 or 1, or a sign-extended 4-bit integer. */
function pushElement(values: Point, base: Local, p: KernelParam, at: Index): void {
  const { f } = values
  pushByteAddress(values, base, p, at)
  f.load('i32.load8_u', 1)
  pushBitPosition(values, p, at)
  f.op('i32.shr_u')
  if (p.format === 'bits') {
    f.i32Const(1)
    f.op('i32.and')
    return
  }
  f.i32Const(28)
  f.op('i32.shl')
  f.i32Const(28)
  f.op('i32.shr_s')
}

export function loadPackedElement(values: Point, a: Access, p: KernelParam): () => Reg {
  const at = values.scope.index(flatten(a.index, p.shape))
  const base = values.baseOf(a.param)
  return () => makeReg(values.f, p.dtype, 1, () => pushElement(values, base, p, at))
}

/** Most copies whose bits one word holds beside the seven that may stand before them. */
const wordBits = 16

/** Four lanes of copy `j`; lanes one by one are read where `guarded`, and only where the access is `masked` may points be invalid. */
export function loadPackedLanes(
  values: Point,
  a: Access,
  p: KernelParam,
  j: number,
  masked: boolean,
  guarded: boolean,
): LaneReader {
  const { f, scope } = values
  const e = flatten(a.index, p.shape)
  const base = values.baseOf(a.param)
  const pattern = lanePattern(values, e, j)
  const run = pattern.kind === 'affine' && pattern.stride === 1 ? pattern : undefined
  const at: readonly Index[] =
    (run === undefined && (pattern.kind !== 'affine' || p.format !== 'bits')) || guarded
      ? [0, 1, 2, 3].map((l) => laneLocal(values, e, j, l, a.depth))
      : []
  const lane = (into: Reg, l: number): void => setLane(f, into, l, () => pushElement(values, base, p, at[l] ?? 0))
  if (run === undefined && pattern.kind === 'affine' && p.format === 'bits') {
    const first = scope.index(addConst(pattern.at, pattern.extra))
    const near = pattern.stride >= 0 && pattern.stride <= wordStride && !guarded
    return {
      whole: () =>
        near ? spreadLanes(values, base, p, first, pattern.stride) : strideLanes(values, base, first, pattern.stride),
      lane,
    }
  }
  if (run === undefined) return { whole: () => gatherLanes(values, base, p, at), lane }
  if (p.format === 'bits' && !masked && run.extra + 4 <= wordBits) {
    const first = scope.index(run.at)
    const key = `bits:${a.param}:${run.at.key}`
    const word = scope.find(key) ?? scope.keep(a.depth, key, () => loadWord(values, base, p, first))
    return { whole: () => bitLanes(values, word, run.extra), lane }
  }
  const first = scope.index(addConst(run.at, run.extra))
  const whole = (): Reg => {
    const word = loadWord(values, base, p, first)
    const out = p.format === 'bits' ? bitLanes(values, word, 0) : nibbleLanes(values, word)
    releaseReg(f, word)
    return out
  }
  return { whole, lane }
}

/** The elements from position `first` on at the bottom of a word, in every lane. */
function loadWord(values: Point, base: Local, p: KernelParam, first: Index): Reg {
  const { f } = values
  return makeReg(f, 'i32', 4, () => {
    pushByteAddress(values, base, p, first)
    f.load('i32.load', 1)
    pushBitPosition(values, p, first)
    f.op('i32.shr_u')
    f.op('i32x4.splat')
  })
}

/** Four bits of a word, from bit `from` on, as lane masks. */
function bitLanes(values: Point, word: Reg, from: number): Reg {
  const { f } = values
  return makeReg(f, 'bool', 4, () => {
    f.get(part(word, 0))
    f.i32x4Const(1 << from, 2 << from, 4 << from, 8 << from)
    f.op('v128.and')
    f.i32x4Const(0)
    f.op('i32x4.ne')
  })
}

/** The four lowest 4-bit integers of a word, sign-extended. */
function nibbleLanes(values: Point, word: Reg): Reg {
  const { f } = values
  return makeReg(f, 'i8', 4, () => {
    f.get(part(word, 0))
    f.i32x4Const(1 << 28, 1 << 24, 1 << 20, 1 << 16)
    f.op('i32x4.mul')
    f.i32Const(28)
    f.op('i32x4.shr_s')
  })
}

/** Greatest distance of bits whose four lie in the word that begins with the first one's byte. */
const wordStride = 8

/** Four bits at equal distances within a word. */
function spreadLanes(values: Point, base: Local, p: KernelParam, first: Index, stride: number): Reg {
  const { f } = values
  const word = loadWord(values, base, p, first)
  const out = makeReg(f, 'bool', 4, () => {
    f.get(part(word, 0))
    f.i32x4Const(1, 1 << stride, 1 << (2 * stride), 1 << (3 * stride))
    f.op('v128.and')
    f.i32x4Const(0)
    f.op('i32x4.ne')
  })
  releaseReg(f, word)
  return out
}

/** Four bits at equal distances; beyond the last valid one nothing is read. */
function strideLanes(values: Point, base: Local, first: Index, stride: number): Reg {
  const { f } = values
  f.push(first)
  f.op('i32x4.splat')
  f.i32x4Const(0, stride, 2 * stride, 3 * stride)
  f.op('i32x4.add')
  const position = f.toLocal('v128')
  f.get(position)
  f.i32Const(3)
  f.op('i32x4.shr_u')
  f.get(base)
  f.ops('i32x4.splat', 'i32x4.add')
  const address = f.toLocal('v128')
  const byte = (l: number): void => {
    f.get(address)
    f.lane('i32x4.extract_lane', l)
    f.load('i32.load8_u', 1)
  }
  const bytes = makeReg(f, 'i32', 4, () => {
    byte(0)
    f.op('i32x4.splat')
  })
  forValidLanes(values, (l) => {
    if (l > 0) setLane(f, bytes, l, () => byte(l))
  })
  // Byte k of the table is bit k; the zeros above a lane's byte hide what it picks for them.
  const out = makeReg(f, 'bool', 4, () => {
    f.get(part(bytes, 0))
    f.i32x4Const(0x08040201, 0x80402010 | 0, 0, 0)
    f.get(position)
    f.i32x4Const(7)
    f.ops('v128.and', 'i8x16.swizzle', 'v128.and')
    f.i32x4Const(0)
    f.op('i32x4.ne')
  })
  f.release(position, address)
  releaseReg(f, bytes)
  return out
}

/** Four elements that stand apart; beyond the last valid one nothing is read. */
function gatherLanes(values: Point, base: Local, p: KernelParam, at: readonly Index[]): Reg {
  const { f } = values
  const element = (l: number): void => pushElement(values, base, p, at[l] ?? 0)
  const out = makeReg(f, 'i32', 4, () => {
    element(0)
    f.op('i32x4.splat')
  })
  forValidLanes(values, (l) => {
    if (l > 0) setLane(f, out, l, () => element(l))
  })
  if (p.format !== 'bits') return { ...out, dtype: p.dtype }
  f.get(part(out, 0))
  f.op('i32x4.neg')
  f.set(part(out, 0))
  return { ...out, dtype: 'bool' }
}

/** A store of consecutive bits: how copies go together, and the position of the first of them. */
export interface BitRun {
  /** Copies stored at once, by the last of them: their bits fill whole bytes. */
  readonly copies: number
  /** No four bits straddle two bytes. */
  readonly inByte: boolean
  /** Position of the first bit of the (first) copy. */
  readonly at: Index
}

/** How the elements of copy `j` stand in a row of bits; undefined where they do not. */
export function bitRun(values: Point, p: KernelParam, index: readonly Expr[], j: number): BitRun | undefined {
  if (p.format !== 'bits' || values.vector === undefined) return undefined
  const position = flatten(index, p.shape)
  const pattern = lanePattern(values, position, j)
  if (pattern.kind !== 'affine' || pattern.stride !== 1) return undefined
  const { name, copies, limit } = values.vector
  const aligned = alignmentOf(values, pattern.at)
  // Of all copies or of none.
  const joinable = limit === undefined && (copies === 2 || copies === 4) && strideOf(position, name) === 1
  const joined = joinable && aligned >= 8
  const at = values.scope.index(joined ? pattern.at : addConst(pattern.at, pattern.extra))
  return { copies: joined ? copies : 1, inByte: aligned >= 4 && pattern.extra % 4 === 0, at }
}

/** Stores the lanes of all copies of a step, whole bytes of bits. */
export function storeWholeBits(values: Point, p: KernelParam, base: Local, run: BitRun, regs: readonly Reg[]): void {
  const { f } = values
  const narrow = (...pair: readonly Reg[]): void => {
    for (const r of pair) f.get(part(r, 0))
    f.op('i16x8.narrow_i32x4_s')
  }
  const [a, b, c, d] = regs
  invariant(a !== undefined && b !== undefined, 'two or four copies make whole bytes')
  pushByteAddress(values, base, p, run.at)
  narrow(a, b)
  if (c === undefined || d === undefined) {
    f.op('i16x8.bitmask')
    f.store('i32.store8', 1)
    return
  }
  narrow(c, d)
  f.ops('i8x16.narrow_i16x8_s', 'i8x16.bitmask')
  f.store('i32.store16', 1)
}

/** Stores four lanes (or as many as are valid) among the bits of the bytes they stand in; no further byte is touched. */
export function storeBits(values: Point, p: KernelParam, base: Local, run: BitRun, r: Reg): void {
  const { f } = values
  const limit = values.vector?.limit
  pushByteAddress(values, base, p, run.at)
  const address = f.toLocal('i32')
  pushBitPosition(values, p, run.at)
  const shift = f.toLocal('i32')
  if (limit === undefined) f.i32Const(15)
  else {
    f.i32Const(1)
    f.get(limit)
    f.op('i32.shl')
    f.i32Const(1)
    f.op('i32.sub')
  }
  const ones = f.toLocal('i32')
  const write = (load: 'i32.load8_u' | 'i32.load16_u', store: 'i32.store8' | 'i32.store16'): void => {
    f.get(address)
    f.get(address)
    f.load(load, 1)
    f.get(ones)
    f.get(shift)
    f.op('i32.shl')
    f.i32Const(-1)
    f.ops('i32.xor', 'i32.and')
    f.get(part(r, 0))
    f.op('i32x4.bitmask')
    f.get(ones)
    f.op('i32.and')
    f.get(shift)
    f.ops('i32.shl', 'i32.or')
    f.store(store, 1)
  }
  if (run.inByte) write('i32.load8_u', 'i32.store8')
  else {
    // The lanes end in the byte they begin in where (ones << shift) has no bit above it.
    f.get(ones)
    f.get(shift)
    f.op('i32.shl')
    f.i32Const(255)
    f.op('i32.gt_u')
    f.if(
      () => write('i32.load16_u', 'i32.store16'),
      () => write('i32.load8_u', 'i32.store8'),
    )
  }
  f.release(address, shift, ones)
}

/** Writes a lane of a register (or its one element) as element `at`: a read-modify-write of its byte. */
export function storePackedLane(values: Point, p: KernelParam, base: Local, at: Index, r: Reg, lane: number): void {
  const { f } = values
  const ones = p.format === 'bits' ? 1 : 15
  pushByteAddress(values, base, p, at)
  const address = f.toLocal('i32')
  pushBitPosition(values, p, at)
  const shift = f.toLocal('i32')
  f.get(address)
  f.get(address)
  f.load('i32.load8_u', 1)
  f.i32Const(ones)
  f.get(shift)
  f.op('i32.shl')
  f.i32Const(-1)
  f.ops('i32.xor', 'i32.and')
  pushLane(f, r, lane)
  f.i32Const(ones)
  f.op('i32.and')
  f.get(shift)
  f.ops('i32.shl', 'i32.or')
  f.store('i32.store8', 1)
  f.release(address, shift)
}
