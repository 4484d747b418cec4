/**
 * Stores whose places programs have shared out (a scatter): a program walks all points in order, but few of them are its own. All of its
 * threads together look at the next points, a few each, and write the program's own ones, in order, into a queue in shared memory: their
 * numbers and their places. What is walked then is the queue.
 */

import { add, addConst, asAxis, axesOf, axis, constant, type Expr, mod, sub, valuesOf } from '../../../affine/expr.ts'
import { powerFrom } from '../../../affine/powers.ts'
import type { Bound } from '../../../affine/predicate.ts'
import { startOf } from '../../../kernel/axes.ts'
import type { LetStmt, StoreStmt, ValueId } from '../../../kernel/ir.ts'
import type { SimtMachine } from '../../../target/simt.ts'
import { registerType } from '../storage/registerType.ts'
import type { SharedArrayPlan } from '../storage/sharedMemory.ts'
import { axesOfExprs } from './facts.ts'
import type { Part } from './part.ts'

/** Which points along an axis a program keeps. */
export interface Filter {
  readonly axis: string
  readonly bounds: readonly Bound[]
  readonly maskValue: ValueId | undefined
  /** What those are computed from, in order. */
  readonly lets: readonly LetStmt[]
  /** The coordinates of the place among those. */
  readonly queued: readonly LetStmt[]
  /** Which threads a queued point is for: those at an index of an axis that its place tells. */
  readonly classes: { readonly axis: string; readonly of: Expr } | undefined
  readonly single: SinglePlace | undefined
}

/** Where each thread has one of the program's places alone: the coordinate that says which of `extent` an update goes to, and which is the thread's. */
export interface SinglePlace {
  readonly store: StoreStmt
  readonly coordinate: ValueId
  readonly place: Expr
  readonly extent: number
}

/** Threads whose finds are summed by one, or that vote together. */
export const filterGroup = 32

/** Threads of a program that filters points at most: as many as there are, where shared memory holds their queue. */
export const mostFilterThreads = ({ maxThreads, maxSharedBytes }: SimtMachine): number =>
  Math.min(maxThreads, maxSharedBytes < 48 << 10 ? 256 : 1024)

/** Threads at least: warps enough to go through what is queued side by side. */
const fewestThreads = 128

/** Threads of a program that filters so many points for so many threads' places: a thread for each, of both, so that several programs stand beside each other where these are few. */
export const filterThreads = (machine: SimtMachine, points: number, places: number): number =>
  Math.min(mostFilterThreads(machine), powerFrom(Math.max(fewestThreads, points, places)))

/** Numbers of a warp's own points among those queued, as they wait for enough to be taken together. */
export const waitingPoints = 64

/** How threads fill a queue of points. */
export interface QueuePlan {
  /** Whether finds are counted, and told to the warps that they are for, by votes. */
  readonly votes: boolean
  /** Points that a thread looks at in a round. */
  readonly each: number
  /** Points that the queue holds: where lanes vote, those of several rounds are walked together. */
  readonly length: number
  /**
   * Where lanes vote: how many points each warp found, in two rounds by turns, and the numbers of those that wait for it; else how many each thread and each group
   * of threads found. Then the queue: numbers of points, and the coordinates of each.
   */
  readonly arrays: readonly SharedArrayPlan[]
}

/** The queue of a filter of so many points: many of them are looked at by eight a thread, whose loads are on their way together. */
export function queuePlan(threads: number, { queued }: Filter, extent: number, machine: SimtMachine): QueuePlan {
  const votes =
    machine.votes && 2 ** machine.laneBits === filterGroup && threads % filterGroup === 0 && threads <= filterGroup ** 2
  const isLong = votes && extent >= 16 * threads && queued.length < 2
  const each = isLong ? 8 : Math.max(1, Math.min(4, Math.ceil(extent / threads)))
  const round = threads * each
  const length = votes ? Math.min(round + 4 * threads, Math.max(filterGroup, extent)) : round
  const groups = threads / filterGroup
  const [first, second] = votes ? [2 * groups, waitingPoints * groups] : [threads, groups]
  const arrays: SharedArrayPlan[] = [
    { type: 'i32', length: first },
    { type: 'i32', length: second },
    { type: 'i32', length },
    ...queued.map((l): SharedArrayPlan => ({ type: registerType(l.dtype), length })),
  ]
  return { votes, each, length, arrays }
}

/** What need not be computed again for a point of the queue. */
export const queuedValues = ({ queued, maskValue }: Filter): ReadonlySet<ValueId> =>
  new Set([...queued.map((l) => l.id), ...(maskValue === undefined ? [] : [maskValue])])

/** Values that stand alone as coordinates of a store's place. */
function coordinates(s: StoreStmt): ReadonlySet<ValueId> {
  return new Set(
    s.index.flatMap((e) => {
      const [t, second] = e.terms
      return t?.atom.kind === 'value' && t.coef === 1 && second === undefined ? [t.atom.id] : []
    }),
  )
}

/** The axis whose index a bound determines by the place that is stored to: no two of its indices have a place in common. */
function axisByPlace({ expr, lo, hi }: Bound, places: ReadonlySet<ValueId>): string | undefined {
  const [t, second] = expr.terms.filter((x) => x.atom.kind === 'axis' && startOf(x.atom.name) === undefined)
  if (t?.atom.kind !== 'axis' || second !== undefined || hi - lo > Math.abs(t.coef)) return undefined
  return [...valuesOf(expr)].every((id) => places.has(id)) ? t.atom.name : undefined
}

/** The axis of which a queued point's place leaves one index, and that index. */
function classesOf(s: StoreStmt, places: ReadonlySet<ValueId>, queued: ReadonlySet<ValueId>): Filter['classes'] {
  for (const b of s.mask) {
    const own = axisByPlace(b, places)
    const term = b.expr.terms.find(({ atom }) => atom.kind === 'axis' && atom.name === own)
    if (term?.atom.kind !== 'axis' || term.coef !== -1 || b.hi - b.lo !== 1) continue
    const of = addConst(add(b.expr, axis(term.atom.name, term.atom.extent)), -b.lo)
    if (axesOf(of).size === 0 && [...valuesOf(of)].every((id) => queued.has(id))) return { axis: term.atom.name, of }
  }
  return undefined
}

/** Axes of a store whose every index leads to places of its own. */
export function ownAxes(s: StoreStmt): Set<string> {
  const out = new Set(s.index.flatMap((e) => asAxis(e)?.name ?? []))
  const places = coordinates(s)
  for (const b of s.mask) {
    const axis = axisByPlace(b, places)
    if (axis !== undefined) out.add(axis)
  }
  return out
}

/** Whether a bound keeps a program's own points: data against where a block of the grid begins. */
const isShare = (part: Part, { expr }: Bound): boolean =>
  valuesOf(expr).size > 0 &&
  expr.terms.some(({ atom }) => {
    const of = atom.kind === 'axis' ? startOf(atom.name) : undefined
    return of !== undefined && part.axis(of).role === 'grid'
  })

/** How a store's points are filtered, if they are: along the only axis that it walks. */
export function filterOf(part: Part, s: StoreStmt): Filter | undefined {
  if (!part.isOrdered(s) || !s.mask.some((b) => isShare(part, b))) return undefined
  const own = ownAxes(s)
  const [axis, second] = part.storeAxes(s).filter((a) => !own.has(a))
  if (axis === undefined || second !== undefined || part.axis(axis).type !== 'i32') return undefined
  const isAlong = (exprs: readonly Expr[]): boolean =>
    part.spreadOnly(axesOfExprs(exprs, part.axesOf)).every((a) => a === axis)
  const bounds = s.mask.filter((b) => isAlong([b.expr]))
  const { maskValue } = s
  const asked = maskValue !== undefined && part.axesOf(maskValue).every((a) => a === axis) ? maskValue : undefined
  const values = bounds.flatMap((b) => [...valuesOf(b.expr)])
  const { lets, rest } = part.closureOf(asked === undefined ? values : [...values, asked])
  const isPlain = lets.every(
    (l) => l.op.kind !== 'at' && l.op.kind !== 'random' && part.axesOf(l.id).every((a) => a === axis),
  )
  if (!isPlain || rest.size > 0) return undefined
  const places = coordinates(s)
  const queued = lets.filter((l) => places.has(l.id))
  const classes = classesOf(s, places, new Set(queued.map((l) => l.id)))
  const single = singleOf(part, s, axis, classes)
  return { axis, bounds, maskValue: asked, lets, queued, classes, single }
}

/** The only place of a thread: a program has places in a row, no more of them than there are residues, by which threads have them. */
function singleOf(part: Part, store: StoreStmt, along: string, classes: Filter['classes']): SinglePlace | undefined {
  const [coordinate, second] = coordinates(store)
  const share = store.mask.find((b) => isShare(part, b))
  const ofValue = share?.expr.terms.find(({ atom }) => atom.kind === 'value')
  const ofStart = share?.expr.terms.find(({ atom }) => atom.kind === 'axis')
  if (share === undefined || ofValue?.atom.kind !== 'value' || ofStart?.atom.kind !== 'axis') return undefined
  const isRow = share.expr.terms.length === 2 && ofValue.coef === 1 && ofStart.coef === -1 && share.expr.offset === 0
  if (!isRow || share.lo !== 0 || second !== undefined || ofValue.atom.id !== coordinate) return undefined
  // Nothing else of the place may follow from the update.
  const others = store.index.filter((e) => valuesOf(e).size === 0)
  const rest = store.mask.filter((b) => ![...valuesOf(b.expr)].includes(coordinate))
  if (axesOfExprs([...others, ...rest.map((b) => b.expr)], part.axesOf).has(along)) return undefined
  const residues = classes === undefined ? 1 : part.axis(classes.axis).extent
  const value = add(share.expr, axis(ofStart.atom.name, ofStart.atom.extent))
  const isOfResidue = classes === undefined || sub(classes.of, mod(value, residues)).terms.length === 0
  if (share.hi > residues || !isOfResidue) return undefined
  const start = axis(ofStart.atom.name, ofStart.atom.extent)
  const own = classes === undefined ? constant(0) : axis(classes.axis, residues)
  return { store, coordinate, place: add(start, mod(sub(own, start), residues)), extent: ofValue.atom.extent }
}
