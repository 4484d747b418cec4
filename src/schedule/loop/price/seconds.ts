/**
 * Predicted seconds of a kernel on one core, by its schedule and the record of the machine: operations at the width they run at, accesses
 * by how they stand, loops, and what streams bring from the memories beyond the core's own.
 */

import { evaluate, valuesOf } from '../../../affine/expr.ts'
import { invariant } from '../../../diagnostics/errors.ts'
import { startOf } from '../../../kernel/axes.ts'
import type { Kernel, LoopStmt, ValueId } from '../../../kernel/ir.ts'
import { storeOperands } from '../../../kernel/walk.ts'
import type { LoopMachine } from '../../../target/loops.ts'
import type { Machine } from '../../../target/machine.ts'
import { dtypeBytes } from '../../../types/dtype.ts'
import { sizeOf } from '../../../types/shape.ts'
import { joinedAxes } from '../ir/joined.ts'
import type {
  BlockSchedule,
  CopySchedule,
  LevelSchedule,
  LoopStep,
  NestSchedule,
  ProductSchedule,
  ScanSchedule,
  Slide,
} from '../ir/schedule.ts'
import { foldsOf } from '../ir/schedule.ts'
import type { Fold } from '../ir/steps.ts'
import { definitionsOf } from '../ir/tile.ts'
import { factsOf, type ScheduledPart } from '../scheduleKernel.ts'
import { Places } from '../tiles/places.ts'
import { type Around, streamSeconds, timesOf } from './streams.ts'
import { Tally } from './tally.ts'
import { type LoopTerms, termSeconds } from './terms.ts'
import { Pricer, type Standing } from './work.ts'

/** The price of a kernel: seconds, and the terms they come from. */
export interface LoopPrice extends LoopTerms {
  readonly seconds: number
  /** Of operations, by name. */
  readonly operations: ReadonlyMap<string, number>
  readonly launch: number
}

/** The price of a kernel by its schedule. `held`: bytes that stay near from one run to the next, the kernel's own unless given. */
export function loopSeconds(
  kernel: Kernel,
  parts: readonly ScheduledPart[],
  machine: Machine,
  held = bytesOf(kernel),
): LoopPrice {
  const { loops } = machine
  invariant(loops !== undefined, `the machine ${machine.name} has no loops`)
  const facts = factsOf(kernel, machine, () => false)
  const tally = new Tally()
  let [nearer, memory] = [0, 0]
  for (const { schedule } of parts) {
    const { part, axes, body } = schedule
    const places = new Places(facts, definitionsOf(part.body), axes)
    const own = new Tally()
    const grid = part.grid.map(({ axis }) => {
      const v = axes.view(axis)
      return { axis, count: v.extent / v.max, every: v.max }
    })
    new PartPricer(places, own, loops).level(body, grid)
    own.loops += timesOf(grid) * loops.program
    const { near, far } = streamSeconds(own.streams, held, machine.memories, loops)
    nearer += near
    memory += far
    for (const [name, s] of own.operations) tally.operate(name, s)
    tally.accesses += own.accesses
    tally.loops += own.loops
    tally.waiting += own.waiting
  }
  const { operations, arithmetic, accesses, loops: around, waiting } = tally
  const terms = { arithmetic, waiting, accesses, loops: around, nearer, memory }
  const { overlap, launch } = machine
  return { seconds: termSeconds(terms, { overlap, loops }) + launch, operations, ...terms, launch }
}

/** Bytes of a kernel's parameters. */
const bytesOf = (kernel: Kernel): number =>
  kernel.params.reduce(
    (n, p) => n + sizeOf(p.shape) * (p.format === 'plain' ? dtypeBytes(p.dtype) : p.format === 'bits' ? 1 / 8 : 1 / 2),
    0,
  )

/** Goes through the steps of a part in their order: a value stands where the step before put it. */
class PartPricer {
  private readonly places: Places
  private readonly tally: Tally
  private readonly machine: LoopMachine
  private nests = 0
  private gridLoops = 0

  constructor(places: Places, tally: Tally, machine: LoopMachine) {
    this.places = places
    this.tally = tally
    this.machine = machine
  }

  level(level: LevelSchedule, around: readonly Around[]): void {
    if (this.nests === 0) this.gridLoops = around.length
    for (const step of level.steps) this.step(step, around)
  }

  private standing(around: readonly Around[]): Standing {
    return { around, gridLoops: this.gridLoops, nest: this.nests++ }
  }

  private step(step: LoopStep, around: readonly Around[]): void {
    switch (step.kind) {
      case 'nest':
        this.nest(step, around)
        break
      case 'copy':
        this.copy(step, around)
        break
      case 'product':
        this.product(step, around)
        break
      case 'scan':
        this.scan(step, around)
        break
      case 'loop':
        this.loop(step, around)
        break
    }
  }

  private nest(nest: NestSchedule, around: readonly Around[]): void {
    const { places, tally } = this
    const own = new Tally()
    const { slide } = nest
    const apart = places.axes
    places.axes = joinedAxes(apart, nest.joined)
    const standing = this.standing(around)
    const counts = slide === undefined ? undefined : placesOf(slide, places.axes.view(slide.axis).max)
    const pricer = (order: readonly string[], slid?: Fold): Pricer =>
      new Pricer(places, own, standing, { ...nest, order, counts }, this.machine, slid)
    const sums = pricer(slide === undefined ? nest.order : slidOrder(slide, nest.folded))
    // What follows a sum that slides is computed once a window.
    const at =
      slide === undefined
        ? sums
        : pricer(
            nest.order.filter((a) => !nest.folded.includes(a)),
            foldsOf(nest)[0],
          )
    sums.rounds()
    for (const r of nest.roots) {
      if (r.kind === 'fold' && slide !== undefined) {
        sums.slide(r.fold, slide, nest)
        places.set(r.fold.id, nest.results.get(r.fold.id) ?? 'register')
      } else if (r.kind === 'fold') at.fold(r.fold, nest)
      else if (r.kind === 'keep') {
        at.value(r.id)
        at.tile(r.tile, true)
      } else {
        const { stmt } = r
        for (const id of storeOperands(stmt)) at.value(id)
        const p = places.paramOf(stmt.param)
        at.written(stmt.value)
        if (stmt.combiner !== undefined) at.combined(stmt, p, stmt.combiner)
        at.param(p, stmt.index, { masked: at.maskVaries(stmt), write: true }, stmt.combiner === undefined ? 1 : 2)
      }
    }
    places.axes = apart
    for (const r of nest.roots) {
      if (r.kind === 'keep' && r.home) places.set(r.id, r.tile)
      if (r.kind === 'fold') places.set(r.fold.id, nest.results.get(r.fold.id) ?? 'register')
    }
    const work = own.arithmetic + own.accesses
    const groups = nest.inTurn.length > 0 ? nest.copies : 1
    own.waiting = Math.max(sums.waiting(work, groups), at.waiting(work, groups))
    own.loops += Math.max(0, at.wait - work)
    for (const [name, s] of own.operations) tally.operate(name, s)
    tally.accesses += own.accesses
    tally.loops += own.loops
    tally.waiting += own.waiting
    tally.streams.push(...own.streams)
  }

  /** Runs move in vectors; what is transposed moves in blocks, four vectors in, four out, each shuffled twice. */
  private copy({ root, source, space, along, across }: CopySchedule, around: readonly Around[]): void {
    const { places, machine, tally } = this
    const axis = across === undefined ? along.axes[0] : across.axes[0]
    const order = [...space.filter((a) => a !== axis), ...(axis === undefined ? [] : [axis])]
    const at = new Pricer(places, tally, this.standing(around), { order, vector: axis, copies: 4 }, machine)
    at.rounds(across === undefined ? 1 : machine.lanes)
    at.copied(source, root.tile, across !== undefined)
    if (root.home) places.set(root.id, root.tile)
  }

  /** Blocks of accumulators: two vectors of columns beside some rows, the fewer rows the more loads for each product. */
  private product({ product, tile, blocks, pairs }: ProductSchedule, around: readonly Around[]): void {
    const { places, machine, tally } = this
    const size = (names: readonly string[]): number => names.reduce((n, a) => n * places.axes.view(a).max, 1)
    const [m, n, k] = [size(product.m), size(product.n), size(product.k)]
    const { matrixRate: others, integerMatrixRate = others } = places.facts.machine
    const matrixRate = product.short === undefined ? others : integerMatrixRate
    const lanes = product.compute === 'f64' ? machine.lanes / 2 : machine.lanes
    const panels = Math.ceil(n / (2 * lanes))
    const most = blocks[0] ?? 1
    // A whole block of four rows goes at the machine's rate.
    const step = (2 * 8 * lanes) / matrixRate
    const whole = product.short === 'depth' ? 2 : 4
    const share = (rows: number): number => (whole * (rows + productLoads)) / (4 * (whole + productLoads))
    let [left, seconds, sweeps] = [m, 0, 0]
    for (const rows of blocks) {
      const count = Math.floor(left / rows)
      left -= count * rows
      seconds += count * panels * k * step * share(rows)
      sweeps += count
    }
    if (left > 0) seconds += panels * k * step * share(most)
    const times = timesOf(around)
    tally.operate('product', times * seconds)
    tally.loops += times * sweeps * panels * productBlock(machine)
    // Two rows of eight columns are read, interleaved and written.
    if (pairs !== undefined) tally.accesses += ((times * n * k) / 16) * (4 * machine.whole + 2 * machine.shuffled)
    const order = [...product.m, ...product.n, ...product.k]
    const at = new Pricer(places, tally, this.standing(around), { order, vector: undefined, copies: 1 }, machine)
    const { directA, directB } = product
    at.operand(directA === undefined ? places.tileOf(product.a) : directA)
    at.operand(directB === undefined ? places.tileOf(product.b) : directB)
    at.operand(tile)
    places.set(product.id, tile)
  }

  private scan({ stmt, tile, outer, vector, copies }: ScanSchedule, around: readonly Around[]): void {
    const { places, machine, tally } = this
    const { op } = stmt
    if (op.kind !== 'scan') return
    const along = vector === op.axis
    const order = along ? [...outer, op.axis] : [...outer, ...(vector === undefined ? [] : [vector]), op.axis]
    const at = new Pricer(places, tally, this.standing(around), { order, vector, copies }, machine)
    at.rounds()
    at.value(op.arg)
    at.scanned(stmt.dtype, along)
    at.tile(tile, true)
    places.set(stmt.id, tile)
  }

  /** Indices that a loop goes through, on average over the grid: bounds that hang on values bound nothing. */
  private rangeOf({ axis, from, to }: LoopStmt, around: readonly Around[]): number {
    const { extent } = this.places.axes.view(axis)
    if (from === undefined && to === undefined) return extent
    let seen = 0
    for (let i = 0; i < rangeSamples; i++) {
      const startAt = (name: string): number => {
        const g = around.find((x) => x.axis === (startOf(name) ?? name))
        return g === undefined ? 0 : (g.every ?? 1) * Math.floor(((i + 0.5) / rangeSamples) * Math.ceil(g.count))
      }
      const first = from === undefined ? undefined : this.boundAt(from, startAt)
      const end = to === undefined ? undefined : this.boundAt(to, startAt)
      seen += Math.max(0, Math.min(extent, end ?? extent) - Math.max(0, first ?? 0))
    }
    return Math.max(1, seen / rangeSamples)
  }

  /** A bound of a loop in a program: positions, and the greatest or least of some. */
  private boundAt(id: ValueId, startAt: (name: string) => number): number | undefined {
    const { op } = this.places.def(id)
    if (op?.kind === 'index') return valuesOf(op.expr).size > 0 ? undefined : evaluate(op.expr, startAt, () => 0)
    if (op?.kind !== 'scalar' || (op.op !== 'max' && op.op !== 'min')) return undefined
    const all = op.args.flatMap((x) => this.boundAt(x, startAt) ?? [])
    if (all.length < op.args.length) return undefined
    return op.op === 'max' ? Math.max(...all) : Math.min(...all)
  }

  private loop(step: BlockSchedule, around: readonly Around[]): void {
    const { places, machine, tally } = this
    const { stmt, fills, body, axes, registers, tiles } = step
    for (const f of fills) this.step(f, around)
    const outer = places.axes
    const every = Math.min(stmt.block, outer.view(stmt.axis).extent)
    // What stands inside is priced by whole blocks: of one that ends early, a part.
    const rounds = this.rangeOf(stmt, around) / every
    const inside = [...around, { axis: stmt.axis, count: rounds, every }]
    tally.loops += timesOf(around) * (machine.entry + Math.max(1, rounds) * (machine.round + machine.entry))
    places.axes = axes
    for (const { param } of registers) places.set(param, 'register')
    for (const c of tiles) places.set(c.carry.param, c.tile)
    this.level(body, inside)
    places.axes = outer
    for (const { result } of registers) places.set(result, 'register')
    for (const { carry, tile } of tiles) places.set(carry.result, tile)
  }
}

/** Programs, spread over the grid, whose loops tell what a loop goes through on average. */
const rangeSamples = 32

/** The loops of windows that slide: over places instead of windows, all taps of a round at once. */
const slidOrder = ({ order, axis, walked, inner }: Slide, folded: readonly string[]): string[] =>
  order.filter((a) => !folded.includes(a)).map((a) => (a === axis ? (inner?.walked ?? walked) : a))

/** How many places windows go over that slide along so many indices. */
const placesOf = ({ walked, lag, inner }: Slide, windows: number): ReadonlyMap<string, number> =>
  new Map([[inner?.walked ?? walked, windows + lag]])

/** Loads beside each step of a block of accumulators, in rows. */
const productLoads = 1.5

/** Seconds of a block of accumulators beside its depth: written, and begun anew. */
const productBlock = (m: LoopMachine): number => m.entry
