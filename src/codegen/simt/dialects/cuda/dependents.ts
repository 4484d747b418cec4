/**
 * How a kernel stands to those before and after it in a graph (PTX ISA: griddepcontrol; compute capability 9.0). Where a kernel was
 * launched in the ordinary way, both calls do nothing.
 */
import type { Library } from '../shared/print.ts'

const fn = (note: string, name: string, instruction: string): { code: string } => ({
  code: `// ${note}
__device__ __forceinline__ void ${name}() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.${instruction};" ::: "memory");
#endif
}`,
})

export const cudaDependents: Library = {
  wait_for_kernels: fn(
    'Waits until the kernels that this one follows have ended and what they wrote is seen here.',
    'wait_for_kernels',
    'wait',
  ),
  launch_dependents: fn(
    'Lets the kernels that follow this one be launched once all blocks have said so; they wait for its end.',
    'launch_dependents',
    'launch_dependents',
  ),
}
