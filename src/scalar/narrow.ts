/** Bounds of integers that are made of narrow ones by a few operations: whether 16 bits hold what 32 compute. */
import { type DType, dtypeBytes, integerRange, isFloat } from '../types/dtype.ts'
import { roundTo } from './eval.ts'
import type { ScalarOp } from './ops.ts'

/** Least and greatest value. */
export interface Range {
  readonly lo: number
  readonly hi: number
}

/** The numbers that bool and integers of at most 16 bits hold. */
export function narrowRange(d: DType): Range | undefined {
  if (d === 'bool') return { lo: 0, hi: 1 }
  if (isFloat(d) || dtypeBytes(d) > 2) return undefined
  const { lo, end } = integerRange(d)
  return { lo, hi: end - 1 }
}

/** Bits of a float's significand: whole numbers of so many are what they are. */
function significandOf(d: DType): number {
  let bits = 1
  while (bits < 53 && roundTo(d, 2 ** bits + 1) === 2 ** bits + 1) bits++
  return bits
}

/** Whole numbers of 32 bits that a dtype holds, all of them; undefined of bool. */
export function wholeRange(d: DType): Range | undefined {
  if (d === 'bool') return undefined
  const { lo: least, end } = integerRange('i32')
  if (isFloat(d)) {
    const most = 2 ** significandOf(d)
    return { lo: Math.max(least, -most), hi: Math.min(end - 1, most) }
  }
  const own = integerRange(d)
  return { lo: Math.max(least, own.lo), hi: Math.min(end, own.end) - 1 }
}

/** Bounds of an operation's whole result, by those of its operands (of `select`, of its choices). Results beyond 2^31 are as computed, not wrapped. */
export function rangeThrough(op: ScalarOp, args: readonly Range[]): Range | undefined {
  const [a, b = a] = args
  if (a === undefined || b === undefined) return undefined
  switch (op) {
    case 'cast':
      return a
    case 'neg':
      return { lo: -a.hi, hi: -a.lo }
    case 'add':
      return { lo: a.lo + b.lo, hi: a.hi + b.hi }
    case 'sub':
      return { lo: a.lo - b.hi, hi: a.hi - b.lo }
    case 'max':
      return { lo: Math.max(a.lo, b.lo), hi: Math.max(a.hi, b.hi) }
    case 'min':
      return { lo: Math.min(a.lo, b.lo), hi: Math.min(a.hi, b.hi) }
    case 'select':
      return { lo: Math.min(a.lo, b.lo), hi: Math.max(a.hi, b.hi) }
    default:
      return undefined
  }
}

/** Whether all numbers of some bounds lie in others; in none where there are none. */
export const isWithin = ({ lo, hi }: Range, bounds: Range | undefined): boolean =>
  bounds !== undefined && lo >= bounds.lo && hi <= bounds.hi

/** Whether 16 bits with a sign hold all of them. */
export const fits16 = (r: Range | undefined): boolean => r !== undefined && r.lo >= -(2 ** 15) && r.hi < 2 ** 15
