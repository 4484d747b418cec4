/**
 * Lowering of statement lists: each statement becomes steps over loops of registers, or, where its axes are cut into chunks, a *root*
 * (roots.ts). Roots over the same axes that do not wait for each other share a loop: dependent folds of long rows become passes over them.
 */
import { invariant } from '../../diagnostics/errors.ts'
import { foldAxes } from '../../kernel/folds.ts'
import { type LetStmt, type LoopStmt, operandsOf, type Stmt, type StoreStmt, type ValueId } from '../../kernel/ir.ts'
import { isPosition } from '../../kernel/positions.ts'
import { allStmts, storeValues } from '../../schedule/simt/facts.ts'
import type { Accumulator } from './accumulator.ts'
import { readAhead } from './ahead.ts'
import { mergeEx, roundTo } from './arith.ts'
import { accumulate, isBatched, makeAccumulator, openAccumulator, termsOf } from './fold.ts'
import type { Block } from './ir.ts'
import type { Item, LowerItems } from './items.ts'
import { foldsBefore } from './late.ts'
import { lowerLoop } from './loop.ts'
import { groupOf, loadElement, loadGroups, otherOf, storeGroups, storeMerged, storeOne } from './memory.ts'
import { accumulateMoments, type Carried, countedAxes, countTerms } from './moments.ts'
import { multiplyTiles } from './multiply.ts'
import { fillAxis, fillVectors, multiplyVectors } from './multiplyVectors.ts'
import { lowerOrderedStore, orderedNeeds } from './ordered.ts'
import { readWords } from './pipeline.ts'
import { Point } from './point.ts'
import { callGroupOf, randomGroups } from './random.ts'
import { type Lanes, type Loop, loopsOf, type Registers } from './registers.ts'
import { Roots } from './roots.ts'
import { lowerScan } from './scan.ts'
import { Schedule } from './schedule.ts'
import type { Scope, SharedTile } from './scope.ts'
import { fillHalf, fillPoint, fillVector, lowerOwnStage, makeStage } from './stage.ts'
import type { Token } from './steps.ts'
import { againstOf, moveAnchor, type Stream } from './streaming.ts'
import { Gaps, interleavedStep, loadStrided, stridedOf } from './strided.ts'

export const lowerItems: LowerItems = (scope, items, exports, out) => {
  new ListLowering(scope, exports, out).run(items)
}

class ListLowering {
  private readonly scope: Scope
  private readonly out: Block
  private readonly gaps = new Gaps()
  private readonly schedule: Schedule
  private readonly roots: Roots
  /** What follows a matrix product's loop is not computed before it: the registers are the loop's. */
  private least = 0
  /** Values that this list computes. */
  private readonly list = new Set<ValueId>()

  constructor(scope: Scope, exports: ReadonlySet<ValueId>, out: Block) {
    this.scope = scope
    this.schedule = new Schedule(scope, exports, out, lowerItems)
    this.roots = new Roots(scope, this.schedule)
    this.out = out
  }

  run(items: readonly Item[]): void {
    for (const item of items) if (item.kind === 'stmt' && item.stmt.kind === 'let') this.list.add(item.stmt.id)
    for (const item of items) this.add(item)
    for (const s of this.gaps.rest()) this.addStore(s, true)
    this.schedule.run()
  }

  private add(item: Item): void {
    switch (item.kind) {
      case 'accumulate':
        this.addAccumulate(item.acc, item)
        break
      case 'stream':
        this.addStream(item.stream)
        break
      case 'moments':
        this.addMoments(item.carried, item.moved)
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
    if (this.roots.isChunked(part.axesOf(l.id))) {
      this.roots.define(l)
      return
    }
    if (isPosition(part.lets, l)) scope.held.set(l.id, { kind: 'position', let: l })
    else if (l.op.kind === 'reduce' || l.op.kind === 'dot') this.addFold(l)
    else if (l.op.kind === 'scan') {
      const { arg } = l.op
      this.schedule.block(this.roots.needsOf([arg]).needs, [l.id], 2, (out) => lowerScan(scope, l, out))
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
    else {
      const emit = (p: Point, to: Registers, out: Block): void => randomGroups(p, l, group, to, out)
      this.wide(l, axes, group.axis, 1, 'random', emit, [], group.exchanged)
    }
  }

  /** A step that writes the lanes of an axis one by one, and the repeats of an axis where one is given. */
  private wide(
    l: LetStmt,
    axes: Iterable<string>,
    axis: string,
    rank: number,
    wish: string,
    emit: (p: Point, to: Registers, out: Block) => void,
    besides: readonly Token[] = [],
    repeats?: string,
  ): void {
    this.schedule.steps.push({
      kind: 'point',
      loops: this.loops(axes, axis).filter((loop) => loop.axis !== repeats || loop.over !== 'rep'),
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
    const rank = scope.unit.machine.unrollsInPlace ? 1 : 0.5
    this.schedule.block(from, [opened], rank, () => openAccumulator(scope, acc, this.pointAt, out))
    const product = scope.part.products.get(l.id)
    const vectors = scope.part.vectorProduct
    if (product !== undefined)
      this.schedule.block([opened, product.a, product.b], [folded], 2, () => multiplyTiles(scope, acc, product, out))
    else if (vectors?.dot === l.id)
      this.schedule.block([opened, vectors.a.stage, vectors.b.stage], [folded], 2, () =>
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
    const strict = scope.unit.mode === 'strict'
    if (this.roots.isChunked(nest)) {
      this.roots.add({ item, nest, operands, before, after, isStore: false, order: strict ? foldAxes(l) : [] })
      return
    }
    const loops = strict
      ? [...this.loops(acc.kept), ...foldAxes(l).flatMap((a) => loopsOf(scope.layout, a))]
      : this.loops(nest)
    const like = isBatched(scope, acc) ? { like: 'extremes' } : {}
    this.schedule.points({ loops, needs: [...operands, ...before], after, rank: 1, name: 'fold', ...like }, (p, out) =>
      accumulate(acc, p, out),
    )
  }

  private addStream(stream: Stream): void {
    const { anchor, mean } = stream
    const folded = this.schedule.token()
    this.addAccumulate(anchor, { kind: 'accumulate', acc: anchor }, undefined, folded)
    const counted = mean === undefined ? [] : [this.schedule.token()]
    const loops = this.loops(countedAxes(this.scope, anchor))
    if (mean !== undefined)
      this.schedule.points({ loops, needs: [], after: counted, rank: 1, name: 'count' }, (p, out) =>
        countTerms(anchor, mean.counts, p, out),
      )
    this.schedule.block([folded, ...counted], againstOf(stream), 1, (out) => moveAnchor(this.scope, stream, out))
  }

  private addMoments(carried: Carried, moved: readonly ValueId[]): void {
    const { acc, moments } = carried
    const loops = this.loops(this.scope.part.nestOf(acc.let))
    const needs = [...moved, ...moments.products.flatMap(({ of }) => of)]
    this.schedule.points({ loops, needs, after: [], rank: 1, name: 'fold' }, (p, out) =>
      accumulateMoments(carried, p, out),
    )
  }

  /** `alone`: no other store fills the gaps that this one leaves. */
  private addStore(s: StoreStmt, alone = false): void {
    const { scope } = this
    if (scope.part.isOrdered(s)) {
      this.schedule.block(orderedNeeds(scope, s), [], 4, (out) => lowerOrderedStore(scope, s, lowerItems, out))
      return
    }
    const axes = scope.part.storeAxes(s)
    const operands = storeValues(s)
    if (this.roots.isChunked(axes)) {
      this.roots.add({ item: { kind: 'stmt', stmt: s }, nest: axes, operands, isStore: true })
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
    const loops = this.loops(axes, group?.axis)
    this.schedule.points({ loops, needs: operands, after: [], rank: 3, name: 'store' }, (p, out) => {
      if (group === undefined) storeOne(p, s, axes, true, out)
      else storeGroups(p, s, axes, group, out)
    })
  }

  private addOrdered(s: StoreStmt): void {
    const { scope } = this
    const axes = scope.part.storeAxes(s)
    const operands = storeValues(s)
    if (this.roots.isChunked(axes)) {
      this.roots.add({ item: { kind: 'ordered', store: s }, nest: axes, operands, isStore: true, order: axes })
      return
    }
    const { combiner } = s
    const { dtype } = scope.unit.param(s.param)
    this.schedule.points({ loops: this.loops(axes), needs: operands, after: [], rank: 3, name: 'store' }, (p, out) => {
      if (combiner === undefined) storeOne(p, s, axes, true, out)
      else storeMerged(p, s, axes, (old, x) => roundTo(dtype, mergeEx(combiner, dtype, old, x)), out)
    })
  }

  private addStage(l: LetStmt): void {
    const { scope } = this
    invariant(l.op.kind === 'stage', 'not a stage')
    if (scope.part.ownStages.has(l.id)) {
      const { rest } = scope.part.closureOf([l.op.of])
      this.schedule.block([...rest], [l.id], 0, (out) => {
        scope.held.set(l.id, lowerOwnStage(scope, l, lowerItems, out))
      })
      return
    }
    const to = makeStage(scope, l)
    const filled = this.schedule.token()
    this.addFill(l, to, [filled])
    this.schedule.block([filled], [l.id], 0, (out) => {
      out.push({ k: 'barrier' })
      scope.held.set(l.id, to)
    })
  }

  private addFill(l: LetStmt, to: SharedTile, after: readonly Token[]): void {
    invariant(l.op.kind === 'stage', 'not a stage')
    const { of } = l.op
    const axes = this.scope.part.axesOf(l.id)
    if (this.roots.isChunked(axes)) {
      this.roots.add({ item: { kind: 'fill', let: l, to }, nest: axes, operands: [of], after, isStore: false })
      return
    }
    const product = to.array.half === true ? this.scope.part.productOn(l.id) : undefined
    const vectors = to.array.pitch === undefined ? undefined : this.scope.part.vectorProduct
    const together =
      product !== undefined ? fillVector(this.scope, to) : vectors === undefined ? undefined : fillAxis(this.scope, to)
    const loops = this.loops(axes, together)
    this.schedule.points({ loops, needs: [of], after, rank: 1, name: 'fill' }, (p, out) => {
      if (vectors !== undefined) fillVectors(p, vectors, l, to, out)
      else if (product === undefined) fillPoint(p, axes, of, to, out)
      else fillHalf(p, of, to, product.dtype, out)
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
    const { needs, closure } = this.roots.needsOf([...outer].filter((id) => !inner.has(id)))
    const all = [...allStmts(s.body)]
    const hasStores = all.some((t) => t.kind === 'store')
    const { products, vectorProduct } = scope.part
    if (all.some((t) => t.kind === 'let' && (products.has(t.id) || vectorProduct?.dot === t.id))) this.least = 2
    this.schedule.block(
      needs,
      s.carries.map((c) => c.result),
      hasStores ? 3 : 2,
      () => lowerLoop(scope, s, closure, lowerItems, out),
    )
  }
}
