/** Emission of one level of statements (a part's body, a loop's body): products found, steps planned and emitted in order. */
import { InternalError, invariant } from '../../diagnostics/errors.ts'
import { closesOf, foldedCarries } from '../../kernel/carried.ts'
import { type LoopStmt, operandsOf, type Stmt, type ValueId } from '../../kernel/ir.ts'
import { storeOperands } from '../../kernel/walk.ts'
import type { DType } from '../../types/dtype.ts'
import { carriedInRegister, carriedInTile, countRounds } from './carriedTotals.ts'
import { type CarryPlan, carryPlan } from './carry.ts'
import { assignReg, copyReg } from './lanes.ts'
import { planLevel } from './levelPlan.ts'
import { emitPlaced, findProducts, type ProductTarget, rowsAreContiguous, targetOf } from './levelProducts.ts'
import { bindBlock } from './loops.ts'
import { emitNest } from './nest.ts'
import { foldOf, type LevelContext, outerValues, type Root } from './nests.ts'
import { operandLayout, type Product } from './product.ts'
import { emitScan } from './scan.ts'
import type { Index } from './scope.ts'
import { type AxisView, blockView, type Scratch, type Tile } from './tile.ts'
import { transposedLoads } from './transposed.ts'
import type { Values } from './values.ts'

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
      const target = targetOf(values, p, carried.get(p.id), options.scratch)
      this.targets.set(p.id, target)
      if (p.directA === undefined && !values.homes.has(p.a))
        this.layouts.set(p.a, operandLayout(p, 'a', rowsAreContiguous(values, p), values.axes))
      if (p.directB === undefined && !values.homes.has(p.b))
        this.layouts.set(p.b, operandLayout(p, 'b', false, values.axes))
    }
    for (const [id, layout] of transposedLoads(values, stmts)) {
      this.layouts.set(id, layout)
      this.copied.add(id)
    }
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
      machine: values.env.machine,
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
          emitNest(values, step, {
            tileOf: (id) => this.foldTile(id, ctx),
            spareOf: (t) => this.options.scratch.place(t),
          })
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
    const target = this.targets.get(p.id)
    invariant(target !== undefined, `product %${p.id} has no tile`)
    emitPlaced(this.values, p, target)
  }

  /** A loop's bound: it narrows the axis, never widens it. */
  private bounded(id: ValueId, limit: number, keeps: 'i32.gt_s' | 'i32.lt_s'): Index {
    const { scope, f } = this.values
    const x = scope.valueIndex(id)
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

  /** Begins the totals of what a loop carries, in fast mode. */
  private carriedFolds(s: LoopStmt, plan: CarryPlan): { readonly close: () => void; readonly finish: () => void } {
    const { values } = this
    const { extent } = values.axes.view(s.axis)
    const closes = values.env.mode === 'strict' ? [] : closesOf(s, extent, (id) => values.def(id).op)
    const all = closes.length === 0 ? [] : foldedCarries(s)
    const folds = all.flatMap(({ carry, combiner }) => {
      const tile = plan.tiles.find((c) => c.carry === carry)?.tile
      if (tile !== undefined) {
        const totals = closes.map(() => this.options.scratch.place(tile))
        return carriedInTile(values, combiner, [tile, ...totals])
      }
      const reg = plan.registers.find((c) => c.carry === carry)?.reg
      return reg === undefined ? [] : carriedInRegister(values, combiner, reg, closes.length)
    })
    if (folds.length === 0) return { close: () => undefined, finish: () => undefined }
    return {
      close: countRounds(values, closes, folds),
      finish: () => {
        for (const fold of folds) fold.finish()
      },
    }
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
        { tileOf: () => c.tile, spareOf: () => c.tile },
      )
    }
    const folds = this.carriedFolds(s, plan)
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
      folds.close()
    })
    values.axes = outerAxes
    const { fragment } = scope.pop()
    scope.here(() => {
      f.forLoop(counter, from, to, s.block, () => f.splice(fragment))
      folds.finish()
    })
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
      for (const id of storeOperands(s)) out.add(id)
    } else for (const id of outerValues(s)) out.add(id)
  }
  return out
}
