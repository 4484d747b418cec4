/** How threads scan the lines of a value. */
import type { LetStmt } from '../../../kernel/ir.ts'
import { mostAdditions } from '../../../scalar/summation.ts'
import { computeDType, type DType, isFloat } from '../../../types/dtype.ts'
import type { Place } from '../access/place.ts'
import { type AxisLayout, spanOf, threadsOf } from '../layout/layout.ts'
import { registerType } from '../storage/registerType.ts'

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

/** Repeats that the threads' exchange in a scan of a chunk takes at once: each of its steps waits for two barriers. */
const repeatsTogether = 4

export function scanPlanOf(at: Place, l: LetStmt): ScanPlan {
  const { part, layout, setting, shared } = at
  if (l.op.kind !== 'scan') return { kind: 'single' }
  const { combiner, tree } = l.op
  const a = layout.find(l.op.axis)
  if (a === undefined) return { kind: 'single' }
  const type = registerType(l.dtype)
  if (tree === true || setting.mode === 'strict') {
    const lines = 2 ** (Math.log2(layout.threads) - a.bits.length)
    shared.slots(type, spanOf(a) * lines, '_scan')
    return { kind: tree === true ? 'blocks' : 'inOrder', axis: a }
  }
  const grouped = repeatsInOrder(a, combiner, computeDType(l.dtype))
  const isBatched = part.axis(a.name).role === 'grid' && threadsOf(a) > 1 && grouped === a.reps
  const batch = isBatched ? repeatsTogether : 1
  shared.slots(type, layout.threads * Math.min(batch, a.reps), '_scan')
  return { kind: 'byThreads', axis: a, grouped, batch }
}

/**
 * Repeats that a scan folds in order: all of them, unless so many additions one upon another are more than the bound on a running sum of
 * as many terms allows (docs/numerics.md, "Modes"); then about the root of their number.
 */
function repeatsInOrder(a: AxisLayout, combiner: 'sum' | 'prod' | 'max' | 'min', dtype: DType): number {
  const isRounded = isFloat(dtype) && (combiner === 'sum' || combiner === 'prod')
  const additions = a.vec - 1 + (a.reps - 1) + (threadsOf(a) > 1 ? Math.log2(threadsOf(a)) + 1 : 0)
  return isRounded && additions > mostAdditions(a.size) ? Math.ceil(Math.sqrt(a.reps)) : a.reps
}
