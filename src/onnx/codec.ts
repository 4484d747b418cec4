/** Decoding and encoding of coded element types (`codes.ts`) as graph operations. */
import type { Node } from '../graph/node.ts'
import type { DType } from '../types/dtype.ts'
import { type Coded, type CodedType, codeDType, decodeTable, type FloatFormat, formatOf } from './codes.ts'
import * as n from './nodes.ts'

/** The values of codes, in a dtype. */
export function decodeCodes(v: Coded, to: DType): Node {
  const f = formatOf(v.coded)
  if (f.kind === 'integer') return n.cast(v.node, to)
  const table = decodeTable(f)
  return n.cast(n.take(n.floats(table, [table.length]), n.cast(v.node, 'i32'), 0), to)
}

export interface EncodeOptions {
  /** Values beyond the largest become the largest, not infinity or NaN. */
  readonly saturate: boolean
  /** Rounding of powers of two. */
  readonly round: 'up' | 'down' | 'nearest'
}

/** x limited to what an integer type holds; x is whole. */
export function limitInteger(x: Node, t: CodedType): Node {
  const f = formatOf(t)
  if (f.kind !== 'integer') return x
  const span = 2 ** f.bits
  return n.clip(x, f.signed ? -span / 2 : 0, f.signed ? span / 2 - 1 : span - 1)
}

/**
 * Nearest codes (ties to even) of f32 values. Normal values round in their bit pattern: adding half a step and the lowest
 * kept bit, then shifting; values below the least normal round as multiples of the least subnormal.
 */
function encodeFloat(x: Node, f: FloatFormat, saturate: boolean): Node {
  const int = (v: number): Node => n.full([], v, 'i32')
  const magnitude = n.unary('abs', x)
  const bits = n.bitcast(magnitude, 'i32')
  const shift = 23 - f.mantissa
  const lowest = n.binary('and', n.binary('shr', bits, int(shift)), int(1))
  const rounded = n.binary('shr', n.add(n.add(bits, 2 ** (shift - 1) - 1), lowest), int(shift))
  const normal = n.sub(rounded, (127 - f.bias) * 2 ** f.mantissa)
  const subnormal = n.cast(n.unary('round', n.mul(magnitude, 2 ** (f.mantissa + f.bias - 1))), 'i32')
  const code = n.where(n.compare('lt', magnitude, 2 ** (1 - f.bias)), subnormal, normal)
  const over = n.compare('gt', code, f.largest)
  const beyond = saturate || f.bits === 4 ? f.largest : (f.infinity ?? f.nan)
  const limited = n.where(over, int(beyond), code)
  const negative = n.compare('lt', n.bitcast(x, 'i32'), 0)
  const signBit = 2 ** (f.bits - 1)
  const keepsSign = f.unsignedZero
    ? n.logicalAnd(negative, n.logicalAnd(n.compare('gt', limited, 0), n.compare('lt', limited, signBit)))
    : negative
  const signed = n.where(keepsSign, n.add(limited, signBit), limited)
  const nan = n.where(n.unary('isnan', x), int(f.nan), signed)
  return n.cast(nan, 'u8')
}

/** Powers of two: the exponent field, rounded by the mantissa below it. */
function encodeExponent(x: Node, o: EncodeOptions): Node {
  const bits = n.bitcast(n.unary('abs', x), 'i32')
  const carry = o.round === 'up' ? 0x7fffff : o.round === 'nearest' ? 0x400000 : 0
  const code = n.binary('shr', n.add(bits, carry), n.full([], 23, 'i32'))
  const over = n.compare('gt', code, 254)
  const limited = n.where(over, n.full([], o.saturate ? 254 : 255, 'i32'), code)
  return n.cast(n.where(n.unary('isnan', x), n.full([], 255, 'i32'), limited), 'u8')
}

/** Codes of values. Whole-number types truncate and keep the low bits of what they cannot hold. */
export function encodeCodes(x: Node, t: CodedType, o: EncodeOptions): Coded {
  const f = formatOf(t)
  if (f.kind === 'float') return { coded: t, node: encodeFloat(n.cast(x, 'f32'), f, o.saturate) }
  if (f.kind === 'exponent') return { coded: t, node: encodeExponent(n.cast(x, 'f32'), o) }
  const span = 2 ** f.bits
  const whole = n.cast(x, 'i32')
  const low = n.binary('and', whole, n.full([], span - 1, 'i32'))
  const value = f.signed ? n.where(n.compare('ge', low, span / 2), n.sub(low, span), low) : low
  return { coded: t, node: n.cast(value, codeDType(t)) }
}
