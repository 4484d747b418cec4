/**
 * The schedule of a kernel on a machine of threads, as data: who runs a program, how each axis is spread over threads and
 * registers, and what the threads do in which order. `scheduleThreads` makes it, `candidateSchedules` says which are tried, src/codegen/simt
 * emits it, `printThreadSchedule` shows it, `verifyThreadSchedule` holds it to its laws.
 */
import type { Kernel } from '../../kernel/ir.ts'
import type { SimtMachine } from '../../target/simt.ts'
import type { LaunchShape } from './layout/launchShape.ts'
import type { Layout } from './layout/layout.ts'
import type { NextProgram } from './layout/nextProgram.ts'
import type { ProgramOrder } from './layout/programOrder.ts'
import type { Part } from './part/part.ts'
import type { PartGroup, TableEntry } from './part/union.ts'
import type { Sequence } from './sequence/sequence.ts'

/** What is known of a launch that bears upon the schedule. */
export interface ScheduleFacts {
  /** Parameters that may share memory with another one. */
  readonly mayAlias?: (param: string) => boolean
}

/** What a schedule is allowed: registers, and loads ahead that take some. */
export interface Form {
  /** Whether loops may load ahead of what they compute (yes unless given). */
  readonly loadsAhead?: boolean
  /** Registers a tile of a loop nest may take (the machine's unless given). */
  readonly registers?: number
  /** Whether products of a chain are waited for at once: then what follows them takes registers of theirs. */
  readonly waits?: boolean
  /** Whether, beside a product, loops of axes whose indices are divided to find what stands there go around the others. */
  readonly divided?: boolean
  /** Whether a block of a chain of products has a multiprocessor's registers for itself. */
  readonly alone?: boolean
}

/** What the programs of a part do; parts that are the same code on other parameters are one group. */
export interface PartSchedule extends PartGroup {
  /** The number of the first program. */
  readonly first: number
  /** How axes are spread over threads and registers. */
  readonly layout: Layout
  /** The program whose rows are asked for early. */
  readonly next: NextProgram | undefined
  /** The order of its programs, where some are longer. */
  readonly order: ProgramOrder | undefined
  /** What its threads do, in order. */
  readonly body: Sequence
}

export interface ThreadSchedule extends LaunchShape {
  readonly kernel: string
  /** The machine, with registers as the form has them. */
  readonly machine: SimtMachine
  readonly programs: number
  /** Rows of the grid that hold them. */
  readonly rows: number
  /** Seconds of arithmetic outside matrix products, by the machine's prices, with all of it at work. */
  readonly seconds: number
  /** Shared memory of a block. */
  readonly sharedBytes: number
  readonly parts: readonly PartSchedule[]
  /** Words of the table of pointers, and the parameters that stand in it alone. */
  readonly table: readonly TableEntry[]
  readonly tabled: ReadonlySet<string>
  /** Parameters of groups that may share memory with another. */
  readonly aliased: ReadonlySet<string>
}

/** A kernel as it is scheduled: recurrences rolled up, an axis for each block that loops walk by; what is known of its parts. */
export interface Scheduled {
  readonly kernel: Kernel
  readonly parts: readonly Part[]
  readonly schedule: ThreadSchedule
}
