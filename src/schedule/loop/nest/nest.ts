/** Loop order, vector axis and unrolling of a nest, by a small cost model of its memory accesses. */
import { type Expr, flatten, strideOf, valuesOf } from '../../../affine/expr.ts'
import { drawsAt } from '../../../kernel/draws.ts'
import { type KernelParam, operandsOf, type ValueId } from '../../../kernel/ir.ts'
import { fastChunkOf } from '../../../scalar/summation.ts'
import { elementsPerCall, isRandomDType } from '../../../scalar/threefry.ts'
import type { Machine } from '../../../target/machine.ts'
import { inAdditions } from '../../../target/prices.ts'
import { dtypeClass } from '../../../types/dtype.ts'
import { isFunction, statementSeconds, waitingSeconds } from '../../price.ts'
import type { Cut, Fetch, NestSchedule } from '../ir/schedule.ts'
import type { Nest, Root } from '../ir/steps.ts'
import type { Axes, Tile } from '../ir/tile.ts'
import type { Places } from '../tiles/places.ts'
import { bytePosition, readsFreely } from './position.ts'

/** What is decided of a nest's loops. */
type Loops = Pick<NestSchedule, 'order' | 'vector' | 'copies' | 'inTurn' | 'inMemory' | 'fetch' | 'cut'>

/** Below this many instructions a vector, enough loads are in flight for the memory to keep up. */
const fetchAbove = 8
/** Bytes of a row worth fetching ahead: it must stay in the cache. */
const [leastFetch, mostFetch] = [1024, 65536]

interface Touch {
  readonly param?: string
  readonly position: Expr
  readonly masked: boolean
  /** Lanes of a mask are chosen after the read, which nothing is asked for. */
  readonly free?: boolean
  readonly write: boolean
  readonly unit: number
  /** Several elements a byte: `position` counts elements. */
  readonly packed?: boolean
}

interface Work {
  readonly touches: readonly Touch[]
  /** Additions' worth of arithmetic a point, and of what is not random bits. */
  readonly arithmetic: number
  readonly besideRandom: number
  /** Additions' worth of converting what is read and written. */
  readonly conversions: number
  /** Copies whose random bits four calls side by side make. */
  readonly callCopies: number
  /** Copies that read one element of random bits. */
  readonly drawCopies: number
  /** Values of many instructions, operands first. */
  readonly long: readonly ValueId[]
  /** Seconds of the arithmetic of an element, and of its longest chain. */
  readonly seconds: number
  readonly chain: number
}

/** How many copies may share calls of random bits, and how much beside them may be written out for each. */
const mostCallCopies = 16
const mostBesideCalls = 64

/** What one point of a nest touches and computes; what varies along none of its axes is computed outside. */
function workOf(places: Places, { space, roots }: Nest): Work {
  const touches: Touch[] = []
  const { prices } = places.facts.machine
  let [arithmetic, random, conversions] = [0, 0, 0]
  let [callCopies, drawCopies] = [1, 1]
  let [spent, chain] = [0, 0]
  const long: ValueId[] = []
  const paths = new Map<ValueId, number>()
  const seen = new Set<ValueId>()
  const tile = (t: Tile, write: boolean): void => {
    touches.push({ position: places.axes.tileIndex(t), masked: false, write, unit: t.dtype === 'f64' ? 8 : 4 })
  }
  /** What waits for values takes so many seconds, and stands as `id`. */
  const takes = (id: ValueId | undefined, seconds: number, of: readonly ValueId[] = []): void => {
    spent += seconds
    const path = seconds + Math.max(0, ...of.map((i) => paths.get(i) ?? 0))
    if (id !== undefined) paths.set(id, path)
    chain = Math.max(chain, path)
  }
  const visit = (id: ValueId): void => {
    if (seen.has(id)) return
    seen.add(id)
    const place = places.get(id)
    if (place === 'register') return
    if (place !== undefined) {
      tile(place, false)
      return
    }
    const { op } = places.def(id)
    if (op === undefined) return
    if (op.kind === 'at') {
      touches.push({
        position: places.axes.tileIndex(places.tileOf(op.of), op.index),
        masked: false,
        write: false,
        unit: 4,
      })
      return
    }
    operandsOf(op).forEach(visit)
    if (op.kind === 'load') {
      const p = places.paramOf(op.param)
      const masked = op.mask.length > 0 || op.maskValue !== undefined
      const free = readsFreely(p, op)
      touches.push({ param: op.param, ...placeOf(p, op.index), masked, free, write: false })
      const seconds = prices.read[places.def(id).dtype]
      conversions += inAdditions(seconds, prices)
      takes(id, seconds)
      return
    }
    const reach = places.reachOf(id)
    if (!space.some((a) => reach.has(a))) return
    const seconds = statementSeconds(places.def(id), (i) => places.def(i).dtype, prices)
    takes(id, seconds, operandsOf(op))
    if (isFunction(places.def(id), (i) => places.def(i).dtype, prices)) long.push(id)
    if (op.kind === 'random') {
      random += inAdditions(seconds, prices)
      const { dtype } = places.def(id)
      const { repeat } = drawsAt(op.index)
      if (isRandomDType(dtype)) callCopies = Math.max(callCopies, elementsPerCall(dtype) * repeat)
      drawCopies = Math.max(drawCopies, repeat / 4)
    } else if (op.kind !== 'const') arithmetic += op.kind === 'scalar' ? inAdditions(seconds, prices) : 1
  }
  for (const r of roots) {
    if (r.kind === 'fold') {
      r.fold.args.forEach(visit)
      arithmetic += r.fold.args.length
    } else if (r.kind === 'keep') {
      visit(r.id)
      tile(r.tile, true)
    } else {
      const s = r.stmt
      visit(s.value)
      if (s.maskValue !== undefined) visit(s.maskValue)
      for (const e of s.index) valuesOf(e).forEach(visit)
      const p = places.paramOf(s.param)
      touches.push({ param: s.param, ...placeOf(p, s.index), masked: s.mask.length > 0, write: true })
      const seconds = prices.write[places.def(s.value).dtype]
      conversions += inAdditions(seconds, prices)
      takes(undefined, seconds, [s.value])
    }
  }
  const counts = { arithmetic: arithmetic + random, besideRandom: arithmetic, conversions, callCopies, drawCopies }
  return { touches, ...counts, long, seconds: spent, chain }
}

/** Where an access of a parameter stands, in bytes, or in elements of a packed format. */
const placeOf = (p: KernelParam, index: readonly Expr[]): Pick<Touch, 'position' | 'unit' | 'packed'> =>
  p.format === 'plain'
    ? { position: bytePosition(p, index), unit: bytesOf(p.dtype) }
    : { position: flatten(index, p.shape), unit: 1, packed: true }

const bytesOf = (d: Parameters<typeof dtypeClass>[0]): number =>
  ({ f32: 4, f64: 8, f16: 2, bf16: 2, i8: 1, i16: 2, i32: 4, i64: 8, u8: 1, u16: 2, u32: 4, u64: 8, bool: 1 })[d]

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
  if (arithmetic <= 6) return folds > 2 ? 2 : 4
  return folds > 0 && arithmetic <= 12 ? 2 : 1
}

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
  const inTurn = copies === 1 || inMemory ? [] : work.long.filter((id) => places.reachOf(id).has(vector ?? ''))
  return {
    ...loops,
    inTurn,
    fetch: inMemory || vector === undefined || order.at(-1) !== vector ? [] : fetches(places, work, vector),
    cut: places.facts.strict || nest.folded.length === 0 ? undefined : cutOf(axes, loops, nest.folded),
  }
}

/** The cut of the folded loops where an accumulator would otherwise fold more than a chunk of its terms in order. */
function cutOf(
  axes: Axes,
  { order, vector, copies, inMemory }: Omit<Loops, 'inTurn' | 'fetch' | 'cut'>,
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

/** Rows this many bytes apart fall on different pages. */
const farRows = 2048

/** Whether folding rows into accumulators in memory pays, and the folds allow it. */
function foldsInMemory(places: Places, nest: Nest, work: Work, vector: string): boolean {
  const { axes, facts } = places
  const rows = nest.folded.reduce((n, a) => n * axes.view(a).max, 1)
  const inner = nest.folded.at(-1)
  if (inner === undefined || rows < 64 || axes.view(vector).max < 32) return false
  if (facts.strict && rows > 1024) return false
  if (nest.roots.some((r) => r.kind === 'fold' && r.fold.combiner.startsWith('arg'))) return false
  return work.touches.some(
    (t) =>
      t.param !== undefined &&
      !t.write &&
      strideOf(t.position, vector) === t.unit &&
      Math.abs(strideOf(t.position, inner) ?? 0) >= farRows,
  )
}

/**
 * Reads to fetch ahead. A loop that computes much for each element and writes nothing keeps few loads in flight, and where
 * the processor does not prefetch well it waits for memory: one load a cache line over the whole row goes first.
 */
function fetches(places: Places, work: Work, vector: string): Fetch[] {
  if (work.arithmetic < fetchAbove || work.touches.some((t) => t.write && t.param !== undefined)) return []
  return work.touches.flatMap(({ param, position, masked, unit, packed }) => {
    const bytes = unit * places.axes.view(vector).max
    const contiguous = valuesOf(position).size === 0 && strideOf(position, vector) === unit
    return param === undefined || packed === true || masked || !contiguous || bytes < leastFetch || bytes > mostFetch
      ? []
      : [{ param, position, unit }]
  })
}

/** How far an axis moves through memory, over all accesses: far-moving axes go outside. */
function strideSum(work: Work, a: string): number {
  return work.touches.reduce(
    (n, t) => n + Math.min(1e6, Math.abs(strideOf(t.position, a) ?? 16)) * (t.write ? 2 : 1),
    0,
  )
}
