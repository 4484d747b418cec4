/** Elements in packed formats: bools eight to a byte, signed 4-bit integers two to a byte. */

import { addConst, type Expr, flatten, strideOf } from '../../../affine/expr.ts'
import { invariant } from '../../../diagnostics/errors.ts'
import type { KernelParam } from '../../../kernel/ir.ts'
import * as X from '../ir/expr.ts'
import type { Register, Expr as Value } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { alignmentOf, forValidLanes, laneLocal, lanePattern } from './laneIndex.ts'
import { laneOf, makeReg, type Reg, read, releaseReg, setLane } from './lanes.ts'
import type { Access, LaneReader, Point } from './point.ts'
import { part } from './reg.ts'
import type { Index } from './scope.ts'

/** Bits of an element, as a power of two. */
const log2Bits = (p: KernelParam): 0 | 2 => (p.format === 'bits' ? 0 : 2)

/** The address of the byte (or, for lanes, the first byte) of element `at`. */
const byteAddress = (base: Register, p: KernelParam, at: Index): Value => X.add(X.shrU(at, 3 - log2Bits(p)), base)

/** The bit position of element `at` inside its byte. */
const bitPosition = (p: KernelParam, at: Index): Value => (p.format === 'bits' ? X.and(at, 7) : X.shl(X.and(at, 1), 2))

/** Element `at`: 0 or 1, or a sign-extended 4-bit integer. */
function elementAt(base: Register, p: KernelParam, at: Index): Value {
  const byte = X.load(T.i32, byteAddress(base, p, at), 0, 1, '8_u')
  const low = X.shrU(byte, bitPosition(p, at))
  return p.format === 'bits' ? X.and(low, 1) : X.shrS(X.shl(low, 28), 28)
}

export function loadPackedElement(values: Point, a: Access, p: KernelParam): () => Reg {
  const at = values.scope.index(flatten(a.index, p.shape))
  const base = values.baseOf(a.param)
  return () => makeReg(values.f, p.dtype, 1, () => elementAt(base, p, at))
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
  const lane = (into: Reg, l: number): void => setLane(f, into, l, () => elementAt(base, p, at[l] ?? 0))
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
function loadWord(values: Point, base: Register, p: KernelParam, first: Index): Reg {
  const { f } = values
  return makeReg(f, 'i32', 4, () => {
    const bytes = X.load(T.i32, byteAddress(base, p, first), 0, 1)
    return X.splat(T.i32x4, X.shrU(bytes, bitPosition(p, first)))
  })
}

/** Lanes that have one of the bits of a constant's lanes. */
const hasBits = (x: Value, bits: readonly number[]): Value =>
  X.compare('ne', X.and(x, X.constant(T.i32x4, bits)), X.constant(T.i32x4, 0))

/** Four bits of a word, from bit `from` on, as lane masks. */
const bitLanes = (values: Point, word: Reg, from: number): Reg =>
  makeReg(values.f, 'bool', 4, () => hasBits(read(word), [1 << from, 2 << from, 4 << from, 8 << from]))

/** The four lowest 4-bit integers of a word, sign-extended. */
const nibbleLanes = (values: Point, word: Reg): Reg =>
  makeReg(values.f, 'i8', 4, () =>
    X.shrS(X.mul(read(word), X.constant(T.i32x4, [1 << 28, 1 << 24, 1 << 20, 1 << 16])), 28),
  )

/** Greatest distance of bits whose four lie in the word that begins with the first one's byte. */
const wordStride = 8

/** Four bits at equal distances within a word. */
function spreadLanes(values: Point, base: Register, p: KernelParam, first: Index, stride: number): Reg {
  const { f } = values
  const word = loadWord(values, base, p, first)
  const out = makeReg(f, 'bool', 4, () => hasBits(read(word), [1, 1 << stride, 1 << (2 * stride), 1 << (3 * stride)]))
  releaseReg(f, word)
  return out
}

/** Four bits at equal distances; beyond the last valid one nothing is read. */
function strideLanes(values: Point, base: Register, first: Index, stride: number): Reg {
  const { f } = values
  const steps = X.constant(T.i32x4, [0, stride, 2 * stride, 3 * stride])
  const position = f.keep(X.add(X.splat(T.i32x4, first), steps))
  const address = f.keep(X.add(X.shrU(position, 3), X.splat(T.i32x4, base)))
  const byte = (l: number): Value => X.load(T.i32, X.extract(address, l), 0, 1, '8_u')
  const bytes = makeReg(f, 'i32', 4, () => X.splat(T.i32x4, byte(0)))
  forValidLanes(values, (l) => {
    if (l > 0) setLane(f, bytes, l, () => byte(l))
  })
  // Byte k of the table is bit k; the zeros above a lane's byte hide what it picks for them.
  const out = makeReg(f, 'bool', 4, () => {
    const table = X.constant(T.i32x4, [0x08040201, 0x80402010 | 0, 0, 0])
    const bit = X.lookup(table, X.and(position, X.constant(T.i32x4, 7)))
    return X.compare('ne', X.and(read(bytes), X.view(T.i32x4, bit)), X.constant(T.i32x4, 0))
  })
  f.release(position, address)
  releaseReg(f, bytes)
  return out
}

/** Four elements that stand apart; beyond the last valid one nothing is read. */
function gatherLanes(values: Point, base: Register, p: KernelParam, at: readonly Index[]): Reg {
  const { f } = values
  const element = (l: number): Value => elementAt(base, p, at[l] ?? 0)
  const out = makeReg(f, 'i32', 4, () => X.splat(T.i32x4, element(0)))
  forValidLanes(values, (l) => {
    if (l > 0) setLane(f, out, l, () => element(l))
  })
  if (p.format !== 'bits') return { ...out, dtype: p.dtype }
  f.assign(part(out, 0), X.unary('neg', read(out)))
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
export function storeWholeBits(values: Point, p: KernelParam, base: Register, run: BitRun, regs: readonly Reg[]): void {
  const { f } = values
  const [a, b, c, d] = regs
  invariant(a !== undefined && b !== undefined, 'two or four copies make whole bytes')
  const address = byteAddress(base, p, run.at)
  const eight = X.pack(read(a), read(b))
  if (c === undefined || d === undefined) f.store(address, X.bits(eight), 0, 1, '8')
  else f.store(address, X.bits(X.pack(eight, X.pack(read(c), read(d)))), 0, 1, '16')
}

/** Stores four lanes (or as many as are valid) among the bits of the bytes they stand in; no further byte is touched. */
export function storeBits(values: Point, p: KernelParam, base: Register, run: BitRun, r: Reg): void {
  const { f } = values
  const limit = values.vector?.limit
  const address = f.keep(byteAddress(base, p, run.at))
  const shift = f.keep(bitPosition(p, run.at))
  const ones = f.keep(limit === undefined ? 15 : X.sub(X.shl(1, limit), 1))
  const write = (form: '8' | '16'): void => {
    const others = X.and(X.load(T.i32, address, 0, 1, form === '8' ? '8_u' : '16_u'), X.xor(X.shl(ones, shift), -1))
    f.store(address, X.or(others, X.shl(X.and(X.bits(read(r)), ones), shift)), 0, 1, form)
  }
  if (run.inByte) write('8')
  // The lanes end in the byte they begin in where (ones << shift) has no bit above it.
  else
    f.if(
      X.compare('gt_u', X.shl(ones, shift), 255),
      () => write('16'),
      () => write('8'),
    )
  f.release(address, shift, ones)
}

/** Writes a lane of a register (or its one element) as element `at`: a read-modify-write of its byte. */
export function storePackedLane(values: Point, p: KernelParam, base: Register, at: Index, r: Reg, lane: number): void {
  const { f } = values
  const ones = p.format === 'bits' ? 1 : 15
  const address = f.keep(byteAddress(base, p, at))
  const shift = f.keep(bitPosition(p, at))
  const others = X.and(X.load(T.i32, address, 0, 1, '8_u'), X.xor(X.shl(ones, shift), -1))
  f.store(address, X.or(others, X.shl(X.and(laneOf(r, lane), ones), shift)), 0, 1, '8')
  f.release(address, shift)
}
