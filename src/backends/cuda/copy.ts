/** Copies as a kernel, so that they are launches of a graph like the others. */
import type { KernelSource } from '../../codegen/simt/kernel.ts'

const threads = 256
/** Blocks that keep any device busy; the rest is a loop. */
const mostBlocks = 4096

const source = `// Copies bytes; 16 at a time where both addresses allow.
extern "C" __global__ void __launch_bounds__(${threads}) copy_bytes(
  unsigned char* __restrict__ to,
  const unsigned char* __restrict__ from,
  const unsigned long long bytes) {
  const unsigned long long first = blockIdx.x * (unsigned long long)${threads} + threadIdx.x;
  const unsigned long long step = gridDim.x * (unsigned long long)${threads};
  unsigned long long done = 0;
  if ((((unsigned long long)to | (unsigned long long)from) & 15) == 0) {
    done = bytes / 16;
    for (unsigned long long i = first; i < done; i += step) ((uint4*)to)[i] = ((const uint4*)from)[i];
    done *= 16;
  }
  for (unsigned long long i = done + first; i < bytes; i += step) to[i] = from[i];
}
`

export const copyKernel: KernelSource = {
  dialect: 'cuda',
  source,
  entry: 'copy_bytes',
  threads,
  programs: 1,
  cluster: 1,
  sharedBytes: 0,
  dynamicSharedBytes: 0,
  bindings: [
    { name: 'to', access: 'write', binding: 0 },
    { name: 'from', access: 'read', binding: 1 },
  ],
  table: [],
}

/** Blocks for a number of bytes: four 16-byte words a thread. */
export const copyBlocks = (bytes: number): number =>
  Math.max(1, Math.min(mostBlocks, Math.ceil(bytes / (16 * threads * 4))))
