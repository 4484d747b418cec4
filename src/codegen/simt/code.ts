/** What the lowering hands to the printer of a dialect. */
import type { Kernel } from '../../kernel/ir.ts'
import type { SimtCaps } from './capability.ts'
import type { S, SharedArray } from './ir.ts'

/** Declarations and the code of one thread. */
export interface ThreadCode {
  readonly kernel: Kernel
  readonly threads: number
  readonly programs: number
  readonly shared: readonly SharedArray[]
  readonly body: readonly S[]
  /** Parameters that are passed in a table of pointers, not one by one. */
  readonly tabled: ReadonlySet<string>
  readonly caps: SimtCaps
  readonly summary: readonly string[]
}
