/** What the lowering hands to the printer of a dialect. */
import type { Kernel } from '../../kernel/ir.ts'
import type { SimtCaps } from './capability.ts'
import type { S, SharedArray } from './ir.ts'
import type { TableEntry } from './union.ts'

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
  /** Parameters that are passed in a table, not one by one. */
  readonly tabled: ReadonlySet<string>
  /** Words of the table; none: there is no table. */
  readonly table: readonly TableEntry[]
  readonly caps: SimtCaps
  readonly summary: readonly string[]
}
