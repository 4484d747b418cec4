/**
 * The laws of what threads do, in order: a value stands before it is read, wherever it is read; folds begin, take terms, and end; walks
 * open the axes that their nests run over; every store happens.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import { type LetStmt, operandsOf, type StoreStmt, type ValueId } from '../../../kernel/ir.ts'
import { filledFrom } from '../access/tiles.ts'
import { termsOf } from '../fold/folds.ts'
import { againstOf, carriedOf } from '../fold/onlineSums.ts'
import { type AxisLayout, type Layout, spanOf } from '../layout/layout.ts'
import { storeValues } from '../part/facts.ts'
import { filterOf, queuedValues } from '../part/filter.ts'
import { isOnMatrices } from '../part/matrixCarries.ts'
import type { Part } from '../part/part.ts'
import { tilesOf } from '../prefetch/copiedStages.ts'
import { allLoads } from '../prefetch/prefetch.ts'
import type { BlockWork, LoopWork, NestEntry, PointStep, Sequence, WalkEntry } from './sequence.ts'

export type Check = (holds: boolean, what: string) => void

/** The sequence of a part under its layout; `threads` of the team, which layouts of stages are held to. */
export function verifySequence(
  part: Part,
  layout: Layout,
  body: Sequence,
  check: Check,
  verifyLayout: (layout: Layout) => void,
): void {
  const stored = new Set<StoreStmt>()
  const open = [...layout.axes.values()].filter((a) => a.chunks === 1 && part.axis(a.name).role !== 'loop')
  const state: State = {
    part,
    layout,
    open: new Set(open.map((a) => a.name)),
    held: new Set(),
    folds: new Map(),
    background: [],
    awaited: undefined,
    early: new Set(),
    stored,
    check,
    verifyLayout,
  }
  verifyList(state, body)
  for (const s of part.stores) check(stored.has(s), `a store into ${s.param} never happens`)
}

/** How far a fold is. */
type Progress = 'begun' | 'folded'

interface State {
  readonly part: Part
  readonly layout: Layout
  /** Axes at a definite block or chunk. */
  readonly open: ReadonlySet<string>
  readonly held: Set<ValueId>
  readonly folds: Map<ValueId, Progress>
  /** Products in the background, in the order in which they began. */
  readonly background: ValueId[]
  /** Loads that were made early, by loops around. */
  readonly early: ReadonlySet<ValueId>
  readonly stored: Set<StoreStmt>
  /** Of an iteration that the next one begins behind the half of: how often threads say that they are there. */
  readonly awaited: { halfway: number } | undefined
  readonly check: Check
  readonly verifyLayout: (layout: Layout) => void
}

function verifyList(state: State, { prepare, entries }: Sequence): void {
  for (const p of prepare) if (p.kind === 'position') state.held.add(p.let.id)
  for (const e of entries)
    switch (e.kind) {
      case 'nest':
        verifyNest(state, e)
        break
      case 'rolled': {
        state.verifyLayout(e.layout)
        for (const id of e.kept) read(state, state.held, id, `the loop over the repeats of ${e.axis}`)
        const inner = { ...state, layout: e.layout, held: new Set(state.held) }
        for (const n of e.nests) verifyNest(inner, n)
        break
      }
      case 'walk':
        verifyWalk(state, e)
        break
      case 'block':
        verifyBlock(state, e.work)
        break
      case 'close':
        if (e.later !== undefined) {
          const [first] = state.background
          state.check(
            e.folds.length === 1 && e.folds[0]?.id === first,
            `the product %${first} is not waited for in order`,
          )
          state.background.shift()
          state.check(e.later === state.background.length, `the wait for %${first} leaves others than go on`)
        }
        for (const l of e.folds) {
          state.check(!state.background.includes(l.id), `%${l.id} ends without a wait`)
          state.check(state.folds.get(l.id) === 'folded', `%${l.id} ends without a term`)
          state.folds.delete(l.id)
          state.held.add(l.id)
        }
        for (const s of e.streams.values())
          for (const id of againstOf(s)) read(state, state.held, id, 'the end of a stream')
    }
}

function read({ check }: State, known: ReadonlySet<ValueId>, id: ValueId, by: string): void {
  check(known.has(id), `${by} reads %${id}, which does not stand`)
}

/** What a step reads at a point. */
function readsOf({ part }: State, { work }: PointStep): readonly ValueId[] {
  switch (work.kind) {
    case 'value':
    case 'load':
    case 'random':
      return operandsOf(work.let.op)
    case 'fold':
      return termReads(part, work.let)
    case 'count':
      return []
    case 'moments':
      return againstOf(work.stream)
    case 'store':
      return storeValues(work.store)
    case 'interleave':
      return work.stores.flatMap(storeValues)
    case 'fill':
      return filledFrom(work.tile, work.of)
  }
}

function termReads(part: Part, l: LetStmt): readonly ValueId[] {
  if (l.op.kind === 'reduce') return [l.op.arg, ...termsOf(part, l)]
  return l.op.kind === 'dot' ? [l.op.a, l.op.b] : []
}

function verifyNest(state: State, { steps, arrays, sliding }: NestEntry): void {
  const { check, layout, open } = state
  if (sliding !== undefined) {
    const { along, over, shared } = sliding.windows
    const points = [along, over].reduce((n, a) => n * layout.axis(a).reps, 1)
    const met = new Set(sliding.places.flatMap((p) => p.map((at) => `${at.along} ${at.over}`)))
    check(met.size === points, `windows along ${along} have ${points} points, of which ${met.size} are met`)
    for (const s of steps)
      if (s.gives !== undefined && shared.has(s.gives))
        check(s.wide !== true && !arrays.includes(s.gives), `${s.name} is shared by windows, and kept`)
  }
  const [first] = steps
  const here = new Set(state.held)
  for (const s of steps) {
    check(s.loops.length === first?.loops.length, `${s.name} stands in another nest`)
    for (const { axis, over, count } of s.loops) {
      const a = layout.axis(axis)
      check(open.has(axis), `${s.name} runs over ${axis}, which is at no definite chunk`)
      check(count === (over === 'rep' ? a.reps : a.vec), `${s.name} runs over ${count} of ${axis}`)
    }
    for (const id of readsOf(state, s)) read(state, here, id, s.name)
    verifyWork(state, s)
    if (s.gives !== undefined) here.add(s.gives)
    if (s.gives !== undefined && (arrays.includes(s.gives) || s.loops.length === 0)) state.held.add(s.gives)
  }
}

function verifyWork(state: State, { work, name }: PointStep): void {
  const { check, folds, stored, early } = state
  switch (work.kind) {
    case 'fold':
      check(folds.has(work.let.id), `%${work.let.id} takes a term before it begins`)
      folds.set(work.let.id, 'folded')
      break
    case 'store':
      stored.add(work.store)
      break
    case 'interleave':
      for (const s of work.stores) stored.add(s)
      break
    case 'load': {
      const isEarly = work.form.kind === 'copied' || work.form.kind === 'words'
      check(!isEarly || early.has(work.let.id), `${name} was not loaded early`)
      break
    }
    case 'count':
    case 'fill':
    case 'moments':
    case 'random':
    case 'value':
      break
  }
}

function verifyWalk(state: State, w: WalkEntry): void {
  const { check, layout, open } = state
  for (const axis of w.over) {
    check(!open.has(axis), `a walk over ${axis} inside one over it`)
    check(layout.axis(axis).chunks > 1, `a walk over ${axis}, which is not cut`)
  }
  const inner = layout.axis(w.over.at(-1) ?? '')
  check(
    w.wholeUntil === undefined || w.wholeUntil % spanOf(inner) === 0 || state.part.axis(inner.name).role !== 'local',
    `whole chunks of ${inner.name} end inside one`,
  )
  check((w.wholeUntil === undefined) === (w.tail === undefined), `the last chunk of ${inner.name} has no code`)
  const streams = w.items.flatMap((item) => (item.kind === 'stream' ? item.stream : []))
  for (const body of [w.body, w.tail]) {
    if (body === undefined) continue
    const early = new Set([...state.early, ...(body === w.body ? (w.prefetch ?? []) : []).map((p) => p.let.id)])
    const folds = new Map(state.folds)
    verifyList({ ...state, open: new Set([...open, ...w.over]), held: new Set(state.held), folds, early }, body)
    for (const [id, progress] of folds) if (state.folds.has(id)) state.folds.set(id, progress)
  }
  for (const s of streams) for (const f of carriedOf(s)) state.folds.set(f.let.id, 'folded')
}

function verifyBlock(state: State, work: BlockWork): void {
  const { check, held, folds, part } = state
  switch (work.kind) {
    case 'open':
      check(!folds.has(work.let.id), `%${work.let.id} begins twice`)
      folds.set(work.let.id, 'begun')
      break
    case 'matrixProduct': {
      const { dot, a, b } = work.product
      for (const id of [a, b]) read(state, held, id, `%${dot}`)
      verifyMultiplied(state, dot)
      if (work.inBackground) state.background.push(dot)
      break
    }
    case 'vectorProduct': {
      const { dot, a, b, slices, onMatrices } = work.product
      const here = new Set(held)
      for (const fill of work.fills) {
        check(slices?.stages.has(fill.let.id) === true, `%${dot} fills %${fill.let.id}, which is no slice of its own`)
        verifyBlock({ ...state, held: here }, fill)
      }
      for (const { stage } of [a, b]) read(state, here, stage, `%${dot}`)
      if (onMatrices) held.add(dot)
      else verifyMultiplied(state, dot)
      break
    }
    case 'scan':
      if (work.let.op.kind === 'scan') read(state, held, work.let.op.arg, `the scan %${work.let.id}`)
      held.add(work.let.id)
      break
    case 'move':
      for (const id of againstOf(work.stream)) held.add(id)
      break
    case 'barrier':
      break
    case 'halfway':
      check(state.awaited !== undefined, 'threads are halfway through nothing that the next block waits for')
      if (state.awaited !== undefined) state.awaited.halfway += 1
      break
    case 'filled':
      held.add(work.let.id)
      break
    case 'stage':
    case 'ordered': {
      state.verifyLayout(work.layout)
      const values =
        work.kind === 'stage' ? (work.let.op.kind === 'stage' ? [work.let.op.of] : []) : storeValues(work.store)
      const again = part.closureOf(values).lets.filter((l) => work.kind === 'ordered' || part.axesOf(l.id).length > 0)
      const inner = new Set(held)
      for (const l of again) inner.delete(l.id)
      const filter = work.kind === 'ordered' ? filterOf(part, work.store) : undefined
      for (const id of filter === undefined ? [] : queuedValues(filter)) inner.add(id)
      const slices = work.kind === 'stage' ? part.slicesOf(work.let.id) : undefined
      const isOpen = (a: AxisLayout): boolean => a.chunks === 1 || a.name === slices?.axis
      const open = new Set([...work.layout.axes.values()].filter(isOpen).map((a) => a.name))
      verifyList({ ...state, layout: work.layout, open, held: inner, folds: new Map() }, work.body)
      if (work.kind === 'stage') held.add(work.let.id)
      break
    }
    case 'loop':
      verifyLoop(state, work)
  }
}

function verifyMultiplied({ check, folds }: State, dot: ValueId): void {
  check(folds.has(dot), `%${dot} is multiplied before it begins`)
  folds.set(dot, 'folded')
}

function verifyLoop(state: State, { loop, operands, prefetch, body }: LoopWork): void {
  const { held } = state
  for (const id of [loop.from, loop.to]) if (id !== undefined) read(state, held, id, `the loop over ${loop.axis}`)
  for (const c of loop.carries.filter((x) => !isOnMatrices(state.part, x)))
    read(state, held, c.init, `the loop over ${loop.axis}`)
  const inner = new Set(held)
  for (const c of loop.carries) inner.add(c.param)
  for (const t of (operands?.copied ?? []).flatMap(tilesOf)) inner.add(t.let.id)
  const loads = [
    ...(prefetch === undefined ? [] : allLoads(prefetch)),
    ...(operands?.ahead ?? []).flatMap((a) => a.loads),
  ]
  const early = new Set([...state.early, ...loads.map((l) => l.let.id)])
  const open = new Set([...state.open, ...(state.layout.find(loop.axis)?.chunks === 1 ? [loop.axis] : [])])
  const folds = new Map<ValueId, Progress>()
  const background: ValueId[] = []
  const awaited = operands?.meetsHalfway === true ? { halfway: 0 } : undefined
  verifyList({ ...state, open, held: inner, early, folds, background, awaited }, body)
  if (awaited !== undefined)
    state.check(awaited.halfway === 1, `threads are halfway ${awaited.halfway} times in an iteration over ${loop.axis}`)
  state.check(background.length === 0, `an iteration over ${loop.axis} leaves products in the background`)
  for (const c of loop.carries) read(state, inner, c.next, `the next iteration over ${loop.axis}`)
  for (const c of loop.carries) held.add(c.result)
}

/** Throws an internal error naming what is wrong with a schedule. */
export const checkOf =
  (kernel: string): Check =>
  (holds, what) =>
    invariant(holds, `the schedule of ${kernel}: ${what}`)
