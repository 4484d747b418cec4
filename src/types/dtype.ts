/** Element types: their widths, classes, host arrays and promotion lattice (docs/numerics.md, "Promotion"). */

import { UserError } from '../diagnostics/errors.ts'
import { kindOf } from '../diagnostics/shown.ts'

/** Element types: IEEE floats of 16, 32 and 64 bits, bfloat16, integers of 8 to 64 bits, and bool. */
export type DType =
  | 'f32'
  | 'f64'
  | 'f16'
  | 'bf16'
  | 'i8'
  | 'i16'
  | 'i32'
  | 'i64'
  | 'u8'
  | 'u16'
  | 'u32'
  | 'u64'
  | 'bool'

/** Element types of floats. */
export type FloatDType = 'f32' | 'f64' | 'f16' | 'bf16'

export type DTypeClass = 'float' | 'signed' | 'unsigned' | 'bool'

interface DTypeInfo {
  readonly class: DTypeClass
  /** Bytes of one element in memory. */
  readonly bytes: number
  readonly bits: number
}

const info = {
  f32: { class: 'float', bytes: 4, bits: 32 },
  f64: { class: 'float', bytes: 8, bits: 64 },
  f16: { class: 'float', bytes: 2, bits: 16 },
  bf16: { class: 'float', bytes: 2, bits: 16 },
  i8: { class: 'signed', bytes: 1, bits: 8 },
  i16: { class: 'signed', bytes: 2, bits: 16 },
  i32: { class: 'signed', bytes: 4, bits: 32 },
  i64: { class: 'signed', bytes: 8, bits: 64 },
  u8: { class: 'unsigned', bytes: 1, bits: 8 },
  u16: { class: 'unsigned', bytes: 2, bits: 16 },
  u32: { class: 'unsigned', bytes: 4, bits: 32 },
  u64: { class: 'unsigned', bytes: 8, bits: 64 },
  bool: { class: 'bool', bytes: 1, bits: 8 },
} as const satisfies Record<DType, DTypeInfo>

export const allDTypes = Object.keys(info) as readonly DType[]

/** The name here of what NumPy and others name in full: `float32`, `uint8`. */
const shortName = (name: string): string =>
  name
    .toLowerCase()
    .replace(/^(b?)(?:float|fp)(?=\d)/, '$1f')
    .replace(/^(u?)int(?=\d)/, (_, u: string) => (u === '' ? 'i' : 'u'))
    .replace(/^boolean$/, 'bool')

/** What is known of a dtype. Throws E_DTYPE for a name that is none. */
export function checkDType(d: DType): DTypeInfo {
  const given: unknown = d
  // A list of one name is a name to `hasOwn`.
  if (typeof given === 'string' && Object.hasOwn(info, d)) return info[d]
  const meant = typeof given === 'string' ? shortName(given) : ''
  const odd = typeof given === 'string' ? `there is no dtype "${given}"` : `a dtype is ${kindOf(given)}`
  throw new UserError('E_DTYPE', odd, {
    help: Object.hasOwn(info, meant) ? `write '${meant}'` : `use one of ${allDTypes.join(', ')}`,
  })
}

/** The same by a look alone where the name is one: it is asked everywhere, and often. */
const known = new Map<DType, DTypeInfo>(allDTypes.map((d) => [d, info[d]]))

export const dtypeClass = (d: DType): DTypeClass => (known.get(d) ?? checkDType(d)).class
export const dtypeBytes = (d: DType): number => (known.get(d) ?? checkDType(d)).bytes
export const dtypeBits = (d: DType): number => (known.get(d) ?? checkDType(d)).bits
/** Whether a dtype is a float of 16 bits. */
export const isHalf = (d: DType): d is 'f16' | 'bf16' => d === 'f16' || d === 'bf16'

export const isFloat = (d: DType): d is FloatDType => dtypeClass(d) === 'float'
export const isInteger = (d: DType): boolean => dtypeClass(d) === 'signed' || dtypeClass(d) === 'unsigned'
/** 64-bit integers: host values are bigint. */
export const isWide = (d: DType): boolean => d === 'i64' || d === 'u64'

/** The dtype arithmetic on `d` is carried out in: half precision computes in f32. */
export const computeDType = (d: DType): DType => (d === 'f16' || d === 'bf16' ? 'f32' : d)

const signedOfBits: Readonly<Record<number, DType>> = { 8: 'i8', 16: 'i16', 32: 'i32', 64: 'i64' }

const unsignedOfBits: Readonly<Record<number, DType>> = { 8: 'u8', 16: 'u16', 32: 'u32', 64: 'u64' }

/** The unsigned integer as wide as an element. */
export const unsignedOf = (d: DType): DType => unsignedOfBits[dtypeBits(d)] ?? 'u64'

/**
 * The common dtype of two operands. Floats win over integers; f16 with bf16 gives f32; mixed signedness widens to the
 * next signed type (u64 with a signed type gives i64: there is no wider one); bool is below everything.
 */
export function promote(a: DType, b: DType): DType {
  if (a === b) return a
  const ca = dtypeClass(a)
  const cb = dtypeClass(b)
  if (ca === 'bool') return b
  if (cb === 'bool') return a
  if (ca === 'float' && cb === 'float') {
    if (a === 'f64' || b === 'f64') return 'f64'
    return 'f32'
  }
  if (ca === 'float') return a
  if (cb === 'float') return b
  if (ca === cb) return dtypeBits(a) >= dtypeBits(b) ? a : b
  const signed = ca === 'signed' ? a : b
  const unsigned = ca === 'signed' ? b : a
  const bits = Math.max(dtypeBits(signed), Math.min(64, dtypeBits(unsigned) * 2))
  return signedOfBits[bits] ?? 'i64'
}

/** Whether so many elements of a dtype are one value of 32 bits. */
export const isSingleWord = (dtype: DType, elements: number): boolean => elements === 1 && dtypeBytes(dtype) === 4

/** The numbers that an integer dtype holds: from `lo`, below `end`. */
export function integerRange(dtype: DType): { readonly lo: number; readonly end: number } {
  const bits = dtypeBits(dtype)
  return dtypeClass(dtype) === 'signed' ? { lo: -(2 ** (bits - 1)), end: 2 ** (bits - 1) } : { lo: 0, end: 2 ** bits }
}

/** Whether an integer dtype holds a number. */
export function holdsInteger(dtype: DType, n: number): boolean {
  const { lo, end } = integerRange(dtype)
  return n >= lo && n < end
}

/** The dtype of positions in a range: i32 where that holds them. */
export const positionDType = ({ lo, hi }: { readonly lo: number; readonly hi: number }): 'i32' | 'i64' =>
  holdsInteger('i32', lo) && holdsInteger('i32', hi) ? 'i32' : 'i64'
