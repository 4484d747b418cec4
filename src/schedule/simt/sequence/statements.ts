/**
 * Statement lists: each statement becomes steps over loops of registers, or, where its axes are cut into chunks, a *root* (roots.ts).
 * Roots over the same axes that do not wait for each other share a loop: dependent folds of long rows become passes over them.
 */

import { invariant } from '../../../diagnostics/errors.ts'
import { foldAxes } from '../../../kernel/folds.ts'
import { type LetStmt, type LoopStmt, operandsOf, type Stmt, type StoreStmt, type ValueId } from '../../../kernel/ir.ts'
import { isPosition } from '../../../kernel/positions.ts'
import { allStmts } from '../../../kernel/walk.ts'
import { callGroupOf, exchangingLanes, Gaps, groupOf, repeatedGroupOf, stridedOf } from '../access/access.ts'
import type { Place } from '../access/place.ts'
import { filledFrom, filledTogether, hasSplitTiles, splitTiles, type TilePlan, tileArray } from '../access/tiles.ts'
import { turnedOf } from '../access/turned.ts'
import { countedAxes, foldPlanOf, isBatched, termsOf } from '../fold/folds.ts'
import { againstOf, isMean, type StreamPlan } from '../fold/onlineSums.ts'
import { scanPlanOf } from '../fold/scans.ts'
import { storeValues } from '../part/facts.ts'
import { isMatrixStart, isOnMatrices } from '../part/matrixCarries.ts'
import { isCoarseStore } from '../precision/precision.ts'
import { foldsBefore } from '../prefetch/sinkLoads.ts'
import { planLoop } from './loops.ts'
import { rankBehind } from './nests.ts'
import { Order } from './order.ts'
import { Roots } from './roots.ts'
import {
  type Item,
  type LoadForm,
  type Loop,
  loopsOf,
  type PointStep,
  type Preparation,
  type Sequence,
  type Token,
} from './sequence.ts'
import { mainTile, orderedNeeds, planOrdered, planStage } from './stages.ts'
import type { PlanItems } from './walks.ts'

export const planItems: PlanItems = (place, items, exports) => new ListPlan(place, exports).run(items)

type Valueless = Pick<PointStep, 'work' | 'loops' | 'needs' | 'after' | 'rank' | 'name' | 'like'>

class ListPlan {
  private readonly place: Place
  private readonly gaps = new Gaps()
  private readonly prepare: Preparation[] = []
  private readonly order: Order
  private readonly roots: Roots
  /** What follows a matrix product's loop is not computed before it: the registers are the loop's. */
  private least = 0
  /** Axes whose loops are around those of others, beside a product: where one has divided its indices, it is done with them. */
  private readonly outer: ReadonlySet<string>
  /** Values that this list computes. */
  private readonly list = new Set<ValueId>()

  constructor(place: Place, exports: ReadonlySet<ValueId>) {
    this.place = place
    this.order = new Order(place, exports, planItems)
    this.roots = new Roots(place, this.order, this.prepare)
    this.outer = place.setting.divided ? place.part.dividedAxes() : new Set()
  }

  run(items: readonly Item[]): Sequence {
    for (const item of items) if (item.kind === 'stmt' && item.stmt.kind === 'let') this.list.add(item.stmt.id)
    for (const item of items) this.add(item)
    for (const s of this.gaps.rest()) this.addStore(s, true)
    this.order.run()
    return { prepare: this.prepare, entries: this.order.entries }
  }

  private add(item: Item): void {
    switch (item.kind) {
      case 'accumulate':
        this.addAccumulate(item.let, item)
        break
      case 'stream':
        this.addStream(item.stream)
        break
      case 'moments':
        this.addMoments(item.let, item.stream)
        break
      case 'fill':
        this.addFill(item.tile, item.of, [])
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
    const { place } = this
    const { part } = place
    if (place.held.has(l.id)) return
    if (l.op.kind === 'stage') {
      this.addStage(l)
      return
    }
    if (this.roots.isChunked(part.axesOf(l.id))) {
      this.roots.define(l)
      return
    }
    if (isPosition(part.lets, l)) {
      place.holds(l.id, 'position')
      this.prepare.push({ kind: 'position', let: l })
    } else if (l.op.kind === 'reduce' || l.op.kind === 'dot') this.addFold(l)
    else if (l.op.kind === 'scan') {
      this.order.block(this.roots.needsOf([l.op.arg]).needs, [l.id], 2, () => {
        place.holds(l.id, 'registers')
        return { kind: 'scan', let: l, plan: scanPlanOf(place, l) }
      })
    } else if (l.op.kind === 'load') this.addLoad(l)
    else if (l.op.kind === 'random') this.addRandom(l)
    else if (isMatrixStart(part, l.id)) return
    else this.value(l, l.op.kind)
  }

  private loops(axes: Iterable<string>, without?: string): Loop[] {
    const { layout } = this.place
    const all = layout.spread(axes)
    const outer = all.filter((a) => this.outer.has(a.name))
    const ordered = outer.length === 0 ? all : [...outer, ...all.filter((a) => !outer.includes(a))]
    return ordered.flatMap((a) => loopsOf(layout, a.name, without))
  }

  private points(step: Valueless): void {
    this.order.steps.push({ kind: 'point', ...step })
  }

  /** A step that computes a value at each point. */
  private value(l: LetStmt, name: string, work: PointStep['work'] = { kind: 'value', let: l }): void {
    const wish = l.op.kind === 'scalar' ? l.op.op : name
    this.order.steps.push({
      kind: 'point',
      work,
      loops: this.loops(this.place.part.axesOf(l.id)),
      needs: operandsOf(l.op),
      gives: l.id,
      after: [],
      // What windows share comes when all else that their folds take is there, in one nest with them.
      rank: Math.max(this.place.part.windows?.shared.has(l.id) === true ? 1.5 : 1, this.least),
      name: `${wish}_${l.id}`,
    })
  }

  private addLoad(l: LetStmt): void {
    const { place } = this
    invariant(l.op.kind === 'load', 'not a load')
    const axes = place.part.axesOf(l.id)
    const { param } = l.op
    const copied = place.copied?.layout === place.layout ? place.copied.loads.find((x) => x.let.id === l.id) : undefined
    const early = copied ?? place.words.get(l.id)
    if (early !== undefined) {
      const form: LoadForm = { kind: copied === undefined ? 'words' : 'copied', plan: early }
      this.wide(l, early.axis, 0, param, { kind: 'load', let: l, form })
      return
    }
    const group = groupOf(place, l.op, axes) ?? repeatedGroupOf(place, l.op, axes)
    const turned = group === undefined && Object.is(l.op.other, 0) ? turnedOf(place, l.op, axes) : undefined
    if (turned !== undefined) {
      this.wide(l, turned.columns, 0, param, { kind: 'load', let: l, form: { kind: 'turned', turned } })
      return
    }
    const strided = group === undefined ? stridedOf(place, l.op, axes) : undefined
    if (strided !== undefined)
      this.wide(l, strided.axis, 0, param, { kind: 'load', let: l, form: { kind: 'strided', strided } })
    else if (group === undefined) this.value(l, param, { kind: 'load', let: l, form: { kind: 'element' } })
    else {
      const work = { kind: 'load', let: l, form: { kind: 'group', group } } as const
      this.wide(l, group.axis, 0, param, work, foldsBefore(place, l, this.list))
    }
  }

  private addRandom(l: LetStmt): void {
    const group = callGroupOf(this.place, l)
    if (group === undefined) this.value(l, l.op.kind)
    else this.wide(l, group.axis, 1, 'random', { kind: 'random', let: l, group }, [], group.exchanged)
  }

  /** A step that writes the lanes of an axis one by one, and the repeats of an axis where one is given. */
  private wide(
    l: LetStmt,
    axis: string,
    rank: number,
    wish: string,
    work: PointStep['work'],
    besides: readonly Token[] = [],
    repeats?: string,
  ): void {
    const axes = this.place.part.axesOf(l.id)
    this.order.steps.push({
      kind: 'point',
      work,
      loops: this.loops(axes, axis).filter((loop) => loop.axis !== repeats || loop.over !== 'rep'),
      needs: [...operandsOf(l.op), ...besides],
      gives: l.id,
      wide: true,
      after: [],
      rank: Math.max(rank, this.least),
      name: `${wish}_${l.id}`,
    })
  }

  private addFold(l: LetStmt): void {
    const { place, order } = this
    const vectors = place.part.vectorProducts.get(l.id)
    if (vectors?.onMatrices) {
      // What it adds to stands in matrices until its loop ends.
      order.block([vectors.a.stage, vectors.b.stage], [l.id], 2, () => ({
        kind: 'vectorProduct',
        product: vectors,
        fills: [],
      }))
      return
    }
    this.prepare.push({ kind: 'fold', plan: foldPlanOf(place, l) })
    const opened = order.token()
    const folded = order.token()
    const from = l.op.kind === 'dot' && l.op.acc !== undefined ? [l.op.acc] : []
    // Before the nests that fold, so that those share theirs with what they fold.
    const rank = place.setting.machine.unrollsInPlace ? 1 : 0.5
    order.block(from, [opened], rank, () => ({ kind: 'open', let: l }))
    const product = place.part.products.get(l.id)
    if (product !== undefined && hasSplitTiles(product)) place.shared.share(splitTiles(product))
    const inBackground = product?.groups !== undefined && place.part.chain !== undefined && !place.setting.waits
    // Before the nests that can go on meanwhile.
    if (product !== undefined)
      order.block([opened, product.a, product.b], [folded], inBackground ? 0.75 : 2, () => {
        if (inBackground) order.begins(l.id)
        return { kind: 'matrixProduct', product, inBackground }
      })
    else if (vectors !== undefined)
      order.block([opened, vectors.a.stage, vectors.b.stage], [folded], 2, () => {
        const sliced = [...(vectors.slices?.stages ?? [])].flatMap((id) => place.part.lets.get(id) ?? [])
        return { kind: 'vectorProduct', product: vectors, fills: sliced.map((x) => planStage(place, x, planItems)) }
      })
    else this.addAccumulate(l, { kind: 'accumulate', let: l }, opened, folded)
    order.steps.push({ kind: 'close', let: l, needs: [folded, ...from], after: [l.id], rank: 2, inBackground })
  }

  private addAccumulate(l: LetStmt, item: Item, opened?: Token, folded?: Token): void {
    const { place } = this
    const { part, setting } = place
    const operands =
      l.op.kind === 'reduce'
        ? [l.op.arg, ...operandsOf(l.op), ...termsOf(part, l)]
        : l.op.kind === 'dot'
          ? [l.op.a, l.op.b]
          : []
    const before = opened === undefined ? [] : [opened]
    const after = folded === undefined ? [] : [folded]
    const nest = part.nestOf(l)
    const strict = setting.mode === 'strict'
    if (this.roots.isChunked(nest)) {
      this.roots.add({ item, nest, operands, before, after, isStore: false, order: strict ? foldAxes(l) : [] })
      return
    }
    const loops = strict
      ? [...this.loops(part.axesOf(l.id)), ...foldAxes(l).flatMap((a) => loopsOf(place.layout, a))]
      : this.loops(nest)
    const like = part.windows === undefined && isBatched(place, l) ? { like: 'extremes' } : {}
    const needs = [...operands, ...before]
    this.points({ work: { kind: 'fold', let: l }, loops, needs, after, rank: 1, name: 'fold', ...like })
  }

  private addStream(stream: StreamPlan): void {
    const { anchor } = stream
    const folded = this.order.token()
    this.addAccumulate(anchor, { kind: 'accumulate', let: anchor }, undefined, folded)
    const counted = isMean(stream) ? [this.order.token()] : []
    const loops = this.loops(countedAxes(this.place, anchor))
    if (isMean(stream))
      this.points({
        work: { kind: 'count', let: anchor, stream },
        loops,
        needs: [],
        after: counted,
        rank: 1,
        name: 'count',
      })
    this.order.block([folded, ...counted], againstOf(stream), 1, () => {
      for (const id of againstOf(stream)) this.place.holds(id, 'registers')
      return { kind: 'move', stream }
    })
  }

  private addMoments(l: LetStmt, stream: StreamPlan): void {
    const law = stream.followers.find((f) => f.let.id === l.id)?.streamed.law
    invariant(law?.kind === 'polynomial', 'a sum without moments')
    const loops = this.loops(this.place.part.nestOf(l))
    const needs = [...againstOf(stream), ...law.moments.products.flatMap(({ of }) => of)]
    this.points({ work: { kind: 'moments', let: l, stream }, loops, needs, after: [], rank: 1, name: 'fold' })
  }

  /** `alone`: no other store fills the gaps that this one leaves. */
  private addStore(s: StoreStmt, alone = false): void {
    const { place } = this
    if (place.part.isOrdered(s)) {
      this.order.block(orderedNeeds(place, s), [], 4, () => planOrdered(place, s, planItems))
      return
    }
    const axes = place.part.storeAxes(s)
    const operands = storeValues(s)
    if (this.roots.isChunked(axes)) {
      this.roots.add({ item: { kind: 'stmt', stmt: s }, nest: axes, operands, isStore: true })
      return
    }
    const group = groupOf(place, s, axes)
    const turned = group === undefined && s.combiner === undefined ? turnedOf(place, s, axes) : undefined
    const strided = alone || group !== undefined || turned !== undefined ? undefined : stridedOf(place, s, axes)
    if (strided !== undefined) {
      const stores = this.gaps.take(s, axes, strided)
      if (stores === 'waits') return
      const coarse = new Set(stores.filter((x) => isCoarseStore(place.part, place.phase, x)))
      const work = { kind: 'interleave', stores, strided, coarse } as const
      const needs = stores.flatMap(storeValues)
      this.points({ work, loops: this.loops(axes, strided.axis), needs, after: [], rank: 3, name: 'store' })
      return
    }
    const lanes = group === undefined ? 1 : exchangingLanes(place, s, group)
    const loops = this.loops(axes, group?.axis ?? turned?.columns)
    const isCoarse = isCoarseStore(place.part, place.phase, s)
    const inBlocks = turned === undefined ? {} : { turned }
    const work = { kind: 'store', store: s, group, lanes, ...inBlocks, merges: false, isCoarse } as const
    // All lanes take part, so no condition that varies among them stands around it.
    const apart =
      turned !== undefined
        ? { loops, like: 'exchanged' }
        : lanes === 1
          ? { loops }
          : { loops: loops.filter((l) => l.axis !== group?.axis), like: 'exchanged' }
    this.points({ work, needs: operands, after: [], rank: 3, name: 'store', ...apart })
  }

  private addOrdered(s: StoreStmt): void {
    const { part } = this.place
    const axes = part.storeAxes(s)
    const operands = storeValues(s)
    if (this.roots.isChunked(axes)) {
      this.roots.add({ item: { kind: 'ordered', store: s }, nest: axes, operands, isStore: true, order: axes })
      return
    }
    const work = {
      kind: 'store',
      store: s,
      group: undefined,
      lanes: 1,
      merges: s.combiner !== undefined,
      isCoarse: false,
    } as const
    this.points({ work, loops: this.loops(axes), needs: operands, after: [], rank: 3, name: 'store' })
  }

  private addStage(l: LetStmt): void {
    const { place, order } = this
    invariant(l.op.kind === 'stage', 'not a stage')
    if (place.part.slicesOf(l.id) !== undefined) {
      // Its product fills it.
      place.holds(l.id, 'shared')
      return
    }
    if (place.part.ownStages.has(l.id)) {
      const { rest } = place.part.closureOf([l.op.of])
      order.block([...rest], [l.id], 0, () => planStage(place, l, planItems))
      return
    }
    const tile = mainTile(place, l)
    place.shared.share(tileArray(tile))
    this.prepare.push({ kind: 'tile', tile })
    const filled = order.token()
    this.addFill(tile, l.op.of, [filled])
    order.block([filled], [l.id], 0, () => {
      place.holds(l.id, 'shared')
      return { kind: 'filled', let: l, meets: tile.form.kind !== 'vectors' }
    })
  }

  private addFill(tile: TilePlan, of: ValueId, after: readonly Token[]): void {
    const { place } = this
    const axes = place.part.axesOf(tile.let.id)
    if (this.roots.isChunked(axes)) {
      this.roots.add({
        item: { kind: 'fill', tile, of },
        nest: axes,
        operands: filledFrom(tile, of),
        after,
        isStore: false,
      })
      return
    }
    const loops = this.loops(axes, filledTogether(tile, place.layout))
    this.points({ work: { kind: 'fill', tile, of }, loops, needs: filledFrom(tile, of), after, rank: 1, name: 'fill' })
  }

  private addLoop(s: LoopStmt): void {
    const { place } = this
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
            outer.add(c.next)
            if (!isOnMatrices(place.part, c)) outer.add(c.init)
          }
          for (const b of [t.from, t.to]) if (b !== undefined) outer.add(b)
          visit(t.body)
        }
      }
    }
    visit([s])
    const { needs, closure } = this.roots.needsOf([...outer].filter((id) => !inner.has(id) && place.part.isInMain(id)))
    const all = [...allStmts(s.body)]
    const hasStores = all.some((t) => t.kind === 'store')
    if (all.some((t) => t.kind === 'let' && place.part.isProduct(t.id))) this.least = rankBehind
    const results = s.carries.map((c) => c.result)
    this.order.block(needs, results, hasStores ? 3 : 2, () => planLoop(place, s, closure, planItems))
  }
}
