/** How threads fold: accumulators of sums in fast mode, additions that their exchange takes, and batches of maxima. */
import { foldAxes } from '../../../kernel/folds.ts'
import type { LetStmt, ValueId } from '../../../kernel/ir.ts'
import { type Levels, levelsOf, mostAdditions } from '../../../scalar/summation.ts'
import { computeDType, type DType, isFloat } from '../../../types/dtype.ts'
import type { Place } from '../access/place.ts'
import { registersOf } from '../layout/layout.ts'
import type { Part } from '../part/part.ts'

export const combinerOf = (l: LetStmt): 'sum' | 'prod' | 'max' | 'min' | 'argmax' | 'argmin' =>
  l.op.kind === 'reduce' ? l.op.combiner : 'sum'

/** The dtype that a fold is folded in. */
export const foldDType = (part: Part, l: LetStmt): DType =>
  computeDType(l.op.kind === 'reduce' ? part.dtypeOf(l.op.arg) : l.dtype)

/** A fold of a statement list. */
export interface FoldPlan {
  readonly let: LetStmt
  /** The axes of the running results. */
  readonly kept: readonly string[]
  /** Of a float's sum or product in fast mode: the accumulators that its terms take by turns, and those of totals. */
  readonly levels: Levels | undefined
}

export function foldPlanOf(at: Place, l: LetStmt): FoldPlan {
  const { part, layout, setting } = at
  const c = combinerOf(l)
  const isRunning = l.op.kind === 'reduce' && isFloat(foldDType(part, l)) && (c === 'sum' || c === 'prod')
  const kept = part.axesOf(l.id)
  if (!isRunning || setting.mode !== 'fast') return { let: l, kept, levels: undefined }
  const axes = layout.spread(foldAxes(l))
  const each = axes.reduce((n, a) => n * registersOf(a), 1)
  const rounds = axes.reduce((n, a) => n * a.chunks, 1)
  const terms = axes.reduce((n, a) => n * a.size, 1)
  const most = mostAdditions(terms) - exchangeAdditions(at, foldAxes(l))
  return { let: l, kept, levels: levelsOf(each, rounds, most) }
}

/** Of so many warps every thread reads all partial results; more are first folded by a tree. */
export const mostRead = 3

/** Additions one upon another that the merging of a sum's partial results takes. */
function exchangeAdditions({ setting, layout }: Place, folded: readonly string[]): number {
  const { laneBits } = setting.machine
  const blockBits = Math.log2(layout.threads / setting.cluster)
  const bits = layout.bitsOf(folded)
  const lanes = bits.filter((b) => b < laneBits).length
  const blocks = bits.filter((b) => b >= blockBits).length
  const warps = bits.length - lanes - blocks
  const inOrder = Math.min(warps, mostRead)
  return lanes + (warps - inOrder) + (2 ** inOrder - 1) + (2 ** blocks - 1)
}

/** Whether a nest of its own folds maxima or minima of floats with one test for NaN a batch (where a language's own say nothing of NaN). */
export function isBatched(at: Place, l: LetStmt): boolean {
  const c = combinerOf(l)
  const dtype = foldDType(at.part, l)
  if (at.setting.machine.ordersNaN || dtype !== 'f32' || (c !== 'max' && c !== 'min')) return false
  return at.registers(foldAxes(l)) > 1
}

/** Where the term of a sum is no constant zero, if it is a choice between a value and zero. */
export function onlyWhere(part: Part, term: ValueId): { readonly where: ValueId; readonly value: ValueId } | undefined {
  const op = part.lets.get(term)?.op
  if (op?.kind !== 'scalar' || op.op !== 'select') return undefined
  const [where, value, otherwise] = op.args
  if (where === undefined || value === undefined || otherwise === undefined) return undefined
  const zero = part.lets.get(otherwise)?.op
  return zero?.kind === 'const' && Object.is(zero.value, 0) ? { where, value } : undefined
}

/** Values that accumulating reads besides operands. */
export function termsOf(part: Part, l: LetStmt): ValueId[] {
  const only = l.op.kind === 'reduce' && l.op.combiner === 'sum' ? onlyWhere(part, l.op.arg) : undefined
  return only === undefined ? [] : [only.where, only.value]
}

/** The axes whose points are counted one by one beside a mean: none where all of a thread's registers hold a term. */
export function countedAxes(
  at: { readonly part: Part; needsCheck(axis: string): boolean },
  l: LetStmt,
): readonly string[] {
  const axes = at.part.spreadOnly(foldAxes(l))
  return axes.some((a) => at.needsCheck(a)) ? axes : []
}
