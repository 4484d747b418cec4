/**
 * Coarse forms of functions in WGSL (precision.ts says where they serve, docs/numerics.md how far they are off), on the exponential
 * and logarithm of the hardware: exp2 within 3 + 2 |x| units in the last place, log2 within 2^-21 or 3 units.
 */
import { fn, type Library } from '../shared/print.ts'

/** `_unguarded`, whose result for NaN is any; and `_coarse`, which passes NaN on: exp2 of a driver need not. */
function pair(name: string, numbers: readonly string[], body: string, uses: readonly string[] = []): Library {
  const params = ['a', ...numbers]
  const typed = params.map((p) => `${p}: f32`).join(', ')
  return {
    [`f32_${name}_unguarded`]: fn(`fn f32_${name}_unguarded(${typed}) -> f32 {\n  ${body}\n}`, uses),
    [`f32_${name}_coarse`]: fn(
      `fn f32_${name}_coarse(${typed}) -> f32 {
  return select(f32_${name}_unguarded(${params.join(', ')}), a, f32_isnan(a));
}`,
      ['f32_isnan', `f32_${name}_unguarded`],
    ),
  }
}

export const wgslCoarse: Library = {
  // 1 - erf(a) for a >= 0.
  ...pair(
    'erf_rest',
    ['c0', 'c1', 'c2', 'c3', 'c4'],
    'return exp2(fma(fma(fma(fma(c4, a, c3), a, c2), a, c1), a, c0) * a);',
  ),
  ...pair(
    'erf',
    ['c0', 'c1', 'c2', 'c3', 'c4'],
    `let size = 1.0 - f32_erf_rest_unguarded(abs(a), c0, c1, c2, c3, c4);
  return bitcast<f32>(bitcast<u32>(size) | (bitcast<u32>(a) & 0x80000000u));`,
    ['f32_erf_rest_unguarded'],
  ),
  // 2^(a k)
  ...pair('exp', ['k'], 'return exp2(a * k);'),
  // 1 / (1 + 2^(a k))
  ...pair('sigmoid', ['k'], 'return 1.0 / (1.0 + exp2(a * k));'),
  // 1 - 2 / (1 + 2^(a k))
  ...pair('tanh', ['k'], 'return fma(-2.0, 1.0 / (1.0 + exp2(a * k)), 1.0);'),
  f32_tanh_near: fn(
    `// With the first terms of its series around zero.
fn f32_tanh_near(a: f32) -> f32 {
  let near = a * fma(a * a, -0.33333334, 1.0);
  return select(f32_tanh_coarse(a, 2.8853901), near, abs(a) < 0.0625);
}`,
    ['f32_tanh_coarse'],
  ),
  f32_expm1_coarse: fn(
    `fn f32_expm1_coarse(a: f32) -> f32 {
  let near = a * fma(a, fma(a, fma(a, 0.041666668, 0.16666667), 0.5), 1.0);
  return select(f32_exp_coarse(a, 1.44269502) - 1.0, near, abs(a) < 0.125);
}`,
    ['f32_exp_coarse'],
  ),
  log_near: fn(`// log y, y = 1 + f.
fn log_near(y: f32, f: f32) -> f32 {
  return select(log2(y) * 0.69314718, f * fma(f, fma(f, 0.33333334, -0.5), 1.0), abs(f) < 0.03125);
}`),
  f32_log_coarse: fn(
    `fn f32_log_coarse(a: f32) -> f32 {
  // Zero, subnormal, negative, infinite, or NaN.
  if (bitcast<u32>(a) - 0x00800000u >= 0x7f000000u) { return f32_log(a); }
  return log_near(a, a - 1.0);
}`,
    ['f32_log', 'log_near'],
  ),
  f32_log1p_coarse: fn(
    `fn f32_log1p_coarse(a: f32) -> f32 {
  let y = 1.0 + a;
  if (bitcast<u32>(y) - 0x00800000u >= 0x7f000000u) { return f32_log(y); }
  return log_near(y, a);
}`,
    ['f32_log', 'log_near'],
  ),
}
