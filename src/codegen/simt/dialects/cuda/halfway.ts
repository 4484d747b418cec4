/** Barriers with two ends among the threads of a block (PTX ISA: mbarrier; compute capability 8.0, waits 9.0). */
import type { Library } from '../shared/print.ts'
import { device } from './function.ts'

const at = '(unsigned)__cvta_generic_to_shared(m)'

export const cudaHalfway: Library = {
  halfway_open: device(
    'void halfway_open(unsigned long long* m, int threads)',
    `asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(${at}), "r"(threads) : "memory");`,
    [],
    'A meeting of the threads of a block, over when each has arrived.',
  ),
  halfway_arrive: device(
    'void halfway_arrive(unsigned long long* m)',
    `asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" :: "r"(${at}) : "memory");`,
  ),
  halfway_wait: device(
    'void halfway_wait(unsigned long long* m, int parity)',
    `unsigned over;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(over) : "r"(${at}), "r"(parity) : "memory");
  } while (over == 0u);`,
  ),
}
