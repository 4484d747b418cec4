/**
 * Loops that load while they compute: where an iteration meets at barriers, its loads would wait for the iteration before and all of
 * the block for them. What a later iteration loads is therefore on its way while this one computes: copied in the background into
 * a ring of shared memory, or, where nothing copies in the background, loaded into registers one iteration early, packed as it
 * stands in memory. A thread reads only words that it loaded itself, so that none of this needs a barrier.
 */

import { foldAxes } from '../../../kernel/folds.ts'
import { type LetStmt, type LoopStmt, operandsOf, type ValueId } from '../../../kernel/ir.ts'
import { allStmts, ancestorsOf } from '../../../kernel/walk.ts'
import type { LoadPlan } from '../access/loadPlan.ts'
import { copiesArray, isEarly, loadPlanOf, threadBytes, turnedPlanOf } from '../access/loads.ts'
import type { KnownRange, Place } from '../access/place.ts'
import { spanOf } from '../layout/layout.ts'
import { type StageLoads, stageLoadsOf } from './stageLoads.ts'

/** Loads that a loop makes for later iterations: into a ring of shared memory, or into registers. */
export interface Prefetch {
  readonly into: 'ring' | 'registers'
  /** Iterations under way or in use. */
  readonly slots: number
  readonly loads: readonly LoadPlan[]
  /** Those of the body's stages. */
  readonly ofStages?: StageLoads
}

/** All of those loads. */
export const allLoads = ({ loads, ofStages }: Prefetch): readonly LoadPlan[] => [
  ...loads,
  ...(ofStages?.of ?? []).flatMap((s) => s.loads),
]

/** Iterations from which a loop is worth it. */
const fewestIterations = 4

/** Registers that a loop may hold, words loaded early included, where nothing bounds what its compiler takes. */
const mostRegisters = 120

/** Bytes that a thread loads for a chunk, up to which its loads leave memory idle. */
const mostChunkBytes = 64

/** What a loop loads for later iterations; `range`: where it begins and ends. */
export function prefetchOf(at: Place, loop: LoopStmt, range: KnownRange): Prefetch | undefined {
  const ofStages = stageLoadsOf(at, loop)
  if (ofStages !== undefined) return { into: 'registers', slots: 2, loads: [], ofStages }
  if (!isWorthwhile(at, loop, range)) return undefined
  const loads = loop.body.flatMap((t) => (t.kind === 'let' ? (earlyLoad(at, loop.axis, t) ?? []) : []))
  if (loads.length === 0) return undefined
  if (at.setting.machine.hasAsyncCopy) return ringOf(at, loads)
  const fit = fitting(loads, 4 * (mostRegisters - heldBy(at, loop)))
  return fit.length === 0 ? undefined : { into: 'registers', slots: 2, loads: fit }
}

/** Registers of a chain's tiles, its results and what is loaded beside its operands for the next step. */
const mostBeside = 176

/**
 * What a chain's loop loads beside its operands for its next step (biases), while the first sum over the columns that it leads to is multiplied: when that is
 * begun, what was loaded for this step is read.
 */
export function besideOperands(at: Place, loop: LoopStmt): Prefetch | undefined {
  const { part, setting } = at
  const { tiles = [], sums = [] } = part.chain ?? {}
  const [tile, sum] = [tiles[0], sums[0]]
  if (!setting.loadsAhead || tile === undefined || sum?.groups === undefined) return undefined
  const dot = part.lets.get(sum.dot)
  const below = dot === undefined ? new Set<ValueId>() : ancestorsOf(operandsOf(dot.op), part.lets)
  const isLarge = (l: LetStmt): boolean => at.registers(part.axesOf(l.id)) === at.registers(part.axesOf(tile.dot))
  const loads = loop.body.flatMap((t) =>
    t.kind === 'let' && t.op.kind === 'load' && below.has(t.id) && isLarge(t) && isEarly(at, loop.axis, t)
      ? (loadPlanOf(at, t) ?? turnedPlanOf(at, t) ?? [])
      : [],
  )
  const results = [...tiles, ...sums].reduce((n, p) => n + at.registers(part.axesOf(p.dot)), 0)
  return loads.length === 0 || results + threadBytes(loads) / 4 > mostBeside
    ? undefined
    : {
        into: 'registers',
        slots: 2,
        loads: [],
        ofStages: { of: [{ layout: at.layout, loads }], findsPlaces: false, during: sum.dot },
      }
}

/** Bytes of shared memory that rings may take: of a thread, and of a block with everything else it has there. */
const mostThreadBytes = 256
const mostBlockBytes = 72 << 10

/** A ring of the loads that shared memory has room for. */
function ringOf({ shared, layout }: Place, all: readonly LoadPlan[]): Prefetch | undefined {
  const room = Math.floor((mostBlockBytes - shared.bytes) / layout.threads)
  const bytes = Math.min(mostThreadBytes, room)
  const slots = 3 * threadBytes(all) <= bytes ? 3 : 2
  const loads = fitting(all, bytes / slots)
  if (loads.length === 0) return undefined
  for (const p of loads) shared.share(copiesArray(p, layout, slots))
  return { into: 'ring', slots, loads }
}

/**
 * The same of a loop over the chunks of an axis, whose statements are `lets`, where nothing copies in the background and registers
 * are what a driver gives: its threads wait for what each chunk loads.
 */
export function chunkPrefetchOf(at: Place, axis: string, lets: readonly LetStmt[]): readonly LoadPlan[] | undefined {
  const { setting, layout, held, words } = at
  if (!setting.loadsAhead || setting.machine.boundsRegisters || words.size > 0) return undefined
  const a = layout.axis(axis)
  if (a.size < fewestIterations * spanOf(a)) return undefined
  // Where loops over chunks of other axes stand inside, the next chunk of this one is not all of a place.
  const isHere = (l: LetStmt): boolean => at.part.axesOf(l.id).every((x) => x === axis || !at.isChunked(x))
  const all = lets.flatMap((l) => (isHere(l) ? (earlyLoad(at, axis, l) ?? []) : []))
  if (all.length === 0 || threadBytes(all) > mostChunkBytes) return undefined
  const loads = new Set(lets.flatMap((l) => (l.op.kind === 'load' ? l.id : [])))
  const ids = new Set([...loads, ...lets.flatMap((l) => operandsOf(l.op))])
  const kept = [...ids].filter((id) => held.get(id)?.kind === 'registers' || loads.has(id))
  const fit = fitting(all, 4 * (mostRegisters - registersOf(at, kept)))
  return fit.length === 0 ? undefined : fit
}

/** Whether threads of several warps meet in each of some iterations, and the loop is no product's. */
function isWorthwhile({ part, layout, setting }: Place, loop: LoopStmt, { start, end }: KnownRange): boolean {
  if (!setting.loadsAhead || setting.cluster > 1 || [...layout.axes.values()].some((a) => a.chunks > 1)) return false
  const extent = (end ?? part.axis(loop.axis).extent) - (start ?? 0)
  if (extent < fewestIterations * loop.block) return false
  const inside = [...allStmts(loop.body)]
  if (inside.some((t) => t.kind === 'loop' || (t.kind === 'let' && t.op.kind === 'stage'))) return false
  return inside.some((t) => t.kind === 'let' && layout.bitsOf(foldAxes(t)).some((b) => b >= setting.machine.laneBits))
}

/** A load of a loop's body that can be made early: nothing of its place is computed in the loop, and nobody writes there. */
function earlyLoad(at: Place, axis: string, l: LetStmt): LoadPlan | undefined {
  return at.part.isMain(l.id) && isEarly(at, axis, l) ? loadPlanOf(at, l) : undefined
}

/** As many loads as fit a number of bytes a thread. */
function fitting(plans: readonly LoadPlan[], bytes: number): LoadPlan[] {
  let left = bytes
  return plans.filter((p) => {
    const own = threadBytes([p])
    if (own > left) return false
    left -= own
    return true
  })
}

/** Registers of what a loop's body holds: what it carries, reads from outside, and loads. */
function heldBy(at: Place, loop: LoopStmt): number {
  const ids = new Set<ValueId>(loop.carries.map((c) => c.param))
  for (const t of allStmts(loop.body)) {
    if (t.kind !== 'let') continue
    if (t.op.kind === 'load') ids.add(t.id)
    for (const o of operandsOf(t.op)) if (at.held.get(o)?.kind === 'registers') ids.add(o)
  }
  return registersOf(at, ids)
}

const registersOf = (at: Place, ids: Iterable<ValueId>): number =>
  [...ids].reduce((n, id) => n + at.registers(at.part.axesOf(id)), 0)
