/**
 * Columns of a product that are computed from small integers (weights in few bits) two at a time, in words of two 16-bit numbers. An integer v below
 * the first power of two whose neighbours are 1 apart is the last bits of that power's mantissa: (p | v) - p is v, exactly, without a conversion.
 * What is computed rounds as the operations on 16-bit numbers do, once.
 */
import type { LetStmt, ValueId } from '../../../kernel/ir.ts'

/** The power of two of a dtype whose last mantissa bit is 1, its bits, and what integers have exact sums below. */
export const smallIntegers = {
  bf16: { power: 128, bits: 0x4300, exact: 256 },
  f16: { power: 1024, bits: 0x6400, exact: 2048 },
} as const

export type HalfDType = keyof typeof smallIntegers

/** A value that is computed two at a time. */
export type PackedForm =
  /** Two that were computed apart, in their own dtype. */
  | { readonly kind: 'read'; readonly id: ValueId }
  /** Integers from 0 to less than the dtype's power, plus a number: exact. */
  | { readonly kind: 'small'; readonly id: ValueId; readonly plus: number; readonly most: number }
  | { readonly kind: 'scalar'; readonly op: 'add' | 'sub' | 'mul'; readonly args: readonly [PackedForm, PackedForm] }

/** What is asked of the part. */
interface Lets {
  readonly lets: ReadonlyMap<ValueId, LetStmt>
  dtypeOf(id: ValueId): LetStmt['dtype']
}

/** How the values of a 16-bit dtype are computed two at a time: sums and products of small integers with others, rounded once; undefined elsewhere. */
export function packedForm(part: Lets, id: ValueId, dtype: HalfDType): PackedForm | undefined {
  const form = formOf(part, id, dtype)
  const isSmall = (f: PackedForm): boolean => f.kind === 'small' || (f.kind === 'scalar' && f.args.some(isSmall))
  return isSmall(form) ? form : undefined
}

function formOf(part: Lets, id: ValueId, dtype: HalfDType): PackedForm {
  const read = { kind: 'read', id } as const
  const l = part.lets.get(id)
  if (l?.op.kind !== 'scalar' || l.dtype !== dtype) return read
  const [x, y] = l.op.args
  if (l.op.op === 'cast' && x !== undefined) {
    const most = mostOf(part, x)
    return most < smallIntegers[dtype].power ? { kind: 'small', id: x, plus: 0, most } : read
  }
  const { op } = l.op
  if ((op !== 'add' && op !== 'sub' && op !== 'mul') || x === undefined || y === undefined) return read
  const [a, b] = [formOf(part, x, dtype), formOf(part, y, dtype)]
  const moved = op === 'mul' ? undefined : movedBy(part, op, a, y, dtype)
  if (moved !== undefined) return moved
  const isOnce =
    [a, b].every((f) => f.kind !== 'scalar' || isExactSum(f, dtype)) && [a, b].some((f) => f.kind !== 'read')
  return isOnce ? { kind: 'scalar', op, args: [a, b] } : read
}

/** Whether what a form computes of two small integers (numbers less a zero point) is one, without rounding. */
const isExactSum = ({ op, args: [a, b] }: Extract<PackedForm, { kind: 'scalar' }>, dtype: HalfDType): boolean =>
  op !== 'mul' &&
  a.kind === 'small' &&
  b.kind === 'small' &&
  a.most + b.most + Math.abs(a.plus) + Math.abs(b.plus) <= smallIntegers[dtype].exact

/** Small integers plus or minus a constant, where that and all sums are integers without rounding. */
function movedBy(part: Lets, op: 'add' | 'sub', a: PackedForm, by: ValueId, dtype: HalfDType): PackedForm | undefined {
  const c = part.lets.get(by)?.op
  if (a.kind !== 'small' || c?.kind !== 'const' || typeof c.value !== 'number') return undefined
  const plus = a.plus + (op === 'add' ? c.value : -c.value)
  const { power, exact } = smallIntegers[dtype]
  const isExact = Number.isInteger(plus) && Math.abs(power - plus) <= exact && Math.abs(plus) + a.most <= exact
  return isExact ? { ...a, plus } : undefined
}

/** The values that a form reads. */
export const readsOfForm = (f: PackedForm): ValueId[] => (f.kind === 'scalar' ? f.args.flatMap(readsOfForm) : [f.id])

/** What an integer is at most, if it is never below zero; infinite elsewhere. */
function mostOf(part: Lets, id: ValueId): number {
  const l = part.lets.get(id)
  const dtype = part.dtypeOf(id)
  const any = dtype === 'u8' ? 255 : dtype === 'u16' ? 65535 : Number.POSITIVE_INFINITY
  if (l?.op.kind === 'const') {
    const { value } = l.op
    return typeof value === 'number' && value >= 0 ? value : Number.POSITIVE_INFINITY
  }
  if (l?.op.kind !== 'scalar') return any
  const of = l.op.args.map((a) => mostOf(part, a))
  const [x = any, y = any, z = any] = of
  const bits = (n: number): number => 2 ** Math.ceil(Math.log2(n + 1)) - 1
  switch (l.op.op) {
    case 'and':
      return Math.min(any, x, y)
    case 'or':
    case 'xor':
      return Math.min(any, bits(Math.max(x, y)))
    case 'select':
      return Math.min(any, Math.max(y, z))
    case 'cast':
      return Math.min(any, x)
    case 'shr': {
      const by = part.lets.get(l.op.args[1] ?? -1)?.op
      return by?.kind === 'const' && typeof by.value === 'number' ? Math.floor(x / 2 ** by.value) : any
    }
    default:
      return any
  }
}
