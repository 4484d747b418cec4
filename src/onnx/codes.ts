/**
 * Element types the graph has no dtype for: 8-bit and 4-bit floats, 4-bit and 2-bit integers. Their tensors stand in the
 * graph as codes (u8), or as small integers (i8, u8), one a byte; operators that take them decode and encode.
 */
import type { Node } from '../graph/node.ts'
import type { DType } from '../types/dtype.ts'

/** A small float: sign, exponent and mantissa bits in a code. */
export interface FloatFormat {
  readonly kind: 'float'
  readonly bits: 8 | 4
  readonly mantissa: number
  readonly bias: number
  /** Magnitude code of the largest finite value. */
  readonly largest: number
  readonly infinity: number | undefined
  /** Code NaN becomes; in 4 bits, which have none, that of -0. */
  readonly nan: number
  /** "FNUZ": no negative zero; its code is NaN. */
  readonly unsignedZero: boolean
}

/** A power of two, 2 ** (code - 127); 255 is NaN. */
export interface ExponentFormat {
  readonly kind: 'exponent'
  readonly bits: 8
}

export interface IntegerFormat {
  readonly kind: 'integer'
  readonly bits: 4 | 2
  readonly signed: boolean
}

export type Format = FloatFormat | ExponentFormat | IntegerFormat

const float8 = (
  mantissa: number,
  bias: number,
  largest: number,
  infinity: number | undefined,
  nan: number,
  unsignedZero: boolean,
): FloatFormat => ({
  kind: 'float',
  bits: 8,
  mantissa,
  bias,
  largest,
  infinity,
  nan,
  unsignedZero,
})

/** The formats by their names in the schema (OCP 8-bit floating point 1.0, OCP Microscaling 1.0, arXiv 2206.02915). */
const formats = {
  FLOAT8E4M3FN: float8(3, 7, 0x7e, undefined, 0x7f, false),
  FLOAT8E4M3FNUZ: float8(3, 8, 0x7f, undefined, 0x80, true),
  FLOAT8E5M2: float8(2, 15, 0x7b, 0x7c, 0x7e, false),
  FLOAT8E5M2FNUZ: float8(2, 16, 0x7f, undefined, 0x80, true),
  FLOAT4E2M1: {
    kind: 'float',
    bits: 4,
    mantissa: 1,
    bias: 1,
    largest: 7,
    infinity: undefined,
    nan: 8,
    unsignedZero: false,
  },
  FLOAT8E8M0: { kind: 'exponent', bits: 8 },
  UINT4: { kind: 'integer', bits: 4, signed: false },
  INT4: { kind: 'integer', bits: 4, signed: true },
  UINT2: { kind: 'integer', bits: 2, signed: false },
  INT2: { kind: 'integer', bits: 2, signed: true },
} as const satisfies Record<string, Format>

export type CodedType = keyof typeof formats

export const isCodedType = (name: string): name is CodedType => Object.hasOwn(formats, name)
export const formatOf = (t: CodedType): Format => formats[t]

/** Bits of one element in a file. */
export const codeBits = (t: CodedType): number => formatOf(t).bits

/** The dtype that codes of a type have in the graph and on the host. */
export function codeDType(t: CodedType): DType {
  const f = formatOf(t)
  return f.kind === 'integer' && f.signed ? 'i8' : 'u8'
}

/** A tensor of codes. */
export interface Coded {
  readonly coded: CodedType
  readonly node: Node
}
/** What a name stands for during import. */
export type Value = Node | Coded

export const isCoded = (v: Value): v is Coded => 'coded' in v

/** Elements packed low bits first, one a byte; signed ones extended. */
export function unpackCodes(bytes: Uint8Array, t: CodedType, count: number): Uint8Array | Int8Array {
  const f = formatOf(t)
  const perByte = 8 / f.bits
  const mask = 2 ** f.bits - 1
  const half = 2 ** (f.bits - 1)
  const signed = f.kind === 'integer' && f.signed
  const out = signed ? new Int8Array(count) : new Uint8Array(count)
  for (let i = 0; i < count; i++) {
    const v = ((bytes[Math.floor(i / perByte)] ?? 0) >> ((i % perByte) * f.bits)) & mask
    out[i] = signed && v >= half ? v - 2 * half : v
  }
  return out
}

/** The value of every code. */
export function decodeTable(f: FloatFormat | ExponentFormat): Float32Array {
  if (f.kind === 'exponent')
    return Float32Array.from({ length: 256 }, (_, c) => (c === 255 ? Number.NaN : 2 ** (c - 127)))
  const signBit = 2 ** (f.bits - 1)
  return Float32Array.from({ length: 2 * signBit }, (_, code) => {
    const magnitude = code & (signBit - 1)
    if (f.unsignedZero && code === signBit) return Number.NaN
    if (magnitude > f.largest)
      return magnitude === f.infinity ? (code >= signBit ? -1 : 1) * Number.POSITIVE_INFINITY : Number.NaN
    const steps = 2 ** f.mantissa
    const e = Math.floor(magnitude / steps)
    const m = magnitude % steps
    const v = e === 0 ? m * 2 ** (1 - f.bias - f.mantissa) : (m + steps) * 2 ** (e - f.bias - f.mantissa)
    return code >= signBit ? -v : v
  })
}
