/**
 * Special functions in WGSL within the bounds of docs/numerics.md: WGSL's own leave far more room. Cody & Waite reductions, and the
 * polynomials of `scalar/polynomials.ts`, whose constants stand in texts as short decimals of the same f32.
 */
import {
  asinTerms,
  atanTerms,
  cosTerms,
  erfTerms,
  expm1Range,
  expm1Terms,
  expTerms,
  halfExpEnd,
  halfPiParts,
  largeOfLog,
  logTerms,
  sinhTerms,
  sinTerms,
  tanhEnd,
} from '../../../../scalar/polynomials.ts'
import { formulaLibrary } from '../shared/formulas.ts'
import { fn, type Library } from '../shared/print.ts'

/** Horner's scheme in a variable, highest power first. */
function poly(x: string, terms: readonly number[]): string {
  const [head = 0, ...rest] = terms
  return rest.reduce((acc, k) => `fma(${acc}, ${x}, ${k < 0 ? `${text(k)}` : text(k)})`, text(head))
}

const text = (x: number): string => {
  const s = String(Math.fround(x))
  return /[.e]/.test(s) ? s : `${s}.0`
}

const signed = 'bitcast<u32>(x) & 0x80000000u'
const copysign = (y: string): string => `bitcast<f32>((bitcast<u32>(${y}) & 0x7fffffffu) | (${signed}))`

/**
 * The floor of a / ln 2 (+ `more`) without conversions, which GPUs do at a fraction of their rate: a sum with 1.5 * 2^15 has steps of
 * 2^-8, and its bits above them are the floor. Cutting bits off also keeps compilers from taking the sum apart again.
 */
const stepsOf = (a: string, more = 0): string =>
  `bitcast<u32>(fma(${a}, 1.44269502, ${text(49152 + more)})) & 0xffffff00u`
const wholeOf = (t: string): string => `bitcast<f32>(${t}) - 49152.0`
/** 2^(floor + bias - 127), from zero to infinity. */
const powerOf = (t: string, bias: number): string => `bitcast<f32>((${t} << 15u) + ${(bias * 2 ** 23) >>> 0}u)`

const unary = (name: string, body: string, uses: readonly string[] = []): Library => ({
  [`f32_${name}`]: fn(`fn f32_${name}(x: f32) -> f32 {\n  ${body}\n}`, ['f32_isnan', ...uses]),
})

const formulas = formulaLibrary({
  prefix: 'f32',
  literal: (x) => {
    if (Number.isNaN(x)) return 'bitcast<f32>(nan_bits)'
    return x === Number.POSITIVE_INFINITY ? 'bitcast<f32>(infinity_bits)' : text(x)
  },
  constant: (name, value) => `let ${name} = ${value};`,
  names: { abs: 'abs', sqrt: 'sqrt', round: 'round', exp: 'f32_exp', log: 'f32_log', erf: 'f32_erf', fma: 'fma' },
  select: (m, a, b) => `select(${b}, ${a}, ${m})`,
  define: (name, operands, lines) => {
    const guard = operands.length === 1 ? ['if (f32_isnan(x)) { return x; }'] : []
    const params = operands.map((x) => `${x}: f32`).join(', ')
    return `fn ${name}(${params}) -> f32 {\n  ${[...guard, ...lines].join('\n  ')}\n}`
  },
  uses: ['f32_isnan', 'special_values'],
})

export const wgslMath: Library = {
  ...formulas,
  power_of_two: fn(
    '// 2^n for n from -127 (zero) to 128 (infinity).\nfn power_of_two(n: i32) -> f32 {\n  return bitcast<f32>(u32(n + 127) << 23u);\n}',
  ),
  ...unary(
    'exp',
    // 2^n e^r, n a whole number from -125 to 127; beyond them r carries the result to zero and infinity. WGSL's power of two has a
    // bound that grows with its operand: here that is half at most. What it makes of NaN is not said.
    `let t = saturate(fma(x, 0.00572498025, 0.496031746));
  let s = bitcast<u32>(fma(t, 252.0, 49154.5)) & 0xffffff00u;
  let n = bitcast<f32>(s) - 49279.0;
  let r = fma(n, 2.1219444e-4, fma(n, -0.693359375, x));
  return select(exp2(r * 1.44269502) * bitcast<f32>(s << 15u), x, f32_isnan(x));`,
  ),
  half_expm1: fn(
    `// (e^x - 1) / 2 for x from ${expm1Range.from} to ${expm1Range.to}.
fn half_expm1(x: f32) -> f32 {
  let t = ${stepsOf('x', 0.5)};
  let n = ${wholeOf('t')};
  let r = fma(n, 2.1219444e-4, fma(n, -0.693359375, x));
  let p = fma(r * r, ${poly('r', expm1Terms)}, r);
  let s = ${powerOf('t', 126)};
  return fma(s, p, s - 0.5);
}`,
  ),
  half_exp: fn(
    `// e^|x| / 2.
fn half_exp(x: f32) -> f32 {
  let a = min(abs(x), ${halfExpEnd});
  let t = ${stepsOf('a')};
  let n = ${wholeOf('t')};
  let r = fma(n, 2.1219444e-4, fma(n, -0.693359375, a));
  return ${poly('r', expTerms)} * ${powerOf('t', 126)};
}`,
  ),
  ...unary(
    'expm1',
    `if (f32_isnan(x) | (x == 0.0)) { return x; }
  if (x > ${expm1Range.to}) { return f32_exp(x); }
  if (abs(x) < 2.4e-4) { return fma(0.5 * x, x, x); }
  return 2.0 * half_expm1(max(x, ${expm1Range.from}));`,
    ['half_expm1', 'f32_exp'],
  ),
  ...unary(
    'tanh',
    `let a = min(abs(x), ${text(tanhEnd)});
  let h = half_expm1(a + a);
  return select(${copysign('h / (h + 1.0)')}, x, f32_isnan(x));`,
    ['half_expm1'],
  ),
  ...unary('sigmoid', 'return 1.0 / (1.0 + f32_exp(-x));', ['f32_exp']),
  ...unary(
    'sinh',
    `if (f32_isnan(x)) { return x; }
  let h = half_exp(x);
  let z = x * x;
  let near = fma(x * z, ${poly('z', sinhTerms)}, x);
  return select(near, ${copysign('h - 0.25 / h')}, abs(x) > 1.0);`,
    ['half_exp'],
  ),
  ...unary(
    'cosh',
    `if (f32_isnan(x)) { return x; }
  let h = half_exp(x);
  return h + 0.25 / h;`,
    ['half_exp'],
  ),
  log_steps: fn(`// The logarithm of a normal number, times 2^-scale.
fn log_steps(a: f32, scale: i32) -> f32 {
  let offset = bitcast<i32>(a) - 0x3f3504f3;
  let e = bitcast<f32>((offset >> 23u) - scale + 0x4b400000) - 12582912.0;
  let f = bitcast<f32>((offset & 0x7fffff) + 0x3f3504f3) - 1.0;
  let z = f * f;
  let cubic = fma(e, -2.1219444e-4, ${poly('f', logTerms)} * (f * z));
  return fma(e, 0.693359375, f + fma(-0.5, z, cubic));
}`),
  f32_log_normal: fn(
    `// Of a normal number, infinity or NaN.
fn f32_log_normal(x: f32) -> f32 {
  return select(log_steps(x, 0), x, bitcast<u32>(x) >= 0x7f800000u);
}`,
    ['log_steps'],
  ),
  ...unary(
    'log',
    `var a = x;
  var scale = 0;
  // Zero, subnormal, negative, infinite, or NaN.
  if (bitcast<u32>(x) - 0x00800000u >= 0x7f000000u) {
    if (f32_isnan(x) | (x < 0.0)) { return bitcast<f32>(nan_bits); }
    if (x == 0.0) { return bitcast<f32>(minus_infinity_bits); }
    if (f32_isinf(x)) { return x; }
    a = x * 8388608.0;
    scale = 23;
  }
  return log_steps(a, scale);`,
    ['f32_isinf', 'log_steps', 'special_values'],
  ),
  ...unary(
    'log1p',
    // The polynomial of log where it holds for x itself: what 1 + x loses would show.
    `if ((x > -0.2928) & (x < 0.4142)) {
    let z = x * x;
    return fma(x * z, ${poly('x', logTerms)}, fma(-0.5, z, x));
  }
  return f32_log(1.0 + x);`,
    ['f32_log'],
  ),
  ...unary(
    'asinh',
    `if (f32_isnan(x)) { return x; }
  let a = abs(x);
  let big = a > ${text(largeOfLog)};
  let w = a + a * a / (1.0 + sqrt(a * a + 1.0));
  let y = f32_log1p(select(w, a, big)) + select(0.0, 0.69314718, big);
  return ${copysign('y')};`,
    ['f32_log1p'],
  ),
  ...unary(
    'acosh',
    `if (f32_isnan(x) | (x < 1.0)) { return bitcast<f32>(nan_bits); }
  let big = x > ${text(largeOfLog)};
  let t = x - 1.0;
  let w = t + sqrt(t * (t + 2.0));
  return f32_log1p(select(w, x, big)) + select(0.0, 0.69314718, big);`,
    ['f32_log1p', 'special_values'],
  ),
  ...unary(
    'atanh',
    `let a = abs(x);
  if (f32_isnan(x) | (a > 1.0)) { return bitcast<f32>(nan_bits); }
  return ${copysign('0.5 * f32_log1p((a + a) / (1.0 - a))')};`,
    ['f32_log1p', 'special_values'],
  ),
  ...unary(
    'erf',
    `let a = clamp(x, -${erfTerms.end}, ${erfTerms.end});
  let z = a * a;
  return select(clamp(a * ${poly('z', erfTerms.above)} / ${poly('z', erfTerms.below)}, -1.0, 1.0), x, f32_isnan(x));`,
  ),
  arc_tangent: fn(`fn arc_tangent(t: f32) -> f32 {
  let z = t * t;
  return fma(t * z, ${poly('z', atanTerms)}, t);
}`),
  ...unary(
    'atan',
    `if (f32_isnan(x)) { return x; }
  let a = abs(x);
  let y = arc_tangent(min(a, 1.0) / max(a, 1.0));
  return ${copysign('select(y, (1.57079637 - y) - 4.371139e-8, a > 1.0)')};`,
    ['arc_tangent'],
  ),
  f32_atan2: fn(
    `fn f32_atan2(y: f32, x: f32) -> f32 {
  if (f32_isnan(x) | f32_isnan(y)) { return bitcast<f32>(nan_bits); }
  let ax = abs(x);
  let ay = abs(y);
  let steep = ay > ax;
  let high = max(ax, ay);
  let low = min(ax, ay);
  var t = low / high;
  if (high == 0.0) { t = 0.0; }
  if (f32_isinf(low)) { t = 1.0; }
  var a = arc_tangent(t);
  if (steep) { a = (1.57079637 - a) - 4.371139e-8; }
  if ((bitcast<u32>(x) >> 31u) != 0u) { a = (3.14159274 - a) - 8.742278e-8; }
  return bitcast<f32>(bitcast<u32>(a) | (bitcast<u32>(y) & 0x80000000u));
}`,
    ['f32_isnan', 'f32_isinf', 'arc_tangent', 'special_values'],
  ),
  arc_sine: fn(`fn arc_sine(t: f32) -> f32 {
  let z = t * t;
  return fma(t * z, ${poly('z', asinTerms)}, t);
}`),
  ...unary(
    'asin',
    `let a = abs(x);
  if (f32_isnan(x) | (a > 1.0)) { return bitcast<f32>(nan_bits); }
  if (a > 0.5) {
    let p = 2.0 * arc_sine(sqrt((1.0 - a) * 0.5));
    return ${copysign('(1.57079637 - p) - 4.371139e-8')};
  }
  return arc_sine(x);`,
    ['arc_sine', 'special_values'],
  ),
  ...unary(
    'acos',
    `let a = abs(x);
  if (f32_isnan(x) | (a > 1.0)) { return bitcast<f32>(nan_bits); }
  if (a > 0.5) {
    let p = 2.0 * arc_sine(sqrt((1.0 - a) * 0.5));
    return select(p, (3.14159274 - p) - 8.742278e-8, x < 0.0);
  }
  return (1.57079637 - arc_sine(x)) - 4.371139e-8;`,
    ['arc_sine', 'special_values'],
  ),
  circular: fn(
    `// Sine and cosine of |x| less a multiple of pi / 2, and the multiple.
fn circular(a: f32) -> vec3<f32> {
  let n = floor(fma(a, 0.636619747, 0.5));
  var r = a;
${halfPiParts(4, 8)
  .map((p) => `  r = fma(n, ${text(-p)}, r);`)
  .join('\n')}
  let z = r * r;
  let s = fma(r * z, ${poly('z', sinTerms)}, r);
  let c = fma(z * z, ${poly('z', cosTerms)}, fma(-0.5, z, 1.0));
  return vec3<f32>(s, c, n - 4.0 * floor(n * 0.25));
}`,
  ),
  ...unary(
    'sin',
    `if (f32_isnan(x) | f32_isinf(x)) { return bitcast<f32>(nan_bits); }
  let p = circular(abs(x));
  let y = select(p.x, p.y, (p.z == 1.0) | (p.z == 3.0));
  return bitcast<f32>(bitcast<u32>(select(y, -y, p.z >= 2.0)) ^ (${signed}));`,
    ['f32_isinf', 'circular', 'special_values'],
  ),
  ...unary(
    'cos',
    `if (f32_isnan(x) | f32_isinf(x)) { return bitcast<f32>(nan_bits); }
  let p = circular(abs(x));
  let y = select(p.y, p.x, (p.z == 1.0) | (p.z == 3.0));
  return select(y, -y, (p.z == 1.0) | (p.z == 2.0));`,
    ['f32_isinf', 'circular', 'special_values'],
  ),
  ...unary(
    'tan',
    `if (f32_isnan(x) | f32_isinf(x)) { return bitcast<f32>(nan_bits); }
  let p = circular(abs(x));
  let odd = (p.z == 1.0) | (p.z == 3.0);
  let y = select(p.x, -p.y, odd) / select(p.y, p.x, odd);
  return bitcast<f32>(bitcast<u32>(y) ^ (${signed}));`,
    ['f32_isinf', 'circular', 'special_values'],
  ),
  exact_product: fn(
    `// a * b as a float and what it lacks (T. J. Dekker, 1971; the halves are cut off by bits).
fn exact_product(a: f32, b: f32) -> vec2<f32> {
  let ah = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
  let bh = bitcast<f32>(bitcast<u32>(b) & 0xfffff000u);
  let al = a - ah;
  let bl = b - bh;
  let p = a * b;
  return vec2<f32>(p, (((ah * bh - p) + ah * bl) + al * bh) + al * bl);
}`,
  ),
  f32_pow: fn(
    `// 2^(y log2 x), the logarithm and the product in two floats each.
fn f32_pow(x: f32, y: f32) -> f32 {
  if ((y == 0.0) | (x == 1.0)) { return 1.0; }
  if (f32_isnan(x) | f32_isnan(y)) { return bitcast<f32>(nan_bits); }
  let a = abs(x);
  let whole = trunc(y) == y;
  let odd = whole & (trunc(y * 0.5) != y * 0.5);
  let sign = select(0u, bitcast<u32>(x) & 0x80000000u, odd);
  if (f32_isinf(y)) {
    if (a == 1.0) { return 1.0; }
    return select(0.0, bitcast<f32>(infinity_bits), (a > 1.0) == (y > 0.0));
  }
  if ((a == 0.0) | f32_isinf(a)) {
    let grows = (a == 0.0) != (y > 0.0);
    return bitcast<f32>(sign | select(0u, infinity_bits, grows));
  }
  if ((x < 0.0) & !whole) { return bitcast<f32>(nan_bits); }
  let tiny = a < 1.17549435e-38;
  let offset = bitcast<i32>(select(a, a * 8388608.0, tiny)) - 0x3f3504f3;
  let e = f32((offset >> 23u) - select(0, 23, tiny));
  let m = bitcast<f32>((offset & 0x7fffff) + 0x3f3504f3);
  // s = (m - 1) / (m + 1) in two floats; log m = 2 s + s^3 (2/3 + 2/5 s^2 + ...).
  let f = m - 1.0;
  let g = m + 1.0;
  let s = f / g;
  let sm = exact_product(s, m);
  let s_rest = (((f - sm.x) - s) - sm.y) / g;
  let z = s * s;
  let tail = s * z * fma(z, fma(z, fma(z, 0.2222222, 0.28571430), 0.4), 0.6666667);
  let high = 2.0 * s;
  let low = 2.0 * s_rest + tail;
  // log2 x = e + (high + low) log2(e), log2(e) = 1.44269502 + 1.9259630e-8.
  let scaled = exact_product(high, 1.44269502);
  let scaled_rest = scaled.y + (high * 1.925963e-8 + low * 1.44269502);
  let l = e + scaled.x;
  let l_back = l - e;
  let l_rest = ((e - (l - l_back)) + (scaled.x - l_back)) + scaled_rest;
  let t = exact_product(l, y);
  if (t.x > 200.0) { return bitcast<f32>(sign | infinity_bits); }
  if (t.x < -200.0) { return bitcast<f32>(sign); }
  let n = floor(t.x + 0.5);
  let r = ((t.x - n) + (t.y + l_rest * y)) * 0.69314718;
  let p = 1.0 + fma(r * r, ${poly('r', expm1Terms)}, r);
  let half = i32(n) / 2;
  let result = p * power_of_two(clamp(half, -126, 127)) * power_of_two(clamp(i32(n) - half, -126, 127));
  return bitcast<f32>(bitcast<u32>(result) | sign);
}`,
    ['f32_isnan', 'f32_isinf', 'exact_product', 'power_of_two', 'special_values'],
  ),
  f32_rem: fn(
    `// Exact remainder with the dividend's sign, by shift and subtract of the mantissas.
fn f32_rem(x: f32, y: f32) -> f32 {
  let a = bitcast<u32>(x) & 0x7fffffffu;
  let b = bitcast<u32>(y) & 0x7fffffffu;
  if ((b == 0u) | (a >= 0x7f800000u) | (b > 0x7f800000u)) { return bitcast<f32>(nan_bits); }
  if (a < b) { return x; }
  let sign = bitcast<u32>(x) & 0x80000000u;
  var ea = i32(a >> 23u);
  var eb = i32(b >> 23u);
  var ma = (a & 0x7fffffu) | 0x800000u;
  var mb = (b & 0x7fffffu) | 0x800000u;
  if (ea == 0) { let n = countLeadingZeros(a) - 8u; ma = a << n; ea = 1 - i32(n); }
  if (eb == 0) { let n = countLeadingZeros(b) - 8u; mb = b << n; eb = 1 - i32(n); }
  for (; ea > eb; ea--) {
    if (ma >= mb) { ma -= mb; }
    ma = ma << 1u;
  }
  if (ma >= mb) { ma -= mb; }
  if (ma == 0u) { return bitcast<f32>(sign); }
  let n = countLeadingZeros(ma) - 8u;
  let e = eb - i32(n);
  if (e > 0) { return bitcast<f32>(sign | (u32(e) << 23u) | ((ma << n) & 0x7fffffu)); }
  return bitcast<f32>(sign | (ma << u32(eb - 1)));
}`,
    ['special_values'],
  ),
}
