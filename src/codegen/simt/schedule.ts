/**
 * The order of a statement list's code: nests of steps that are ready, folds that end together, and loops over chunks with the
 * roots that can share them.
 */
import { InternalError } from '../../diagnostics/errors.ts'
import type { LetStmt, StoreStmt, ValueId } from '../../kernel/ir.ts'
import type { Accumulator } from './accumulator.ts'
import { emitChunks } from './chunks.ts'
import { floatingFor, floatingSteps, seldomOf, stepsOn } from './floating.ts'
import { closeAccumulators, gather } from './fold.ts'
import type { Block } from './ir.ts'
import { type Item, itemsOf, type LowerItems } from './items.ts'
import { Point } from './point.ts'
import type { Phase, Scope } from './scope.ts'
import { emitRun, keyOf, type Step, type Token } from './steps.ts'
import { againstOf, closeStream, type Follower, openStream, type Stream, type Streaming } from './streaming.ts'

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

/** Code at the points of a nest that gives no value. */
type Valueless = Pick<Step, 'loops' | 'needs' | 'after' | 'rank' | 'name' | 'like'>

export class Schedule {
  steps: Step[] = []
  roots: Root[] = []
  private readonly scope: Scope
  private readonly exports: ReadonlySet<ValueId>
  private readonly out: Block
  private readonly lower: LowerItems
  private readonly done = new Set<Token>()
  private nextToken = -1
  private floating = new Map<Token, Step>()
  /** Loops over chunks so far, by their axes. */
  private readonly walks = new Map<string, number>()
  /** Streaming sums that are not closed. */
  private readonly streamed = new Map<Accumulator, { readonly stream: Stream; readonly follower: Follower }>()

  constructor(scope: Scope, exports: ReadonlySet<ValueId>, out: Block, lower: LowerItems) {
    this.scope = scope
    this.exports = exports
    this.out = out
    this.lower = lower
  }

  token(): Token {
    return this.nextToken--
  }

  /** Adds code that stands alone. */
  block(needs: readonly Token[], after: readonly Token[], rank: number, emit: (out: Block) => void): void {
    this.steps.push({
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

  /** Adds code at each point of a nest that gives no value. */
  points(step: Valueless, emit: (p: Point, out: Block) => void): void {
    this.steps.push({
      ...step,
      kind: 'point',
      emit: (p, out) => {
        emit(p, out)
        return undefined
      },
    })
  }

  /** Whether a value stands, or a step has ended. */
  private isDone = (t: Token): boolean => this.done.has(t) || (t >= 0 && this.scope.held.has(t))

  /** Emits everything. */
  run(): void {
    if (!this.scope.unit.machine.unrollsInPlace) this.setFloating()
    while (this.steps.length > 0 || this.roots.length > 0) {
      if (this.emitNextRun()) continue
      if (this.emitNextPhase()) continue
      throw new InternalError('statements of a kernel wait for each other')
    }
  }

  /** Takes steps out whose values float. */
  private setFloating(): void {
    const kept = new Set<Token>([...this.exports, ...this.roots.flatMap((r) => r.needs)])
    this.floating = floatingSteps(this.scope, this.steps, (id) => kept.has(id))
    const out = new Set(this.floating.values())
    this.steps = this.steps.filter((s) => !out.has(s))
  }

  /** Whether a value can be read, or computed anywhere. */
  private isReady = (t: Token): boolean => this.isDone(t) || this.floating.get(t)?.needs.every(this.isReady) === true

  /** Emits the next nest of ready steps; false if none is ready. */
  private emitNextRun(): boolean {
    const ready = this.steps.filter((s) => s.needs.every(this.isReady))
    const [first] = ready.sort((a, b) => a.rank - b.rank)
    if (first === undefined) return false
    if (first.rank >= 3 && this.roots.some((r) => r.needs.every(this.isDone))) return false
    const run: Step[] = [first]
    if (first.closes !== undefined) {
      run.push(...ready.filter((s) => s !== first && s.closes !== undefined))
    } else if (first.kind === 'point') {
      const key = keyOf(first)
      const here = new Set<Token>(first.gives === undefined ? [] : [first.gives])
      for (const s of this.steps) {
        if (s === first || s.kind !== 'point' || keyOf(s) !== key) continue
        if (!s.needs.every((t) => this.isReady(t) || here.has(t))) continue
        run.push(s)
        if (s.gives !== undefined) here.add(s.gives)
      }
      run.sort((a, b) => this.steps.indexOf(a) - this.steps.indexOf(b))
      run.unshift(...floatingFor(run, this.floating))
    }
    const chosen = new Set(run)
    this.steps = this.steps.filter((s) => !chosen.has(s))
    const wanted = new Set<Token>(this.exports)
    for (const s of this.steps) for (const t of s.needs) wanted.add(t)
    for (const r of this.roots) for (const t of r.needs) wanted.add(t)
    const closing = run.flatMap((s) => s.closes ?? [])
    for (const acc of closing) {
      gather(this.scope, acc, this.out)
      const sum = this.streamed.get(acc)
      if (sum !== undefined) closeStream(this.scope, sum.stream, sum.follower, this.out)
    }
    if (closing.length > 0)
      closeAccumulators(this.scope, closing, (lanes) => new Point(this.scope, lanes), this.out).forEach((held, i) => {
        const id = closing[i]?.let.id
        if (id !== undefined) this.scope.held.set(id, held)
      })
    else this.emit(run, (id) => wanted.has(id) && !this.floating.has(id))
    for (const s of run) {
      if (s.gives !== undefined && !this.floating.has(s.gives)) this.done.add(s.gives)
      for (const t of s.after) this.done.add(t)
    }
    return true
  }

  private emit(run: readonly Step[], later: (id: ValueId) => boolean): void {
    const { scope, out } = this
    const seldom = this.seldom(run)
    if (seldom === undefined || !scope.unit.machine.unrollsInPlace) {
      emitRun(scope, run, later, out, seldom)
      return
    }
    // Loops are repeated in place: only what the condition bears upon is there twice.
    const apart = stepsOn(scope, run, seldom.id, later)
    const common = run.filter((s) => !apart.includes(s))
    const read = new Set(apart.flatMap((s) => s.needs))
    if (common.length > 0) emitRun(scope, common, (id) => later(id) || read.has(id), out)
    emitRun(scope, apart, later, out, seldom)
  }

  private seldom(run: readonly Step[]): ReturnType<typeof seldomOf> {
    // Where conditions do not float their nest holds them anyway.
    const inNests = !this.scope.unit.machine.unrollsInPlace && this.floating.size === 0
    return inNests ? undefined : seldomOf(this.scope, run)
  }

  /** Emits a loop over chunks with all roots that can share it. */
  private emitNextPhase(): boolean {
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
      ...itemsOf([...this.scope.part.lets.values()].filter((l) => closure.has(l.id))),
      ...own,
      ...joined.map((r) => r.item),
      ...own.flatMap((item) => (item.kind === 'stream' ? momentsOf(item.stream) : [])),
    ]
    const all = [...phase, ...joined]
    const inner = this.scope.child({ phase: phaseOf(closure, all, joined) })
    // Every other walk turns back where the one before ended: what that read last is in the caches.
    const walk = this.walks.get(key) ?? 0
    this.walks.set(key, walk + 1)
    const backward = walk % 2 === 1 && inner.unit.mode === 'fast' && inner.phase !== undefined
    emitChunks(inner, first.over, items, this.lower, this.out, backward)
    for (const r of all) for (const t of r.after) this.done.add(t)
    return true
  }

  /** Roots that may stream in the loop of some others. */
  private followersOf(phase: readonly Root[], key: string): StreamingRoot[] {
    const anchors = new Set(phase.flatMap((r) => (r.item.kind === 'accumulate' ? r.item.acc.let.id : [])))
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
      own.kind === 'accumulate' && streamed.anchor === item.acc.let.id ? [{ acc: own.acc, streamed }] : [],
    )
    if (followers.length === 0) return undefined
    const stream = openStream(this.scope, item.acc, followers, this.out)
    for (const follower of followers) this.streamed.set(follower.acc, { stream, follower })
    const against = new Map(followers.map((f) => [f.acc, f.streamed.against]))
    this.steps = this.steps.map((s) => {
      const id = s.closes === undefined ? undefined : against.get(s.closes)
      return id === undefined ? s : { ...s, needs: [...s.needs, id] }
    })
    return { kind: 'stream', stream }
  }
}

const momentsOf = (stream: Stream): Item[] =>
  (stream.mean?.carried ?? []).map((carried) => ({ kind: 'moments', carried, moved: againstOf(stream) }))

/** What roots that share a loop over chunks compute `values` for; undefined where a tile that is filled goes elsewhere. */
function phaseOf(
  values: ReadonlySet<ValueId>,
  roots: readonly Root[],
  joined: readonly StreamingRoot[],
): Phase | undefined {
  const folds = new Set<ValueId>()
  const stores = new Set<StoreStmt>()
  for (const { item } of roots) {
    if (item.kind === 'accumulate') folds.add(item.acc.let.id)
    else if (item.kind === 'ordered') stores.add(item.store)
    else if (item.kind === 'stmt' && item.stmt.kind === 'store') stores.add(item.stmt)
    else return undefined
  }
  const streams = new Set(
    joined.flatMap(({ item, streaming: { streamed } }) =>
      item.kind === 'accumulate' && streamed.law.kind === 'exponential' ? item.acc.let.id : [],
    ),
  )
  return { values, folds, stores, streams }
}
