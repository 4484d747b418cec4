/**
 * WGSL: f16 to f32 and back, on bits or by the built-in functions. WGSL leaves open what those make of subnormals, NaN and values beyond the
 * range, and in which direction they round ("Data Packing Built-in Functions"): a device is asked (`backends/webgpu/halves.ts`).
 */
import type { Ex } from '../../ir/ir.ts'
import { unmaskedHalf } from '../../scalar/arith.ts'
import { fn, type Library } from '../shared/print.ts'

export const arithmeticHalves: Library = {
  f16_value: fn(`fn f16_value(h: u32) -> f32 {
  let sign = (h & 0x8000u) << 16u;
  let magnitude = h & 0x7fffu;
  var bits = (magnitude << 13u) + 0x38000000u;
  if (magnitude >= 0x7c00u) { bits = 0x7f800000u | (magnitude << 13u); }
  if (magnitude < 0x400u) { bits = bitcast<u32>(f32(magnitude) * 5.9604644775390625e-8); }
  return bitcast<f32>(sign | bits);
}`),
  f16_bits: fn(`fn f16_bits(a: f32) -> u32 {
  let bits = bitcast<u32>(a);
  let sign = (bits >> 16u) & 0x8000u;
  let magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) { return sign | 0x7e00u; }
  if (magnitude >= 0x47800000u) { return sign | 0x7c00u; }
  if (magnitude < 0x33000000u) { return sign; }
  if (magnitude < 0x38800000u) {
    let shift = 126u - (magnitude >> 23u);
    let m = (magnitude & 0x7fffffu) | 0x800000u;
    let half = 1u << (shift - 1u);
    let q = m >> shift;
    let rest = m & ((1u << shift) - 1u);
    return sign | (q + select(0u, 1u, (rest > half) | ((rest == half) & ((q & 1u) != 0u))));
  }
  let q = (magnitude - 0x38000000u) >> 13u;
  let rest = magnitude & 0x1fffu;
  return sign | (q + select(0u, 1u, (rest > 0x1000u) | ((rest == 0x1000u) & ((q & 1u) != 0u))));
}`),
  f16_pair: fn('fn f16_pair(low: f32, high: f32) -> u32 {\n  return f16_bits(low) | (f16_bits(high) << 16u);\n}', [
    'f16_bits',
  ]),
  round_f16: fn('fn round_f16(a: f32) -> f32 {\n  return f16_value(f16_bits(a));\n}', ['f16_bits', 'f16_value']),
}

export const builtInHalves: Library = {
  f16_value: fn('fn f16_value(h: u32) -> f32 {\n  return unpack2x16float(h).x;\n}'),
  f16_bits: fn('fn f16_bits(a: f32) -> u32 {\n  return pack2x16float(vec2<f32>(a, 0.0));\n}'),
  f16_pair: fn('fn f16_pair(low: f32, high: f32) -> u32 {\n  return pack2x16float(vec2<f32>(low, high));\n}'),
  round_f16: fn('fn round_f16(a: f32) -> f32 {\n  return unpack2x16float(pack2x16float(vec2<f32>(a, 0.0))).x;\n}'),
}

/** The word of which a half is the lower or the upper one, by what is left of it: nothing is shifted or masked. */
export function halfOfWord(h: Ex): { readonly word: Ex; readonly upper: boolean } {
  const bits = unmaskedHalf(h)
  const upper = bits.k === 'bin' && bits.op === '>>' && bits.b.k === 'lit' && bits.b.value === 16
  return { word: upper ? bits.a : bits, upper }
}
