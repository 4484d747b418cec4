/** Emission of one level of statements (a part's body, a loop's body): products found, steps planned and emitted in order. */
import { InternalError, invariant } from '../../diagnostics/errors.ts'
import { axis as axisExpr, constant, type Expr, substitute } from '../../index/expr.ts'
import { type LoopStmt, operandsOf, type Stmt, type ValueId } from '../../kernel/ir.ts'
import { computeDType, type DType } from '../../types/dtype.ts'
import { carryPlan } from './carry.ts'
import { emitProduct } from './gemm.ts'
import { addressOf } from './lane_index.ts'
import { assignReg, copyReg } from './lanes.ts'
import { emitNest } from './nest.ts'
import { foldOf, type LevelContext, outerValues, planLevel, type Root } from './nests.ts'
import { operandLayout, type Product, productOf, resultLayoutOf, tileStride } from './product.ts'
import { part } from './reg.ts'
import { emitScan } from './scan.ts'
import type { Index } from './scope.ts'
import { type Axes, type AxisView, blockView, type Tile } from './tile.ts'
import { transposedLoads } from './transposed.ts'
import type { Values } from './values.ts'

/** Scratch memory of a kernel: tiles side by side. */
export class Scratch {
  /** The first bytes take words that are written to no purpose. */
  bytes = 64

  place(layout: Omit<Tile, 'offset'>): Tile {
    const offset = this.bytes
    // Whole vectors may be read and written past the last element.
    this.bytes = Math.ceil((offset + layout.bytes + 64) / 64) * 64
    return { ...layout, offset }
  }
}

/** Where a product accumulates. */
interface ProductTarget {
  readonly tile: Tile
  readonly fresh: boolean
  readonly init: Root | undefined
}

export interface LevelOptions {
  readonly mayAlias: (a: string, b: string) => boolean
  readonly scratch: Scratch
}

export function emitLevel(
  values: Values,
  stmts: readonly Stmt[],
  options: LevelOptions,
  finals: readonly Root[] = [],
  /** Tiles of carried values that products accumulate into in place, by product. */
  carried: ReadonlyMap<ValueId, Tile> = new Map(),
): void {
  new LevelEmitter(values, stmts, options, carried).emit(finals)
}

/** The matrix products among the dots of a level. */
export function findProducts(values: Values, stmts: readonly Stmt[], axes: Axes): Map<ValueId, Product> {
  const inLevel = new Map(stmts.flatMap((s) => (s.kind === 'let' ? [[s.id, s] as const] : [])))
  const isPlaced = (id: ValueId): boolean => {
    const s = inLevel.get(id)
    if (s === undefined) return values.homes.has(id) || values.def(id).op === undefined
    return ['reduce', 'dot', 'scan', 'stage'].includes(s.op.kind)
  }
  const out = new Map<ValueId, Product>()
  const chosen = new Set<ValueId>()
  for (const s of stmts) {
    if (s.kind !== 'let') continue
    const p = productOf(
      s,
      axes,
      (id) => values.def(id),
      (name) => values.paramOf(name),
      isPlaced,
    )
    if (p === undefined) continue
    // A tile has one layout: an operand two products would lay out serves the first.
    const own = [p.directA === undefined ? p.a : undefined, p.directB === undefined ? p.b : undefined].filter(
      (x) => x !== undefined,
    )
    if (own.some((id) => chosen.has(id))) continue
    for (const id of own) chosen.add(id)
    out.set(s.id, p)
  }
  return out
}

class LevelEmitter {
  private readonly values: Values
  private readonly stmts: readonly Stmt[]
  private readonly options: LevelOptions
  private readonly products: ReadonlyMap<ValueId, Product>
  private readonly targets = new Map<ValueId, ProductTarget>()
  private readonly tiles = new Map<ValueId, Tile>()
  private readonly layouts = new Map<ValueId, Omit<Tile, 'offset'>>()
  private readonly copied = new Set<ValueId>()

  constructor(values: Values, stmts: readonly Stmt[], options: LevelOptions, carried: ReadonlyMap<ValueId, Tile>) {
    this.values = values
    this.stmts = stmts
    this.options = options
    this.products = findProducts(values, stmts, values.axes)
    for (const p of this.products.values()) {
      const target = this.targetOf(p, carried.get(p.id))
      this.targets.set(p.id, target)
      if (p.directA === undefined && !values.homes.has(p.a))
        this.layouts.set(p.a, operandLayout(p, 'a', this.rowsAreContiguous(p), values.axes))
      if (p.directB === undefined && !values.homes.has(p.b))
        this.layouts.set(p.b, operandLayout(p, 'b', false, values.axes))
    }
    for (const [id, layout] of transposedLoads(values, stmts)) {
      this.layouts.set(id, layout)
      this.copied.add(id)
    }
  }

  private targetOf(p: Product, carried: Tile | undefined): ProductTarget {
    const { values } = this
    const inPlace = p.acc !== undefined && values.homes.get(p.acc)
    if (carried !== undefined && inPlace && inPlace.kind === 'tile' && inPlace.tile === carried)
      return { tile: carried, fresh: false, init: undefined }
    const tile = carried ?? this.options.scratch.place(resultLayoutOf(p, values.axes))
    const init: Root | undefined =
      p.acc === undefined
        ? undefined
        : { kind: 'keep', id: p.acc, tile, axes: values.axes.varying(p.axes), home: false }
    return { tile, fresh: p.acc === undefined, init }
  }

  /** Whether the rows of operand `a` are what its source is contiguous along. */
  private rowsAreContiguous(p: Product): boolean {
    const { op } = this.values.def(p.a)
    const m = p.m.at(-1)
    if (op?.kind !== 'load' || m === undefined) return false
    const last = op.index.at(-1)
    return last?.terms.some((t) => t.atom.kind === 'axis' && t.atom.name === m && t.coef === 1) ?? false
  }

  private readonly makeTile = (id: ValueId, axes: readonly string[], dtype: DType): Tile => {
    const have = this.tiles.get(id)
    if (have !== undefined) return have
    const tile = this.options.scratch.place(this.layouts.get(id) ?? this.values.axes.layout(axes, dtype))
    this.tiles.set(id, tile)
    return tile
  }

  emit(finals: readonly Root[]): void {
    const { values, stmts } = this
    const staged = stagedUses(stmts, this.products)
    const ctx: LevelContext = {
      axes: values.axes,
      strict: values.env.mode === 'strict',
      products: this.products,
      def: (id) => values.def(id),
      hasHome: (id) => values.homes.has(id),
      makeTile: this.makeTile,
      mayAlias: this.options.mayAlias,
      productInit: (p) => this.targets.get(p.id)?.init,
      needsStage: (id) => staged.has(id),
      copied: this.copied,
    }
    this.loadEarly()
    for (const step of planLevel(stmts, ctx, finals)) {
      switch (step.kind) {
        case 'nest':
          emitNest(values, step, { tileOf: (id) => this.foldTile(id, ctx) })
          break
        case 'product':
          this.product(step.product)
          break
        case 'scan':
          emitScan(values, step.stmt, this.makeTile(step.stmt.id, step.stmt.axes, step.stmt.dtype))
          break
        case 'loop':
          this.loop(step.stmt)
          break
      }
    }
  }

  /** Single elements of memory that some store may overwrite are read first. */
  private loadEarly(): void {
    const written = this.stmts.flatMap((s) => (s.kind === 'store' ? [s.param] : []))
    for (const s of this.stmts) {
      if (s.kind !== 'let' || s.op.kind !== 'load') continue
      const { param } = s.op
      if (this.values.reachOf(s.id).size === 0 && written.some((w) => this.options.mayAlias(w, param)))
        this.values.element(s.id)
    }
  }

  private foldTile(id: ValueId, ctx: LevelContext): Tile {
    const s = this.stmts.find((x) => x.kind === 'let' && x.id === id)
    const fold = s?.kind === 'let' ? foldOf(s, ctx) : undefined
    if (fold === undefined) throw new InternalError(`%${id} is not a fold`)
    return this.makeTile(id, fold.kept, fold.dtype)
  }

  private product(p: Product): void {
    const { values } = this
    const { f, scope, axes, env } = values
    const target = this.targets.get(p.id)
    invariant(target !== undefined, `product %${p.id} has no tile`)
    const atStart = (e: Expr): Expr =>
      substitute(e, (x) => {
        if (x.kind !== 'axis' || ![...p.m, ...p.n, ...p.k].includes(x.name)) return undefined
        return axes.view(x.name).moves ? axisExpr(`${x.name}.start`, x.extent) : constant(0)
      })
    const pointer = (base: Parameters<typeof addressOf>[1], e: Expr, offset: number) => {
      const at = addressOf(values, base, e, 0, offset)
      if (at.offset === 0) return at.local
      const l = f.local('i32')
      scope.here(() => {
        f.get(at.local)
        f.i32Const(at.offset)
        f.op('i32.add')
        f.set(l)
      })
      return l
    }
    const operand = (id: ValueId, direct: Product['directA'], outer: readonly string[]) => {
      if (direct !== undefined)
        return {
          at: pointer(values.baseOf(direct.param), atStart(direct.flat), 0),
          outer: direct.outer,
          inner: direct.inner,
        }
      const { tile } = values.homeTile(id)
      return {
        at: pointer(values.scratch, constant(0), tile.offset),
        outer: tileStride(tile, outer),
        inner: tileStride(tile, p.k),
      }
    }
    const a = operand(p.a, p.directA, p.m)
    const b = operand(p.b, p.directB, p.n)
    const rows = this.roleCount(p.m)
    const depth = this.roleCount(p.k)
    const place = {
      a: a.at,
      b: b.at,
      c: pointer(values.scratch, constant(0), target.tile.offset),
      rows: rows.count,
      columns: this.roleCount(p.n).count,
      depth: depth.count,
    }
    scope.here(() =>
      emitProduct(
        f,
        {
          compute: p.compute,
          fused: env.relaxed && env.mode === 'fast' && p.compute !== 'i32',
          aRow: a.outer,
          aDepth: a.inner,
          bRow: b.inner,
          cRow: tileStride(target.tile, p.m),
          fresh: target.fresh,
          rowCounts: rows.counts,
        },
        place,
      ),
    )
    const round = env.mode === 'strict' && computeDType(p.dtype) !== p.dtype
    values.setHome(p.id, { kind: 'tile', tile: target.tile, depth: scope.depth, round })
  }

  /** Number of indices of a role in this program, and the numbers possible. */
  private roleCount(role: readonly string[]): { count: Index; counts: readonly number[] | undefined } {
    const { axes, scope } = this.values
    const [outer, ...inner] = role.map((a) => axes.view(a))
    if (outer === undefined) return { count: 1, counts: [1] }
    const unit = inner.reduce((n, v) => n * v.max, 1)
    const counts = outer.counts?.map((n) => n * unit)
    const [only] = counts ?? []
    if (counts?.length === 1 && only !== undefined) return { count: only, counts }
    const count = scope.axisPosition(`${outer.name}.count`)
    if (typeof count === 'number') return { count: count * unit, counts }
    const depth = scope.axisDepth(`${outer.name}.count`)
    return {
      count: scope.once(depth, `role:${outer.name}:${unit}`, 'i32', () => scope.pushScaled(count, unit)),
      counts,
    }
  }

  /** A loop's bound: it narrows the axis, never widens it. */
  private bounded(id: ValueId, limit: number, keeps: 'i32.gt_s' | 'i32.lt_s'): Index {
    const { scope, f } = this.values
    const x = part(this.values.element(id), 0)
    const out = f.local('i32')
    scope.here(() => {
      f.get(x)
      f.i32Const(limit)
      f.get(x)
      f.i32Const(limit)
      f.ops(keeps, 'select')
      f.set(out)
    })
    return out
  }

  /** Blocks of an axis in order, with what is carried from one to the next. */
  private loop(s: LoopStmt): void {
    const { values } = this
    const { scope, f } = values
    const level = scope.depth
    const outerAxes = values.axes
    const declared = outerAxes.view(s.axis)
    const dynamic = s.from !== undefined || s.to !== undefined
    const view: AxisView = dynamic
      ? {
          name: s.axis,
          extent: declared.extent,
          max: Math.min(s.block, declared.extent),
          moves: true,
          aligned: 1,
          counts: s.block === 1 ? [1] : undefined,
        }
      : blockView(s.axis, declared.extent, s.block)
    const from: Index = s.from === undefined ? 0 : this.bounded(s.from, 0, 'i32.gt_s')
    const to: Index = s.to === undefined ? declared.extent : this.bounded(s.to, declared.extent, 'i32.lt_s')
    const bodyAxes = outerAxes.with(view)
    const products = findProducts(values, s.body, bodyAxes)
    const plan = carryPlan(values, s, products, (layout) => this.options.scratch.place(layout))
    for (const c of plan.registers) {
      const init = values.element(c.carry.init)
      scope.here(() => {
        c.reg = { ...copyReg(f, init), dtype: c.carry.dtype }
      })
    }
    for (const c of plan.tiles) {
      emitNest(
        values,
        {
          kind: 'nest',
          space: outerAxes.varying(c.carry.axes),
          folded: [],
          roots: [{ kind: 'keep', id: c.carry.init, tile: c.tile, axes: outerAxes.varying(c.carry.axes), home: false }],
        },
        { tileOf: () => c.tile },
      )
    }
    const counter = f.local('i32')
    scope.push()
    values.axes = bodyAxes
    bindBlock(values, view, s.block, counter, to)
    for (const c of plan.registers)
      if (c.reg !== undefined) values.setHome(c.carry.param, { kind: 'register', reg: c.reg, depth: scope.depth })
    for (const c of plan.tiles)
      values.setHome(c.carry.param, { kind: 'tile', tile: c.tile, depth: scope.depth, round: false })
    const finals: Root[] = plan.tiles.flatMap((c) =>
      c.write === undefined
        ? []
        : [{ kind: 'keep', id: c.carry.next, tile: c.write, axes: bodyAxes.varying(c.carry.axes), home: false }],
    )
    const carried = new Map(plan.tiles.flatMap((c) => (c.product === undefined ? [] : [[c.product, c.tile] as const])))
    emitLevel(values, s.body, this.options, finals, carried)
    const nexts = plan.registers.map((c) => values.element(c.carry.next))
    scope.here(() => {
      // All next states stand in registers of their own before any is overwritten.
      const copies = nexts.map((r) => copyReg(f, r))
      plan.registers.forEach((c, i) => {
        const next = copies[i]
        if (c.reg !== undefined && next !== undefined) assignReg(f, c.reg, next)
      })
      for (const c of plan.tiles) {
        if (c.write === undefined || c.write === c.tile) continue
        for (const offset of [c.tile.offset, c.write.offset]) {
          f.get(values.scratch)
          f.i32Const(offset)
          f.op('i32.add')
        }
        f.i32Const(c.tile.bytes)
        f.memoryCopy()
      }
    })
    values.axes = outerAxes
    const { fragment } = scope.pop()
    scope.here(() => f.forLoop(counter, from, to, s.block, () => f.splice(fragment)))
    for (const id of definedIn(s.body)) values.dropHome(id)
    for (const c of plan.registers) {
      values.dropHome(c.carry.param)
      if (c.reg !== undefined) values.setHome(c.carry.result, { kind: 'register', reg: c.reg, depth: level })
    }
    for (const c of plan.tiles) {
      values.dropHome(c.carry.param)
      values.setHome(c.carry.result, { kind: 'tile', tile: c.tile, depth: level, round: false })
    }
  }
}

/** Binds a blocked axis to its block from `start` on. */
export function bindBlock(values: Values, view: AxisView, block: number, start: Index, limit: Index): void {
  const { scope, f } = values
  const { name } = view
  scope.bind(`${name}.start`, start)
  if (view.max <= 1) scope.bind(name, start)
  if (typeof start === 'number') {
    scope.bind(`${name}.end`, start + view.max)
    scope.bind(`${name}.count`, view.max)
    return
  }
  const single = view.counts?.length === 1
  const end = scope.once(scope.depth, `end:${name}`, 'i32', () => {
    f.get(start)
    f.i32Const(single ? view.max : block)
    f.op('i32.add')
    if (single) return
    const whole = f.toLocal('i32')
    f.get(whole)
    f.push(limit)
    f.get(whole)
    f.push(limit)
    f.op('i32.lt_s')
    f.op('select')
    f.release(whole)
  })
  scope.bind(`${name}.end`, end)
  scope.bind(
    `${name}.count`,
    single
      ? view.max
      : scope.once(scope.depth, `count:${name}`, 'i32', () => {
          f.get(end)
          f.get(start)
          f.op('i32.sub')
        }),
  )
}

function definedIn(stmts: readonly Stmt[]): ValueId[] {
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
      out.add(s.value)
      if (s.maskValue !== undefined) out.add(s.maskValue)
      for (const id of operandsOf({ kind: 'load', param: s.param, index: s.index, mask: s.mask, other: 0 })) out.add(id)
    } else for (const id of outerValues(s)) out.add(id)
  }
  return out
}
