/** Scheduling of a part: its levels of statements (the part's body, loops' bodies) taken as steps, each with its loops, its tiles, its way. */

import type { Scale } from '../../affine/expr.ts'
import { invariant } from '../../diagnostics/errors.ts'
import { loopAxes } from '../../kernel/axes.ts'
import { closesOf, foldedCarries } from '../../kernel/carried.ts'
import { type KernelPart, type LetStmt, type LoopStmt, operandsOf, type Stmt, type ValueId } from '../../kernel/ir.ts'
import { storeOperands } from '../../kernel/walk.ts'
import { placesOf } from '../../scalar/summation.ts'
import { nearBytes } from '../../target/loops.ts'
import type { DType } from '../../types/dtype.ts'
import { doubledWindows, stagedWindows } from './doubledWindows.ts'
import { joinedAxes } from './ir/joined.ts'
import { operandLayout, type Product } from './ir/product.ts'
import type {
  BlockSchedule,
  CopySchedule,
  InnerSteps,
  LevelSchedule,
  LoopSchedule,
  LoopStep,
  NestSchedule,
  ScanSchedule,
  Slide,
} from './ir/schedule.ts'
import { foldsOf } from './ir/schedule.ts'
import {
  type Fold,
  isTotal,
  type LevelContext,
  type Nest,
  operandsOfRoot,
  outerValues,
  type Root,
  type Step,
} from './ir/steps.ts'
import { Axes, type AxisView, blockView, definitionsOf, localView, openView, type Tile } from './ir/tile.ts'
import { foldsInBlocks } from './nest/foldBlocks.ts'
import { innerSteps } from './nest/innerSteps.ts'
import { joinedOf, standingOf } from './nest/joined.ts'
import { chooseLoops } from './nest/nest.ts'
import { copyOf } from './nest/packing.ts'
import { joinPairs } from './nest/pairs.ts'
import { loopsOfSlide, slideSums } from './nest/slide.ts'
import { storesApart, withEnd } from './nest/slideEnd.ts'
import { tapsTogether } from './nest/tapsTogether.ts'
import { transposedLoads } from './nest/transposed.ts'
import { writeOutSums } from './nest/writeOut.ts'
import { planLevel } from './partition.ts'
import {
  blocksOf,
  findProducts,
  type ProductTarget,
  pairsOf,
  rowsAreContiguous,
  rowsAtOnce,
  targetOf,
} from './products.ts'
import { scheduleScan } from './scan.ts'
import { carryPlan } from './tiles/carry.ts'
import { movedHalves } from './tiles/movedHalves.ts'
import { inlineOperands, type KernelFacts, Places } from './tiles/places.ts'

/** The schedule of a part on one core. */
export function scheduleLoops(declared: KernelPart, facts: KernelFacts): LoopSchedule {
  const whole = schedulePart(movedHalves(joinPairs(declared, facts.params), facts.params), facts)
  const doubled = doubledWindows(whole, facts)
  const apart = doubled === undefined ? whole : schedulePart(doubled, facts)
  const together = tapsTogether(apart, facts)
  const direct = together === undefined ? apart : schedulePart(together, facts)
  const slides = slideSums(direct, facts.strict)
  const staged = slides === undefined ? stagedWindows(direct, facts) : undefined
  const first = staged === undefined ? direct : schedulePart(staged, facts)
  const slid = staged === undefined ? slides : slideSums(first, facts.strict)
  const part = slid?.part ?? first.part
  const isSlid = (nest: NestSchedule): boolean => foldsOf(nest).some((f) => slid?.slides.has(f.id))
  // Sums that slide read what no statement does.
  const read = [...(slid?.slides.values() ?? [])].flatMap((s) => [...s.terms, ...(s.inner?.terms ?? [])])
  const factors = read.flatMap((t) => t.factors)
  const written = writeOutSums({ ...first, part }, facts, isSlid, factors)
  if (slid !== undefined || written !== undefined) return schedulePart(written ?? part, facts, slid)
  const blocked = foldsInBlocks(first, facts)
  if (blocked !== undefined) return schedulePart(blocked, facts)
  const inside = innerSteps(first)
  return inside === undefined ? first : schedulePart(inside.part, facts, inside)
}

/** What was found of a part's folds before: how they slide, and their inner steps. */
interface Found {
  readonly slides?: ReadonlyMap<ValueId, Slide>
  readonly inner?: ReadonlyMap<ValueId, InnerSteps>
}

function schedulePart(part: KernelPart, facts: KernelFacts, found: Found = {}): LoopSchedule {
  const axes = new Axes(viewsOf(part, facts.scalars))
  const places = new Places(facts, definitionsOf(part.body), axes)
  const body = new LevelScheduler(places, part.body, new Map(), found).schedule([])
  return { part, axes, body, scratch: places.scratch.bytes }
}

/** The axes of a part as a program sees them. */
function viewsOf(part: KernelPart, scalars: ReadonlyMap<string, Scale>): Map<string, AxisView> {
  const blocks = new Map(part.grid.map((g) => [g.axis, g.block]))
  for (const name of loopAxes(part.body)) invariant(!blocks.has(name), `${name} is both a grid and a loop axis`)
  return new Map(
    part.axes.map(({ name, extent, open }) => {
      const block = blocks.get(name)
      const scale = open === undefined ? undefined : scalars.get(open)
      if (scale !== undefined) return [name, openView(name, scale, block ?? extent)]
      return [name, block === undefined ? localView(name, extent) : blockView(name, extent, block)]
    }),
  )
}

class LevelScheduler {
  private readonly places: Places
  private readonly stmts: readonly Stmt[]
  private readonly products: ReadonlyMap<ValueId, Product>
  private readonly targets = new Map<ValueId, ProductTarget>()
  private readonly tiles = new Map<ValueId, Tile>()
  private readonly layouts = new Map<ValueId, Omit<Tile, 'offset'>>()
  private readonly copied = new Set<ValueId>()
  private readonly slides: ReadonlyMap<ValueId, Slide>
  private readonly inner: ReadonlyMap<ValueId, InnerSteps>

  /** `carried`: tiles of carried values that products accumulate into in place, by product. */
  constructor(
    places: Places,
    stmts: readonly Stmt[],
    carried: ReadonlyMap<ValueId, Tile>,
    { slides = new Map(), inner = new Map() }: Found = {},
  ) {
    this.places = places
    this.slides = slides
    this.inner = inner
    this.stmts = stmts
    this.products = findProducts(places, stmts, places.axes)
    for (const p of this.products.values()) {
      this.targets.set(p.id, targetOf(places, p, carried.get(p.id)))
      if (p.directA === undefined && !places.has(p.a))
        this.layouts.set(p.a, operandLayout(p, 'a', rowsAreContiguous(places, p), places.axes))
      if (p.directB === undefined && !places.has(p.b)) this.layouts.set(p.b, operandLayout(p, 'b', false, places.axes))
    }
    for (const [id, layout] of transposedLoads(places, stmts)) {
      this.layouts.set(id, layout)
      this.copied.add(id)
    }
  }

  private readonly makeTile = (id: ValueId, axes: readonly string[], dtype: DType): Tile => {
    const have = this.tiles.get(id)
    if (have !== undefined) return have
    const tile = this.places.scratch.place(this.layouts.get(id) ?? this.places.axes.layout(axes, dtype))
    this.tiles.set(id, tile)
    return tile
  }

  /** `finals`: what the end of a loop's body writes. */
  schedule(finals: readonly Root[]): LevelSchedule {
    const { places, stmts } = this
    const staged = stagedUses(stmts, this.products)
    const ctx: LevelContext = {
      machine: places.facts.machine,
      axes: places.axes,
      strict: places.facts.strict,
      products: this.products,
      def: (id) => places.def(id),
      hasHome: (id) => places.has(id),
      place: (id) => places.get(id),
      param: (name) => places.paramOf(name),
      makeTile: this.makeTile,
      mayAlias: places.facts.mayAlias,
      productInit: (p) => this.targets.get(p.id)?.init,
      needsStage: (id) => staged.has(id),
      copied: this.copied,
    }
    const early = this.early()
    const planned = planLevel(stmts, ctx, finals)
    const steps: LoopStep[] = []
    for (let i = 0; i < planned.length; i++) {
      const [step, next] = [planned[i], planned[i + 1]]
      if (step === undefined) continue
      const whole = withEnd(places, this.slides, step, next, planned.slice(i + 2))
      steps.push(this.step(whole ?? step))
      if (whole !== undefined) i++
    }
    return { early, steps }
  }

  private step(step: Step): LoopStep {
    switch (step.kind) {
      case 'nest':
        return this.nest(step)
      case 'product':
        return this.product(step.product)
      case 'scan':
        return this.scan(step.stmt)
      case 'loop':
        return this.loop(step.stmt)
    }
  }

  /** Single elements of memory that some store may overwrite are read first. */
  private early(): ValueId[] {
    const { stmts, places } = this
    const written = stmts.flatMap((s) => (s.kind === 'store' ? [s.param] : []))
    return stmts.flatMap((s) => {
      if (s.kind !== 'let' || s.op.kind !== 'load') return []
      const { param } = s.op
      if (!written.some((w) => places.facts.mayAlias(w, param)) || this.waits(s.id)) return []
      return places.reachOf(s.id).size === 0 ? [s.id] : []
    })
  }

  /** Whether a value follows from what the level computes only later: a fold, a loop, a product. */
  private waits(id: ValueId): boolean {
    const { places } = this
    const seen = new Set([id])
    for (const at of seen) {
      if (places.has(at)) continue
      const { op } = places.def(at)
      if (op === undefined || op.kind === 'reduce' || op.kind === 'scan') return true
      for (const i of inlineOperands(op)) seen.add(i)
    }
    return false
  }

  private nest(nest: Nest): NestSchedule | CopySchedule {
    const { places } = this
    const copy = copyOf(places, nest)
    const step = copy ?? this.loops(nest)
    for (const r of nest.roots) if (r.kind === 'keep' && r.home) places.set(r.id, r.tile)
    if (step.kind === 'nest')
      for (const r of nest.roots)
        if (r.kind === 'fold') places.set(r.fold.id, step.results.get(r.fold.id) ?? 'register')
    return step
  }

  /** The loops of a nest, and tiles for what it folds. */
  private loops(nest: Nest): NestSchedule {
    const { roots, folded } = nest
    const totals = new Map<ValueId, readonly Tile[]>()
    const folds = roots.flatMap((r) => (r.kind === 'fold' ? [r.fold] : []))
    const [first, second] = folds
    const slide = first === undefined || second !== undefined ? undefined : this.slides.get(first.id)
    if (first !== undefined && slide !== undefined) {
      // What follows in the nest takes the sum as it leaves.
      const results = roots.length === 1 ? this.resultsOf(folds) : new Map<ValueId, Tile>()
      const overlaps = storesApart(this.places, roots, roots.flatMap(operandsOfRoot))
      return { kind: 'nest', roots, folded, ...loopsOfSlide(slide), results, totals, slide: { ...slide, overlaps } }
    }
    const results = nest.space.length > folded.length ? this.resultsOf(folds) : new Map<ValueId, Tile>()
    const loops = this.chosen(nest, [...results.values()])
    const { cut } = loops
    if (loops.inMemory && cut !== undefined)
      for (const f of folds) {
        const tile = results.get(f.id)
        if (tile === undefined || !isTotal(f)) continue
        totals.set(
          f.id,
          Array.from({ length: placesOf(cut.pushes) }, () => this.places.scratch.place(tile)),
        )
      }
    const inner = first === undefined ? undefined : this.inner.get(first.id)
    return { kind: 'nest', roots, folded, ...loops, results, totals, ...(inner === undefined ? {} : { inner }) }
  }

  /** Tiles for what a nest folds. */
  private resultsOf(folds: readonly Fold[]): Map<ValueId, Tile> {
    return new Map(folds.map((f) => [f.id, this.makeTile(f.id, f.kept, f.dtype)]))
  }

  /** The loops of a nest: along axes that stand beside each other in all of it they go as one. */
  private chosen(nest: Nest, results: readonly Tile[]): ReturnType<typeof chooseLoops> & Pick<NestSchedule, 'joined'> {
    const { places } = this
    const { roots, folded, space } = nest
    const joined = joinedOf(standingOf(places), { space, folded, roots, results })
    if (joined === undefined) return chooseLoops(places, nest)
    const apart = places.axes
    places.axes = joinedAxes(apart, joined)
    const loops = chooseLoops(places, { ...nest, space: space.filter((a) => !joined.with.includes(a)) })
    const { loops: machine } = places.facts.machine
    const near = machine === undefined || results.every((t) => t.bytes <= nearBytes(machine))
    places.axes = apart
    // Accumulators in memory go through all of their tiles for each row that is folded.
    return loops.inMemory && !near ? chooseLoops(places, nest) : { ...loops, joined }
  }

  private product(product: Product): LoopStep {
    const target = this.targets.get(product.id)
    invariant(target !== undefined, `product %${product.id} has no tile`)
    const { tile, fresh } = target
    this.places.set(product.id, tile)
    const { axes, facts } = this.places
    return {
      kind: 'product',
      product,
      tile,
      fresh,
      blocks: blocksOf(product, axes),
      rowsAtOnce: rowsAtOnce(product, axes, facts.machine),
      pairs: pairsOf(product, this.places),
    }
  }

  private scan(stmt: LetStmt): ScanSchedule {
    const { id, axes, dtype } = stmt
    const tile = this.makeTile(id, axes, dtype)
    this.places.set(id, tile)
    return scheduleScan(this.places.axes, stmt, tile, this.places.facts.strict)
  }

  /** Blocks of an axis in order, with what is carried from one to the next. */
  private loop(s: LoopStmt): BlockSchedule {
    const { places } = this
    const { strict } = places.facts
    const outer = places.axes
    const axes = outer.with(blocksView(s, outer.view(s.axis)))
    const products = findProducts(places, s.body, axes)
    const { registers, tiles } = carryPlan(outer, s, products, (layout) => places.scratch.place(layout))
    const fills = tiles.map((c) => {
      const space = outer.varying(c.carry.axes)
      return this.nest({
        kind: 'nest',
        space,
        folded: [],
        roots: [{ kind: 'keep', id: c.carry.init, tile: c.tile, axes: space, home: false }],
      })
    })
    const closes = strict ? [] : closesOf(s, outer.view(s.axis).extent, (id) => places.def(id).op)
    const folds = closes.length === 0 ? [] : foldedCarries(s)
    const carried = folds.map((fold) => {
      const tile = tiles.find((c) => c.carry === fold.carry)?.tile
      return { ...fold, tiles: tile === undefined ? undefined : closes.map(() => places.scratch.place(tile)) }
    })
    places.axes = axes
    for (const { param } of registers) places.set(param, 'register')
    for (const c of tiles) places.set(c.carry.param, c.tile)
    const finals: Root[] = tiles.flatMap(({ carry, write }) =>
      write === undefined
        ? []
        : [{ kind: 'keep', id: carry.next, tile: write, axes: axes.varying(carry.axes), home: false }],
    )
    const inPlace = new Map(tiles.flatMap((c) => (c.product === undefined ? [] : [[c.product, c.tile] as const])))
    const body = new LevelScheduler(places, s.body, inPlace).schedule(finals)
    places.axes = outer
    for (const id of definedIn(s.body)) places.drop(id)
    for (const { param, result } of registers) {
      places.drop(param)
      places.set(result, 'register')
    }
    for (const { carry, tile } of tiles) {
      places.drop(carry.param)
      places.set(carry.result, tile)
    }
    return { kind: 'loop', stmt: s, axes, registers, tiles, fills, closes, carried, body }
  }
}

/** The axis of a loop over blocks, inside it. */
function blocksView(s: LoopStmt, { extent, multiple, open }: AxisView): AxisView {
  if (s.from === undefined && s.to === undefined)
    return open === undefined
      ? blockView(s.axis, extent, s.block)
      : openView(s.axis, { by: open, most: extent, multiple }, s.block)
  return {
    name: s.axis,
    extent,
    max: Math.min(s.block, extent),
    moves: true,
    aligned: 1,
    counts: s.block === 1 ? [1] : undefined,
    multiple: 1,
    ...(open === undefined ? {} : { open }),
  }
}

/** The values that statements define, those of loops' bodies included. */
export function definedIn(stmts: readonly Stmt[]): ValueId[] {
  return stmts.flatMap((s) => {
    if (s.kind === 'let') return [s.id]
    return s.kind === 'loop' ? [...definedIn(s.body), ...s.carries.flatMap((c) => [c.param, c.result])] : []
  })
}

/** Staged values with a reader other than a product (which reads around them). */
function stagedUses(stmts: readonly Stmt[], products: ReadonlyMap<ValueId, Product>): Set<ValueId> {
  const out = new Set<ValueId>()
  for (const s of stmts) {
    if (s.kind === 'let') {
      if (!products.has(s.id)) for (const id of operandsOf(s.op)) out.add(id)
      else if (s.op.kind === 'dot' && s.op.acc !== undefined) out.add(s.op.acc)
    } else if (s.kind === 'store') {
      for (const id of storeOperands(s)) out.add(id)
    } else for (const id of outerValues(s)) out.add(id)
  }
  return out
}
