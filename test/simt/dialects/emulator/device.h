// CUDA on the host, for tests: a fiber a thread of the block, barriers for blocks and warps, and plain code for the instructions that
// the printed sources reach through inline assembly.
#include <cmath>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
using std::signbit;
// What runs most often; the kernels themselves are compiled for a short compilation.
#pragma GCC push_options
#pragma GCC optimize("O2")
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __restrict__
#define __shared__ static
#define __align__(x) __attribute__((aligned(x)))

struct Index { int x, y; };
static volatile struct { int z; } gridDim = {1};

// A product in the background; of its results, those that become zero before.
struct Multiplication {
  void (*run)(float*, const void*, const unsigned short*, int, int, int);
  float* c;
  const void* a;
  const unsigned short* b;
  int b_panel, b_width, a_width, zeros;
};
const int most_multiplications = 128, most_groups = 8;

// A thread: it runs until it waits for what is no longer `seen` at `awaited`; one that is `late` goes on when no other can.
struct Fiber {
  Index thread, block;
  int rank;
  bool late, done;
  const short* awaited;
  short seen;
  jmp_buf at;
  Multiplication multiplications[most_multiplications];
  int begun, groups[most_groups], committed;
};
static Fiber* current;
#define threadIdx current->thread
#define blockIdx current->block
#define block_rank current->rank
static jmp_buf scheduler;
static __attribute__((noinline)) void give_way() {
  if (_setjmp(current->at) == 0) _longjmp(scheduler, 1);
}
static void wait_while(const short* at, short seen) {
  current->awaited = at;
  current->seen = seen;
  if (*at == seen) give_way();
}

// Threads take turns in order of their numbers, and in the opposite order once a barrier of a block has let them go: a thread that
// writes without a barrier what another reads does so too early or too late in one of the two.
static int direction = 1;
struct Barrier { int count, arrived; short turn; };
static void arrive_and_wait(Barrier& b, bool turns) {
  if (++b.arrived < b.count) return wait_while(&b.turn, b.turn);
  b.arrived = 0;
  ++b.turn;
  if (turns) direction = -direction;
}
struct alignas(8) float2 { float x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
static float2 make_float2(float a, float b) { return {a, b}; }
static uint2 make_uint2(unsigned a, unsigned b) { return {a, b}; }
static int2 make_int2(int a, int b) { return {a, b}; }
static float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }
static uint4 make_uint4(unsigned a, unsigned b, unsigned c, unsigned d) { return {a, b, c, d}; }
static int4 make_int4(int a, int b, int c, int d) { return {a, b, c, d}; }

template <class To, class From> static To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
static float __int_as_float(int a) { return bits<float>(a); }
static float __uint_as_float(unsigned a) { return bits<float>(a); }
static int __float_as_int(float a) { return bits<int>(a); }
static unsigned __float_as_uint(float a) { return bits<unsigned>(a); }
static double __longlong_as_double(long long a) { return bits<double>(a); }
static long long __double_as_longlong(double a) { return bits<long long>(a); }
static float __fadd_rn(float a, float b) { return a + b; }
static float __fsub_rn(float a, float b) { return a - b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fdiv_rn(float a, float b) { return a / b; }
static double __dadd_rn(double a, double b) { return a + b; }
static double __dsub_rn(double a, double b) { return a - b; }
static double __dmul_rn(double a, double b) { return a * b; }
static double __ddiv_rn(double a, double b) { return a / b; }
static float rsqrtf(float a) { return 1 / sqrtf(a); }
static double rsqrt(double a) { return 1 / sqrt(a); }

// Conversions truncate and saturate.
template <class To, class From> static To truncated(From a, From least, From beyond, To low, To high) {
  if (a != a) return 0;
  if (a <= least) return low;
  return a >= beyond ? high : (To)a;
}
static int __float2int_rz(float a) { return truncated<int>(a, -2147483648.f, 2147483648.f, INT32_MIN, INT32_MAX); }
static int __double2int_rz(double a) { return truncated<int>(a, -2147483648., 2147483648., INT32_MIN, INT32_MAX); }
static unsigned __float2uint_rz(float a) { return truncated<unsigned>(a, 0.f, 4294967296.f, 0, UINT32_MAX); }
static unsigned __double2uint_rz(double a) { return truncated<unsigned>(a, 0., 4294967296., 0, UINT32_MAX); }
static long long __float2ll_rz(float a) { return truncated<long long>(a, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX); }
static long long __double2ll_rz(double a) { return truncated<long long>(a, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX); }
static unsigned long long __float2ull_rz(float a) {
  return truncated<unsigned long long>(a, 0.f, 0x1p64f, 0, UINT64_MAX);
}
static unsigned long long __double2ull_rz(double a) {
  return truncated<unsigned long long>(a, 0., 0x1p64, 0, UINT64_MAX);
}
static unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
  n &= 31;
  return n == 0 ? high : (high << n) | (low >> (32 - n));
}
static int i8_at_0(unsigned word) { return (int8_t)word; }
static int i8_at_1(unsigned word) { return (int8_t)(word >> 8); }
static int i8_at_2(unsigned word) { return (int8_t)(word >> 16); }
static int i8_at_3(unsigned word) { return (int8_t)(word >> 24); }
static unsigned atomicAnd(unsigned* p, unsigned v) {
  const unsigned old = *p;
  *p = old & v;
  return old;
}
static unsigned atomicOr(unsigned* p, unsigned v) {
  const unsigned old = *p;
  *p = old | v;
  return old;
}

static int block_warps;
static Barrier block_barriers[8], warp_barriers[256], cluster_barrier;
static void __syncthreads() { arrive_and_wait(block_barriers[block_rank], true); }
static int warp() { return block_rank * block_warps + threadIdx.x / 32; }
static int lane() { return threadIdx.x % 32; }
static void sync_warp() { arrive_and_wait(warp_barriers[warp()], false); }

static uint64_t exchanged[256][32];
template <class V> static V __shfl_xor_sync(unsigned, V value, int mask) {
  memcpy(&exchanged[warp()][lane()], &value, sizeof value);
  sync_warp();
  V other;
  memcpy(&other, &exchanged[warp()][lane() ^ mask], sizeof other);
  sync_warp();
  return other;
}

static unsigned turned_halves(unsigned word) {
  uint64_t* const words = exchanged[warp()];
  words[lane()] = word;
  sync_warp();
  const int row = lane() / 4, column = lane() % 4 * 2;
  unsigned out = 0;
  for (int i = 0; i < 2; i++) out |= ((unsigned)words[(column + i) * 4 + row / 2] >> row % 2 * 16 & 0xffff) << 16 * i;
  sync_warp();
  return out;
}

template <class V, class F> static V reduce_warp(V value, F fold) {
  for (int mask = 16; mask > 0; mask /= 2) value = fold(value, __shfl_xor_sync(0xffffffffu, value, mask));
  return value;
}
template <class V> static V __reduce_max_sync(unsigned, V value) {
  return reduce_warp(value, [](V a, V b) { return a > b ? a : b; });
}
template <class V> static V __reduce_min_sync(unsigned, V value) {
  return reduce_warp(value, [](V a, V b) { return a < b ? a : b; });
}
template <class V> static V __reduce_add_sync(unsigned, V value) {
  return reduce_warp(value, [](V a, V b) { return (V)((unsigned)a + (unsigned)b); });
}
static unsigned __ballot_sync(unsigned, bool holds) {
  exchanged[warp()][lane()] = holds;
  sync_warp();
  unsigned votes = 0;
  for (int i = 0; i < 32; ++i) votes |= (unsigned)exchanged[warp()][i] << i;
  sync_warp();
  return votes;
}
static void __syncwarp() { sync_warp(); }
static int __popc(unsigned a) { return __builtin_popcount(a); }
static int __any_sync(unsigned, int holds) {
  return reduce_warp(holds != 0, [](int a, int b) { return a | b; });
}

static float f32_max(float a, float b) {
  if (a != a || b != b) return NAN;
  if (a == b) return signbit(a) ? b : a;
  return a > b ? a : b;
}
static float f32_min(float a, float b) {
  if (a != a || b != b) return NAN;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}
static unsigned bf16_bits(float a) {
  const unsigned u = bits<unsigned>(a);
  return (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}
static float f16_value(unsigned h) { return (float)bits<_Float16>((unsigned short)h); }
static unsigned f16_bits(float a) { return bits<unsigned short>((_Float16)a); }
static float f32_exp2_flushed(float a) { return exp2f(a); }
static float f32_log2_flushed(float a) { return log2f(a); }
static float f32_reciprocal_flushed(float a) { return 1.0f / a; }
static unsigned bf16_pair(float a, float b) { return bf16_bits(a) | (bf16_bits(b) << 16); }
#define PAIRS(dtype, value, pair)                                                                            \
  static unsigned dtype##_pairs_add(unsigned a, unsigned b) {                                               \
    return pair(value(a & 0xffff) + value(b & 0xffff), value(a >> 16) + value(b >> 16));                    \
  }                                                                                                         \
  static unsigned dtype##_pairs_sub(unsigned a, unsigned b) {                                               \
    return pair(value(a & 0xffff) - value(b & 0xffff), value(a >> 16) - value(b >> 16));                    \
  }                                                                                                         \
  static unsigned dtype##_pairs_mul(unsigned a, unsigned b) {                                               \
    return pair(value(a & 0xffff) * value(b & 0xffff), value(a >> 16) * value(b >> 16));                    \
  }
static unsigned f16_pair(float a, float b) { return f16_bits(a) | (f16_bits(b) << 16); }
static float bf16_of_bits(unsigned h) { return __uint_as_float(h << 16); }
PAIRS(bf16, bf16_of_bits, bf16_pair)
PAIRS(f16, f16_value, f16_pair)

// Background copies happen at once.
static void copy_async(unsigned short* to, const void* from, bool there) {
  if (((uintptr_t)to | (uintptr_t)from) % 16 != 0) abort();
  if (there) memcpy(to, from, 16);
  else memset(to, 0, 16);
}
static void copy_async_word(unsigned short* to, const void* from, bool there) {
  if (((uintptr_t)to | (uintptr_t)from) % 4 != 0) abort();
  if (there) memcpy(to, from, 4);
  else memset(to, 0, 4);
}
static void copy_async_near(unsigned short* to, const void* from, bool there) { copy_async(to, from, there); }
static void copy_async_cut(unsigned short* to, const void* from, bool there, int bytes) {
  if (((uintptr_t)to | (uintptr_t)from) % 16 != 0) abort();
  memset(to, 0, 16);
  if (there) memcpy(to, from, bytes);
}
static void copy_async_near_cut(unsigned short* to, const void* from, bool there, int bytes) {
  copy_async_cut(to, from, there, bytes);
}
template <int words> static void copy_words(unsigned* to, const void* from, bool there) {
  if (((uintptr_t)to | (uintptr_t)from) % (4 * words) != 0) abort();
  if (there) memcpy(to, from, 4 * words);
  else memset(to, 0, 4 * words);
}
static void copy_words_1(unsigned* to, const void* from, bool there) { copy_words<1>(to, from, there); }
static void copy_words_2(unsigned* to, const void* from, bool there) { copy_words<2>(to, from, there); }
static void copy_words_4(unsigned* to, const void* from, bool there) { copy_words<4>(to, from, there); }
// What is asked for early can be read.
static void prefetch(const void* at) { *(volatile const char*)at; }
static void copy_commit() {}
static void copy_wait_0() {}
static void copy_wait_1() {}
static void copy_wait_2() {}

// PTX ISA, ldmatrix .m8n8.x4: lane i gives the address of row i % 8 of matrix i / 8.
static const unsigned short* rows[32][32];
static void load_four(unsigned* out, const unsigned short* row, bool transposed) {
  if ((uintptr_t)row % 16 != 0) abort();
  rows[warp()][lane()] = row;
  sync_warp();
  const int group = lane() >> 2, pair = (lane() & 3) * 2;
  for (int q = 0; q < 4; ++q) {
    const unsigned short* const* m = rows[warp()] + 8 * q;
    const unsigned low = transposed ? m[pair][group] : m[group][pair];
    const unsigned high = transposed ? m[pair + 1][group] : m[group][pair + 1];
    out[q] = low | (high << 16);
  }
  sync_warp();
}
static void load_matrices(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const unsigned short* row) {
  unsigned o[4];
  load_four(o, row, false);
  a = o[0], b = o[1], c = o[2], d = o[3];
}
static void load_matrices_transposed(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const unsigned short* row) {
  unsigned o[4];
  load_four(o, row, true);
  a = o[0], b = o[1], c = o[2], d = o[3];
}

// PTX ISA, mma.m16n8k16 with 16-bit operands: which lane and register hold an element.
static unsigned fragments[32][32][6];
template <class Value>
static void multiply(float** c, const unsigned (&registers)[6], Value value) {
  memcpy(fragments[warp()][lane()], registers, sizeof registers);
  sync_warp();
  for (int i = 0; i < 4; ++i) {
    const int row = (lane() >> 2) + 8 * (i >> 1), column = 2 * (lane() & 3) + (i & 1);
    float sum = *c[i];
    for (int k = 0; k < 16; ++k) {
      const unsigned a = fragments[warp()][(row % 8) * 4 + (k % 8) / 2][(k < 8 ? 0 : 2) + (row >= 8 ? 1 : 0)];
      const unsigned b = fragments[warp()][column * 4 + (k % 8) / 2][4 + (k < 8 ? 0 : 1)];
      const int shift = 16 * (k & 1);
      sum += value((a >> shift) & 0xffff) * value((b >> shift) & 0xffff);
    }
    *c[i] = sum;
  }
  sync_warp();
}
#define MULTIPLY(name, value)                                                                                          \
  static void name(float& c0, float& c1, float& c2, float& c3, unsigned a0, unsigned a1, unsigned a2, unsigned a3,     \
                   unsigned b0, unsigned b1) {                                                                         \
    float* c[4] = {&c0, &c1, &c2, &c3};                                                                                \
    multiply(c, {a0, a1, a2, a3, b0, b1}, value);                                                                      \
  }
// PTX ISA, mma.m16n8k8 with operands of tf32: the unit does not look at the lower 13 bits.
static float tf32_value(unsigned w) { return __uint_as_float(w & 0xffffe000u); }
static unsigned tf32_bits(float a) { return (__float_as_uint(a) + 0x1000u) & 0xffffe000u; }
static float truncated(double x) {
  const float y = (float)x;
  if (!(fabs((double)y) < HUGE_VAL) || fabs((double)y) <= fabs(x)) return y;
  return __uint_as_float(__float_as_uint(y) - 1);
}
// The unit sums an instruction's products with the accumulator, and truncates.
static void multiply_tf32(float& c0, float& c1, float& c2, float& c3, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                          unsigned b0, unsigned b1) {
  float* c[4] = {&c0, &c1, &c2, &c3};
  const unsigned registers[6] = {a0, a1, a2, a3, b0, b1};
  memcpy(fragments[warp()][lane()], registers, sizeof registers);
  sync_warp();
  for (int i = 0; i < 4; ++i) {
    const int row = (lane() >> 2) + 8 * (i >> 1), column = 2 * (lane() & 3) + (i & 1);
    double sum = *c[i];
    for (int k = 0; k < 8; ++k)
      sum += (double)tf32_value(fragments[warp()][(row % 8) * 4 + k % 4][(k < 4 ? 0 : 2) + (row >= 8 ? 1 : 0)]) *
             tf32_value(fragments[warp()][column * 4 + k % 4][4 + (k < 4 ? 0 : 1)]);
    *c[i] = truncated(sum);
  }
  sync_warp();
}
MULTIPLY(multiply_bf16, [](unsigned h) { return __uint_as_float(h << 16); })
MULTIPLY(multiply_f16, [](unsigned h) { return f16_value(h); })

// PTX ISA, wgmma.m64nNk16: warp w of a group has rows 16 w to 16 w + 15. Tiles are panels of `width` elements a row, 128, 64 or 32 bytes, whose 16-byte
// pieces are permuted by the 128 bytes they are in; `panel` bytes from one panel to the next where rows or columns are side by side.
static unsigned tile_element(const unsigned short* tile, int row, int k, bool transposed, int panel, int width) {
  uintptr_t at = (uintptr_t)tile;
  at += transposed ? row / width * (uintptr_t)panel + k * 2 * width + row % width * 2 : row * 2 * width + k * 2;
  at ^= ((at >> 7) & (width / 8 - 1)) << 4;
  return *(const unsigned short*)at;
}
static void begin_group(Multiplication m) {
  if (current->begun == most_multiplications) abort();
  current->multiplications[current->begun++] = m;
}
template <int columns, bool m_last, bool n_last, class Value>
static void multiply_group(float* c, const unsigned short* a, const unsigned short* b, int b_panel, int b_width, int a_width,
                           Value value) {
  for (int i = 0; i < columns / 2; ++i) {
    const int half = i / (columns / 4), pair = i % (columns / 4);
    const int row = warp() % 4 * 16 + half * 8 + lane() / 4, column = pair / 2 * 8 + lane() % 4 * 2 + pair % 2;
    for (int k = 0; k < 16; ++k)
      c[i] += value(tile_element(a, row, k, m_last, 16, a_width)) *
              value(tile_element(b, column, k, n_last, b_panel, b_width));
  }
}
// The same with rows in registers: of each warp the fragment of a 16 x 16 tile.
template <int columns, bool n_last, class Value>
static void multiply_group_of_registers(float* c, const unsigned* a, const unsigned short* b, int b_panel, int b_width,
                                        Value value) {
  memcpy(fragments[warp()][lane()], a, 4 * sizeof *a);
  sync_warp();
  for (int i = 0; i < columns / 2; ++i) {
    const int half = i / (columns / 4), pair = i % (columns / 4);
    const int row = lane() / 4, column = pair / 2 * 8 + lane() % 4 * 2 + pair % 2;
    for (int k = 0; k < 16; ++k) {
      const unsigned word = fragments[warp()][row * 4 + k % 8 / 2][(k < 8 ? 0 : 2) + half];
      c[i] += value((word >> (16 * (k & 1))) & 0xffff) * value(tile_element(b, column, k, n_last, b_panel, b_width));
    }
  }
  sync_warp();
}
// They happen when they are waited for: what is read of their results before, or changed of their operands, shows.
#define MULTIPLIED(name) \
  static void multiplied_group_##name(float* c, const void* a, const unsigned short* b, int b_panel, int b_width, int a_width)
#define MULTIPLY_GROUP_OF_REGISTERS(dtype, n, order, n_last)                                             \
  MULTIPLIED(dtype##_##n##_##order) {                                                                    \
    multiply_group_of_registers<n, n_last>(c, (const unsigned*)a, b, b_panel, b_width,                   \
                                           [](unsigned h) { return dtype##_value(h); });                 \
  }                                                                                                      \
  BEGIN_GROUP(dtype##_##n##_##order, n, (float* c, const unsigned* a, const unsigned short* b, int b_at, \
                                         int b_panel, int b_width = 64, int a_width = 64), a)
#define MULTIPLY_GROUP(dtype, n, order, m_last, n_last)                                                       \
  MULTIPLIED(dtype##_##n##_##order) {                                                                         \
    multiply_group<n, m_last, n_last>(c, (const unsigned short*)a, b, b_panel, b_width, a_width,              \
                                      [](unsigned h) { return dtype##_value(h); });                           \
  }                                                                                                           \
  BEGIN_GROUP(dtype##_##n##_##order, n, (float* c, const unsigned short* a, int a_at, const unsigned short* b, \
                                         int b_at, int b_panel, int b_width = 64, int a_width = 64), a + a_at)
#define BEGIN_GROUP(name, n, params, rows)                                                    \
  static void multiply_group_##name params {                                                  \
    begin_group({multiplied_group_##name, c, rows, b + b_at, b_panel, b_width, a_width, 0});   \
  }                                                                                           \
  static void multiply_group_##name##_begin params {                                          \
    begin_group({multiplied_group_##name, c, rows, b + b_at, b_panel, b_width, a_width, n / 2}); \
  }
#define MULTIPLY_GROUPS(dtype, n)                                                                                      \
  MULTIPLY_GROUP(dtype, n, kk, false, false)                                                                           \
  MULTIPLY_GROUP(dtype, n, kn, false, true)                                                                            \
  MULTIPLY_GROUP(dtype, n, mk, true, false)                                                                            \
  MULTIPLY_GROUP(dtype, n, mn, true, true)                                                                             \
  MULTIPLY_GROUP_OF_REGISTERS(dtype, n, rk, false)                                                                     \
  MULTIPLY_GROUP_OF_REGISTERS(dtype, n, rn, true)
static float bf16_value(unsigned h) { return __uint_as_float(h << 16); }
// The same in 8 words of the depth.
template <int columns> static void multiply_group_tf32(float* c, const unsigned short* a, const unsigned short* b) {
  const auto element = [](const unsigned short* tile, int row, int k) {
    return tf32_value(tile_element(tile, row, 2 * k, false, 0, 64) |
                      (tile_element(tile, row, 2 * k + 1, false, 0, 64) << 16));
  };
  for (int i = 0; i < columns / 2; ++i) {
    const int half = i / (columns / 4), pair = i % (columns / 4);
    const int row = warp() % 4 * 16 + half * 8 + lane() / 4, column = pair / 2 * 8 + lane() % 4 * 2 + pair % 2;
    for (int k = 0; k < 8; ++k) c[i] += element(a, row, k) * element(b, column, k);
  }
}
#define MULTIPLY_GROUP_TF32(n)                                                                                         \
  static void multiply_group_tf32_##n##_kk(float* c, const unsigned short* a, int a_at, const unsigned short* b,       \
                                           int b_at, int) {                                                            \
    multiply_group_tf32<n>(c, a + a_at, b + b_at);                                                                     \
  }
MULTIPLY_GROUP_TF32(64)
MULTIPLY_GROUP_TF32(128)
MULTIPLY_GROUP_TF32(192)
MULTIPLY_GROUP_TF32(256)
// The rows of a warp from its lanes' registers, as fragments of mma.m16n8k8.
template <int columns>
static void multiply_rows_tf32(bool begin, float* c, const unsigned (&a)[4], const unsigned short* b) {
  memcpy(fragments[warp()][lane()], a, sizeof a);
  sync_warp();
  for (int i = 0; i < columns / 2; ++i) {
    const int half = i / (columns / 4), pair = i % (columns / 4);
    const int column = pair / 2 * 8 + lane() % 4 * 2 + pair % 2;
    double sum = begin ? 0 : c[i];
    for (int k = 0; k < 8; ++k) {
      const unsigned w = tile_element(b, column, 2 * k, false, 0, 64) | (tile_element(b, column, 2 * k + 1, false, 0, 64) << 16);
      sum += (double)tf32_value(fragments[warp()][lane() / 4 * 4 + k % 4][(k < 4 ? 0 : 2) + half]) * tf32_value(w);
    }
    c[i] = truncated(sum);
  }
  sync_warp();
}
#define MULTIPLY_ROWS_TF32(n, name, begin)                                                                             \
  static void name(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, const unsigned short* b) {            \
    multiply_rows_tf32<n>(begin, c, {a0, a1, a2, a3}, b);                                                              \
  }
MULTIPLY_ROWS_TF32(64, multiply_rows_tf32_64, false)
MULTIPLY_ROWS_TF32(64, multiply_rows_tf32_64_begin, true)
MULTIPLY_ROWS_TF32(128, multiply_rows_tf32_128, false)
MULTIPLY_ROWS_TF32(128, multiply_rows_tf32_128_begin, true)
static void keep_8(const unsigned*) {}
static void keep_16(const unsigned*) {}
static void keep_32(const unsigned*) {}
MULTIPLY_GROUPS(bf16, 16)
MULTIPLY_GROUPS(bf16, 32)
MULTIPLY_GROUPS(bf16, 48)
MULTIPLY_GROUPS(bf16, 64)
MULTIPLY_GROUPS(bf16, 80)
MULTIPLY_GROUPS(bf16, 96)
MULTIPLY_GROUPS(bf16, 128)
MULTIPLY_GROUPS(bf16, 192)
MULTIPLY_GROUPS(bf16, 256)
MULTIPLY_GROUPS(f16, 16)
MULTIPLY_GROUPS(f16, 32)
MULTIPLY_GROUPS(f16, 48)
MULTIPLY_GROUPS(f16, 64)
MULTIPLY_GROUPS(f16, 80)
MULTIPLY_GROUPS(f16, 96)
MULTIPLY_GROUPS(f16, 128)
MULTIPLY_GROUPS(f16, 192)
MULTIPLY_GROUPS(f16, 256)
static void hold_8(float*) {}
static void hold_16(float*) {}
static void hold_24(float*) {}
static void hold_32(float*) {}
static void hold_40(float*) {}
static void hold_48(float*) {}
static void hold_64(float*) {}
static void hold_96(float*) {}
static void hold_128(float*) {}
static int warp_group() { return (int)threadIdx.x >> 7; }
static void group_begin() {}
static void group_commit() {
  if (current->committed == most_groups) abort();
  current->groups[current->committed++] = current->begun;
}
static void group_wait_but(int later) {
  Fiber& f = *current;
  if (f.committed <= later) return;
  const int count = f.groups[f.committed - 1 - later];
  for (int i = 0; i < count; ++i) {
    const Multiplication& m = f.multiplications[i];
    for (int z = 0; z < m.zeros; ++z) m.c[z] = 0;
    m.run(m.c, m.a, m.b, m.b_panel, m.b_width, m.a_width);
  }
  for (int i = count; i < f.begun; ++i) f.multiplications[i - count] = f.multiplications[i];
  f.begun -= count;
  for (int i = 0; i < later; ++i) f.groups[i] = f.groups[f.committed - later + i] - count;
  f.committed = later;
}
static void group_wait() { group_wait_but(0); }
static void group_wait_1() { group_wait_but(1); }
static void group_wait_2() { group_wait_but(2); }
static void group_wait_3() { group_wait_but(3); }
static void tile_written() {}

static unsigned char shared_memories[8][1 << 18] __attribute__((aligned(1024)));

// Blocks of a cluster: all are under way, and a push lands at once.
static void cluster_arrive() {}
static void cluster_release() {}
static void cluster_wait() { arrive_and_wait(cluster_barrier, true); }
struct Meeting { int bytes; short pending, phase; };
static Meeting& meeting_at(const void* at, int rank) {
  return *(Meeting*)(shared_memories[rank] + ((const unsigned char*)at - shared_memories[block_rank]));
}
static void settle(Meeting& m) {
  if (m.bytes != 0 || m.pending != 0) return;
  m.pending = 1;
  m.phase ^= 1;
}
static void meeting_open(unsigned long long* at) { meeting_at(at, block_rank) = {0, 1, 0}; }
static void meeting_expect(unsigned long long* at, int bytes) {
  Meeting& m = meeting_at(at, block_rank);
  m.bytes += bytes;
  m.pending -= 1;
  settle(m);
}
// The first block reads late, so that what others push too early shows.
static void meeting_wait(unsigned long long* at, int parity) {
  wait_while(&meeting_at(at, block_rank).phase, parity);
  current->late = block_rank == 0;
  if (current->late) give_way();
}
// Meetings of the threads of a block that have two ends.
struct Halfway { int threads; short pending, phase; };
static void halfway_open(unsigned long long* at, int threads) { *(Halfway*)at = {threads, (short)threads, 0}; }
static void halfway_arrive(unsigned long long* at) {
  Halfway& m = *(Halfway*)at;
  if (--m.pending > 0) return;
  m.pending = (short)m.threads;
  m.phase ^= 1;
}
static void halfway_wait(unsigned long long* at, int parity) { wait_while(&((Halfway*)at)->phase, parity); }
template <class V> static void push_value(V* at, V value, unsigned long long* meeting, int rank) {
  memcpy(shared_memories[rank] + ((unsigned char*)at - shared_memories[block_rank]), &value, sizeof value);
  Meeting& m = meeting_at(meeting, rank);
  m.bytes -= sizeof value;
  settle(m);
}
#define push_f32 push_value<float>
#define push_f64 push_value<double>
#define push_i32 push_value<int>
#define push_u32 push_value<unsigned>
#define push_i64 push_value<long long>
#define push_u64 push_value<unsigned long long>

// A file in memory of whole 64-byte lines, junk behind its end and nothing beyond: no access goes further.
// So many bytes of zeros, few of which will ever have memory; nothing may touch what lies up to 64 GiB before and behind.
static unsigned char* sparse(size_t bytes) {
  const size_t page = sysconf(_SC_PAGESIZE), room = (bytes / page + 1) * page, far = (size_t)64 << 30;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  unsigned char* all = (unsigned char*)mmap(nullptr, room + 2 * far, PROT_NONE, flags, -1, 0);
  if (all == MAP_FAILED || mprotect(all + far, room, PROT_READ | PROT_WRITE) != 0) abort();
  return all + far;
}

static unsigned char* read_file(const char* name, long& size) {
  FILE* f = fopen(name, "rb");
  fseek(f, 0, SEEK_END);
  size = ftell(f);
  rewind(f);
  const size_t page = sysconf(_SC_PAGESIZE), room = (size / 64 + 1) * 64, pages = (room / page + 1) * page;
  unsigned char* all = (unsigned char*)mmap(nullptr, pages + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED || mprotect(all + page, pages, PROT_READ | PROT_WRITE) != 0) abort();
  unsigned char* p = all + page + pages - room;
  memset(p, 0x7f, room);
  if (fread(p, 1, size, f) != (size_t)size) abort();
  fclose(f);
  return p;
}

static long long launched_programs;
static int launched_cluster;
// Programs in a row of the grid, and those to run; all unless there is a list.
static long long row_programs = 0x7fffffff;
static const long long* chosen;
static long long chosen_count;
static void (*launched)();
static void fiber_main() {
  const long long count = chosen == nullptr ? launched_programs : chosen_count;
  for (long long i = 0; i < count; ++i) {
    const long long p = chosen == nullptr ? i : chosen[i];
    blockIdx.x = p % row_programs * launched_cluster + block_rank;
    blockIdx.y = p / row_programs;
    launched();
    arrive_and_wait(cluster_barrier, true);
  }
  current->done = true;
  _longjmp(scheduler, 1);
}

// The next thread that can go on, from a place on.
static int next_fiber(const Fiber* team, int count, int from) {
  int late = -1;
  for (int i = 1; i <= count; ++i) {
    const int at = (from + (direction * i) % count + count) % count;
    const Fiber& f = team[at];
    if (f.done || (f.awaited != nullptr && *f.awaited == f.seen)) continue;
    if (!f.late) return at;
    if (late < 0) late = at;
  }
  return late;
}

// Runs the clusters of a grid one after another on a team of fibers.
static void launch(long long programs, int cluster, int threads, void (*kernel)()) {
  const int count = cluster * threads;
  launched = kernel;
  launched_programs = programs;
  launched_cluster = cluster;
  block_warps = threads / 32;
  cluster_barrier.count = count;
  for (int i = 0; i < cluster; ++i) block_barriers[i].count = threads;
  for (int i = 0; i < cluster * block_warps; ++i) warp_barriers[i].count = 32;
  // A page that nothing may touch below each stack.
  const size_t stack = 1 << 20, page = sysconf(_SC_PAGESIZE);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  char* stacks = (char*)mmap(nullptr, count * stack, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (stacks == MAP_FAILED) abort();
  Fiber* team = (Fiber*)calloc(count, sizeof(Fiber));
  // A fiber begins in a context of its own; from its first wait on it is left and entered by jumps.
  static ucontext_t from, begun;
  bool* started = (bool*)calloc(count, 1);
  volatile int at = count / 2, left = count;
  while (left > 0) {
    const int next = next_fiber(team, count, at);
    if (next < 0) {
      fprintf(stderr, "all threads wait\n");
      abort();
    }
    at = next;
    current = team + next;
    current->late = false;
    current->awaited = nullptr;
    if (_setjmp(scheduler) == 0) {
      if (started[next]) _longjmp(current->at, 1);
      started[next] = true;
      current->thread.x = next % threads;
      current->rank = next / threads;
      char* low = stacks + next * stack;
      if (mprotect(low, page, PROT_NONE) != 0) abort();
      getcontext(&begun);
      begun.uc_stack.ss_sp = low;
      begun.uc_stack.ss_size = stack;
      begun.uc_link = nullptr;
      makecontext(&begun, fiber_main, 0);
      swapcontext(&from, &begun);
    }
    if (current->done) left = left - 1;
  }
}
#pragma GCC pop_options
