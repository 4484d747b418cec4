/**
 * The launch plan a backend runs: kernels in order over a table of buffers with a static memory plan. It knows nothing of
 * the graph. Contract in docs/architecture.md ("The launch plan").
 */
import type { Kernel } from '../kernel/ir.ts'
import type { DType } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import type { RegionStep } from './region.ts'

/**
 * Where a buffer's memory comes from. `temp` offsets are bytes into one arena of `arenaBytes`, 64-byte aligned. The output of
 * an inner program may be placed on the memory of the input buffer `over`: it is first written where that is last read.
 */
export type BufferSource =
  | { readonly kind: 'input'; readonly index: number }
  | { readonly kind: 'constant'; readonly data: HostArray }
  | { readonly kind: 'output'; readonly over?: number }
  | { readonly kind: 'temp'; readonly offset: number }

export interface ProgramBuffer {
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly format: 'plain' | 'bits' | 'int4'
  readonly bytes: number
  readonly source: BufferSource
}

export type Stage = 'packing' | 'main' | 'finishing'

export type ProgramStep =
  /** `buffers[i]` is bound to the kernel's parameter i. One `launch` number groups a main kernel with its packing and finishing stages. */
  | {
      readonly kind: 'kernel'
      readonly stage: Stage
      readonly launch: number
      readonly kernel: Kernel
      readonly buffers: readonly number[]
    }
  /** Copies a whole buffer (an input passed through to an output; the base of a scatter). */
  | { readonly kind: 'copy'; readonly from: number; readonly to: number }
  /** A user's kernel on host views. */
  | {
      readonly kind: 'opaque'
      readonly name: string
      readonly run: (inputs: readonly HostArray[], output: HostArray) => void
      readonly inputs: readonly number[]
      readonly output: number
    }
  /** A callback that sees a buffer, in program order. */
  | {
      readonly kind: 'inspect'
      readonly label: string
      readonly call: (data: HostArray, shape: readonly number[], dtype: DType) => void
      readonly buffer: number
    }
  /** Control flow (region.ts). */
  | RegionStep

export interface Program {
  readonly name: string
  readonly buffers: readonly ProgramBuffer[]
  readonly steps: readonly ProgramStep[]
  /** Buffer of each program input, by input number. */
  readonly inputs: readonly number[]
  /** Inputs whose memory the program may overwrite: after a run those device buffers belong to outputs or are dead. */
  readonly donated: readonly boolean[]
  /** Buffer of each program output; an output may be an input's buffer (donated, or passed through: then it is copied). */
  readonly outputs: readonly number[]
  readonly arenaBytes: number
}
