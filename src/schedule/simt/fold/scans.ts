/** How threads scan the lines of a value. */
import type { LetStmt } from '../../../kernel/ir.ts'
import { mostAdditions } from '../../../scalar/summation.ts'
import { computeDType, type DType, isFloat } from '../../../types/dtype.ts'
import type { Place } from '../access/place.ts'
import { type AxisLayout, type Layout, mostExchanged, spanOf, threadsOf } from '../layout/layout.ts'
import { registerBytes, registerType } from '../storage/registerType.ts'

/** A line is a single index, folded in blocks (`tree`), walked by one thread, or scanned by all threads. */
export type ScanPlan =
  | { readonly kind: 'single' }
  | { readonly kind: 'blocks' | 'inOrder'; readonly axis: AxisLayout }
  | {
      readonly kind: 'byThreads'
      readonly axis: AxisLayout
      /** Repeats that are folded in order, and those whose totals the threads exchange at once. */
      readonly grouped: number
      readonly batch: number
    }
  | {
      /** Lanes exchange what they hold, and one warp of a line the totals of all. */
      readonly kind: 'byWarps'
      readonly axis: AxisLayout
      readonly lanes: readonly number[]
      readonly warps: readonly number[]
    }

/** Bits of a thread's number that tell which of several lines along an axis it is on. */
export const otherBits = ({ threads }: Layout, { bits }: AxisLayout): number[] =>
  Array.from({ length: Math.log2(threads) }, (_, b) => b).filter((b) => !bits.includes(b))

type ScanCombiner = 'sum' | 'prod' | 'max' | 'min'

/** Repeats of a chunk that the threads' exchange in a scan takes at once, since each of its steps waits for two barriers (of a line `mostExchanged`); and bytes of what a line's exchange. */
const [repeatsOfChunk, exchangedBytes] = [4, 32 << 10]

export function scanPlanOf(at: Place, l: LetStmt): ScanPlan {
  const { part, layout, setting, shared } = at
  if (l.op.kind !== 'scan') return { kind: 'single' }
  const { combiner, tree } = l.op
  const a = layout.find(l.op.axis)
  if (a === undefined) return { kind: 'single' }
  const type = registerType(l.dtype)
  const lines = 2 ** otherBits(layout, a).length
  if (tree === true || setting.mode === 'strict') {
    shared.slots(type, spanOf(a) * lines, '_scan')
    return { kind: tree === true ? 'blocks' : 'inOrder', axis: a }
  }
  const warps = byWarps(at, a, combiner, computeDType(l.dtype))
  if (warps !== undefined) {
    const totals = warps.warps.length === 0 ? 0 : a.reps * 2 ** warps.warps.length
    if (totals > 0) shared.slots(type, totals * lines, '_scan')
    return warps
  }
  const grouped = repeatsInOrder(a, combiner, computeDType(l.dtype))
  const isChunk = part.axis(a.name).role === 'grid' && grouped === a.reps
  const bytes = Math.min(exchangedBytes, setting.machine.maxSharedBytes / 2)
  const most = isChunk
    ? repeatsOfChunk
    : Math.min(mostExchanged, Math.floor(bytes / (layout.threads * registerBytes(type))))
  const batch = threadsOf(a) === 1 ? 1 : batchWithin(grouped, a.reps, most)
  shared.slots(type, layout.threads * batch, '_scan')
  return { kind: 'byThreads', axis: a, grouped, batch }
}

/** The repeats of a batch: as many as there may be, but where groups of repeats are folded in turn, batches are equal parts of those. */
function batchWithin(grouped: number, reps: number, most: number): number {
  let batch = Math.max(1, Math.min(most, grouped))
  while (grouped < reps && grouped % batch !== 0) batch--
  return batch
}

/** A scan by the lanes of warps, where a line's threads are neighbours; undefined where they are not, or as many additions one upon another are more than the bound allows. */
function byWarps(
  { setting }: Place,
  axis: AxisLayout,
  combiner: ScanCombiner,
  dtype: DType,
): Extract<ScanPlan, { kind: 'byWarps' }> | undefined {
  const { laneBits, exchangesInBranches } = setting.machine
  const lanes = axis.bits.filter((b) => b < laneBits)
  const warps = axis.bits.filter((b) => b >= laneBits)
  const isPrefix = lanes.every((b, i) => b === axis.bits[i] && b === i)
  if (lanes.length === 0 || !isPrefix) return undefined
  if (warps.length > 0 && (lanes.length < laneBits || !exchangesInBranches)) return undefined
  const totals = axis.reps * 2 ** warps.length
  const above = warps.length === 0 ? totals : Math.ceil(totals / 2 ** lanes.length) + lanes.length + 1
  const additions = axis.vec - 1 + lanes.length + above + 1
  const isRounded = isFloat(dtype) && (combiner === 'sum' || combiner === 'prod')
  if (isRounded && additions > mostAdditions(axis.size)) return undefined
  return { kind: 'byWarps', axis, lanes, warps }
}

/**
 * Repeats that a scan folds in order: all of them, unless so many additions one upon another are more than the bound on a running sum of
 * as many terms allows (docs/numerics.md, "Modes"); then about the root of their number.
 */
function repeatsInOrder(a: AxisLayout, combiner: ScanCombiner, dtype: DType): number {
  const isRounded = isFloat(dtype) && (combiner === 'sum' || combiner === 'prod')
  const additions = a.vec - 1 + (a.reps - 1) + (threadsOf(a) > 1 ? Math.log2(threadsOf(a)) + 1 : 0)
  return isRounded && additions > mostAdditions(a.size) ? Math.ceil(Math.sqrt(a.reps)) : a.reps
}
