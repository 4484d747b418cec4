/**
 * What a nest costs: every value at the loop that its operands ask for, in lanes where it varies along the vector axis, else as one
 * element; every access by how it stands along that axis; the rounds and entries of the loops; folds that wait for themselves.
 */
import { atomKey, type Expr, flatten, strideOf, valuesOf, visitAtoms } from '../../../affine/expr.ts'
import type { Predicate } from '../../../affine/predicate.ts'
import { type KernelParam, operandsOf, type StoreStmt, type ValueId } from '../../../kernel/ir.ts'
import { combinerOp } from '../../../scalar/ops.ts'
import type { LoopMachine } from '../../../target/loops.ts'
import { arithmeticOf, priceOf } from '../../../target/prices.ts'
import { type DType, dtypeBytes } from '../../../types/dtype.ts'
import { sizeOf } from '../../../types/shape.ts'
import { waitingSeconds } from '../../price.ts'
import type { DirectOperand } from '../ir/operands.ts'
import type { CopySource, NestSchedule, Slide } from '../ir/schedule.ts'
import { accumulatorDType, type Fold } from '../ir/steps.ts'
import { namedAxes, type Tile, tileBytes } from '../ir/tile.ts'
import { readAs } from '../nest/packing.ts'
import { bytePosition, readsFreely } from '../nest/position.ts'
import { inlined } from '../nest/slideEnd.ts'
import type { Places } from '../tiles/places.ts'
import { type Around, packedStream, streamOf, timesOf } from './streams.ts'
import type { Tally } from './tally.ts'
import {
  chainSeconds,
  divisionSeconds,
  foldSeconds,
  isCall,
  laneSeconds,
  leastLanes,
  loopStatementSeconds,
  mergeSeconds,
} from './terms.ts'

/** Where a nest stands: the loops around it, how many of them are the grid's, and its number. */
export interface Standing {
  readonly around: readonly Around[]
  readonly gridLoops: number
  readonly nest: number
}

interface Loops extends Pick<NestSchedule, 'order' | 'vector' | 'copies'> {
  /** Rounds of axes that are not as long as their views. */
  readonly counts?: ReadonlyMap<string, number> | undefined
}

/** Whether an access writes, and what is asked for each: its mask, or nothing where lanes are chosen after the read. */
interface Asked {
  readonly masked: boolean
  readonly free?: boolean
  readonly write: boolean
}

/** The points of a nest's loops, and what is priced at them. */
export class Pricer {
  private readonly places: Places
  private readonly tally: Tally
  private readonly standing: Standing
  private readonly loops: Loops
  private readonly machine: LoopMachine
  /** How often a loop's body runs, by the number of loops around it; the vector axis in groups of lanes. */
  private readonly runs: number[]
  private readonly seen = new Set<ValueId>()
  private readonly divided = new Set<string>()
  /** Seconds of operations one after another, a step of the innermost loop, until a value stands; and the most of them. */
  private readonly paths = new Map<ValueId, number>()
  private longest = 0
  /** Where the vector axis is: values at a greater depth may be in lanes. */
  private readonly vectorAt: number

  /** A sum that slides, and what follows it: of each window that leaves. */
  private readonly slid: Fold | undefined

  constructor(places: Places, tally: Tally, standing: Standing, loops: Loops, machine: LoopMachine, slid?: Fold) {
    this.slid = slid
    this.places = places
    this.tally = tally
    this.standing = standing
    this.loops = loops
    this.machine = machine
    this.vectorAt = loops.vector === undefined ? Number.POSITIVE_INFINITY : loops.order.indexOf(loops.vector)
    this.runs = [timesOf(standing.around)]
    for (const a of loops.order) {
      const n = this.count(a)
      this.runs.push((this.runs.at(-1) ?? 1) * (a === loops.vector ? Math.ceil(n / machine.lanes) : n))
    }
  }

  /** Axes that a value depends on. */
  private reachOf(id: ValueId): ReadonlySet<string> {
    const { places, slid } = this
    const own = places.reachOf(id)
    if (slid === undefined) return own
    return inlined(places, [id]).includes(slid.id) ? new Set([...own, ...slid.kept]) : own
  }

  private count(axis: string): number {
    return this.loops.counts?.get(axis) ?? this.places.axes.view(axis).max
  }

  /** Rounds of the loops, their entries, and steps that are not whole. `together`: rows of them that one round goes through. */
  rounds(together = 1): void {
    const { order, vector, copies } = this.loops
    const { round, entry, leave, predicted, partial, lanes } = this.machine
    let times = timesOf(this.standing.around) / together
    for (const a of order) {
      const n = this.count(a)
      const wide = lanes * copies
      const rounds = a === vector ? Math.floor(n / wide) + Math.ceil((n % wide) / lanes) : n
      const last = rounds > predicted ? leave : 0
      this.tally.loops += times * (entry + last + rounds * round + (a === vector && n % lanes !== 0 ? partial : 0))
      times *= rounds
    }
  }

  /** The number of loops that something varying along these axes is inside of. */
  private depthOf(axes: ReadonlySet<string>): number {
    let depth = 0
    this.loops.order.forEach((a, i) => {
      if (axes.has(a)) depth = i + 1
    })
    return depth
  }

  /** How often something is done inside so many loops, and for how many elements at once: lanes, or one. */
  private at(depth: number, varies: boolean): { readonly times: number; readonly lanes: number } {
    const times = this.runs[depth] ?? 1
    if (depth <= this.vectorAt) return { times, lanes: 1 }
    return varies ? { times, lanes: this.machine.lanes } : { times: times / this.loops.copies, lanes: 1 }
  }

  /** A value and all that is computed for it here. */
  value(id: ValueId): void {
    if (this.seen.has(id)) return
    this.seen.add(id)
    const { places } = this
    const place = places.get(id)
    if (place === 'register') return
    if (place !== undefined) {
      this.tile(place, false)
      return
    }
    const def = places.def(id)
    const { op } = def
    if (op === undefined) return
    if (op.kind === 'at') {
      this.tile(places.tileOf(op.of), false, places.axes.tileIndex(places.tileOf(op.of), op.index))
      return
    }
    operandsOf(op).forEach((i) => {
      this.value(i)
    })
    const reach = this.reachOf(id)
    const at = this.at(this.depthOf(reach), this.loops.vector !== undefined && reach.has(this.loops.vector))
    const { prices } = places.facts.machine
    if (op.kind === 'load') {
      const p = places.paramOf(op.param)
      const masked = this.maskVaries(op)
      this.param(p, op.index, { masked, free: masked && readsFreely(p, op), write: false })
      this.operate(`read ${def.dtype}`, prices.read[def.dtype], def.dtype, at)
      this.path(id, this.full(def.dtype, false) * prices.read[def.dtype])
      return
    }
    const last = op.kind === 'scalar' ? op.args.at(-1) : undefined
    const dtype = last === undefined ? def.dtype : places.def(last).dtype
    const before = Math.max(0, ...operandsOf(op).map((i) => this.paths.get(i) ?? 0))
    const seconds = loopStatementSeconds(def, (i) => places.def(i), prices)
    const call = op.kind === 'scalar' && isCall(op.op, dtype)
    this.operate(op.kind === 'scalar' ? op.op : op.kind, seconds, dtype, at, call)
    this.path(id, before + this.full(dtype, call) * seconds)
  }

  /** A value stands so many seconds, at full rate, after the operands of its step: those of loops around are there already. */
  private path(id: ValueId, seconds: number): void {
    if (this.depthOf(this.reachOf(id)) < this.loops.order.length) return
    this.paths.set(id, seconds)
    this.longest = Math.max(this.longest, seconds)
  }

  /**
   * Seconds that a nest's operations wait for each other, beside all the work that it does: steps side by side fill what the window reaches. `groups` of lanes
   * compute in turn; where they do not, each is a step of its own, since its chain ends before the next one's begins.
   */
  waiting(work: number, groups: number): number {
    const steps = (this.runs.at(-1) ?? 1) / groups
    return waitingSeconds(work, steps, this.longest, this.machine)
  }

  /** Elements that an operation computes at least in the time of one. */
  private full(dtype: DType, call: boolean): number {
    return leastLanes(dtype, call, this.machine)
  }

  /** An operation of a price an element: in lanes, or on one element, which takes as long as a vector. */
  private operate(
    name: string,
    seconds: number,
    dtype: DType,
    { times, lanes }: { readonly times: number; readonly lanes: number },
    call = false,
  ): void {
    this.tally.operate(name, times * seconds * Math.max(lanes, this.full(dtype, call)))
  }

  /** One step of a fold for every point, its end for every result, and the time its accumulators wait for themselves. */
  fold(fold: Fold, nest: NestSchedule): void {
    const { prices } = this.places.facts.machine
    for (const id of nest.inner?.operands.get(fold.id) ?? fold.args) this.value(id)
    const { order, folded, vector, inMemory, copies } = nest
    const dtype = accumulatorDType(fold)
    const at = this.at(order.length, vector !== undefined)
    this.operate(`fold ${fold.combiner}`, foldSeconds(fold.combiner, dtype, prices, inMemory), dtype, at)
    const first = order.findIndex((a) => folded.includes(a))
    const result = nest.results.get(fold.id)
    if (inMemory) {
      if (result !== undefined) this.tile(result, true, undefined, 2)
      return
    }
    const across = vector !== undefined && folded.includes(vector)
    const ends = mergeSeconds(fold.combiner, dtype, this.machine)
    this.tally.loops += (this.runs[first] ?? 1) * (across ? ends : ends / 4)
    if (result !== undefined) this.tile(result, true, undefined, 1, first)
    const steps = (this.runs[order.length] ?? 1) / copies
    this.wait = Math.max(this.wait, steps * chainSeconds(fold.combiner, dtype, this.machine))
  }

  /** A round of windows that slide: its places and taps, and one step for every term of every window. */
  slide(fold: Fold, { terms: all, inner, order }: Slide, { results, folded }: NestSchedule): void {
    const terms = inner?.terms ?? all
    for (const { factors } of terms) for (const id of factors) this.value(id)
    const { prices } = this.places.facts.machine
    const dtype = accumulatorDType(fold)
    const { times } = this.at(this.loops.order.length, true)
    const price = foldSeconds('sum', dtype, prices, false)
    this.operate('fold sum', price, dtype, { times: times * terms.length, lanes: this.machine.lanes })
    const result = results.get(fold.id)
    if (result !== undefined) this.tile(result, true, undefined, 1, order.length - folded.length)
  }

  /** Converting a value that is written. */
  written(value: ValueId): void {
    const { places, loops } = this
    const { dtype } = places.def(value)
    const reach = this.reachOf(value)
    const at = this.at(this.depthOf(reach), loops.vector !== undefined && reach.has(loops.vector))
    const seconds = places.facts.machine.prices.write[dtype]
    this.operate(`write ${dtype}`, seconds, dtype, at)
    this.longest = Math.max(this.longest, (this.paths.get(value) ?? 0) + this.full(dtype, false) * seconds)
  }

  /** Combining a value with what stands where it is written: read, combined, in lanes where these are neighbours, else one by one, each written by itself. */
  combined({ value, index }: StoreStmt, p: KernelParam, combiner: keyof typeof combinerOp): void {
    const { places, loops } = this
    const { dtype } = places.def(value)
    const { prices } = places.facts.machine
    const at = this.at(loops.order.length, true)
    const [unit, { vector }] = [dtypeBytes(dtype), loops]
    const side = vector !== undefined && strideOf(bytePosition(p, index), vector) === unit
    const both = prices.read[dtype] + priceOf(combinerOp[combiner], dtype, prices)
    const alone = side || at.lanes === 1 ? 0 : (at.lanes - 1) * (both + prices.write[dtype])
    this.operate(`combine ${combiner}`, both + alone, dtype, at)
    const [have, full] = [prices.read[dtype], this.full(dtype, false)]
    const path = Math.max(this.paths.get(value) ?? 0, full * have) + full * (both - have + prices.write[dtype])
    this.longest = Math.max(this.longest, path)
  }

  /** Memory copied into a tile, transposed in blocks of four vectors or as it stands. */
  copied({ pieces }: CopySource, tile: Tile, transposes: boolean): void {
    const times = this.runs[this.loops.order.length] ?? 1
    const { whole, shuffled } = this.machine
    this.tally.accesses += times * (transposes ? 2 * whole + 2 * shuffled : 2 * whole)
    // What is narrower than the tile's words is converted on the way; bits of halves only move.
    const [first] = pieces
    const read = first === undefined ? undefined : readAs(first.param.dtype, tile)
    if (transposes && read !== undefined)
      this.operate(
        `read ${read}`,
        this.places.facts.machine.prices.read[read],
        read,
        this.at(this.loops.order.length, true),
      )
    for (const { param, position } of pieces)
      this.stream(param.name, position, {
        unit: dtypeBytes(param.dtype),
        most: dtypeBytes(param.dtype) * sizeOf(param.shape),
      })
    this.stream(`tile ${tile.offset}`, this.places.axes.tileIndex(tile), {
      unit: tileBytes(tile.dtype),
      most: tile.bytes,
    })
  }

  /** What a product reads and writes: its inner loops move it at their own rate. */
  operand(of: Tile | DirectOperand): void {
    if ('flat' in of) {
      const p = this.places.paramOf(of.param)
      this.stream(
        p.name,
        of.flat,
        { unit: dtypeBytes(p.dtype), most: dtypeBytes(p.dtype) * sizeOf(p.shape) },
        false,
        true,
      )
    } else
      this.stream(
        `tile ${of.offset}`,
        this.places.axes.tileIndex(of),
        { unit: tileBytes(of.dtype), most: of.bytes },
        false,
        true,
      )
  }

  /** A step of a running fold: along lanes, two shuffles and folds, and one more for what stands before them. */
  scanned(dtype: DType, along: boolean): void {
    const { prices } = this.places.facts.machine
    const { order, vector, copies } = this.loops
    const price = prices.fold[arithmeticOf(dtype)]
    this.operate('scan', along ? 3 * price : price, dtype, this.at(order.length, vector !== undefined))
    const steps = this.runs[order.length] ?? 1
    const { chain, shuffled } = this.machine
    this.tally.loops += along ? steps * (chain + 2 * shuffled) : (steps / copies) * chain
  }

  /** Seconds that folds wait for themselves at least. */
  wait = 0

  /** Accesses of a tile, written inside so many loops. */
  tile(t: Tile, write: boolean, position: Expr = this.places.axes.tileIndex(t), accesses = 1, inside?: number): void {
    const unit = t.dtype === 'f64' ? 8 : 4
    this.access(`tile ${t.offset}`, position, { unit, most: t.bytes }, { masked: false, write, accesses, inside })
  }

  /** Whether a mask is asked anew at every step: it varies along the lanes, or there are none. */
  maskVaries({ mask, maskValue }: { readonly mask: Predicate; readonly maskValue?: ValueId | undefined }): boolean {
    const inner = this.loops.vector ?? this.loops.order.at(-1)
    if (inner === undefined) return false
    const ids = mask.flatMap((b) => [...valuesOf(b.expr)])
    const varies = [...ids, ...(maskValue === undefined ? [] : [maskValue])].some((id) =>
      this.places.reachOf(id).has(inner),
    )
    return varies || namedAxes(mask.map((b) => b.expr)).has(inner)
  }

  /** Divisions and remainders of a position (by powers of two: shifts and masks), each computed once, lane by lane where it varies along them. */
  private divisions(position: Expr): void {
    const { prices } = this.places.facts.machine
    visitAtoms(position, (a) => {
      if ((a.kind !== 'div' && a.kind !== 'mod') || this.divided.has(atomKey(a))) return
      this.divided.add(atomKey(a))
      const names = namedAxes([a.of])
      const varies = this.loops.vector !== undefined && names.has(this.loops.vector)
      const { times, lanes } = this.at(this.depthOf(names), varies)
      this.tally.accesses += times * lanes * divisionSeconds(a.by, this.machine, prices)
    })
  }

  /** An access of a parameter, or several at one place. */
  param(p: KernelParam, index: readonly Expr[], how: Asked, accesses = 1): void {
    const packed = p.format !== 'plain'
    const share = p.format === 'bits' ? 1 / 8 : 1 / 2
    const position = packed ? flatten(index, p.shape) : bytePosition(p, index)
    const unit = packed ? share : dtypeBytes(p.dtype)
    this.access(p.name, position, { unit, most: unit * sizeOf(p.shape) }, { ...how, accesses, packed })
  }

  private access(
    key: string,
    position: Expr,
    size: { readonly unit: number; readonly most: number },
    how: Asked & {
      readonly accesses: number
      readonly packed?: boolean
      readonly inside?: number | undefined
    },
  ): void {
    const { places, machine, tally } = this
    const { vector, order } = this.loops
    const names = new Set(namedAxes([position]))
    const anywhere = new Set<string>()
    for (const id of valuesOf(position)) for (const a of places.reachOf(id)) anywhere.add(a)
    for (const a of anywhere) names.add(a)
    const varies = vector !== undefined && names.has(vector)
    const depth = how.write ? (how.inside ?? order.length) : this.depthOf(names)
    const { times, lanes } = this.at(depth, varies || how.write)
    const gathers = vector !== undefined && anywhere.has(vector)
    const stride = vector === undefined ? 0 : strideOf(position, vector)
    const each = lanes === 1 ? machine.single : laneSeconds(machine, gathers ? 'gather' : stride, size.unit, how)
    const chosen = machine.lanes * priceOf('and', 'i32', places.facts.machine.prices)
    const asked = !how.masked ? 0 : lanes === 1 ? machine.round : how.free === true ? chosen : machine.masked
    tally.accesses += times * how.accesses * (each + asked)
    this.divisions(position)
    const n = vector === undefined ? 0 : this.count(vector)
    // What is written in the last step goes lane by lane.
    if (how.write && lanes > 1 && n % machine.lanes !== 0)
      tally.accesses += (times / Math.ceil(n / machine.lanes)) * (n % machine.lanes) * machine.strided
    this.stream(key, position, size, how.packed)
  }

  /** The loops as memory sees them: lanes along an axis outside others move together, so that a step of them is the innermost loop. */
  private movedThrough(): Around[] {
    const { order, vector, copies } = this.loops
    const loops = order.map((axis) => ({ axis, count: this.count(axis) }))
    if (vector === undefined || vector === order.at(-1)) return loops
    const every = Math.min(this.machine.lanes * copies, this.count(vector))
    const steps = loops.map((l) => (l.axis === vector ? { ...l, count: l.count / every, every } : l))
    return [...steps, { axis: vector, count: every }]
  }

  private stream(
    key: string,
    position: Expr,
    size: { readonly unit: number; readonly most: number },
    packed = false,
    blocked = false,
  ): void {
    const { places, tally } = this
    const around = [...this.standing.around, ...this.movedThrough()]
    const made = packed ? packedStream : streamOf
    const standing = { ...this.standing, apart: blocked ? this.standing.around.length : around.length }
    tally.streams.push(made(key, position, size, around, standing, (id) => places.reachOf(id)))
  }
}
