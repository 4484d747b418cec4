/** What the lowering hands to the printer of a dialect. */
import type { Kernel, LaunchScalar } from '../../../kernel/ir.ts'
import type { TableEntry } from '../../../schedule/simt/part/union.ts'
import type { SimtMachine } from '../../../target/simt.ts'
import type { S, SharedArray } from './ir.ts'
import type { LaunchGrid } from './launchGrid.ts'

/** What is known of one launch of a kernel: where its parameters stand. */
export interface LaunchFacts {
  /** Parameters declared read-write although only read: they share a buffer with one that is written (WebGPU). */
  readonly writable?: (param: string) => boolean
  /** Parameters that are bound as uniform buffers (WebGPU): of one element of 32 bits, or i32 that launch scalars alone are read of. */
  readonly uniform?: (param: string) => boolean
  /** Parameters that may share memory with another one (CUDA). */
  readonly mayAlias?: (param: string) => boolean
  /** Parameters whose memory the kernels waited for may write (all unless given): nothing of it is read before the wait. */
  readonly changing?: (param: string) => boolean
}

/** A launch scalar passed by value, and its name in the code. */
export interface PassedScalar {
  readonly name: string
  readonly scalar: LaunchScalar
}

/** Declarations and the code of one thread. */
export interface ThreadCode {
  readonly kernel: Kernel
  /** Threads of a block, blocks of a program, blocks that registers leave room for on a multiprocessor. */
  readonly threads: number
  readonly cluster: number
  readonly together: number
  readonly programs: number
  /** Rows of the grid that hold them. */
  readonly rows: number
  readonly shared: readonly SharedArray[]
  readonly body: readonly S[]
  /** Functions that are called instead of standing in place. */
  readonly called: ReadonlySet<string>
  /** Parameters that are no arguments: they stand in the table, or what is read of them is passed by value. */
  readonly tabled: ReadonlySet<string>
  /** Words of the table; none: there is no table. */
  readonly table: readonly TableEntry[]
  /** Launch scalars that are arguments, in order, behind the table. */
  readonly passed: readonly PassedScalar[]
  /** Where extents of the grid vary: the programs of a launch. */
  readonly grid?: LaunchGrid
  readonly machine: SimtMachine
  readonly launch: LaunchFacts
  readonly summary: readonly string[]
}
