/** 64-bit integers in WGSL: pairs of words, the low one first. */
import { fn, type Library } from '../shared/print.ts'

const both = (name: string, make: (t: 'i64' | 'u64') => Library[string]): Library => ({
  [`i64_${name}`]: make('i64'),
  [`u64_${name}`]: make('u64'),
})

const pair = 'vec2<u32>'

export const wgslWide: Library = {
  ...both('add', (t) =>
    fn(`fn ${t}_add(a: ${pair}, b: ${pair}) -> ${pair} {
  let low = a.x + b.x;
  return ${pair}(low, a.y + b.y + select(0u, 1u, low < a.x));
}`),
  ),
  ...both('sub', (t) =>
    fn(`fn ${t}_sub(a: ${pair}, b: ${pair}) -> ${pair} {
  return ${pair}(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}`),
  ),
  word_product: fn(`fn word_product(a: u32, b: u32) -> ${pair} {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let low = al * bl;
  let m = ah * bl + (low >> 16u);
  let n = al * bh + (m & 0xffffu);
  return ${pair}((n << 16u) | (low & 0xffffu), ah * bh + (m >> 16u) + (n >> 16u));
}`),
  ...both('mul', (t) =>
    fn(
      `fn ${t}_mul(a: ${pair}, b: ${pair}) -> ${pair} {
  let p = word_product(a.x, b.x);
  return ${pair}(p.x, p.y + a.x * b.y + a.y * b.x);
}`,
      ['word_product'],
    ),
  ),
  i64_lt: fn(`fn i64_lt(a: ${pair}, b: ${pair}) -> bool {
  return select(bitcast<i32>(a.y) < bitcast<i32>(b.y), a.x < b.x, a.y == b.y);
}`),
  u64_lt: fn(`fn u64_lt(a: ${pair}, b: ${pair}) -> bool {
  return select(a.y < b.y, a.x < b.x, a.y == b.y);
}`),
  i64_abs: fn(
    `fn i64_abs(a: ${pair}) -> ${pair} {
  return select(a, i64_sub(${pair}(0u, 0u), a), (a.y >> 31u) != 0u);
}`,
    ['i64_sub'],
  ),
  i64_sign: fn(`fn i64_sign(a: ${pair}) -> ${pair} {
  if ((a.y >> 31u) != 0u) { return ${pair}(0xffffffffu, 0xffffffffu); }
  return ${pair}(select(0u, 1u, (a.x | a.y) != 0u), 0u);
}`),
  u64_sign: fn(`fn u64_sign(a: ${pair}) -> ${pair} {
  return ${pair}(select(0u, 1u, (a.x | a.y) != 0u), 0u);
}`),
  ...both('max', (t) =>
    fn(`fn ${t}_max(a: ${pair}, b: ${pair}) -> ${pair} {\n  return select(a, b, ${t}_lt(a, b));\n}`, [`${t}_lt`]),
  ),
  ...both('min', (t) =>
    fn(`fn ${t}_min(a: ${pair}, b: ${pair}) -> ${pair} {\n  return select(a, b, ${t}_lt(b, a));\n}`, [`${t}_lt`]),
  ),
  u64_divide: fn(
    `// Quotient and remainder by shift and subtract.
fn u64_divide(a: ${pair}, b: ${pair}) -> vec4<u32> {
  var q = ${pair}(0u, 0u);
  var r = ${pair}(0u, 0u);
  for (var i = 63i; i >= 0i; i--) {
    let word = select(a.x, a.y, i >= 32i);
    let bit = (word >> u32(i & 31i)) & 1u;
    let carry = r.y >> 31u;
    r = ${pair}((r.x << 1u) | bit, (r.y << 1u) | (r.x >> 31u));
    if ((carry != 0u) | !u64_lt(r, b)) {
      r = u64_sub(r, b);
      if (i >= 32i) { q.y |= 1u << u32(i - 32i); } else { q.x |= 1u << u32(i); }
    }
  }
  return vec4<u32>(q, r);
}`,
    ['u64_lt', 'u64_sub'],
  ),
  u64_div: fn(
    `fn u64_div(a: ${pair}, b: ${pair}) -> ${pair} {
  if ((b.x | b.y) == 0u) { return ${pair}(0u, 0u); }
  return u64_divide(a, b).xy;
}`,
    ['u64_divide'],
  ),
  u64_rem: fn(
    `fn u64_rem(a: ${pair}, b: ${pair}) -> ${pair} {
  if ((b.x | b.y) == 0u) { return a; }
  return u64_divide(a, b).zw;
}`,
    ['u64_divide'],
  ),
  i64_div: fn(
    `fn i64_div(a: ${pair}, b: ${pair}) -> ${pair} {
  if ((b.x | b.y) == 0u) { return ${pair}(0u, 0u); }
  let q = u64_divide(i64_abs(a), i64_abs(b)).xy;
  return select(q, i64_sub(${pair}(0u, 0u), q), ((a.y ^ b.y) >> 31u) != 0u);
}`,
    ['u64_divide', 'i64_abs', 'i64_sub'],
  ),
  i64_rem: fn(
    `fn i64_rem(a: ${pair}, b: ${pair}) -> ${pair} {
  if ((b.x | b.y) == 0u) { return a; }
  let r = u64_divide(i64_abs(a), i64_abs(b)).zw;
  return select(r, i64_sub(${pair}(0u, 0u), r), (a.y >> 31u) != 0u);
}`,
    ['u64_divide', 'i64_abs', 'i64_sub'],
  ),
  ...both('shl', (t) =>
    fn(`fn ${t}_shl(a: ${pair}, count: ${pair}) -> ${pair} {
  if ((count.y != 0u) | (count.x >= 64u)) { return ${pair}(0u, 0u); }
  let n = count.x & 31u;
  if (count.x >= 32u) { return ${pair}(0u, a.x << n); }
  if (n == 0u) { return a; }
  return ${pair}(a.x << n, (a.y << n) | (a.x >> (32u - n)));
}`),
  ),
  ...both('shr', (t) =>
    fn(`fn ${t}_shr(a: ${pair}, count: ${pair}) -> ${pair} {
  let fill = ${t === 'i64' ? 'select(0u, 0xffffffffu, (a.y >> 31u) != 0u)' : '0u'};
  if ((count.y != 0u) | (count.x >= 64u)) { return ${pair}(fill, fill); }
  let n = count.x & 31u;
  var r = a;
  if (count.x >= 32u) { r = ${pair}(a.y, fill); }
  if (n == 0u) { return r; }
  return ${pair}((r.x >> n) | (r.y << (32u - n)), (r.y >> n) | (fill << (32u - n)));
}`),
  ),
  ...both('pow', (t) =>
    fn(
      `fn ${t}_pow(a: ${pair}, b: ${pair}) -> ${pair} {
${t === 'i64' ? `  if ((b.y >> 31u) != 0u) {\n    if ((a.x == 1u) & (a.y == 0u)) { return a; }\n    if ((a.x == 0xffffffffu) & (a.y == 0xffffffffu)) { return select(${pair}(1u, 0u), a, (b.x & 1u) != 0u); }\n    return ${pair}(0u, 0u);\n  }\n` : ''}  var r = ${pair}(1u, 0u);
  var s = a;
  var e = b;
  while ((e.x | e.y) != 0u) {
    if ((e.x & 1u) != 0u) { r = ${t}_mul(r, s); }
    s = ${t}_mul(s, s);
    e = ${pair}((e.x >> 1u) | (e.y << 31u), e.y >> 1u);
  }
  return r;
}`,
      [`${t}_mul`],
    ),
  ),
  i32_to_i64: fn(
    `fn i32_to_i64(a: i32) -> ${pair} {\n  return ${pair}(bitcast<u32>(a), select(0u, 0xffffffffu, a < 0));\n}`,
  ),
  u64_to_f32: fn(
    `fn u64_to_f32(a: ${pair}) -> f32 {
  if (a.y == 0u) { return u32_to_f32(a.x); }
  // The upper 32 bits with what is cut off as a sticky bit, so that one rounding is left.
  let n = countLeadingZeros(a.y);
  let high = select((a.y << n) | (a.x >> (32u - n)), a.y, n == 0u);
  let rest = a.x << n;
  return u32_to_f32(high | select(0u, 1u, rest != 0u)) * bitcast<f32>((127u + 32u - n) << 23u);
}`,
    ['u32_to_f32'],
  ),
  i64_to_f32: fn(
    `fn i64_to_f32(a: ${pair}) -> f32 {
  let r = u64_to_f32(i64_abs(a));
  return select(r, -r, (a.y >> 31u) != 0u);
}`,
    ['u64_to_f32', 'i64_abs'],
  ),
  f32_to_u64: fn(
    `fn f32_to_u64(a: f32) -> ${pair} {
  if (f32_isnan(a) | (a <= 0.0)) { return ${pair}(0u, 0u); }
  if (a >= 18446744073709551616.0) { return ${pair}(0xffffffffu, 0xffffffffu); }
  let high = floor(a * 2.3283064365386963e-10);
  return ${pair}(u32(a - high * 4294967296.0), u32(high));
}`,
    ['f32_isnan'],
  ),
  f32_to_i64: fn(
    `fn f32_to_i64(a: f32) -> ${pair} {
  if (f32_isnan(a)) { return ${pair}(0u, 0u); }
  if (a >= 9223372036854775808.0) { return ${pair}(0xffffffffu, 0x7fffffffu); }
  if (a <= -9223372036854775808.0) { return ${pair}(0u, 0x80000000u); }
  let r = f32_to_u64(abs(a));
  return select(r, i64_sub(${pair}(0u, 0u), r), a < 0.0);
}`,
    ['f32_isnan', 'f32_to_u64', 'i64_sub'],
  ),
}
