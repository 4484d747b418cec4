/**
 * Lowering of statement lists. A value that varies along an axis cut into chunks is not computed when it is defined but inside
 * the loop over chunks of whatever needs it (a fold over the axis, a store, a staging): a *root*. Roots over the same axes that do
 * not wait for each other share a loop, so dependent folds over a row too long for registers become passes over it.
 */
import { invariant } from '../../diagnostics/errors.ts'
import { type LetStmt, type LoopStmt, operandsOf, type Stmt, type StoreStmt, type ValueId } from '../../kernel/ir.ts'
import type { Accumulator } from './accumulator.ts'
import { readAhead } from './ahead.ts'
import { mergeEx, roundTo } from './arith.ts'
import { allStmts, foldAxes, storeValues } from './facts.ts'
import { accumulate, isBatched, makeAccumulator, openAccumulator, termsOf } from './fold.ts'
import type { Block } from './ir.ts'
import type { Item, LowerItems } from './items.ts'
import { foldsBefore } from './late.ts'
import { lowerLoop } from './loop.ts'
import { groupOf, loadElement, loadGroups, otherOf, storeGroups, storeMerged, storeOne } from './memory.ts'
import { multiplyTiles } from './multiply.ts'
import { fillAxis, fillVectors, multiplyVectors } from './multiplyVectors.ts'
import { lowerOrderedStore, orderedNeeds } from './ordered.ts'
import { readWords } from './pipeline.ts'
import { Point } from './point.ts'
import { callGroupOf, randomGroups } from './random.ts'
import { lowerScan } from './scan.ts'
import { Schedule } from './schedule.ts'
import { type Lanes, type Loop, loopsOf, type Registers, type Scope, type SharedTile } from './scope.ts'
import { fillHalf, fillPoint, fillVector, lowerOwnStage, makeStage } from './stage.ts'
import type { Token } from './steps.ts'
import { Gaps, interleavedStep, loadStrided, stridedOf } from './strided.ts'

export const lowerItems: LowerItems = (scope, items, exports, out) => {
  new ListLowering(scope, exports, out).run(items)
}

class ListLowering {
  private readonly scope: Scope
  private readonly out: Block
  private readonly virtual = new Map<ValueId, LetStmt>()
  private readonly gaps = new Gaps()
  private readonly schedule: Schedule
  /** What follows a matrix product's loop is not computed before it: the registers are the loop's. */
  private least = 0
  /** Values that this list computes. */
  private readonly list = new Set<ValueId>()

  constructor(scope: Scope, exports: ReadonlySet<ValueId>, out: Block) {
    this.scope = scope
    this.schedule = new Schedule(scope, exports, out, lowerItems)
    this.out = out
  }

  run(items: readonly Item[]): void {
    for (const item of items) if (item.kind === 'stmt' && item.stmt.kind === 'let') this.list.add(item.stmt.id)
    for (const item of items) this.add(item)
    for (const s of this.gaps.rest()) this.addStore(s, true)
    this.schedule.run()
  }

  /** What must stand before values can be read: chunked ones are replaced by what they rest on. */
  private needsOf(ids: Iterable<ValueId>): { readonly needs: Token[]; readonly closure: LetStmt[] } {
    const needs = new Set<Token>()
    const closure = new Set<ValueId>()
    const stack = [...ids]
    for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
      const l = this.virtual.get(id)
      if (l === undefined) needs.add(id)
      else if (!closure.has(id)) {
        closure.add(id)
        stack.push(...operandsOf(l.op))
      }
    }
    return { needs: [...needs], closure: [...this.virtual.values()].filter((l) => closure.has(l.id)) }
  }

  private chunked(axes: Iterable<string>): string[] {
    return this.scope.layout
      .spread(axes)
      .map((a) => a.name)
      .filter(this.scope.isChunked)
  }

  private add(item: Item): void {
    switch (item.kind) {
      case 'accumulate':
        this.addAccumulate(item.acc, item)
        break
      case 'fill':
        this.addFill(item.let, item.to, [])
        break
      case 'ordered':
        this.addOrdered(item.store)
        break
      case 'stmt':
        if (item.stmt.kind === 'let') this.addLet(item.stmt)
        else if (item.stmt.kind === 'store') this.addStore(item.stmt)
        else this.addLoop(item.stmt)
    }
  }

  private addLet(l: LetStmt): void {
    const { scope } = this
    const { part } = scope
    if (scope.held.has(l.id)) return
    if (l.op.kind === 'stage') {
      this.addStage(l)
      return
    }
    if (this.chunked(part.axesOf(l.id)).length > 0) {
      this.virtual.set(l.id, l)
      return
    }
    if (l.op.kind === 'reduce' || l.op.kind === 'dot') this.addFold(l)
    else if (l.op.kind === 'scan') {
      const { arg } = l.op
      this.block(this.needsOf([arg]).needs, [l.id], 2, (out) => lowerScan(scope, l, out))
    } else if (l.op.kind === 'load') this.addLoad(l)
    else if (l.op.kind === 'random') this.addRandom(l)
    else this.point(l.id, part.axesOf(l.id), operandsOf(l.op), l.op.kind, (p) => p.pointwise(l))
  }

  private loops(axes: Iterable<string>, without?: string): Loop[] {
    return this.scope.layout.spread(axes).flatMap((a) => loopsOf(this.scope.layout, a.name, without))
  }

  private point(
    id: ValueId,
    axes: Iterable<string>,
    operands: readonly ValueId[],
    name: string,
    value: (p: Point, out: Block) => ReturnType<Point['pointwise']>,
  ): void {
    const l = this.scope.part.lets.get(id)
    const wish = l?.op.kind === 'scalar' ? l.op.op : name
    this.schedule.steps.push({
      kind: 'point',
      loops: this.loops(axes),
      needs: operands,
      gives: id,
      after: [],
      rank: Math.max(1, this.least),
      emit: value,
      name: `${wish}_${id}`,
    })
  }

  private block(needs: readonly Token[], after: readonly Token[], rank: number, emit: (out: Block) => void): void {
    this.schedule.steps.push({
      kind: 'block',
      loops: [],
      needs,
      after,
      rank,
      name: 'block',
      emit: (_, out) => {
        emit(out)
        return undefined
      },
    })
  }

  private addLoad(l: LetStmt): void {
    const { scope } = this
    invariant(l.op.kind === 'load', 'not a load')
    const access = l.op
    const axes = scope.part.axesOf(l.id)
    const copied = readAhead(scope, l.id) ?? readWords(scope, l.id)
    if (copied !== undefined) {
      this.wide(l, axes, copied.axis, 0, access.param, copied.emit)
      return
    }
    const group = groupOf(scope, access, axes)
    const strided = group === undefined ? stridedOf(scope, access, axes) : undefined
    if (strided !== undefined) {
      this.wide(l, axes, strided.axis, 0, access.param, (p, to, out) =>
        loadStrided(p, l, access, axes, strided, to, otherOf(l), out),
      )
      return
    }
    if (group === undefined) {
      this.point(l.id, axes, operandsOf(l.op), access.param, (p, out) =>
        loadElement(p, l, access, axes, otherOf(l), out),
      )
      return
    }
    const emit = (p: Point, to: Registers, out: Block): void =>
      loadGroups(p, l, access, axes, group, to, otherOf(l), out)
    this.wide(l, axes, group.axis, 0, access.param, emit, foldsBefore(scope, l, this.list))
  }

  private addRandom(l: LetStmt): void {
    const axes = this.scope.part.axesOf(l.id)
    const group = callGroupOf(this.scope, l)
    if (group === undefined) this.point(l.id, axes, operandsOf(l.op), l.op.kind, (p) => p.pointwise(l))
    else this.wide(l, axes, group.axis, 1, 'random', (p, to, out) => randomGroups(p, l, group, to, out))
  }

  /** A step that writes the lanes of an axis one by one. */
  private wide(
    l: LetStmt,
    axes: Iterable<string>,
    axis: string,
    rank: number,
    wish: string,
    emit: (p: Point, to: Registers, out: Block) => void,
    besides: readonly Token[] = [],
  ): void {
    this.schedule.steps.push({
      kind: 'point',
      loops: this.loops(axes, axis),
      needs: [...operandsOf(l.op), ...besides],
      gives: l.id,
      wide: true,
      after: [],
      rank: Math.max(rank, this.least),
      name: `${wish}_${l.id}`,
      emit: (p, out, to) => {
        invariant(to !== undefined, 'lanes without registers')
        emit(p, to, out)
        return undefined
      },
    })
  }

  /** Points in a scope that reads values of its own lists only. */
  private pointAt = (lanes: Lanes): Point => new Point(this.scope, lanes)

  private addFold(l: LetStmt): void {
    const { scope, out } = this
    const acc = makeAccumulator(scope, l)
    const opened = this.schedule.token()
    const folded = this.schedule.token()
    const from = l.op.kind === 'dot' && l.op.acc !== undefined ? [l.op.acc] : []
    // Before the nests that fold, so that those share theirs with what they fold.
    const rank = scope.unit.dialect.name === 'cuda' ? 0.5 : 1
    this.block(from, [opened], rank, () => openAccumulator(scope, acc, this.pointAt, out))
    const product = scope.part.products.get(l.id)
    const vectors = scope.part.vectorProduct
    if (product !== undefined)
      this.block([opened, product.a, product.b], [folded], 2, () => multiplyTiles(scope, acc, product, out))
    else if (vectors?.dot === l.id)
      this.block([opened, vectors.a.stage, vectors.b.stage], [folded], 2, () =>
        multiplyVectors(scope, acc, vectors, out),
      )
    else this.addAccumulate(acc, { kind: 'accumulate', acc }, opened, folded)
    this.schedule.steps.push({
      kind: 'block',
      loops: [],
      needs: [folded, ...from],
      after: [l.id],
      rank: 2,
      name: 'close',
      closes: acc,
      emit: () => undefined,
    })
  }

  private addAccumulate(acc: Accumulator, item: Item, opened?: Token, folded?: Token): void {
    const { scope } = this
    const l = acc.let
    const operands =
      l.op.kind === 'reduce'
        ? [l.op.arg, ...operandsOf(l.op), ...termsOf(scope, l)]
        : l.op.kind === 'dot'
          ? [l.op.a, l.op.b]
          : []
    const before = opened === undefined ? [] : [opened]
    const after = folded === undefined ? [] : [folded]
    const nest = scope.part.nestOf(l)
    const over = this.chunked(nest)
    if (over.length > 0) {
      this.addRoot(item, nest, operands, before, after, false, scope.unit.mode === 'strict' ? foldAxes(l) : [])
      return
    }
    const strict = scope.unit.mode === 'strict'
    const loops = strict
      ? [...this.loops(acc.kept), ...foldAxes(l).flatMap((a) => loopsOf(scope.layout, a))]
      : this.loops(nest)
    this.schedule.steps.push({
      kind: 'point',
      loops,
      needs: [...operands, ...before],
      after,
      rank: 1,
      name: 'fold',
      ...(isBatched(scope, acc) ? { like: 'extremes' } : {}),
      emit: (p, out) => {
        accumulate(acc, p, out)
        return undefined
      },
    })
  }

  private addRoot(
    item: Item,
    nest: readonly string[],
    operands: readonly ValueId[],
    before: readonly Token[],
    after: readonly Token[],
    isStore: boolean,
    order: readonly string[] = [],
  ): void {
    const { needs, closure } = this.needsOf(operands)
    const inside = new Set(closure.flatMap((l) => this.chunked(foldAxes(l))))
    const over = this.chunked(nest).filter((a) => !inside.has(a))
    if (over.length === 0) {
      // Folds along these axes need each other: one of them is made whole in shared memory first.
      const fold = closure.find((l) => this.chunked(foldAxes(l)).some((a) => nest.includes(a)))
      invariant(fold !== undefined, 'no axis to walk and no fold in the way')
      this.materialise(fold)
      this.addRoot(item, nest, operands, before, after, isStore, order)
      return
    }
    const rank = (a: string): number => order.indexOf(a)
    over.sort((a, b) => (rank(a) >= 0 && rank(b) >= 0 ? rank(a) - rank(b) : 0))
    const store = item.kind === 'stmt' && item.stmt.kind === 'store' ? item.stmt : undefined
    const isLate = store !== undefined && this.overwrites(store.param)
    this.schedule.roots.push({ item, over, needs: [...needs, ...before], closure, after, isStore, isLate })
  }

  /** Computes a value that varies along cut axes once, into shared memory. */
  private materialise(l: LetStmt): void {
    const { scope } = this
    const to = makeStage(scope, l)
    const [free, filled] = [this.schedule.token(), this.schedule.token()]
    const barrier = (out: Block): void => {
      out.push({ k: 'barrier' })
    }
    this.block([], [free], 1, barrier)
    const fill: Item = { kind: 'fill', let: { ...l, op: { kind: 'stage', of: l.id } }, to }
    this.addRoot(fill, scope.part.axesOf(l.id), [l.id], [free], [filled], false)
    this.block([filled], [l.id], 0, (out) => {
      barrier(out)
      scope.held.set(l.id, to)
    })
    this.virtual.delete(l.id)
  }

  /** Whether a parameter shares memory with one that is read. */
  private overwrites(param: string): boolean {
    const { part, unit } = this.scope
    if (unit.mayAlias(param)) return true
    return [...part.lets.values()].some((l) => l.op.kind === 'load' && l.op.param === param)
  }

  /** `alone`: no other store fills the gaps that this one leaves. */
  private addStore(s: StoreStmt, alone = false): void {
    const { scope } = this
    if (scope.part.isOrdered(s)) {
      this.block(orderedNeeds(scope, s), [], 4, (out) => lowerOrderedStore(scope, s, lowerItems, out))
      return
    }
    const axes = scope.part.storeAxes(s)
    const operands = storeValues(s)
    if (this.chunked(axes).length > 0) {
      this.addRoot({ kind: 'stmt', stmt: s }, axes, operands, [], [], true)
      return
    }
    const group = groupOf(scope, s, axes)
    const strided = alone || group !== undefined ? undefined : stridedOf(scope, s, axes)
    if (strided !== undefined) {
      const stores = this.gaps.take(s, axes, strided)
      if (stores !== 'waits')
        this.schedule.steps.push(interleavedStep(stores, axes, strided, this.loops(axes, strided.axis)))
      return
    }
    this.schedule.steps.push({
      kind: 'point',
      loops: this.loops(axes, group?.axis),
      needs: operands,
      after: [],
      rank: 3,
      name: 'store',
      emit: (p, out) => {
        if (group === undefined) storeOne(p, s, axes, true, out)
        else storeGroups(p, s, axes, group, out)
        return undefined
      },
    })
  }

  private addOrdered(s: StoreStmt): void {
    const { scope } = this
    const axes = scope.part.storeAxes(s)
    if (this.chunked(axes).length > 0) {
      this.addRoot({ kind: 'ordered', store: s }, axes, storeValues(s), [], [], true, axes)
      return
    }
    const { combiner } = s
    this.schedule.steps.push({
      kind: 'point',
      loops: this.loops(axes),
      needs: storeValues(s),
      after: [],
      rank: 3,
      name: 'store',
      emit: (p, out) => {
        const { dtype } = scope.unit.param(s.param)
        if (combiner === undefined) storeOne(p, s, axes, true, out)
        else storeMerged(p, s, axes, (old, x) => roundTo(dtype, mergeEx(combiner, dtype, old, x)), out)
        return undefined
      },
    })
  }

  private addStage(l: LetStmt): void {
    const { scope } = this
    invariant(l.op.kind === 'stage', 'not a stage')
    if (scope.part.ownStages.has(l.id)) {
      const { rest } = scope.part.closureOf([l.op.of])
      this.block([...rest], [l.id], 0, (out) => {
        scope.held.set(l.id, lowerOwnStage(scope, l, lowerItems, out))
      })
      return
    }
    const to = makeStage(scope, l)
    const filled = this.schedule.token()
    this.addFill(l, to, [filled])
    this.block([filled], [l.id], 0, (out) => {
      out.push({ k: 'barrier' })
      scope.held.set(l.id, to)
    })
  }

  private addFill(l: LetStmt, to: SharedTile, after: readonly Token[]): void {
    invariant(l.op.kind === 'stage', 'not a stage')
    const { of } = l.op
    const axes = this.scope.part.axesOf(l.id)
    if (this.chunked(axes).length > 0) {
      this.addRoot({ kind: 'fill', let: l, to }, axes, [of], [], after, false)
      return
    }
    const product = to.array.half === true ? this.scope.part.productOn(l.id) : undefined
    const vectors = to.array.pitch === undefined ? undefined : this.scope.part.vectorProduct
    const together =
      product !== undefined ? fillVector(this.scope, to) : vectors === undefined ? undefined : fillAxis(this.scope, to)
    this.schedule.steps.push({
      kind: 'point',
      loops: this.loops(axes, together),
      needs: [of],
      after,
      rank: 1,
      name: 'fill',
      emit: (p, out) => {
        if (vectors !== undefined) fillVectors(p, vectors, l, to, out)
        else if (product === undefined) fillPoint(p, axes, of, to, out)
        else fillHalf(p, of, to, product.dtype, out)
        return undefined
      },
    })
  }

  private addLoop(s: LoopStmt): void {
    const { scope, out } = this
    const inner = new Set<ValueId>()
    const outer = new Set<ValueId>()
    const visit = (stmts: readonly Stmt[]): void => {
      for (const t of stmts) {
        if (t.kind === 'let') {
          inner.add(t.id)
          for (const o of operandsOf(t.op)) outer.add(o)
        } else if (t.kind === 'store') for (const o of storeValues(t)) outer.add(o)
        else {
          for (const c of t.carries) {
            inner.add(c.param).add(c.result)
            outer.add(c.init).add(c.next)
          }
          for (const b of [t.from, t.to]) if (b !== undefined) outer.add(b)
          visit(t.body)
        }
      }
    }
    visit([s])
    const { needs, closure } = this.needsOf([...outer].filter((id) => !inner.has(id)))
    const all = [...allStmts(s.body)]
    const hasStores = all.some((t) => t.kind === 'store')
    const { products, vectorProduct } = scope.part
    if (all.some((t) => t.kind === 'let' && (products.has(t.id) || vectorProduct?.dot === t.id))) this.least = 2
    this.block(
      needs,
      s.carries.map((c) => c.result),
      hasStores ? 3 : 2,
      () => lowerLoop(scope, s, closure, lowerItems, out),
    )
  }
}
