/** What a device can do, and whether it can run a kernel: asked before planning as well as before emission. */
import { UserError } from '../../diagnostics/errors.ts'
import { beyond32 } from '../../kernel/beyond32.ts'
import type { Kernel } from '../../kernel/ir.ts'
import type { DType } from '../../types/dtype.ts'
import { allStmts } from './facts.ts'

/**
 * When a kernel lets those that follow it in a graph be launched, which wait by themselves for it to end: as soon as all of its
 * blocks run (`start`), when what comes before it has ended too and its blocks all run at once (`work`), or when its blocks have ended
 * (`exit`).
 */
export type LaunchDependents = 'start' | 'work' | 'exit'

export interface SimtCaps {
  /** Most threads of a block. */
  readonly maxThreads: number
  /** Bytes of shared memory a block may declare. */
  readonly maxSharedBytes: number
  /** log2 of the lanes that exchange registers (5 on CUDA; subgroups of a known size on WebGPU); 0 without. */
  readonly laneBits: number
  /** Matrix products of 16-bit floats through mma.sync, asynchronous copies (CUDA from compute capability 8.0). */
  readonly tensorCores?: boolean
  /** Matrix products of four warps at once from shared memory (wgmma, CUDA compute capability 9.0). */
  readonly warpGroups?: boolean
  /** Most blocks of a cluster (CUDA from compute capability 9.0); absent: there are none. */
  readonly clusters?: number
  /** Multiprocessors of the device (CUDA). */
  readonly multiprocessors?: number
  /** Parameters of unions may stand in a table of pointers (CUDA): `KernelSource.table`. */
  readonly pointerTable?: boolean
  /** Multiply-adds of a product for whose tiles to be read in vectors (2^22 unless given): the code takes longer to compile. */
  readonly leastProduct?: number
  /** Registers a tile of a loop nest may take (32 unless given); fewer where a kernel spilled. */
  readonly registers?: number
  /** Whether loops may load ahead of what they compute (yes unless given). */
  readonly loadsAhead?: boolean
  /** Parameters declared read-write although only read: they share a buffer with one that is written (WebGPU). */
  readonly writable?: (param: string) => boolean
  /** Parameters of one element of 32 bits that are bound as uniform buffers (WebGPU). */
  readonly uniform?: (param: string) => boolean
  /** Parameters that may share memory with another one (CUDA). */
  readonly mayAlias?: (param: string) => boolean
  /** Kernels wait for those before them in a graph and may be launched early (CUDA from compute capability 9.0); absent: they do not. */
  readonly launchDependents?: LaunchDependents
  /** Parameters whose memory the kernels waited for may write (all unless given): nothing of it is read before the wait. */
  readonly changing?: (param: string) => boolean
}

export const cudaCaps: SimtCaps = {
  maxThreads: 1024,
  maxSharedBytes: 227 * 1024,
  laneBits: 5,
  tensorCores: true,
  warpGroups: true,
  clusters: 8,
  multiprocessors: 132,
}
/** WebGPU's default limits. */
export const webgpuCaps: SimtCaps = { maxThreads: 256, maxSharedBytes: 16384, laneBits: 0 }

/** Why a dialect cannot hold values of a dtype, or undefined. */
export function unsupportedDType(dialect: 'cuda' | 'wgsl', dtype: DType): string | undefined {
  if (dialect === 'wgsl' && dtype === 'f64') return 'WebGPU has no 64-bit floats'
  return undefined
}

/** Throws E_UNSUPPORTED naming the operation that a dialect lacks. */
export function checkKernel(kernel: Kernel, dialect: 'cuda' | 'wgsl', _caps: SimtCaps): void {
  const fail = (what: string, why: string, remedy: string): never => {
    throw new UserError('E_UNSUPPORTED', `${what} of the kernel ${kernel.name}: ${why}`, {
      help: `${remedy}, or run this program on another device`,
    })
  }
  const check = (dtype: DType, what: string): void => {
    const why = unsupportedDType(dialect, dtype)
    if (why !== undefined) fail(what, why, 'use another dtype')
  }
  for (const p of kernel.params) check(p.dtype, `the parameter ${p.name}`)
  if (dialect === 'wgsl') {
    const wide = beyond32(kernel)
    if (wide !== undefined)
      fail(
        wide.what,
        `${wide.why} does not fit 32 bits, which is all WebGPU has`,
        'work on smaller pieces of the tensor',
      )
  }
  for (const part of kernel.parts)
    for (const s of allStmts(part.body))
      if (s.kind === 'let') check(s.dtype, `the operation ${s.op.kind === 'scalar' ? s.op.op : s.op.kind}`)
}
