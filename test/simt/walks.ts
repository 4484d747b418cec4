/** Rows too long for registers: blocks small enough that short rows are, and how often emitted code walks one. */
import { cudaCaps, type SimtCaps } from '../../src/codegen/simt/capability.ts'
import type { Kernel } from '../../src/kernel/ir.ts'

/** Threads of a block: a chunk has 2048 elements, or 1024 in WGSL where it is walked again. */
export const threads = 64
export const cuda: SimtCaps = { ...cudaCaps, maxThreads: threads, clusters: 1 }
export const wgsl: SimtCaps = { maxThreads: threads, maxSharedBytes: 16384, laneBits: 5 }

/** Loops over the chunks of an axis. */
export const walks = (source: string, axis = 'c'): number =>
  [...source.matchAll(new RegExp(`for \\((?:var|int) ${axis}_at`, 'g'))].length

export interface Case {
  readonly name: string
  readonly kernel: Kernel
  readonly n: number
  /** Loops over chunks, in either dialect. */
  readonly walks: number
}

export const named = (name: string, n: number, count: number, kernel: Kernel): Case => ({
  name: `${name} of ${n}`,
  kernel,
  n,
  walks: count,
})
