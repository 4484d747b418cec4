/** Loop order, vector axis and unrolling of a nest, by a small cost model of its memory accesses. */
import { strideOf, valuesOf } from '../../../affine/expr.ts'
import { fastChunkOf } from '../../../scalar/summation.ts'
import type { Machine } from '../../../target/machine.ts'
import { dtypeClass } from '../../../types/dtype.ts'
import { sizeOf } from '../../../types/shape.ts'
import { waitingSeconds } from '../../price.ts'
import type { Cut, NestSchedule } from '../ir/schedule.ts'
import type { Nest, Root } from '../ir/steps.ts'
import type { Axes } from '../ir/tile.ts'
import type { Places } from '../tiles/places.ts'
import { columnFetches, fetches } from './fetch.ts'
import { farRows, strideSum, type Touch, type Work, workOf } from './work.ts'

/** What is decided of a nest's loops. */
type Loops = Pick<NestSchedule, 'order' | 'vector' | 'copies' | 'inTurn' | 'inMemory' | 'fetch' | 'cut' | 'foldsAtOnce'>

/** Lanes of a step, and what a step costs beside its accesses and arithmetic. */
const lanes = 4
const stepCost = 0.5

/** What the last, partial step of a row costs on top: the number of valid lanes, their mask, and for each fold a selection. */
const maskCost = 1.5
const maskedFold = 1
/** Merging the lanes of a fold across them, once a row; of an arg-fold also its positions. */
const mergeCost = { fold: 6, argFold: 14 }

/** Cost of an access in a partial step: lanes that are not read as they stand go one by one, each under a condition. */
function partialTouchCost(places: Places, t: Touch, axis: string, valid: number): number {
  const whole = touchCost(places, t, axis)
  return t.write || whole > 2 ? 1 + 2 * valid + (t.masked ? 2 : 0) : whole
}

/** Cost of four lanes of an access along an axis. */
function touchCost(places: Places, t: Touch, axis: string): number {
  for (const id of valuesOf(t.position)) if (places.reachOf(id).has(axis)) return 10
  const s = strideOf(t.position, axis)
  const guard = t.free === true ? 0.5 : t.masked ? 2 : 0
  if (s === undefined) return 6 + guard
  if (s === 0) return t.write ? 4 : 0.2
  if (s === t.unit) return 1 + guard
  if (!t.write && s === -t.unit && t.unit <= 4) return 1.3 + guard
  if (!t.write && t.unit === 2 && s === 4 && t.packed !== true) return 1.3 + guard
  // Words near each other come in two vectors (`laneReader`), bits in one word (`loadPackedLanes`).
  if (!t.write && t.packed === true && s > 0 && s <= 8) return 2 + guard
  if (!t.write && t.unit === 4 && (s === 8 || s === 12)) return 2 + guard
  return 5 + guard
}

/** A fold whose order of elements matters to the result. */
const isOrdered = (places: Places, r: Root): boolean =>
  r.kind === 'fold' &&
  places.facts.strict &&
  (r.fold.combiner === 'sum' || r.fold.combiner === 'prod') &&
  dtypeClass(r.fold.dtype) === 'float'

/** A store whose points must run in order: several may meet in one place. */
const isScatter = (r: Root): boolean => r.kind === 'store' && r.stmt.index.some((e) => valuesOf(e).size > 0)

/** Groups of lanes that a nest takes side by side: of few operations (in additions) several, of many folds fewer. */
export function groupsSideBySide(arithmetic: number, folds: number): number {
  if (folds > 4) return 1
  if (arithmetic <= 6) return folds > 2 ? 2 : 4
  return folds > 0 && arithmetic <= 12 ? 2 : 1
}

/** Accumulators that stand in registers beside what is read for all of them, which engines load before they compute. */
const mostAccumulators = 7

/** How many folds one loop takes where all of them are too many: as many in each, as nearly as they divide. */
const atOnceOf = (folds: number): number | undefined =>
  folds <= mostAccumulators ? undefined : Math.ceil(folds / Math.ceil(folds / mostAccumulators))

/** A fold of nothing but what is read. */
const readsAlone = (places: Places, r: Root): boolean =>
  r.kind === 'fold' && r.fold.args.every((a) => places.def(a).op?.kind === 'load')

/** Groups of lanes that fill each other's waiting: the fewest that come near to what most of them bring. */
function groupsInTurn({ long, seconds, chain }: Work, { loops }: Machine): number {
  if (loops === undefined || long.length === 0) return 1
  const each = (groups: number): number => {
    const step = lanes * seconds * groups
    return (step + waitingSeconds(step, 1, lanes * chain, loops)) / groups
  }
  const least = each(mostInTurn)
  let groups = 1
  while (groups < mostInTurn && each(groups) > worthTurns * least) groups *= 2
  return groups
}

/** Most groups of lanes that compute long values in turn, and how much longer fewer may take: each is that code once more. */
const mostInTurn = 4
const worthTurns = 1.1

/** How many copies may share calls of random bits, and how much beside them may be written out for each. */
const mostCallCopies = 16
const mostBesideCalls = 64

export function chooseLoops(places: Places, nest: Nest): Loops {
  const { axes } = places
  const work = workOf(places, nest)
  const ordered = nest.roots.some((r) => isOrdered(places, r))
  const scatter = nest.roots.some(isScatter)
  const candidates = nest.space.filter((a) => axes.view(a).max >= 2 && !(ordered && nest.folded.includes(a)))
  const size = (a: string): number => axes.view(a).max
  const folds = nest.roots.flatMap((r) => (r.kind === 'fold' ? [r.fold] : []))
  const merges = folds.reduce((n, f) => n + (f.combiner.startsWith('arg') ? mergeCost.argFold : mergeCost.fold), 0)
  /** Cost of four points where lanes go along an axis. */
  const cost = (a: string): number => {
    const n = size(a)
    const [whole, left] = [Math.floor(n / lanes), n % lanes]
    const own = (work.arithmetic + work.conversions) * 0.5 + stepCost
    const step = own + work.touches.reduce((sum, t) => sum + touchCost(places, t, a), 0)
    const across = nest.folded.includes(a)
    const partial =
      left === 0
        ? 0
        : own +
          maskCost +
          (across ? folds.length * maskedFold : 0) +
          work.touches.reduce((sum, t) => sum + partialTouchCost(places, t, a, left), 0)
    return (whole * step + partial + (across ? merges : 0)) / (n / lanes)
  }
  const scalarCost = work.touches.length * 4 + (work.arithmetic + work.conversions) * 2.2 + 2
  let vector: string | undefined
  let best = scalarCost
  if (scatter) vector = nest.space.at(-1)
  else
    for (const a of candidates) {
      const c = cost(a)
      if (c < best || (vector !== undefined && c === best && size(a) > size(vector))) {
        best = c
        vector = a
      }
    }
  const kept = nest.space.filter((a) => !nest.folded.includes(a))
  const byStride = (names: readonly string[]): string[] =>
    scatter ? [...names] : [...names].sort((a, b) => strideSum(work, b) - strideSum(work, a))
  const others = (names: readonly string[]): string[] => names.filter((a) => a !== vector)
  const folded = ordered ? [...nest.folded] : byStride(nest.folded)
  const isKept = vector !== undefined && kept.includes(vector)
  const inMemory = isKept && vector !== undefined && foldsInMemory(places, nest, work, vector)
  const order =
    vector === undefined
      ? [...byStride(kept), ...folded]
      : isKept
        ? inMemory
          ? [...byStride(others(kept)), ...folded, vector]
          : [...byStride(others(kept)), vector, ...folded]
        : [...byStride(kept), ...others(folded), vector]
  const n = vector === undefined ? 0 : size(vector)
  const wanted = Math.max(groupsSideBySide(work.arithmetic, folds.length), groupsInTurn(work, places.facts.machine))
  // Two groups of four bits make a byte that is stored whole.
  const rowOfBits = work.touches.some((t) => t.packed && t.write && strideOf(t.position, vector ?? '') === 1)
  const sharing = folds.length === 0 && work.callCopies <= mostCallCopies && work.besideRandom <= mostBesideCalls
  let copies = scatter ? 1 : Math.max(wanted, rowOfBits ? 2 : 1, sharing ? work.callCopies : work.drawCopies)
  while (copies > 1 && n < 4 * copies) copies /= 2
  const loops = { order, vector, copies, inMemory }
  const isAcross = vector !== undefined && order.at(-1) === vector && nest.folded.includes(vector)
  const atOnce = isAcross && nest.roots.every((r) => readsAlone(places, r)) ? atOnceOf(folds.length) : undefined
  const inTurn = copies === 1 || inMemory ? [] : work.long.filter((id) => places.reachOf(id).has(vector ?? ''))
  return {
    ...loops,
    ...(atOnce === undefined ? {} : { foldsAtOnce: atOnce }),
    inTurn,
    fetch:
      inMemory || vector === undefined
        ? []
        : order.at(-1) === vector
          ? fetches(places, work, vector)
          : columnFetches(places, work, vector, folded),
    cut: places.facts.strict || nest.folded.length === 0 ? undefined : cutOf(axes, loops, nest.folded),
  }
}

/** The cut of the folded loops where an accumulator would otherwise fold more than a chunk of its terms in order. */
function cutOf(
  axes: Axes,
  { order, vector, copies, inMemory }: Pick<Loops, 'order' | 'vector' | 'copies' | 'inMemory'>,
  folded: readonly string[],
): Cut | undefined {
  const chunk = fastChunkOf(folded.reduce((n, a) => n * axes.view(a).max, 1))
  const first = order.length - folded.length - (inMemory ? 1 : 0)
  const steps = (i: number): number => {
    const axis = order[i] ?? ''
    const { max } = axes.view(axis)
    return axis !== vector ? max : inMemory ? 1 : Math.ceil(max / (4 * copies))
  }
  let inner = 1
  for (let i = order.length - 1; i >= first; i--) {
    if (inner * steps(i) > chunk) {
      const rounds = Math.max(1, Math.floor(chunk / inner))
      const outer = order.slice(first, i).reduce((m, _, at) => m * steps(first + at), 1)
      return { depth: i, rounds, pushes: outer * Math.ceil(steps(i) / rounds) }
    }
    inner *= steps(i)
  }
  return undefined
}

/** Whether folding rows into accumulators in memory pays, and the folds allow it. */
function foldsInMemory(places: Places, nest: Nest, work: Work, vector: string): boolean {
  const { axes, facts } = places
  const rows = nest.folded.reduce((n, a) => n * axes.view(a).max, 1)
  const inner = nest.folded.at(-1)
  if (inner === undefined || rows < 64 || axes.view(vector).max < 32) return false
  if (facts.strict && rows > 1024) return false
  if (nest.roots.some((r) => r.kind === 'fold' && r.fold.combiner.startsWith('arg'))) return false
  const along = work.touches.filter((t) => t.param !== undefined && strideOf(t.position, vector) === t.unit)
  const apart = (t: Touch): number => Math.abs(strideOf(t.position, inner) ?? 0)
  if (along.some((t) => !t.write && apart(t) >= farRows)) return true
  if (work.long.length > 0) return false
  // Rows of a program that are one run are gone through as such: columns of several of them share lines, and so do columns of one that comes from far.
  const row = axes.view(vector).max
  const runs = along.filter((t) => apart(t) === row * t.unit)
  if (runs.length > 1) return true
  const own = facts.machine.loops?.own ?? Number.POSITIVE_INFINITY
  return runs.some((t) => row * t.unit >= longRows && bytesOfParam(places, t) > farBytes * own)
}

/** Bytes of rows that are long, and of how many of the core's own memories what comes from beyond them is. */
const [longRows, farBytes] = [512, 4]

const bytesOfParam = (places: Places, { param, unit }: Touch): number =>
  param === undefined ? 0 : unit * sizeOf(places.paramOf(param).shape)
