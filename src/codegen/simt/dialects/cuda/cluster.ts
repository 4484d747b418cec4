/**
 * How the blocks of a cluster exchange values (PTX ISA: barrier.cluster, mbarrier, st.async; compute capability 9.0): pushes into
 * another block's shared memory are counted there in bytes, so nobody waits for more than the data.
 */

import type { Library } from '../shared/print.ts'
import { device } from './function.ts'

const address = (name: string): string => `(unsigned)__cvta_generic_to_shared(${name})`

const types = {
  f32: ['float', 'f'],
  f64: ['double', 'd'],
  i32: ['int', 'r'],
  u32: ['unsigned', 'r'],
  i64: ['long long', 'l'],
  u64: ['unsigned long long', 'l'],
} as const

const ptx = (t: string): string => t.replace('i', 's')

export const cudaCluster: Library = {
  cluster_arrive: device(
    'void cluster_arrive()',
    'asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");',
    [],
    'Says to the other blocks of the cluster that this one runs.',
  ),
  cluster_release: device(
    'void cluster_release()',
    'asm volatile("barrier.cluster.arrive.release;" ::: "memory");',
    [],
    'Says to the other blocks of the cluster that this thread has read what they wrote so far.',
  ),
  cluster_wait: device(
    'void cluster_wait()',
    'asm volatile("barrier.cluster.wait.acquire;" ::: "memory");',
    [],
    'Waits until all threads of the cluster have said so.',
  ),
  meeting_open: device(
    'void meeting_open(unsigned long long* m)',
    `asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(${address('m')}) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");`,
    [],
    'A meeting of the blocks of a cluster: over when the bytes expected have landed.',
  ),
  meeting_expect: device(
    'void meeting_expect(unsigned long long* m, int bytes)',
    `asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(${address('m')}), "r"(bytes) : "memory");`,
  ),
  meeting_wait: device(
    'void meeting_wait(unsigned long long* m, int parity)',
    `unsigned over;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(over) : "r"(${address('m')}), "r"(parity) : "memory");
  } while (over == 0u);`,
  ),
  ...Object.fromEntries(
    Object.entries(types).map(([t, [type, constraint]]) => [
      `push_${t}`,
      device(
        `void push_${t}(${type}* at, ${type} value, unsigned long long* m, int rank)`,
        `unsigned there, meeting;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(${address('at')}), "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(meeting) : "r"(${address('m')}), "r"(rank));
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.${ptx(t)} [%0], %1, [%2];" :: "r"(there), "${constraint}"(value), "r"(meeting) : "memory");`,
        [],
        'Writes to the same place in the shared memory of another block of the cluster, and tells its meeting.',
      ),
    ]),
  ),
}
