/** What is open while a statement list is emitted: running folds, and streams of sums against an anchor. */
import type { LetStmt } from '../../../kernel/ir.ts'
import type { Moments } from '../../../kernel/moments.ts'
import type { Streamed } from '../../../kernel/streams.ts'
import type { StreamPlan } from '../../../schedule/simt/fold/onlineSums.ts'
import type { DType } from '../../../types/dtype.ts'
import type { Ex } from '../ir/ir.ts'
import type { Registers } from '../ir/registers.ts'
import type { Running } from './running.ts'
import type { Totals } from './totals.ts'

/** A running fold over the kept axes' registers. */
export interface Accumulator {
  readonly let: LetStmt
  readonly kept: readonly string[]
  readonly values: Registers
  /** Positions of an arg-fold; below 0 there is no candidate yet. */
  readonly positions: Registers | undefined
  /** In strict mode, totals of finished chunks of a float's sum or product. */
  readonly totals: Totals | undefined
  /** In fast mode, what a float's sum or product is folded in on the way to its values. */
  readonly running: Running | undefined
  readonly dtype: DType
}

/** A sum with its moments. */
export interface Carried {
  readonly acc: Accumulator
  readonly moments: Moments
  /** The sum of each product, over the axes that the sum keeps. */
  readonly sums: ReadonlyMap<string, Running>
}

/** How many terms a thread has met along the folded axes, and how many of them its sums stand for. */
export interface Counts {
  readonly met: Ex
  readonly summed: Ex
}

/** What sums against a mean carry. */
export interface Mean {
  readonly counts: Counts
  /** Chunks that were met. */
  readonly chunks: Ex
  readonly carried: readonly Carried[]
}

/** A sum with how it streams. */
export interface OpenFollower {
  readonly acc: Accumulator
  readonly streamed: Streamed
}

/** A fold whose running result is an anchor, with the sums that are taken against it. */
export interface Stream {
  readonly plan: StreamPlan
  readonly anchor: Accumulator
  /** The threads' anchors, finite or NaN, over the axes that the anchor's fold keeps. */
  readonly running: Registers
  readonly followers: readonly OpenFollower[]
  /** Beside an anchor that is a sum. */
  readonly mean: Mean | undefined
}
