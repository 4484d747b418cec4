/**
 * Matrix products of warp groups in CUDA: `wgmma` of PTX ISA ("Asynchronous Warpgroup Level Matrix Instructions") from tiles in
 * shared memory, in panels of 128, 64 or 32 bytes a row, swizzled by as many (swizzle.ts). The code of a function is written when it is asked for.
 */
import type { Library, LibraryFunction } from '../shared/print.ts'

/** Columns of one instruction. */
const groupColumns = Array.from({ length: 16 }, (_, i) => 16 * (i + 1))

const lazy = (make: () => string, uses: readonly string[] = []): LibraryFunction => ({
  get code() {
    return make()
  },
  uses,
})

const list = (n: number, of: (i: number) => string): string => Array.from({ length: n }, (_, i) => of(i)).join(', ')

/**
 * `c` is what a thread holds of 64 rows: for both halves of its rows, pairs of neighbours in every 8 columns. Operands are tiles and where in them the
 * first elements at a depth stand (of an `a` in registers, its fragment): a descriptor a tile, and a constant for each depth. Transposed operands have rows or
 * columns side by side in memory, panels `b_panel` bytes apart. Rows of panels have `b_width` and `a_width` elements.
 * `begin`: what was in `c` does not count.
 */
function multiplyGroup(
  dtype: 'bf16' | 'f16' | 'tf32',
  columns: number,
  a: 'k' | 'm' | 'r',
  b: 'k' | 'n',
  begin = false,
): string {
  const depth = dtype === 'tf32' ? 8 : 16
  // Operands of 32 bits have no other order.
  const inRegisters = a === 'r'
  const orders = dtype === 'tf32' ? '' : `${inRegisters ? '' : `, ${a === 'm' ? 1 : 0}`}, ${b === 'n' ? 1 : 0}`
  const n = columns / 2
  const fragment = inRegisters ? 4 : 1
  const first = inRegisters ? `{${list(fragment, (i) => `%${n + i}`)}}` : `%${n}`
  const given = inRegisters ? list(fragment, (i) => `"r"(a[${i}])`) : '"l"(tile_descriptor(a, 16, a_at, a_width))'
  const place = (i: number): number => ((i >> 1) & 1) * (columns / 4) + (i >> 2) * 2 + (i & 1)
  return `// 64 rows by ${columns} columns of the result ${begin ? 'become' : 'plus'} a product of depth ${depth}, on the tensor cores of four warps, in the background.
__device__ __forceinline__ void multiply_group_${dtype}_${columns}_${a}${b}${begin ? '_begin' : ''}(float* c, ${inRegisters ? 'const unsigned* a' : 'const unsigned short* a, int a_at'}, const unsigned short* b, int b_at, int b_panel, int b_width = 64${inRegisters ? '' : ', int a_width = 64'}) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n${columns}k${depth}.f32.${dtype}.${dtype} {${list(n, (i) => `%${i}`)}}, ${first}, %${n + fragment}, ${begin ? 0 : 1}, 1, 1${orders};"
    : ${list(n, (i) => `"${begin ? '=' : '+'}f"(c[${place(i)}])`)}
    : ${given}, "l"(tile_descriptor(b, b_panel, b_at, b_width)));
}`
}

const rowsOf = (order: string): 'k' | 'm' | 'r' => (order.startsWith('m') ? 'm' : order.startsWith('r') ? 'r' : 'k')

/** The same where a thread holds its share of the first operand, 16 rows a warp; `begin`: what was in `c` does not count. */
function multiplyRegisters(columns: number, begin: boolean): string {
  const n = columns / 2
  const place = (i: number): number => ((i >> 1) & 1) * (columns / 4) + (i >> 2) * 2 + (i & 1)
  return `// 64 rows by ${columns} columns of the result ${begin ? 'become' : 'plus'} a product of depth 8, its rows from registers, on the tensor cores of four warps, in the background.
__device__ __forceinline__ void multiply_rows_tf32_${columns}${begin ? '_begin' : ''}(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, const unsigned short* b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n${columns}k8.f32.tf32.tf32 {${list(n, (i) => `%${i}`)}}, {%${n}, %${n + 1}, %${n + 2}, %${n + 3}}, %${n + 4}, ${begin ? 0 : 1}, 1, 1;"
    : ${list(n, (i) => `"${begin ? '=' : '+'}f"(c[${place(i)}])`)}
    : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(tile_descriptor(b, 16, 0)));
}`
}

const bothOf = <const A, const B>(a: readonly A[], b: readonly B[]): (readonly [A, B])[] =>
  a.flatMap((x) => b.map((y) => [x, y] as const))

export const cudaGroups: Library = {
  tile_descriptor: {
    code: `// A tile for tensor cores, from its element \`at\` on: rows of \`width\` elements are swizzled; panels stand \`panel\` bytes apart.
__device__ __forceinline__ unsigned long long tile_descriptor(const unsigned short* tile, int panel, int at, int width = 64) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(tile);
  const unsigned swizzle = width == 64 ? 1 : width == 32 ? 2 : 3;
  unsigned long long d;
  asm("mov.b64 %0, {%1, %2};" : "=l"(d) : "r"(((address >> 4) | ((unsigned)panel >> 4 << 16)) + ((unsigned)at >> 3)), "r"((unsigned)width | (swizzle << 30)));
  return d;
}`,
  },
  ...Object.fromEntries(
    bothOf(['bf16', 'f16'], ['kk', 'kn', 'mk', 'mn', 'rk', 'rn']).flatMap(([dtype, order]) =>
      bothOf(groupColumns, ['', '_begin']).map(([n, begin]): [string, LibraryFunction] => [
        `multiply_group_${dtype}_${n}_${order}${begin}`,
        lazy(
          () => multiplyGroup(dtype, n, rowsOf(order), order.endsWith('n') ? 'n' : 'k', begin !== ''),
          ['tile_descriptor'],
        ),
      ]),
    ),
  ),
  ...Object.fromEntries(
    groupColumns.map((n): [string, LibraryFunction] => [
      `multiply_group_tf32_${n}_kk`,
      lazy(() => multiplyGroup('tf32', n, 'k', 'k'), ['tile_descriptor']),
    ]),
  ),
  ...Object.fromEntries(
    bothOf(['64', '128'], ['', '_begin']).map(([n, begin]): [string, LibraryFunction] => [
      `multiply_rows_tf32_${n}${begin}`,
      lazy(() => multiplyRegisters(Number(n), begin !== ''), ['tile_descriptor']),
    ]),
  ),
  ...Object.fromEntries(
    Array.from({ length: 8 }, (_, i) => 8 * (i + 1)).map((n): [string, LibraryFunction] => [
      `keep_${n}`,
      lazy(
        () => `// Words that instructions in the background read: they stay until here.
__device__ __forceinline__ void keep_${n}(const unsigned* words) {
  asm volatile("" :: ${list(n, (i) => `"r"(words[${i}])`)} : "memory");
}`,
      ),
    ]),
  ),
  ...Object.fromEntries(
    Array.from({ length: 16 }, (_, i) => 8 * (i + 1)).map((n): [string, LibraryFunction] => [
      `hold_${n}`,
      lazy(
        () => `// Results that instructions in the background write: what is before stays before, what is after stays after.
__device__ __forceinline__ void hold_${n}(float* c) {
  asm volatile("" : ${list(n, (i) => `"+f"(c[${i}])`)} :: "memory");
}`,
      ),
    ]),
  ),
  warp_group: {
    code: `// The number of a thread's four warps, which all lanes of a warp are seen to share.
__device__ __forceinline__ int warp_group() {
  return __shfl_sync(0xffffffffu, (int)threadIdx.x >> 7, 0);
}`,
  },
  group_begin: {
    code: `// Registers written before are there for the multiplications that follow.
__device__ __forceinline__ void group_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}`,
  },
  group_commit: {
    code: `// Ends a group of multiplications.
__device__ __forceinline__ void group_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}`,
  },
  group_wait: {
    code: `// Waits for all multiplications.
__device__ __forceinline__ void group_wait() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}`,
  },
  ...Object.fromEntries(
    [1, 2, 3, 4, 5, 6, 7].map((n): [string, LibraryFunction] => [
      `group_wait_${n}`,
      {
        code: `// Waits for all multiplications but those of the last groups.
__device__ __forceinline__ void group_wait_${n}() {
  asm volatile("wgmma.wait_group.sync.aligned ${n};" ::: "memory");
}`,
      },
    ]),
  ),
  tile_written: {
    code: `// What this thread wrote into shared memory is there for tensor cores, after a barrier.
__device__ __forceinline__ void tile_written() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}`,
  },
}
