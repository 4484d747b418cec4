/**
 * Coarse forms of functions in CUDA (precision.ts says where they serve, docs/numerics.md how far they are off), on approximations
 * of the hardware that take subnormal operands and results for zero. All pass NaN on.
 */

import type { Library } from '../shared/print.ts'
import { device } from './function.ts'

const approximation = (name: string, instruction: string): Library => ({
  [`f32_${name}_flushed`]: device(
    `float f32_${name}_flushed(float a)`,
    `float r;\n  asm("${instruction} %0, %1;" : "=f"(r) : "f"(a));\n  return r;`,
  ),
})

const pair = (name: string, numbers: readonly string[], body: string, uses: readonly string[]): Library =>
  Object.fromEntries(
    ['unguarded', 'coarse'].map((guard) => [
      `f32_${name}_${guard}`,
      device(`float f32_${name}_${guard}(${['a', ...numbers].map((x) => `float ${x}`).join(', ')})`, body, uses),
    ]),
  )

export const cudaCoarse: Library = {
  ...approximation('exp2', 'ex2.approx.ftz.f32'),
  ...approximation('log2', 'lg2.approx.ftz.f32'),
  ...approximation('reciprocal', 'rcp.approx.ftz.f32'),
  // 1 - erf(a) for a >= 0.
  ...pair(
    'erf_rest',
    ['c0', 'c1', 'c2', 'c3', 'c4'],
    'return f32_exp2_flushed(fmaf(fmaf(fmaf(fmaf(c4, a, c3), a, c2), a, c1), a, c0) * a);',
    ['f32_exp2_flushed'],
  ),
  ...pair(
    'erf',
    ['c0', 'c1', 'c2', 'c3', 'c4'],
    'return copysignf(1.0f - f32_erf_rest_unguarded(fabsf(a), c0, c1, c2, c3, c4), a);',
    ['f32_erf_rest_unguarded'],
  ),
  ...pair('exp', ['k'], 'return f32_exp2_flushed(a * k);', ['f32_exp2_flushed']),
  ...pair('sigmoid', ['k'], 'return f32_reciprocal_flushed(1.0f + f32_exp2_flushed(a * k));', [
    'f32_exp2_flushed',
    'f32_reciprocal_flushed',
  ]),
  ...pair('tanh', ['k'], 'return fmaf(-2.0f, f32_reciprocal_flushed(1.0f + f32_exp2_flushed(a * k)), 1.0f);', [
    'f32_exp2_flushed',
    'f32_reciprocal_flushed',
  ]),
  f32_tanh_near: device(
    'float f32_tanh_near(float a)',
    'return fabsf(a) < 0.0625f ? a * fmaf(a * a, -0.33333334f, 1.0f) : f32_tanh_coarse(a, 2.8853901f);',
    ['f32_tanh_coarse'],
  ),
  f32_expm1_coarse: device(
    'float f32_expm1_coarse(float a)',
    'const float near = a * fmaf(a, fmaf(a, fmaf(a, 0.041666668f, 0.16666667f), 0.5f), 1.0f);\n  return fabsf(a) < 0.125f ? near : f32_exp_coarse(a, 1.44269502f) - 1.0f;',
    ['f32_exp_coarse'],
  ),
  log_near: device(
    'float log_near(float y, float f)',
    'return fabsf(f) < 0.03125f ? f * fmaf(f, fmaf(f, 0.33333334f, -0.5f), 1.0f) : f32_log2_flushed(y) * 0.69314718f;',
    ['f32_log2_flushed'],
  ),
  f32_log_coarse: device(
    'float f32_log_coarse(float a)',
    '// Zero, subnormal, negative, infinite, or NaN.\n  if (__float_as_uint(a) - 0x00800000u >= 0x7f000000u) return logf(a);\n  return log_near(a, a - 1.0f);',
    ['log_near'],
  ),
  f32_log1p_coarse: device(
    'float f32_log1p_coarse(float a)',
    'const float y = 1.0f + a;\n  if (__float_as_uint(y) - 0x00800000u >= 0x7f000000u) return logf(y);\n  return log_near(y, a);',
    ['log_near'],
  ),
}
