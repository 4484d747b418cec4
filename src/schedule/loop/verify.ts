/**
 * The laws of a loop schedule. Every store, fold, product, scan and loop of the part is in one step of its level; a nest's loops run over
 * just the axes of its space, folded ones inside; what a step reads stands where an earlier step, or itself, put it; no load is
 * computed after a store that may have overwritten its memory; tiles lie in scratch memory beside each other.
 */
import { type KernelPart, type LoopStmt, operandsOf, type Stmt, type ValueId } from '../../kernel/ir.ts'
import { storeOperands } from '../../kernel/walk.ts'
import { isFloat } from '../../types/dtype.ts'
import { type Joined, loopsApart } from './ir/joined.ts'
import type {
  BlockSchedule,
  CopySchedule,
  InnerSteps,
  LevelSchedule,
  LoopSchedule,
  LoopStep,
  NestSchedule,
  Slide,
} from './ir/schedule.ts'
import { isTotal, type Root } from './ir/steps.ts'
import { type Axes, type Def, definitionsOf, type Place, type Tile } from './ir/tile.ts'
import { mayJoin, type Standing } from './nest/joined.ts'
import type { KernelFacts } from './tiles/places.ts'

/** What breaks a law, a line each; none of a schedule that may run. */
export function verifyLoopSchedule(schedule: LoopSchedule, facts: KernelFacts): string[] {
  const v = new Verifier(schedule.part, facts)
  v.level(schedule.body, schedule.part.body, schedule.axes, [])
  v.tiles(schedule.scratch)
  return v.errors
}

class Verifier {
  readonly errors: string[] = []
  private readonly facts: KernelFacts
  private readonly defs: ReadonlyMap<ValueId, Def>
  private readonly placed = new Map<ValueId, Place>()
  private readonly allTiles = new Set<Tile>()
  /** The axes of the level that is gone through. */
  private axes: Axes | undefined

  constructor(part: KernelPart, facts: KernelFacts) {
    this.facts = facts
    this.defs = definitionsOf(part.body)
  }

  private must(holds: boolean, text: string): void {
    if (!holds) this.errors.push(text)
  }

  /** `finals`: tiles that the end of a loop's body writes. */
  level(level: LevelSchedule, stmts: readonly Stmt[], axes: Axes, finals: readonly Tile[]): void {
    const outer = this.axes
    this.axes = axes
    this.complete(level, stmts, finals)
    const stored = new Set<string>()
    for (const id of level.early) this.needs(id, stored, 'an early load')
    const before = new Set([...level.early])
    for (const id of before) this.placed.set(id, 'register')
    for (const step of level.steps) {
      this.step(step, axes, stored)
      for (const p of storesOf(step)) stored.add(p)
    }
    for (const id of before) this.placed.delete(id)
    this.axes = outer
  }

  /** Each statement with an effect or a place of its own has its step, once. */
  private complete({ steps }: LevelSchedule, stmts: readonly Stmt[], finals: readonly Tile[]): void {
    const count = new Map<unknown, number>()
    const note = (key: unknown): unknown => count.set(key, (count.get(key) ?? 0) + 1)
    for (const step of steps) {
      if (step.kind === 'product') note(step.product.id)
      else if (step.kind === 'scan') note(step.stmt.id)
      else if (step.kind === 'loop') note(step.stmt)
      else for (const r of rootsOf(step)) note(keyOf(r))
    }
    const once = (key: unknown, what: string): void => {
      const n = count.get(key) ?? 0
      this.must(n === 1, `${what} is in ${n} steps`)
    }
    for (const s of stmts) {
      if (s.kind === 'store') once(s, `store into ${s.param}`)
      else if (s.kind === 'loop') once(s, `loop over ${s.axis}`)
      else if (this.hasStep(s.id)) once(s.id, `${s.op.kind} %${s.id}`)
    }
    for (const tile of finals) once(tile, `next state in tile ${tile.offset}`)
  }

  private def(id: ValueId): Def {
    return this.defs.get(id) ?? { id, dtype: 'f32', axes: [] }
  }

  private step(step: LoopStep, axes: Axes, stored: ReadonlySet<string>): void {
    switch (step.kind) {
      case 'nest':
        this.nest(step, axes, stored)
        break
      case 'copy':
        this.allTiles.add(step.root.tile)
        for (const p of stored)
          for (const { param } of step.source.pieces)
            this.must(!this.facts.mayAlias(p, param.name), `copy of ${param.name} after a store into ${p}`)
        if (step.root.home) this.placed.set(step.root.id, step.root.tile)
        break
      case 'product': {
        const { id, a, b, directA, directB } = step.product
        if (directA === undefined) this.must(this.placed.has(a), `product %${id} reads %${a}, which has no tile yet`)
        if (directB === undefined) this.must(this.placed.has(b), `product %${id} reads %${b}, which has no tile yet`)
        this.allTiles.add(step.tile)
        if (step.pairs !== undefined) this.allTiles.add(step.pairs.tile)
        this.placed.set(id, step.tile)
        break
      }
      case 'scan': {
        const { stmt, outer, vector, tile } = step
        for (const id of operandsOf(stmt.op)) this.needs(id, stored, `scan %${stmt.id}`)
        const own = stmt.op.kind === 'scan' ? stmt.op.axis : ''
        const lanes = vector === undefined || vector === own ? [] : [vector]
        this.sameAxes([...outer, ...lanes, own], axes.varying(stmt.axes), `scan %${stmt.id}`)
        const ordered = this.facts.strict && isFloat(stmt.dtype)
        this.must(vector !== own || !ordered, `scan %${stmt.id}: a strict scan across lanes`)
        this.allTiles.add(tile)
        this.placed.set(stmt.id, tile)
        break
      }
      case 'loop':
        this.loop(step, axes, stored)
        break
    }
  }

  private sameAxes(have: readonly string[], want: readonly string[], what: string): void {
    const same =
      have.length === want.length && new Set(have).size === have.length && want.every((a) => have.includes(a))
    this.must(same, `${what} loops over ${have.join(', ')}, not over ${want.join(', ')}`)
  }

  private nest(nest: NestSchedule, axes: Axes, stored: ReadonlySet<string>): void {
    const { order, folded, vector, inMemory, inTurn, roots, cut, copies, slide, joined } = nest
    const what = `nest over ${order.join(', ')}`
    this.must(new Set(order).size === order.length, `${what}: an axis twice`)
    if (joined !== undefined) this.joined(nest, joined, what)
    for (const a of order) this.must(axes.varying([a]).length === 1, `${what}: ${a} has one index`)
    const inner = inMemory ? [...order].filter((a) => a !== vector) : order
    const kept = inner.length - folded.length
    this.must(
      inner.every((a, i) => folded.includes(a) === i >= kept),
      `${what}: folded axes are not inside`,
    )
    this.must(vector === undefined || order.includes(vector), `${what}: lanes along ${vector}`)
    this.must(
      Number.isInteger(Math.log2(copies)) && (vector !== undefined || copies === 1),
      `${what}: ${copies} copies`,
    )
    this.must(inTurn.length === 0 || (copies > 1 && !inMemory), `${what}: values in turn of one group`)
    inTurn.forEach((id, i) => {
      const later = inTurn.slice(i + 1)
      this.must(
        !operandsOf(this.def(id).op ?? { kind: 'const', value: 0 }).some((o) => later.includes(o)),
        `${what}: %${id} before what it needs`,
      )
      this.needs(id, stored, what)
    })
    if (inMemory)
      this.must(vector !== undefined && order.at(-1) === vector && !folded.includes(vector), `${what}: in memory`)
    if (nest.inner !== undefined) this.inner(nest, nest.inner, axes, what)
    if (cut !== undefined) this.must(!this.facts.strict && folded.includes(order[cut.depth] ?? ''), `${what}: cut`)
    // What the nest keeps may be read by its other roots, which are computed with it.
    const own = roots.flatMap((r) => (r.kind === 'keep' && r.home && !this.placed.has(r.id) ? [r.id] : []))
    for (const id of own) this.operands(id, stored, what)
    for (const r of roots) if (r.kind === 'keep' && own.includes(r.id)) this.placed.set(r.id, r.tile)
    for (const r of roots) {
      if (r.kind === 'keep') {
        this.allTiles.add(r.tile)
        if (!r.home) this.needs(r.id, stored, what)
        const loops = loopsApart(nest)
        this.sameAxes(slide === undefined ? loops : order.slice(0, kept), r.axes, `${what}, keeping %${r.id},`)
      } else if (r.kind === 'store') for (const id of storeOperands(r.stmt)) this.needs(id, stored, what)
      else {
        for (const id of r.fold.args) this.needs(id, stored, what)
        this.sameAxes(folded, r.fold.axes, `${what}, folding %${r.fold.id},`)
        const ordered = this.facts.strict && isTotal(r.fold)
        this.must(!ordered || vector === undefined || !folded.includes(vector), `${what}: a strict sum across lanes`)
        const direct = slide !== undefined && roots.length > 1
        this.must(
          (order.length > folded.length && !direct) === nest.results.has(r.fold.id),
          `${what}: place of %${r.fold.id}`,
        )
        if (slide !== undefined) this.slide(nest, slide, stored, what)
        for (const id of nest.inner?.operands.get(r.fold.id) ?? []) this.needs(id, stored, what)
        if (direct) this.placed.set(r.fold.id, 'register')
      }
    }
    for (const r of roots) if (r.kind === 'fold') this.placed.set(r.fold.id, nest.results.get(r.fold.id) ?? 'register')
    for (const t of nest.results.values()) this.allTiles.add(t)
    for (const totals of nest.totals.values()) for (const t of totals) this.allTiles.add(t)
  }

  /** Inner steps are whole ones of the innermost loop, and know what each fold takes there. */
  private inner({ order, vector, copies, roots }: NestSchedule, inner: InnerSteps, axes: Axes, what: string): void {
    const { from, to, operands } = inner
    this.must(vector !== undefined && order.at(-1) === vector, `${what}: inner steps outside the innermost loop`)
    const { extent } = axes.view(vector ?? '')
    const isWhole = from % (4 * copies) === 0 && to % (4 * copies) === 0
    this.must(isWhole && 0 <= from && from < to && to <= extent, `${what}: inner steps from ${from} to ${to}`)
    for (const r of roots)
      this.must(r.kind === 'fold' && operands.get(r.fold.id)?.length === r.fold.args.length, `${what}: inner operands`)
  }

  /** Axes that one loop goes along stand beside each other in all that the nest touches. */
  private joined(nest: NestSchedule, joined: Joined, what: string): void {
    const { axes } = this
    const space = loopsApart(nest)
    this.must(nest.order.includes(joined.axis) && nest.slide === undefined, `${what}: joined along ${joined.axis}`)
    if (axes === undefined) return
    const at: Standing = {
      axes,
      def: (id) => this.def(id),
      place: (id) => this.placed.get(id),
      param: (name) =>
        this.facts.params.get(name) ?? { name, dtype: 'f32', shape: [], format: 'plain', access: 'read' },
    }
    const touching = { space, folded: nest.folded, roots: nest.roots, results: [...nest.results.values()] }
    this.must(mayJoin(at, touching, joined), `${what}: ${joined.with.join(', ')} not beside ${joined.axis}`)
  }

  /** Windows that slide do so inside the lanes, and what is stored as they leave is nothing that they load later. */
  private slide(
    { order, folded, vector, copies, roots }: NestSchedule,
    slide: Slide,
    stored: ReadonlySet<string>,
    what: string,
  ): void {
    const { axis, walked, lag, terms, inner: rounds } = slide
    const inner = order.length - folded.length
    this.must(
      order[inner - 1] === axis && order[inner - 2] === vector && copies === 1,
      `${what}: sliding along ${axis}`,
    )
    const { extent, counts } = this.axes?.view(axis) ?? { extent: 0, counts: undefined }
    this.must(counts?.every((n) => n >= lag) === true, `${what}: windows longer than ${axis}`)
    this.must(this.axes?.view(walked).extent === extent + lag, `${what}: places along ${walked}`)
    if (rounds !== undefined) {
      this.must(this.axes?.view(rounds.walked).extent === extent - lag, `${what}: places along ${rounds.walked}`)
      this.must(rounds.terms.length === terms.length, `${what}: terms of inner rounds`)
    }
    const written = roots.flatMap((r) => (r.kind === 'store' ? [r.stmt.param] : []))
    for (const { factors, behind } of [...terms, ...(rounds?.terms ?? [])]) {
      this.must(behind >= 0 && behind <= lag, `${what}: a window ${behind} behind`)
      for (const id of factors) this.needs(id, new Set([...stored, ...written]), what)
    }
  }

  private loop(step: BlockSchedule, axes: Axes, stored: ReadonlySet<string>): void {
    const { stmt, registers, tiles, fills, body, carried } = step
    for (const id of [stmt.from, stmt.to]) if (id !== undefined) this.needs(id, stored, `loop over ${stmt.axis}`)
    for (const c of registers) this.needs(c.init, stored, `loop over ${stmt.axis}`)
    for (const f of fills) this.step(f, axes, stored)
    for (const c of tiles) {
      this.allTiles.add(c.tile)
      if (c.write !== undefined) this.allTiles.add(c.write)
    }
    for (const c of carried) for (const t of c.tiles ?? []) this.allTiles.add(t)
    this.must(registers.length + tiles.length === stmt.carries.length, `loop over ${stmt.axis} loses a state`)
    const outside = new Set(this.placed.keys())
    const tileOf = new Map(tiles.map((c) => [c.carry, c.tile]))
    for (const c of stmt.carries) this.placed.set(c.param, tileOf.get(c) ?? 'register')
    this.level(
      body,
      stmt.body,
      step.axes,
      tiles.flatMap((c) => (c.write === undefined ? [] : [c.write])),
    )
    const outer = this.axes
    this.axes = step.axes
    for (const c of registers) this.needs(c.next, new Set(storesOf(step)), `next state of the loop over ${stmt.axis}`)
    this.axes = outer
    for (const id of [...this.placed.keys()]) if (!outside.has(id)) this.placed.delete(id)
    for (const c of stmt.carries) this.placed.set(c.result, tileOf.get(c) ?? 'register')
  }

  /** A value is at hand, or computed here from what is; nothing it loads was stored into. */
  private needs(id: ValueId, stored: ReadonlySet<string>, what: string): void {
    if (this.placed.has(id)) return
    this.operands(id, stored, what)
  }

  private operands(first: ValueId, stored: ReadonlySet<string>, what: string): void {
    const seen = new Set<ValueId>()
    const stack = [first]
    for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
      if (seen.has(id) || (id !== first && this.placed.has(id))) continue
      seen.add(id)
      const { op } = this.def(id)
      if (op === undefined) {
        this.must(false, `${what} reads %${id}, which a loop carries elsewhere`)
        continue
      }
      if (op.kind === 'load')
        for (const p of stored)
          this.must(!this.facts.mayAlias(p, op.param), `${what} loads %${id} from ${op.param} after a store into ${p}`)
      this.must(!this.hasStep(id), `${what} reads %${id} before the step that folds it`)
      if (op.kind === 'at') this.must(this.placed.has(op.of), `${what} reads %${op.of}, which has no tile yet`)
      stack.push(...operandsOf(op).filter((i) => op.kind !== 'at' || i !== op.of))
    }
  }

  /** Whether a value is the result of a step: a fold, product or scan over several indices. */
  private hasStep(id: ValueId): boolean {
    const { op } = this.def(id)
    const along = op?.kind === 'reduce' || op?.kind === 'dot' ? op.axes : op?.kind === 'scan' ? [op.axis] : []
    return this.axes !== undefined && this.axes.varying(along).length > 0
  }

  tiles(scratch: number): void {
    const sorted = [...this.allTiles].sort((a, b) => a.offset - b.offset)
    sorted.forEach((t, i) => {
      const end = sorted[i + 1]?.offset ?? scratch
      this.must(t.offset >= 0 && t.offset + t.bytes <= end, `tile ${t.offset} of ${t.bytes} bytes reaches over ${end}`)
    })
  }
}

const rootsOf = (step: NestSchedule | CopySchedule): readonly Root[] =>
  step.kind === 'nest' ? step.roots : [step.root]

/** What stands for a root: its statement, its fold, its tile. */
const keyOf = (r: Root): unknown => (r.kind === 'store' ? r.stmt : r.kind === 'fold' ? r.fold.id : r.tile)

/** The parameters that a step writes. */
function storesOf(step: LoopStep): string[] {
  if (step.kind === 'nest') return step.roots.flatMap((r) => (r.kind === 'store' ? [r.stmt.param] : []))
  return step.kind === 'loop' ? loopStores(step.stmt) : []
}

function loopStores(loop: LoopStmt): string[] {
  return loop.body.flatMap((s) => (s.kind === 'store' ? [s.param] : s.kind === 'loop' ? loopStores(s) : []))
}
