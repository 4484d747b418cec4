/**
 * The shared axis of a chain cut into parts: where batch and blocks of rows are few programs (one query a head over a long cache), each part is a
 * program of its own. It leaves the states of its loop (anchor, sums, block of results), and a finishing stage combines them by the law
 * that rescales them from block to block (src/kernel/streams.ts).
 */
import { foldAxes, isFoldOrScan } from '../../kernel/folds.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import { movingSeconds, together } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import { pointsOf, tensorBytes } from '../body/body.ts'
import type { Analysis } from './analysis.ts'
import { type ChainRole, widthsOf } from './chain.ts'
import type { DepthParts } from './fusedReductions.ts'
import { programsOf } from './gridAxes.ts'
import type { Blocked } from './matrixBlocks.ts'
import type { PartialResult } from './partials.ts'
import { productRate } from './productSeconds.ts'
import type { Stages } from './stages.ts'

/** The axis of a launch along which the parts of a chain lie. */
export const partAxis = ({ axis }: DepthParts): string => `${axis}_part`

/** Axes of a state that a part leaves, outermost first. */
export const stateAxes = ({ batch, rows, columns }: ChainRole, l: LetStmt): string[] =>
  [...batch, ...rows, ...columns].filter((a) => l.axes.includes(a))

const runsAlong = (l: LetStmt, { shared }: ChainRole): boolean => l.axes.some((a) => shared.includes(a))
const isState = (l: LetStmt, { shared }: ChainRole): boolean => foldAxes(l).some((a) => shared.includes(a))

/** What a fold along the shared axis leaves: its state for every part. */
export const partialOfChain = (
  extents: ReadonlyMap<string, number>,
  l: LetStmt,
  role: ChainRole,
  { parts }: DepthParts,
): PartialResult => ({ shape: [parts, ...stateAxes(role, l).map((a) => extents.get(a) ?? 1)], dtype: l.dtype })

/** How the shared axis is cut and what its parts leave, where that is modelled quicker than a grid for the whole of it. */
export function cutShared(
  a: Analysis,
  role: ChainRole,
  grid: readonly Blocked[],
): { readonly parts: DepthParts; readonly stages: Stages } | undefined {
  const { body, target, extents, lets } = a
  const { programShare } = target
  const [axis, second] = role.shared
  if (programShare === undefined || axis === undefined || second !== undefined) return undefined
  const states = body.lets.filter((l) => isState(l, role))
  const cut = new Set(states.map((l) => l.id))
  const late = lateOf(body.lets, cut, role)
  const after = body.lets.filter((l) => late.has(l.id) && !cut.has(l.id))
  const early = after.flatMap((l) => operandsOf(l.op)).filter((id) => !late.has(id))
  // A finishing stage computes again what is early, but no fold; results that are early would be stored by every part.
  const again = ancestorsOf(early, lets)
  const isEarly = (id: ValueId): boolean => {
    const l = lets.get(id)
    return l !== undefined && !isFoldOrScan(l) && !runsAlong(l, role)
  }
  if (![...again].every(isEarly) || !body.stores.every((s) => late.has(s.value))) return undefined
  const parts = cheapestParts(a, role, grid, axis, states)
  if (parts === undefined) return undefined
  const split = new Map(states.map((l) => [l.id, partialOfChain(extents, l, role, parts)]))
  const main = new Set(body.lets.flatMap((l) => (late.has(l.id) ? [] : [l.id])))
  return { parts, stages: { split, late, main, again } }
}

/** The states and what follows from them behind the loop: what runs along the shared axis is computed in it, against the anchor on the way. */
function lateOf(all: readonly LetStmt[], cut: ReadonlySet<ValueId>, role: ChainRole): Set<ValueId> {
  const follows = new Set(cut)
  const late = new Set(cut)
  for (const l of all) {
    if (!operandsOf(l.op).some((o) => follows.has(o))) continue
    follows.add(l.id)
    if (!runsAlong(l, role)) late.add(l.id)
  }
  return late
}

/** Parts of whole steps of the loop, with what writing and combining their states costs; undefined: one program for all is as quick. */
function cheapestParts(
  { body, lets, extents, target }: Analysis,
  role: ChainRole,
  grid: readonly Blocked[],
  axis: string,
  states: readonly LetStmt[],
): DepthParts | undefined {
  const { chains, vectorChains, programShare, minPrograms, launch, mostBytes } = target
  const step = (role.vectors ?? chains)?.shared ?? target.dotBlock.k
  const [tile] = role.tiles
  if (tile === undefined) return undefined
  const extent = extents.get(axis) ?? 1
  const programs = programsOf(grid, extents)
  const size = (axes: Iterable<string>): number => pointsOf(extents, axes)
  // Matrix units take blocks of rows whole.
  const rows = grid.reduce((n, g) => (role.rows.includes(g.axis) ? n * g.block : n), programs)
  const width = widthsOf(role, lets, extents).reduce((n, w) => n + w, 0)
  // Few programs hide little of what each waits for.
  const rate = role.vectors?.rate ?? productRate(body, tile, target)
  const computing = (2 * rows * extent * width) / rate
  const bytes = [...body.loads.values()].reduce((n, t) => n + tensorBytes(t, sizeOf(t.shape)), 0)
  const moving = movingSeconds(bytes, target)
  const share = (role.vectors === undefined ? programShare?.computing : vectorChains?.share) ?? 1
  const stateBytes = states.map((l) => size(stateAxes(role, l)) * dtypeBytes(l.dtype))
  const left = stateBytes.reduce((n, bytes) => n + bytes, 0)
  const seconds = (parts: number): number => {
    const units = programs * parts * share
    const use = units <= 1 ? units : units / Math.ceil(units)
    const adding = parts === 1 ? 0 : launch + movingSeconds(2 * parts * left, target)
    return together(moving / use, computing / use, target) + adding
  }
  const most = Math.min(
    Math.ceil(extent / (leastSteps * step)),
    Math.floor((2 * minPrograms) / programs),
    Math.floor(mostBytes.value / Math.max(...stateBytes)),
  )
  let best = { length: extent, seconds: seconds(1) }
  for (let wanted = 2; wanted <= most; wanted++) {
    const length = Math.ceil(extent / (wanted * step)) * step
    const found = { length, seconds: seconds(Math.ceil(extent / length)) }
    if (found.seconds < best.seconds) best = found
  }
  return best.length >= extent ? undefined : { axis, length: best.length, parts: Math.ceil(extent / best.length) }
}

/** Steps of a loop that are worth a program: its first operands are waited for. */
const leastSteps = 2
