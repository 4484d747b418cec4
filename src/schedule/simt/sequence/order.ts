/**
 * The order of a statement list: nests of steps that are ready, folds that end together, and loops over chunks with the roots that
 * can share them.
 */
import { InternalError, invariant } from '../../../diagnostics/errors.ts'
import type { LetStmt, StoreStmt, ValueId } from '../../../kernel/ir.ts'
import { isArgCombiner } from '../../../scalar/ops.ts'
import type { Phase, Place } from '../access/place.ts'
import { exchangePlanOf } from '../fold/exchange.ts'
import { combinerOf } from '../fold/folds.ts'
import { carriedOf, type Follower, type Streaming, type StreamPlan } from '../fold/onlineSums.ts'
import { valueFormOf } from '../precision/oddFunctions.ts'
import { aheadOf, isAfter, keyOf, type Pending, type PendingClose } from './nests.ts'
import { rematerialised, rematerialisedFor } from './rematerialise.ts'
import { type BlockWork, type Entry, type Item, itemsOf, type PointStep, type Seldom, type Token } from './sequence.ts'
import { slidingOf } from './sliding.ts'
import { seldomOf, stepsOn } from './unswitch.ts'
import { usualOf } from './usual.ts'
import { type PlanItems, planWalk } from './walks.ts'

/** A fold, store or filling whose points run over chunked axes. */
export interface Root {
  readonly item: Item
  readonly over: readonly string[]
  readonly needs: readonly Token[]
  /** Statements to compute inside the loop. */
  readonly closure: readonly LetStmt[]
  readonly after: readonly Token[]
  readonly isStore: boolean
  /** A store over memory that other passes read: after all of them. */
  readonly isLate: boolean
  /** How it may join the loop of the fold that it waits for. */
  readonly streaming?: Streaming
}

type StreamingRoot = Root & { readonly streaming: Streaming }

export class Order {
  steps: Pending[] = []
  roots: Root[] = []
  readonly entries: Entry[] = []
  private readonly place: Place
  private readonly exports: ReadonlySet<ValueId>
  private readonly planItems: PlanItems
  private readonly done = new Set<Token>()
  private nextToken = -1
  private again = new Map<Token, PointStep>()
  /** Loops over chunks so far, by their axes. */
  private readonly walks = new Map<string, number>()
  /** Products in the background, in the order in which they began. */
  private background: ValueId[] = []
  /** Streams that are not closed, by sum. */
  private readonly streamed = new Map<ValueId, StreamPlan>()

  constructor(place: Place, exports: ReadonlySet<ValueId>, planItems: PlanItems) {
    this.place = place
    this.exports = exports
    this.planItems = planItems
  }

  token(): Token {
    return this.nextToken--
  }

  /** Adds work that stands alone. */
  block(needs: readonly Token[], after: readonly Token[], rank: number, make: () => BlockWork): void {
    this.steps.push({ kind: 'block', needs, after, rank, make })
  }

  /** A product begins in the background. */
  begins(product: ValueId): void {
    this.background.push(product)
  }

  /** Whether a value stands, or a step has ended. */
  private isDone = (t: Token): boolean => this.done.has(t) || (t >= 0 && this.place.held.has(t))

  /** Puts everything in order. */
  run(): void {
    if (!this.place.setting.machine.unrollsInPlace) this.setAside()
    while (this.steps.length > 0 || this.roots.length > 0) {
      if (this.nextRun()) continue
      if (this.nextWalk()) continue
      throw new InternalError('statements of a kernel wait for each other')
    }
  }

  /** Takes steps out whose values are computed again in each nest. */
  private setAside(): void {
    const kept = new Set<Token>([...this.exports, ...this.roots.flatMap((r) => r.needs)])
    this.again = rematerialised(this.place.part, this.steps, (id) => kept.has(id))
    const out = new Set<Pending>(this.again.values())
    this.steps = this.steps.filter((s) => !out.has(s))
  }

  /** Whether a value can be read, or computed anywhere. */
  private isReady = (t: Token): boolean => this.isDone(t) || this.again.get(t)?.needs.every(this.isReady) === true

  /** Takes the next nest of ready steps; false if none is ready. */
  private nextRun(): boolean {
    const ready = this.steps.filter((s) => s.needs.every(this.isReady))
    const [first] = ready.sort((a, b) => a.rank - b.rank)
    if (first === undefined) return false
    if (first.rank >= 3 && this.roots.some((r) => r.needs.every(this.isDone))) return false
    switch (first.kind) {
      case 'close':
        if (first.inBackground) this.await()
        else this.closeAll(ready.filter((s): s is PendingClose => s.kind === 'close' && !s.inBackground))
        break
      case 'block':
        this.take([first])
        this.entries.push({ kind: 'block', work: first.make() })
        this.finish([first])
        break
      case 'point':
        this.nest(aheadOf(first, this.steps, this.isReady))
    }
    return true
  }

  private take(run: readonly Pending[]): void {
    const chosen = new Set(run)
    this.steps = this.steps.filter((s) => !chosen.has(s))
  }

  private finish(run: readonly Pending[]): void {
    for (const s of run) {
      if (s.kind === 'point' && s.gives !== undefined && !this.again.has(s.gives)) this.done.add(s.gives)
      for (const t of s.after) this.done.add(t)
    }
  }

  /** Waits for the product in the background that began first. */
  private await(): void {
    const [id, ...others] = this.background
    const first = this.steps.find((s) => s.kind === 'close' && s.let.id === id)
    invariant(first?.kind === 'close', 'a product in the background that nothing waits for')
    this.background = others
    this.closeAll([first], others.length)
  }

  /** Ends folds together. */
  private closeAll(run: readonly PendingClose[], later?: number): void {
    this.take(run)
    const folds = run.map((s) => s.let)
    const streams = new Map<ValueId, StreamPlan>()
    for (const { id } of folds) {
      const stream = this.streamed.get(id)
      if (stream !== undefined) streams.set(id, stream)
      this.place.holds(id, 'registers')
    }
    const exchange = exchangePlanOf(this.place, folds)
    this.entries.push({ kind: 'close', folds, exchange, streams, ...(later === undefined ? {} : { later }) })
    this.finish(run)
  }

  /** The steps that share a step's nest. */
  private nest(first: PointStep): void {
    const key = keyOf(first)
    const run: PointStep[] = [first]
    const here = new Set<Token>(first.gives === undefined ? [] : [first.gives])
    for (const s of this.steps) {
      if (s === first || s.kind !== 'point' || keyOf(s) !== key || isAfter(s, first)) continue
      if (!s.needs.every((t) => this.isReady(t) || here.has(t))) continue
      run.push(s)
      if (s.gives !== undefined) here.add(s.gives)
    }
    const all: readonly Pending[] = this.steps
    run.sort((a, b) => all.indexOf(a) - all.indexOf(b))
    run.unshift(...rematerialisedFor(run, this.again))
    this.take(run)
    const wanted = new Set<Token>(this.exports)
    for (const s of this.steps) for (const t of s.needs) wanted.add(t)
    for (const r of this.roots) for (const t of r.needs) wanted.add(t)
    for (const s of this.again.values()) for (const t of s.needs) wanted.add(t)
    this.addNests(run, (id) => wanted.has(id) && !this.again.has(id))
    this.finish(run)
  }

  private addNests(run: readonly PointStep[], later: (id: ValueId) => boolean): void {
    const { place } = this
    const seldom = this.seldom(run)
    if (seldom === undefined || !place.setting.machine.unrollsInPlace) {
      this.addNest(run, later, seldom)
      return
    }
    // Loops are repeated in place: only what the condition bears upon is there twice.
    const apart = stepsOn(place.part, run, seldom.id, later)
    const common = run.filter((s) => !apart.includes(s))
    const read = new Set(apart.flatMap((s) => s.needs))
    if (common.length > 0) this.addNest(common, (id) => later(id) || read.has(id), undefined)
    this.addNest(apart, later, seldom)
  }

  /** A nest; `later` says which values are needed afterwards. */
  private addNest(run: readonly PointStep[], later: (id: ValueId) => boolean, seldom: Seldom | undefined): void {
    const [first] = run
    invariant(first !== undefined, 'an empty run')
    const arrays: ValueId[] = []
    for (const { gives, wide, loops } of run) {
      if (gives === undefined) continue
      const isArray = wide === true || (first.loops.length > 0 && later(gives))
      if (isArray) arrays.push(gives)
      if (isArray) this.place.holds(gives, 'registers')
      else if (loops.length === 0) this.place.holds(gives, 'scalar')
    }
    const twice = seldom === undefined || arrays.includes(seldom.id) ? undefined : seldom
    const kept = new Set<Token>(arrays)
    const usual =
      twice !== undefined || first.loops.length === 0 ? undefined : usualOf(this.place.part, this.place.layout, run)
    const isHeld = usual?.ids.some((id) => kept.has(id)) === true
    const sliding = arrays.length > 0 || twice !== undefined ? undefined : slidingOf(this.place, run)
    this.entries.push({
      kind: 'nest',
      steps: this.inForm(run),
      arrays,
      seldom: twice,
      usual: isHeld ? undefined : usual,
      ...(sliding === undefined ? {} : { sliding }),
    })
  }

  /** Steps of a nest with the forms of what they compute. */
  private inForm(run: readonly PointStep[]): PointStep[] {
    const { part, phase, layout, held } = this.place
    const here = new Set<Token>()
    const holds = (id: ValueId): boolean => {
      const h = held.get(id)
      const isNear = h?.kind !== 'registers' || h.layout === layout || part.axesOf(id).length === 0
      return here.has(id) || (h !== undefined && isNear)
    }
    return run.map((s) => {
      const form = s.work.kind === 'value' ? valueFormOf({ part, phase, holds }, s.work.let) : undefined
      if (s.gives !== undefined) here.add(s.gives)
      return form === undefined || s.work.kind !== 'value' ? s : { ...s, work: { ...s.work, form } }
    })
  }

  private seldom(run: readonly PointStep[]): Seldom | undefined {
    const { part, layout, setting } = this.place
    // Where conditions are not computed again their nest holds them anyway.
    const inNests = !setting.machine.unrollsInPlace && this.again.size === 0
    return inNests ? undefined : seldomOf(part, layout, run)
  }

  /** Takes a loop over chunks with all roots that can share it. */
  private nextWalk(): boolean {
    const ready = this.roots.filter((r) => r.needs.every(this.isDone))
    const first = ready.find((r) => !r.isStore) ?? ready.find((r) => !r.isLate) ?? ready[0]
    if (first === undefined) return false
    const key = first.over.join()
    const last = first.isLate || this.roots.every((r) => r.isLate || (ready.includes(r) && r.over.join() === key))
    const phase = ready.filter((r) => r.over.join() === key && (last || !r.isLate))
    const joined = this.followersOf(phase, key)
    this.roots = this.roots.filter((r) => !phase.includes(r) && !joined.some((f) => f.item === r.item))
    const lets = [...phase.flatMap((r) => r.closure), ...joined.flatMap((r) => r.streaming.closure)]
    const closure = new Set(lets.map((l) => l.id))
    const own = phase.map((r) => this.streamOf(r.item, joined) ?? r.item)
    const items: Item[] = [
      ...itemsOf([...this.place.part.lets.values()].filter((l) => closure.has(l.id))),
      ...own,
      ...joined.map((r) => r.item),
      ...own.flatMap((item) => (item.kind === 'stream' ? momentsOf(item.stream) : [])),
    ]
    const all = [...phase, ...joined]
    const inner = this.place.inside({ phase: phaseOf(closure, all, joined) ?? this.place.phase })
    // Every other walk turns back where the one before ended: what that read last is in the caches.
    const walk = this.walks.get(key) ?? 0
    this.walks.set(key, walk + 1)
    const isBackward =
      walk % 2 === 1 &&
      inner.setting.mode === 'fast' &&
      inner.phase !== undefined &&
      !all.some((r) => findsPlaces(r.item))
    this.entries.push(planWalk(inner, first.over, items, isBackward, this.planItems))
    for (const r of all) for (const t of r.after) this.done.add(t)
    return true
  }

  /** Roots that may stream in the loop of some others. */
  private followersOf(phase: readonly Root[], key: string): StreamingRoot[] {
    const anchors = new Set(phase.flatMap((r) => (r.item.kind === 'accumulate' ? r.item.let.id : [])))
    return this.roots.flatMap((r) => {
      const { streaming } = r
      if (streaming === undefined || r.over.join() !== key || !anchors.has(streaming.streamed.anchor)) return []
      return streaming.needs.every(this.isDone) ? { ...r, streaming } : []
    })
  }

  /** A fold with the roots that stream against it. */
  private streamOf(item: Item, joined: readonly StreamingRoot[]): Item | undefined {
    if (item.kind !== 'accumulate') return undefined
    const followers = joined.flatMap(({ item: own, streaming: { streamed } }): Follower[] =>
      own.kind === 'accumulate' && streamed.anchor === item.let.id ? [{ let: own.let, streamed }] : [],
    )
    if (followers.length === 0) return undefined
    const stream: StreamPlan = { anchor: item.let, followers }
    for (const f of followers) this.streamed.set(f.let.id, stream)
    const against = new Map(followers.map((f) => [f.let.id, f.streamed.against]))
    this.steps = this.steps.map((s) => {
      const id = s.kind === 'close' ? against.get(s.let.id) : undefined
      return id === undefined ? s : { ...s, needs: [...s.needs, id] }
    })
    return { kind: 'stream', stream }
  }
}

/** Whether an item is a fold that finds where something is: ties are settled as terms come. */
const findsPlaces = (item: Item): boolean => item.kind === 'accumulate' && isArgCombiner(combinerOf(item.let))

const momentsOf = (stream: StreamPlan): Item[] =>
  carriedOf(stream).map((f) => ({ kind: 'moments', let: f.let, stream }))

/** What roots that share a loop over chunks compute `values` for; undefined where a tile that is filled goes elsewhere. */
function phaseOf(
  values: ReadonlySet<ValueId>,
  roots: readonly Root[],
  joined: readonly StreamingRoot[],
): Phase | undefined {
  const folds = new Set<ValueId>()
  const stores = new Set<StoreStmt>()
  for (const { item } of roots) {
    if (item.kind === 'accumulate') folds.add(item.let.id)
    else if (item.kind === 'ordered') stores.add(item.store)
    else if (item.kind === 'stmt' && item.stmt.kind === 'store') stores.add(item.stmt)
    else return undefined
  }
  const streams = new Set(
    joined.flatMap(({ item, streaming: { streamed } }) =>
      item.kind === 'accumulate' && streamed.law.kind === 'exponential' ? item.let.id : [],
    ),
  )
  return { values, folds, stores, streams }
}
