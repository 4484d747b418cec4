/**
 * What follows a product's loop to the end of a part, as a loop over one axis' repeats where it would be written out many times: compilers take seconds
 * over functions that stand in a hundred places. What it reads along that axis stands in the threads' own cells meanwhile, in the shared memory that the loop's
 * rings and all exchanges took, which nothing reads any more.
 */
import { operandsOf, type ValueId } from '../../../kernel/ir.ts'
import { inAdditions } from '../../../target/prices.ts'
import type { SimtMachine } from '../../../target/simt.ts'
import { statementSeconds } from '../../price.ts'
import type { HeldAs } from '../access/place.ts'
import { Layout, registersOf } from '../layout/layout.ts'
import { storeValues } from '../part/facts.ts'
import type { Part } from '../part/part.ts'
import { registerBytes, registerType } from '../storage/registerType.ts'
import type { NestEntry, PointStep, RolledEntry, Sequence } from './sequence.ts'

/** What may be written out, in additions: more is a loop. About a third of a second of NVIDIA's compiler. */
const mostWrittenOut = 2000
/** Repeats from which a loop is worth one. */
const fewestRepeats = 4

/** The sequence of a part with its last nests as a loop, where they are many and shared memory has room for what they read. */
export function rollEnd(
  part: Part,
  layout: Layout,
  held: ReadonlyMap<ValueId, HeldAs>,
  body: Sequence,
  sharedBytes: number,
  machine: SimtMachine,
): Sequence {
  const { entries } = body
  const first = entries.findLastIndex((e) => e.kind !== 'nest' || !isPlain(e)) + 1
  const nests = entries.slice(first).flatMap((e) => (e.kind === 'nest' ? [e] : []))
  // Memory of fixed places has none to lend.
  if (part.products.size === 0 || nests.length === 0 || sharedBytes <= machine.staticSharedBytes) return body
  const all = nests.reduce((n, e) => n + writtenOut(part, e, machine), 0)
  if (all <= mostWrittenOut) return body
  const repeated = [...layout.axes.values()].filter(
    (a) => a.reps >= fewestRepeats && a.chunks === 1 && a.pairAbove === undefined,
  )
  for (const { name, reps } of repeated.sort((p, q) => q.reps - p.reps)) {
    const lanes = Math.max(1, ...nests.flatMap((e) => e.steps.map((s) => exchangedAlong(s, name))))
    const each = (all * lanes) / reps <= mostWrittenOut ? lanes : 1
    const rolled = rolledAlong(part, layout, held, nests, name, each)
    if (rolled === undefined || bytesOfCells(part, layout, rolled) > sharedBytes) continue
    const before = nests.filter((e) => !isAlong(e, name))
    return { ...body, entries: [...entries.slice(0, first), ...before, rolled] }
  }
  return body
}

/** Bytes of the cells of a block. */
const bytesOfCells = (part: Part, layout: Layout, { kept }: RolledEntry): number =>
  kept.reduce((n, id) => {
    const registers = layout.spread(part.axesOf(id)).reduce((m, a) => m * registersOf(a), 1)
    return n + registers * layout.threads * registerBytes(registerType(part.dtypeOf(id)))
  }, 0)

/** Whether a nest only loads, computes and stores, point by point. */
const isPlain = ({ steps, seldom, usual }: NestEntry): boolean =>
  seldom === undefined &&
  usual === undefined &&
  steps.every(({ work }) => {
    if (work.kind === 'store') return true
    if (work.kind === 'load') return work.form.kind !== 'copied' && work.form.kind !== 'words'
    return work.kind === 'value' && work.let.op.kind !== 'at'
  })

/** Repeats of an axis that lanes exchange in a step. */
const exchangedAlong = ({ work }: PointStep, axis: string): number =>
  work.kind === 'store' && work.group?.axis === axis ? work.lanes : 1

const isAlong = ({ steps }: NestEntry, axis: string): boolean =>
  steps[0]?.loops.some((l) => l.axis === axis && l.over === 'rep') === true ||
  steps.some((s) => exchangedAlong(s, axis) > 1)

/** Additions that a nest's code is worth, written out. */
function writtenOut(part: Part, { steps }: NestEntry, { prices }: SimtMachine): number {
  const each = ({ work }: PointStep): number =>
    work.kind === 'value'
      ? inAdditions(
          statementSeconds(work.let, (id) => part.dtypeOf(id), prices),
          prices,
        )
      : 1
  return steps.reduce((n, s) => n + each(s) * s.loops.reduce((m, l) => m * l.count, 1), 0)
}

/** What a step reads. */
const readsOf = ({ work }: PointStep): readonly ValueId[] =>
  work.kind === 'store'
    ? storeValues(work.store)
    : work.kind === 'value' || work.kind === 'load'
      ? operandsOf(work.let.op)
      : []

/** The nests along an axis as a loop over its repeats, `each` at a time; undefined where those before it would need what they compute, or they read tiles. */
function rolledAlong(
  part: Part,
  layout: Layout,
  held: ReadonlyMap<ValueId, HeldAs>,
  nests: readonly NestEntry[],
  axis: string,
  each: number,
): RolledEntry | undefined {
  const along = nests.filter((e) => isAlong(e, axis))
  const inside = new Set(along.flatMap((e) => e.steps.flatMap((s) => s.gives ?? [])))
  const before = nests.filter((e) => !isAlong(e, axis))
  if (along.length === 0 || before.some((e) => e.steps.some((s) => readsOf(s).some((id) => inside.has(id)))))
    return undefined
  const outside = new Set(along.flatMap((e) => e.steps.flatMap(readsOf)).filter((id) => !inside.has(id)))
  if ([...outside].some((id) => held.get(id)?.kind === 'shared')) return undefined
  const kept = [...outside].filter((id) => held.get(id)?.kind === 'registers' && part.axesOf(id).includes(axis))
  const a = layout.axis(axis)
  const rounds = { ...a, chunks: a.reps / each, reps: each }
  const chunked = new Layout(new Map([...layout.axes, [axis, rounds]]), layout.threads)
  const inRound = (s: PointStep): PointStep => ({
    ...s,
    ...(s.work.kind === 'store' && exchangedAlong(s, axis) > each ? { work: { ...s.work, lanes: 1 } } : {}),
    loops: s.loops.flatMap((l) =>
      l.axis !== axis || l.over !== 'rep' ? [l] : each === 1 ? [] : [{ ...l, count: each }],
    ),
  })
  return {
    kind: 'rolled',
    axis,
    layout: chunked,
    kept,
    nests: along.map((e) => ({ ...e, steps: e.steps.map(inRound) })),
  }
}
