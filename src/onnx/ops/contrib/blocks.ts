/**
 * Weights of few bits as onnxruntime packs them: several numbers a byte, lowest bits first, with a scale and perhaps a zero point for each
 * block. The bytes stay as they are in memory; numbers are taken out of them where they are read.
 */
import type { DType } from '../../../types/dtype.ts'
import * as n from '../../nodes.ts'

/** The numbers in bytes [..., count]: [..., count * 8 / bits], i32, lowest bits first. `bits` divides 8. */
export function unpackBits(bytes: n.Node, bits: number): n.Node {
  if (bits === 8) return n.cast(bytes, 'i32')
  const each = 8 / bits
  const lead = bytes.shape.slice(0, -1)
  const count = bytes.shape.at(-1) ?? 1
  const paired = [...lead, count, each]
  const spread = n.broadcastTo(n.expandDims(n.cast(bytes, 'i32'), -1), paired)
  const shift = n.mul(n.iota(paired, paired.length - 1, 'i32'), bits)
  const low = n.binary('and', n.binary('shr', spread, shift), n.full([], 2 ** bits - 1, 'i32'))
  return n.reshape(low, [...lead, count * each])
}

/** Each element of the last axis `size` times, cut to `length`. */
export function repeatLast(x: n.Node, size: number, length: number): n.Node {
  const last = x.shape.length - 1
  const count = x.shape[last] ?? 1
  const wide = n.broadcastTo(n.expandDims(x, -1), [...x.shape, size])
  return n.sliceAxis(n.reshape(wide, [...x.shape.slice(0, last), count * size]), last, 0, length)
}

/** (codes - zero) scale in a float dtype; codes and zero points are whole numbers, which their difference keeps exact. */
export function scaled(codes: n.Node, zero: n.Node | number, scale: n.Node, to: DType): n.Node {
  const whole = typeof zero === 'number' || zero.dtype === 'i32'
  const centred = whole ? n.cast(n.sub(codes, zero), to) : n.sub(n.cast(codes, to), n.cast(zero, to))
  return n.mul(centred, n.cast(scale, to))
}
