/** Elements in packed formats: bools eight to a byte, signed 4-bit integers two to a byte. */
import { type Expr, flatten } from '../../index/expr.ts'
import type { KernelParam } from '../../kernel/ir.ts'
import type { Local } from './builder.ts'
import { laneLocal, lanePattern } from './lane_index.ts'
import { combineLanes, makeReg, pushLane, type Reg, releaseReg, setLane } from './lanes.ts'
import type { Access, LaneReader, Point } from './point.ts'
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

/** Element positions of the four lanes of copy `j`. */
function lanePositions(values: Point, e: Expr, j: number, depth: number): Index[] {
  return [0, 1, 2, 3].map((l) => positionAt(values, e, j, l, depth))
}

function positionAt(values: Point, e: Expr, j: number, lane: number, depth: number): Index {
  return laneLocal(values, e, j, lane, depth)
}

export function loadPackedLanes(values: Point, a: Access, p: KernelParam, j: number): LaneReader {
  const { f } = values
  const e = flatten(a.index, p.shape)
  const base = values.baseOf(a.param)
  const pattern = lanePattern(values, e, j)
  const at = lanePositions(values, e, j, a.depth)
  const lane = (into: Reg, l: number): void => setLane(f, into, l, () => pushElement(values, base, p, at[l] ?? 0))
  const [first = 0] = at
  const contiguous = pattern.kind === 'affine' && pattern.stride === 1
  const whole = (): Reg => {
    if (!contiguous) {
      const elements = at.map((x) => makeReg(f, p.dtype, 1, () => pushElement(values, base, p, x)))
      const out = combineLanes(f, p.dtype, elements)
      releaseReg(f, ...elements)
      return out
    }
    return makeReg(f, p.dtype, 4, () => {
      // The bits of all four elements, moved to the bottom of a word and repeated in every lane.
      pushByteAddress(values, base, p, first)
      f.load('i32.load', 1)
      pushBitPosition(values, p, first)
      f.op('i32.shr_u')
      f.op('i32x4.splat')
      if (p.format === 'bits') {
        f.i32x4Const(1, 2, 4, 8)
        f.op('v128.and')
        f.i32x4Const(0)
        f.op('i32x4.ne')
        return
      }
      f.i32x4Const(1 << 28, 1 << 24, 1 << 20, 1 << 16)
      f.op('i32x4.mul')
      f.i32Const(28)
      f.op('i32x4.shr_s')
    })
  }
  return { whole, lane }
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
