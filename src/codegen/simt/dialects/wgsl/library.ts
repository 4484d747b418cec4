/**
 * Functions that WGSL code calls, except the special functions (wgslMath.ts). WGSL may assume that there are no NaN and leaves
 * the rounding of conversions open, so what docs/numerics.md pins is done on bits.
 */
import { fn, type Inline, type Library } from '../shared/print.ts'
import { randomLibrary } from '../shared/randomLibrary.ts'
import { wgslCoarse } from './coarse.ts'
import { wgslExtremes } from './extremes.ts'
import { arithmeticHalves } from './halves.ts'
import { wgslMath } from './math.ts'
import { wgslWide } from './wide.ts'

const infix = (op: string) => (a?: string, b?: string) => `(${a} ${op} ${b})`

export const wgslInline: Inline = {
  f32_abs: 'abs',
  f32_fma: 'fma',
  f32_floor: 'floor',
  f32_ceil: 'ceil',
  f32_trunc: 'trunc',
  f32_round: 'round',
  f32_sqrt: 'sqrt',
  f32_rsqrt: (a) => `(1.0 / sqrt(${a}))`,
  f32_div: infix('/'),
  ...Object.fromEntries(
    (['i32', 'u32'] as const).flatMap((t) => [
      [`${t}_add`, infix('+')],
      [`${t}_sub`, infix('-')],
      [`${t}_mul`, infix('*')],
      [`${t}_max`, 'max'],
      [`${t}_min`, 'min'],
      [`${t}_sign`, t === 'i32' ? 'sign' : (a?: string) => `min(${a}, 1u)`],
      [`${t}_lanes_max`, 'subgroupMax'],
      [`${t}_lanes_min`, 'subgroupMin'],
      [`${t}_lanes_sum`, 'subgroupAdd'],
    ]),
  ),
  i32_abs: 'abs',
}

const power = (t: 'i32' | 'u32'): Library[string] =>
  fn(`fn ${t}_pow(a: ${t}, b: ${t}) -> ${t} {
${t === 'i32' ? '  if (b < 0) { return select(select(0, select(1, -1, (b & 1) != 0), a == -1), 1, a == 1); }\n' : ''}  var r = ${t}(1);
  var s = a;
  for (var e = u32(b); e != 0u; e = e >> 1u) {
    if ((e & 1u) != 0u) { r = r * s; }
    s = s * s;
  }
  return r;
}`)

const random = randomLibrary(({ name, generator, wordBit, field }) =>
  fn(
    `fn ${name}(k0: u32, k1: u32, c0: u32, c1: u32, at: u32) -> u32 {
  let words = ${generator}(k0, k1, c0, c1);
  let word = select(words.x, words.y, (at & ${wordBit}) != 0u);
  return ${field};
}`,
    [generator],
  ),
)

/** Threefry-2x32 without a loop: an array that a variable indexes would lie in memory. */
function threefry(rounds: number): Library[string] {
  const turns = [13, 15, 26, 6, 17, 29, 16, 24]
  const lines: string[] = []
  for (let i = 0; i < rounds; i++) {
    const n = turns[i % turns.length] ?? 0
    lines.push('x += y;', `y = ((y << ${n}u) | (y >> ${32 - n}u)) ^ x;`)
    const s = (i + 1) / 4
    if (Number.isInteger(s)) lines.push(`x += k${s % 3};`, `y += k${(s + 1) % 3} + ${s}u;`)
  }
  return fn(`// Threefry-2x32, ${rounds} rounds.
fn threefry_${rounds}(k0: u32, k1: u32, c0: u32, c1: u32) -> vec2<u32> {
  let k2 = 0x1bd11bdau ^ k0 ^ k1;
  var x = c0 + k0;
  var y = c1 + k1;
  ${lines.join('\n  ')}
  return vec2<u32>(x, y);
}`)
}

export const wgslLibrary: Library = {
  ...wgslCoarse,
  ...wgslMath,
  ...wgslWide,
  special_values: fn(
    'var<private> infinity_bits: u32 = 0x7f800000u;\nvar<private> minus_infinity_bits: u32 = 0xff800000u;\nvar<private> nan_bits: u32 = 0x7fc00000u;',
  ),
  minus_zero: fn('var<private> minus_zero_bits: u32 = 0x80000000u;'),
  f32_isnan: fn('fn f32_isnan(a: f32) -> bool {\n  return (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u;\n}'),
  f32_isinf: fn('fn f32_isinf(a: f32) -> bool {\n  return (bitcast<u32>(a) & 0x7fffffffu) == 0x7f800000u;\n}'),
  zero_times: fn(`// 0 * a
fn zero_times(a: f32) -> f32 {
  let bits = bitcast<u32>(a);
  return bitcast<f32>(select(bits & 0x80000000u, 0x7fc00000u, (bits & 0x7f800000u) == 0x7f800000u));
}`),
  zero_over: fn(`// 0 / a
fn zero_over(a: f32) -> f32 {
  let bits = bitcast<u32>(a);
  let magnitude = bits & 0x7fffffffu;
  return bitcast<f32>(select(bits & 0x80000000u, 0x7fc00000u, (magnitude == 0u) | (magnitude > 0x7f800000u)));
}`),
  ...wgslExtremes,
  f32_sign: fn('fn f32_sign(a: f32) -> f32 {\n  return select(select(a, -1.0, a < 0.0), 1.0, a > 0.0);\n}'),
  divisor_scale: fn(`// What keeps the reciprocal of a divisor from being subnormal.
fn divisor_scale(b: f32) -> f32 {
  return select(1.0, 0.25, abs(b) > 4.2535296e37);
}`),
  f32_div_by: fn(`// a / b with r = 1 / b: the residual corrects the product, unless it is infinite or NaN.
fn f32_div_by(a: f32, b: f32, r: f32) -> f32 {
  let q = a * r;
  let rest = fma(-q, b, a);
  return select(q, fma(rest, r, q), (bitcast<u32>(rest) & 0x7fffffffu) < 0x7f800000u);
}`),
  f32_to_i32: fn(
    `fn f32_to_i32(a: f32) -> i32 {
  if (f32_isnan(a)) { return 0; }
  if (a >= 2147483648.0) { return 2147483647; }
  if (a <= -2147483648.0) { return i32(-2147483648); }
  return i32(a);
}`,
    ['f32_isnan'],
  ),
  f32_to_u32: fn(
    `fn f32_to_u32(a: f32) -> u32 {
  if (f32_isnan(a) | (a <= 0.0)) { return 0u; }
  if (a >= 4294967296.0) { return 0xffffffffu; }
  return u32(a);
}`,
    ['f32_isnan'],
  ),
  u32_to_f32: fn(`// One rounding: both halves are exact.
fn u32_to_f32(a: u32) -> f32 {
  return f32(i32(a >> 16u)) * 65536.0 + f32(i32(a & 0xffffu));
}`),
  i32_div: fn(`fn i32_div(a: i32, b: i32) -> i32 {
  if (b == 0) { return 0; }
  if (b == -1) { return -a; }
  return a / b;
}`),
  i32_rem: fn(`fn i32_rem(a: i32, b: i32) -> i32 {
  if (b == 0) { return a; }
  if (b == -1) { return 0; }
  return a % b;
}`),
  u32_div: fn('fn u32_div(a: u32, b: u32) -> u32 {\n  if (b == 0u) { return 0u; }\n  return a / b;\n}'),
  u32_rem: fn('fn u32_rem(a: u32, b: u32) -> u32 {\n  if (b == 0u) { return a; }\n  return a % b;\n}'),
  i32_pow: power('i32'),
  u32_pow: power('u32'),
  i32_floor_div: fn('fn i32_floor_div(a: i32, b: i32) -> i32 {\n  return a / b - select(0, 1, a % b < 0);\n}'),
  i32_floor_mod: fn(
    'fn i32_floor_mod(a: i32, b: i32) -> i32 {\n  let r = a % b;\n  return select(r, r + b, r < 0);\n}',
  ),
  ...arithmeticHalves,
  bf16_rounded:
    fn(`// The upper half is a to the nearest, ties to even: half a unit of it is added, less the last bit of f32 unless it is odd.
fn bf16_rounded(a: f32) -> u32 {
  let power = bitcast<f32>(bitcast<u32>(a) & 0xff800000u);
  let odd = bitcast<f32>(bitcast<u32>(a) & 0xff810000u);
  return bitcast<u32>(fma(odd, 1.52587890625e-5, fma(power, 0.00389087200164794921875, a)));
}`),
  bf16_bits: fn('fn bf16_bits(a: f32) -> u32 {\n  return bf16_rounded(a) >> 16u;\n}', ['bf16_rounded']),
  f16_bits_exact: fn(
    `fn f16_bits_exact(a: f32) -> u32 {
  let u = bitcast<u32>(a);
  if (f32_isnan(a)) { return ((u >> 16u) & 0x8000u) | 0x7c00u | ((u >> 13u) & 0x3ffu); }
  return f16_bits(a);
}`,
    ['f16_bits', 'f32_isnan'],
  ),
  bf16_bits_exact: fn('fn bf16_bits_exact(a: f32) -> u32 {\n  return bitcast<u32>(a) >> 16u;\n}'),
  bf16_pair: fn(
    `fn bf16_pair(low: f32, high: f32) -> u32 {
  return (bf16_rounded(low) >> 16u) | (bf16_rounded(high) & 0xffff0000u);
}`,
    ['bf16_rounded'],
  ),
  bf16_coarse: fn(`// The upper half is a to the nearest, ties away from zero.
fn bf16_coarse(a: f32) -> u32 {
  let power = bitcast<f32>(bitcast<u32>(a) & 0xff800000u);
  return bitcast<u32>(fma(power, 0.00390625, a));
}`),
  bf16_coarse_pair: fn(
    `fn bf16_coarse_pair(low: f32, high: f32) -> u32 {
  return (bf16_coarse(low) >> 16u) | (bf16_coarse(high) & 0xffff0000u);
}`,
    ['bf16_coarse'],
  ),
  high_halves: fn(`fn high_halves(low: f32, high: f32) -> u32 {
  return (bitcast<u32>(low) >> 16u) | (bitcast<u32>(high) & 0xffff0000u);
}`),
  round_bf16: fn('fn round_bf16(a: f32) -> f32 {\n  return bitcast<f32>(bf16_rounded(a) & 0xffff0000u);\n}', [
    'bf16_rounded',
  ]),
  ...random,
  ...Object.fromEntries(([13, 20] as const).map((rounds) => [`threefry_${rounds}`, threefry(rounds)])),
}
