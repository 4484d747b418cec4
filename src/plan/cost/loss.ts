/** What planning compares: seconds of kernels beside those of others that compute the same. */
import type { Made } from './candidateMemo.ts'

type Kernels = readonly (Made | undefined)[]

const total = (kernels: Kernels, of: (k: Made) => number): number =>
  kernels.reduce((t, k) => t + (k === undefined ? 0 : of(k)), 0)

/** Seconds of the schedules that a kernel would run by; the planner's where they have no price. */
export const scheduledSeconds = (k: Made): number => k.scheduled?.() ?? k.cost.seconds

/** Refused by so much, or by less, a merge is asked for again: the planner's cost lacks what a schedule saves. */
const nearlyGains = 1.25
/** Fewer seconds are not worth a question. */
export const leastSeconds = 2e-6
/** What schedules say within this is what the planner says. */
const sameSeconds = 0.05

/** More than what rounding may add to a sum of seconds. */
const sums = 1 + 1e-9

/** Whether kernels that cost so many seconds at least are a loss beside others that cost `before`, whatever their schedules take (`isPriced`: they have a price). */
export const isCertainLoss = (least: number, before: number, isPriced: boolean): boolean =>
  least > sums * (isPriced ? nearlyGains : 1) * before

/**
 * Seconds that kernels take more than others do that compute the same: by the planner's cost, and where that is in doubt by the schedules that
 * either would run by (docs/planner.md, "What it costs"). `doubtful`: kernels among them have been found to take longer than they cost.
 */
export function lossOf(after: Kernels, before: Kernels, doubtful = false): number {
  const [a, b] = [total(after, (k) => k.cost.seconds), total(before, (k) => k.cost.seconds)]
  const ask = doubtful || (a >= b && a < nearlyGains * b)
  if (!ask || Math.max(a, b) < leastSeconds) return a - b
  const [c, d] = [total(after, scheduledSeconds), total(before, scheduledSeconds)]
  return Math.abs(c - d) < sameSeconds * d ? a - b : c - d
}
