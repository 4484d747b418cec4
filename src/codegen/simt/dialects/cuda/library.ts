/** Functions that CUDA code calls: what the language has under another name, and what docs/numerics.md asks beyond it. */

import { formulaLibrary } from '../shared/formulas.ts'
import { fn, type Inline, type Library } from '../shared/print.ts'
import { randomLibrary } from '../shared/randomLibrary.ts'
import { cudaCluster } from './cluster.ts'
import { cudaCoarse } from './coarse.ts'
import { device } from './function.ts'
import { cudaGroups } from './groups.ts'
import { cudaHalfway } from './halfway.ts'

const mathNames = [
  'floor',
  'ceil',
  'trunc',
  'sqrt',
  'rsqrt',
  'exp',
  'expm1',
  'log',
  'log1p',
  'sin',
  'cos',
  'tan',
  'asin',
  'acos',
  'atan',
  'sinh',
  'cosh',
  'tanh',
  'asinh',
  'acosh',
  'atanh',
  'erf',
  'pow',
  'atan2',
] as const

const math = Object.fromEntries(
  mathNames.flatMap((n) => [
    [`f32_${n}`, `${n}f`],
    [`f64_${n}`, n],
  ]),
)

export const cudaInline: Inline = {
  ...math,
  f32_log_normal: 'logf',
  f32_abs: 'fabsf',
  f64_abs: 'fabs',
  f32_fma: 'fmaf',
  f32_round: 'rintf',
  f64_round: 'rint',
  f32_rem: 'fmodf',
  f64_rem: 'fmod',
  f64_div: '__ddiv_rn',
  ...Object.fromEntries(
    (['i32', 'u32'] as const).flatMap((t) =>
      (
        [
          ['max', 'max'],
          ['min', 'min'],
          ['sum', 'add'],
        ] as const
      ).map(([name, op]) => [`${t}_lanes_${name}`, (a?: string) => `__reduce_${op}_sync(0xffffffffu, ${a})`]),
    ),
  ),
  lanes_vote: (a) => `__ballot_sync(0xffffffffu, ${a})`,
  lanes_meet: '__syncwarp',
  u32_ones: '__popc',
  f32_to_i32: '__float2int_rz',
  f32_to_u32: '__float2uint_rz',
}

const integers = (t: 'int' | 'unsigned' | 'long long' | 'unsigned long long', p: string): Library => {
  const signed = t === 'int' || t === 'long long'
  const u = t === 'int' ? 'unsigned' : t === 'long long' ? 'unsigned long long' : t
  const bits = t.includes('long') ? 64 : 32
  const wrap = (op: string): string => `return (${t})((${u})a ${op} (${u})b);`
  const head = (name: string): string => `${t} ${p}_${name}(${t} a, ${t} b)`
  const one = (name: string): string => `${t} ${p}_${name}(${t} a)`
  return {
    [`${p}_add`]: device(head('add'), wrap('+')),
    [`${p}_sub`]: device(head('sub'), wrap('-')),
    [`${p}_mul`]: device(head('mul'), wrap('*')),
    [`${p}_abs`]: device(one('abs'), signed ? `return a < 0 ? (${t})(0 - (${u})a) : a;` : 'return a;'),
    [`${p}_sign`]: device(one('sign'), signed ? 'return (a > 0) - (a < 0);' : 'return a != 0;'),
    [`${p}_max`]: device(head('max'), 'return a > b ? a : b;'),
    [`${p}_min`]: device(head('min'), 'return a < b ? a : b;'),
    [`${p}_div`]: device(head('div'), `return b == 0 ? 0 : ${signed ? `b == -1 ? (${t})(0 - (${u})a) : ` : ''}a / b;`),
    [`${p}_rem`]: device(head('rem'), `return b == 0 ? a : ${signed ? 'b == -1 ? 0 : ' : ''}a % b;`),
    [`${p}_pow`]: device(
      head('pow'),
      `${signed ? `if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) ? -1 : 1) : 0;\n  ` : ''}${u} r = 1, s = (${u})a;\n  for (${u} e = (${u})b; e != 0; e >>= 1) {\n    if (e & 1) r *= s;\n    s *= s;\n  }\n  return (${t})r;`,
    ),
    [`${p}_shl`]: device(head('shl'), `return (${u})b < ${bits} ? (${t})((${u})a << (${u})b) : 0;`),
    [`${p}_shr`]: device(
      head('shr'),
      signed ? `return a >> ((${u})b < ${bits} ? (${u})b : ${bits - 1});` : `return b < ${bits} ? a >> b : 0;`,
    ),
    [`${p}_floor_div`]: device(head('floor_div'), 'return a / b - (a % b < 0);'),
    [`${p}_floor_mod`]: device(head('floor_mod'), `const ${t} r = a % b;\n  return r < 0 ? r + b : r;`),
  }
}

const floats = (t: 'float' | 'double', p: 'f32' | 'f64'): Library => {
  const s = t === 'float' ? 'f' : ''
  const c = (x: string): string => `${x}${s}`
  const inf = t === 'float' ? '__int_as_float(0x7f800000)' : '__longlong_as_double(0x7ff0000000000000ll)'
  const extreme = (name: 'max' | 'min', op: '>' | '<'): Library[string] =>
    t === 'float'
      ? device(
          `float f32_${name}(float a, float b)`,
          `float r;\n  asm("${name}.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));\n  return r;`,
        )
      : device(
          `double f64_${name}(double a, double b)`,
          `if (a != a) return a;\n  if (b != b) return b;\n  if (a == b) return signbit(a) ? ${name === 'max' ? 'b : a' : 'a : b'};\n  return a ${op} b ? a : b;`,
        )
  return {
    [`${p}_max`]: extreme('max', '>'),
    [`${p}_min`]: extreme('min', '<'),
    [`${p}_isnan`]: device(`bool ${p}_isnan(${t} a)`, 'return a != a;'),
    [`${p}_isinf`]: device(`bool ${p}_isinf(${t} a)`, `return fabs${s}(a) == ${inf};`),
    [`${p}_sign`]: device(
      `${t} ${p}_sign(${t} a)`,
      `return a > ${c('0.0')} ? ${c('1.0')} : a < ${c('0.0')} ? ${c('-1.0')} : a;`,
    ),
    [`${p}_sigmoid`]: device(`${t} ${p}_sigmoid(${t} a)`, `return ${c('1.0')} / (${c('1.0')} + exp${s}(-a));`),
    [`${p}_to_i64`]: device(`long long ${p}_to_i64(${t} a)`, `return a != a ? 0 : __${t}2ll_rz(a);`),
    [`${p}_to_u64`]: device(`unsigned long long ${p}_to_u64(${t} a)`, `return a > ${c('0.0')} ? __${t}2ull_rz(a) : 0;`),
  }
}

const random = randomLibrary(({ name, generator, wordBit, field }) =>
  device(
    `unsigned ${name}(unsigned k0, unsigned k1, unsigned c0, unsigned c1, unsigned at)`,
    `const uint2 words = ${generator}(k0, k1, c0, c1);\n  const unsigned word = (at & ${wordBit}) != 0u ? words.y : words.x;\n  return ${field};`,
    [generator],
  ),
)

/** Integers in the order of floats; NaN is beyond all. */
const key = (name: 'max' | 'min', nan: string): Library[string] =>
  device(
    `int f32_${name}_key(float a)`,
    `const int b = __float_as_int(a);\n  return a != a ? ${nan} : b ^ ((b >> 31) & 0x7fffffff);`,
  )

const formulas = (t: 'float' | 'double', prefix: 'f32' | 'f64'): Library => {
  const suffix = prefix === 'f32' ? 'f' : ''
  const infinity = prefix === 'f32' ? '__int_as_float(0x7f800000)' : '__longlong_as_double(0x7ff0000000000000ll)'
  const nan = prefix === 'f32' ? '__int_as_float(0x7fc00000)' : '__longlong_as_double(0x7ff8000000000000ll)'
  return formulaLibrary({
    prefix,
    literal: (x) => {
      if (Number.isNaN(x)) return nan
      if (x === Number.POSITIVE_INFINITY) return infinity
      const text = String(prefix === 'f32' ? Math.fround(x) : x)
      return `${/[.e]/.test(text) ? text : `${text}.0`}${suffix}`
    },
    constant: (name, value) => `const ${t} ${name} = ${value};`,
    names: {
      abs: `fabs${suffix}`,
      sqrt: `sqrt${suffix}`,
      round: `rint${suffix}`,
      exp: `exp${suffix}`,
      log: `log${suffix}`,
      erf: `erf${suffix}`,
      fma: `fma${suffix}`,
    },
    select: (m, a, b) => `(${m} ? ${a} : ${b})`,
    define: (name, operands, lines) =>
      device(`${t} ${name}(${operands.map((x) => `${t} ${x}`).join(', ')})`, lines.join('\n  ')).code,
    uses: [],
  })
}

/** A background copy of 16 bytes into shared memory by one of the caches; `cut`: of so many of them. */
const copyGroup = (name: string, what: string, cache: 'cg' | 'ca', cut = false): Library[string] => ({
  code: `// ${what}
__device__ __forceinline__ void ${name}(unsigned short* to, const void* from, bool there${cut ? ', int bytes' : ''}) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.${cache}.shared.global [%0], [%1], 16, %2;" :: "r"(address), "l"(from), "r"(there ? ${cut ? 'bytes' : 16} : 0) : "memory");
}`,
})

export const cudaLibrary: Library = {
  ...formulas('float', 'f32'),
  ...formulas('double', 'f64'),
  f32_max_key: key('max', '0x7fffffff'),
  f32_min_key: key('min', '(int)0x80000000'),
  f32_of_key: device('float f32_of_key(int k)', 'return __int_as_float(k ^ ((k >> 31) & 0x7fffffff));'),
  ...integers('int', 'i32'),
  ...integers('unsigned', 'u32'),
  ...integers('long long', 'i64'),
  ...integers('unsigned long long', 'u64'),
  ...floats('float', 'f32'),
  ...floats('double', 'f64'),
  f64_to_i32: device('int f64_to_i32(double a)', 'return a != a ? 0 : __double2int_rz(a);'),
  f64_to_u32: device('unsigned f64_to_u32(double a)', 'return a > 0.0 ? __double2uint_rz(a) : 0u;'),
  // The value itself, which no compiler knows: a grid has one layer, but only the launch says so.
  f32_runtime: device('float f32_runtime(float a)', 'return __int_as_float(__float_as_int(a) ^ (int)(gridDim.z - 1));'),
  f64_runtime: device(
    'double f64_runtime(double a)',
    'return __longlong_as_double(__double_as_longlong(a) ^ (long long)(gridDim.z - 1));',
  ),
  i32_runtime: device('int i32_runtime(int a)', 'return a ^ (int)(gridDim.z - 1);'),
  i64_runtime: device('long long i64_runtime(long long a)', 'return a ^ (long long)(gridDim.z - 1);'),
  ...cudaCoarse,
  // A signed byte of a word, by one permutation of bytes.
  ...Object.fromEntries(
    [0, 1, 2, 3].map((i) => [
      `i8_at_${i}`,
      device(
        `int i8_at_${i}(unsigned word)`,
        `int r;\n  asm("prmt.b32 %0, %1, 0, 0x${(0x888 + 0x111 * i).toString(16)}${i};" : "=r"(r) : "r"(word));\n  return r;`,
      ),
    ]),
  ),
  f16_value: device(
    'float f16_value(unsigned bits)',
    'float r;\n  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((unsigned short)bits));\n  return r;',
  ),
  f16_bits: device(
    'unsigned f16_bits(float a)',
    'unsigned short r;\n  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(a));\n  return r;',
  ),
  bf16_bits: device(
    'unsigned bf16_bits(float a)',
    // The conversion of two runs at the rate of arithmetic, that of one at a quarter of it.
    'unsigned r;\n  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(0.0f), "f"(a));\n  return r;',
  ),
  f16_bits_exact: device(
    'unsigned f16_bits_exact(float a)',
    'const unsigned u = __float_as_uint(a);\n  return a != a ? ((u >> 16) & 0x8000u) | 0x7c00u | ((u >> 13) & 0x3ffu) : f16_bits(a);',
    ['f16_bits'],
  ),
  bf16_bits_exact: device(
    'unsigned bf16_bits_exact(float a)',
    'return a != a ? __float_as_uint(a) >> 16 : bf16_bits(a);',
    ['bf16_bits'],
  ),
  f16_pair: device(
    'unsigned f16_pair(float low, float high)',
    'unsigned r;\n  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));\n  return r;',
  ),
  high_halves: device(
    'unsigned high_halves(float low, float high)',
    'return (__float_as_uint(low) >> 16) | (__float_as_uint(high) & 0xffff0000u);',
  ),
  bf16_pair: device(
    'unsigned bf16_pair(float low, float high)',
    'unsigned r;\n  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));\n  return r;',
  ),
  turned_halves: device(
    'unsigned turned_halves(unsigned word)',
    'unsigned r;\n  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(word));\n  return r;',
  ),
  // Words of two 16-bit floats; a difference is a + b (-1), each rounded once.
  ...Object.fromEntries(
    (
      [
        ['bf16', '0x3f803f80u', '0xbf80bf80u'],
        ['f16', '0x3c003c00u', '0xbc00bc00u'],
      ] as const
    ).flatMap(([dtype, one, minusOne]) =>
      (
        [
          ['add', '"r"(a), "r"(ONE), "r"(b)', one],
          ['sub', '"r"(b), "r"(ONE), "r"(a)', minusOne],
          ['mul', '"r"(a), "r"(b), "r"(ONE)', '0x80008000u'],
        ] as const
      ).map(([op, operands, constant]) => [
        `${dtype}_pairs_${op}`,
        device(
          `unsigned ${dtype}_pairs_${op}(unsigned a, unsigned b)`,
          `unsigned r;\n  asm("fma.rn.${dtype}x2 %0, %1, %2, %3;" : "=r"(r) : ${operands.replace('ONE', constant)});\n  return r;`,
        ),
      ]),
    ),
  ),
  // The hardware's division takes a way of a hundred instructions where the numerator is zero. 2^-22 over any finite number but zero is finite.
  f32_div: device(
    'float f32_div(float a, float b)',
    'const float q = __fdiv_rn(a == 0.0f ? 2.3841858e-7f : a, b);\n  return a == 0.0f ? a * q : q;',
  ),
  round_f16: device('float round_f16(float a)', 'return f16_value(f16_bits(a));', ['f16_bits', 'f16_value']),
  round_bf16: device('float round_bf16(float a)', 'return __uint_as_float(bf16_bits(a) << 16);', ['bf16_bits']),
  ...Object.fromEntries(
    (['', '_transposed'] as const).map((trans) => [
      `load_matrices${trans}`,
      {
        code: `// Four 8 x 8 matrices of 16-bit elements: lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices${trans}(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const unsigned short* row) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4${trans === '' ? '' : '.trans'}.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(address));
}`,
      },
    ]),
  ),
  load_run_apart: device(
    'void load_run_apart(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const unsigned short* from)',
    'const uint4 w = *(const uint4*)from;\n  a = (w.x & 0xffffu) | (w.z << 16);\n  b = (w.x >> 16) | (w.z & 0xffff0000u);\n  c = (w.y & 0xffffu) | (w.w << 16);\n  d = (w.y >> 16) | (w.w & 0xffff0000u);',
  ),
  load_run: device(
    'void load_run(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const unsigned short* from)',
    'const uint4 w = *(const uint4*)from;\n  a = w.x;\n  b = w.y;\n  c = w.z;\n  d = w.w;',
  ),
  ...Object.fromEntries(
    (['bf16', 'f16'] as const).map((t) => [
      `multiply_${t}`,
      {
        code: `// A 16 x 8 tile of the result plus a 16 x 16 tile times a 16 x 8 tile, on tensor cores.
__device__ __forceinline__ void multiply_${t}(float& c0, float& c1, float& c2, float& c3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.${t}.${t}.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}`,
      },
    ]),
  ),
  multiply_tf32: {
    code: `// A 16 x 8 tile of the result plus a 16 x 8 tile times an 8 x 8 tile, on tensor cores.
__device__ __forceinline__ void multiply_tf32(float& c0, float& c1, float& c2, float& c3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}`,
  },
  split_tf32: device(
    'void split_tf32(unsigned& high, unsigned& low, unsigned bits, float& least)',
    `// T. J. Dekker: A floating-point technique for extending the available precision (1971): the upper 11 bits, and the rest.
  const float a = __uint_as_float(bits), c = __fmul_rn(a, 8193.0f), h = __fsub_rn(c, __fsub_rn(c, a));
  high = __float_as_uint(h);
  low = __float_as_uint(__fsub_rn(a, h));
  // One less than the bits of a zero is no number, which minima pass over.
  least = fminf(least, fabsf(__uint_as_float(bits - 1u)));`,
  ),
  ...Object.fromEntries(
    (['row', 'column'] as const).map((along) => [
      `split_${along}`,
      fn(
        `// Four words of the depth, ${along === 'row' ? 'side by side' : '`apart` elements from one to the next'}, as upper and lower terms.
__device__ __forceinline__ void split_${along}(unsigned short* high, unsigned short* low, const unsigned short* from, ${along === 'row' ? '' : 'int apart, '}float& least) {
  uint4 h, l;
  ${
    along === 'row'
      ? 'const uint4 w = *(const uint4*)from;'
      : 'const uint4 w = make_uint4(tile_word(from), tile_word(from + apart), tile_word(from + 2 * apart), tile_word(from + 3 * apart));'
  }
  split_tf32(h.x, l.x, w.x, least);
  split_tf32(h.y, l.y, w.y, least);
  split_tf32(h.z, l.z, w.z, least);
  split_tf32(h.w, l.w, w.w, least);
  *(uint4*)high = h;
  *(uint4*)low = l;
}`,
        ['split_tf32', ...(along === 'row' ? [] : ['tile_word'])],
      ),
    ]),
  ),
  any_lane: device('bool any_lane(bool holds)', 'return __any_sync(0xffffffffu, holds);'),
  tile_word: device('unsigned tile_word(const unsigned short* from)', 'return *(const unsigned*)from;'),
  tf32_bits: device(
    'unsigned tf32_bits(float a)',
    'unsigned r;\n  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(a));\n  return r;',
  ),
  ...cudaGroups,
  copy_async_word: {
    code: `// Copies 4 bytes into shared memory in the background; zeros where there is nothing to copy.
__device__ __forceinline__ void copy_async_word(unsigned short* to, const float* from, bool there) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(address), "l"(from), "r"(there ? 4 : 0) : "memory");
}`,
  },
  copy_async: copyGroup(
    'copy_async',
    'Copies 16 bytes into shared memory in the background; zeros where there is nothing to copy.',
    'cg',
  ),
  copy_async_near: copyGroup(
    'copy_async_near',
    'The same through the nearest cache, which keeps what is read again.',
    'ca',
  ),
  copy_async_cut: copyGroup(
    'copy_async_cut',
    'Copies so many of 16 bytes into shared memory in the background; zeros for the others.',
    'cg',
    true,
  ),
  copy_async_near_cut: copyGroup(
    'copy_async_near_cut',
    'The same through the nearest cache, which keeps what is read again.',
    'ca',
    true,
  ),
  ...Object.fromEntries(
    [1, 2, 4].map((n) => [
      `copy_words_${n}`,
      {
        code: `// Copies ${4 * n} bytes into shared memory in the background; zeros where there is nothing to copy. Their line of memory is read whole.
__device__ __forceinline__ void copy_words_${n}(unsigned* to, const void* from, bool there) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.${n === 4 ? 'cg' : 'ca'}.shared.global.L2::128B [%0], [%1], ${4 * n}, %2;" :: "r"(address), "l"(from), "r"(there ? ${4 * n} : 0) : "memory");
}`,
      },
    ]),
  ),
  copy_commit: {
    code: `// Ends a group of background copies.
__device__ __forceinline__ void copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}`,
  },
  ...Object.fromEntries(
    [0, 1, 2].map((n) => [
      `copy_wait_${n}`,
      {
        code: `// Waits until at most ${n} groups of copies are under way.
__device__ __forceinline__ void copy_wait_${n}() {
  asm volatile("cp.async.wait_group ${n};" ::: "memory");
}`,
      },
    ]),
  ),
  member_of: {
    code: `// The last of ascending numbers, the first of them 0, that is not beyond another one.
__device__ __forceinline__ int member_of(const unsigned long long* numbers, int count, int x) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) >> 1;
    if ((int)numbers[middle] <= x) low = middle;
    else high = middle;
  }
  return low;
}`,
  },
  ...cudaCluster,
  ...cudaHalfway,
  prefetch: {
    code: `// Asks for the line of memory around an address, into the second-level cache.
__device__ __forceinline__ void prefetch(const void* at) {
  asm volatile("prefetch.global.L2 [%0];" :: "l"(at));
}`,
  },
  store_bits: {
    code: '// Replaces the bits of a mask in a word whose other bits belong to other threads.\n__device__ __forceinline__ void store_bits(unsigned* word, unsigned mask, unsigned bits) {\n  atomicAnd(word, ~mask);\n  if (bits != 0u) atomicOr(word, bits);\n}',
  },
  ...random,
  ...Object.fromEntries(
    ([13, 20] as const).map((rounds) => [
      `threefry_${rounds}`,
      {
        code: `// Threefry-2x32, ${rounds} rounds.
__device__ __forceinline__ uint2 threefry_${rounds}(unsigned k0, unsigned k1, unsigned c0, unsigned c1) {
  const unsigned k[3] = {k0, k1, 0x1bd11bdau ^ k0 ^ k1};
  const unsigned r[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  unsigned x = c0 + k0, y = c1 + k1;
  #pragma unroll
  for (unsigned i = 0; i < ${rounds}; ++i) {
    x += y;
    y = __funnelshift_l(y, y, r[i & 7]) ^ x;
    if ((i & 3) == 3) {
      const unsigned s = (i >> 2) + 1;
      x += k[s % 3];
      y += k[(s + 1) % 3] + s;
    }
  }
  return make_uint2(x, y);
}`,
      },
    ]),
  ),
}
