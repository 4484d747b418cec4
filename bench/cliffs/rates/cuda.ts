/** Bandwidth and arithmetic of an NVIDIA GPU by kernels written by hand. */
import type { CudaBackend } from '../../../src/backends/cuda/backend.ts'
import type { KernelSource } from '../../../src/codegen/simt/kernel.ts'
import type { Bandwidth } from '../rates.ts'
import { gpuBandwidth } from './gpu.ts'

const threads = 256
const accumulators = 8
const turns = 512
const kernel = (entry: string, parameters: string, body: string): string =>
  `extern "C" __global__ void __launch_bounds__(${threads}) probe_${entry}(${parameters}, const unsigned long long n, const int repeats) {\n${body}\n}\n`
const loop = (body: string): string => `
  const unsigned long long first = blockIdx.x * (unsigned long long)${threads} + threadIdx.x, step = gridDim.x * (unsigned long long)${threads};
  for (int r = 0; r < repeats; r++) {
    #pragma unroll 4
    for (unsigned long long i = first; i < n; i += step) { ${body} }
  }`
const rates = (name: string, operation: string): string =>
  kernel(
    name,
    'float4* __restrict__ to',
    `  float a[${accumulators}];
  for (int i = 0; i < ${accumulators}; i++) a[i] = threadIdx.x + i + 1.f;
  for (int r = 0; r < repeats; r++) {
    #pragma unroll
    for (int i = 0; i < ${accumulators}; i++) a[i] = ${operation};
  }
  float sum = 0;
  for (int i = 0; i < ${accumulators}; i++) sum += a[i];
  if (sum == 12345.678f) to[0] = make_float4(sum, sum, sum, sum);`,
  )
const pointer = (name: string): string => `float4* __restrict__ ${name}`
const input = (name: string): string => `const float4* __restrict__ ${name}`

/** Sources by name; each ends in \`n\` (16-byte words) and \`repeats\`. */
export const cudaSources = {
  read: kernel(
    'read',
    `${pointer('to')}, ${input('x')}, ${input('y')}`,
    `  float4 s = make_float4(0, 0, 0, 0);${loop('const float4 v = x[i]; s.x += v.x; s.y += v.y; s.z += v.z; s.w += v.w;')}
  if (s.x + s.y + s.z + s.w == 12345.678f) to[0] = s;`,
  ),
  mixed: kernel(
    'mixed',
    `${pointer('to')}, ${input('x')}, ${input('y')}`,
    loop('const float4 a = x[i], b = y[i]; to[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);'),
  ),
  copy: kernel('copy', `${pointer('to')}, ${input('x')}, ${input('y')}`, loop('to[i] = x[i];')),
  write: kernel(
    'write',
    `${pointer('to')}, ${input('x')}, ${input('y')}`,
    loop('to[i] = make_float4(repeats, repeats, r, r);'),
  ),
  fma: rates('fma', `a[i] * 0.5f + 0.5f`),
  divide: rates('divide', `__fdividef(0.5f, a[i])`),
} as const

const sourceOf = (entry: keyof typeof cudaSources): KernelSource => ({
  dialect: 'cuda',
  source: cudaSources[entry],
  entry: `probe_${entry}`,
  threads,
  programs: 1,
  cluster: 1,
  sharedBytes: 0,
  dynamicSharedBytes: 0,
  bindings: [],
  table: [],
})

export async function cudaPeaks(
  backend: CudaBackend,
  time: (body: () => void) => Promise<number>,
): Promise<{ readonly bandwidth: readonly Bandwidth[]; readonly flops: number; readonly divide: number }> {
  const { context, kernels } = backend['device']
  const blocks = 132 * 8
  const most = 1 << 28
  const buffers = [0, 1, 2].map(() => context.memAlloc(most))
  const launch = async (
    entry: keyof typeof cudaSources,
    addresses: readonly number[],
    words: number,
    repeats: number,
  ): Promise<number> => {
    const { fn } = kernels.load(sourceOf(entry))
    const args = context.makeArguments(addresses.length + 2)
    for (const [i, x] of [...addresses, words, repeats].entries()) args.set(i, x)
    const grid = words === 0 ? blocks : Math.max(1, Math.min(blocks, Math.ceil(words / threads)))
    return time(() => context.launch({ fn, grid, threads, sharedBytes: 0, args, waits: false }))
  }
  const bandwidth = await gpuBandwidth(most, (kind, words, repeats) => launch(kind, buffers, words, repeats))
  const rate = async (name: 'fma' | 'divide', operations: number): Promise<number> => {
    let least = Number.POSITIVE_INFINITY
    for (let i = 0; i < 8; i++) least = Math.min(least, await launch(name, buffers.slice(0, 1), 0, turns * 64))
    return (blocks * threads * accumulators * turns * 64 * operations) / least
  }
  const result = { bandwidth, flops: await rate('fma', 2), divide: await rate('divide', 1) }
  for (const b of buffers) context.memFree(b)
  return result
}
