/**
 * How many threads run a program, and in how many blocks. One block is the rule. A cluster of blocks (CUDA, compute capability
 * 9.0) runs a program whose row does not stay in one block's registers, and a program with so much arithmetic that spreading it
 * pays for the barriers of the cluster, where there are few programs. Half a block runs a row that leaves no room for two whole ones. What is private to a block (stages, scans, products, loops,
 * stores that walk in order) stays in one, and so do rows that loops go over.
 */

import { foldAxes, isFold } from '../../../kernel/folds.ts'
import { type LetStmt, operandsOf, type Stmt, type ValueId } from '../../../kernel/ir.ts'
import type { SimtMachine } from '../../../target/simt.ts'
import { statementSeconds } from '../../price.ts'
import { storeValues } from '../part/facts.ts'
import type { Part } from '../part/part.ts'
import type { Product } from '../part/product.ts'
import { type Layout, registersOf } from './layout.ts'
import { mainLayout, rowAxes } from './partLayout.ts'

export interface LaunchShape {
  /** Threads of a block. */
  readonly threads: number
  /** Blocks that run a program together. */
  readonly cluster: number
  /** Blocks that registers must leave room for on a multiprocessor. */
  readonly together: number
}

/** Registers of a thread that row tiles may take, by the registers a thread may have. */
const rowShare = { 64: 40, 128: 96 } as const

/** Registers of a row that leave room for a second block of all threads. */
const fewRegisters = 16

/** Programs times blocks beyond which the device is busy anyway. */
const mostBlocks = 96

/** `isAlone`: whether a block of a chain of products is to have the registers for itself. */
export function launchShapeOf(part: Part, programs: number, machine: SimtMachine, isAlone = false): LaunchShape {
  const layout = mainLayout(part, machine)
  if (part.chain !== undefined)
    return {
      threads: layout.threads,
      cluster: 1,
      together: isAlone ? 1 : chainsTogether(part.chain, machine),
    }
  const block: LaunchShape = { threads: Math.max(layout.threads, 32), cluster: 1, together: 1 }
  if (machine.clusters < 2 || !isShareable(part)) return block
  if (part.loops.length > 0) return launchShapeForWork(part, programs, layout, machine) ?? block
  const rows = [...rowAxes(part)].flatMap((a) => layout.find(a) ?? [])
  const cut = rows.some((a) => a.chunks > 1)
  // A block of all threads with many registers stands alone on its multiprocessor, which idles at its barriers.
  const alone = layout.threads === machine.maxThreads && rows.some((a) => registersOf(a) > fewRegisters)
  return (
    (cut || alone ? launchShapeForRow(part, machine) : launchShapeForWork(part, programs, layout, machine)) ??
    halfBlock(part, programs, layout, machine) ??
    block
  )
}

/**
 * Of a block of all threads whose rows leave no room for a second one, one of half as many threads where there are programs enough for two on every
 * multiprocessor: while one waits at its barriers, the other reads.
 */
function halfBlock(part: Part, programs: number, whole: Layout, machine: SimtMachine): LaunchShape | undefined {
  const { maxThreads, multiprocessors = 1 } = machine
  if (whole.threads < maxThreads || programs <= multiprocessors || tileRegisters(part, whole) < fewRegisters)
    return undefined
  const shape: LaunchShape = { threads: maxThreads / 2, cluster: 1, together: 2 }
  const layout = mainLayout(part, machine, shape.threads)
  return fills(layout, shape) && tilesAcrossFolds(part) * tileRegisters(part, layout) <= rowShare[64]
    ? shape
    : undefined
}

/** Registers of a value along rows, and along all else that it has. */
function tileRegisters(part: Part, layout: Layout): number {
  const rows = rowAxes(part)
  let most = 0
  for (const l of part.lets.values()) {
    const axes = part.axesOf(l.id)
    if (axes.some((a) => rows.has(a)))
      most = Math.max(
        most,
        axes.reduce((n, a) => n * registersOf(layout.axis(a)), 1),
      )
  }
  return most
}

/** Blocks of a loop's operands under way or in use: fewer where other blocks of threads run while one waits. */
export const ringSlots = (together: number): number => (together > 1 ? 2 : 3)

/** Registers of a block's accumulators that leave room for the rest of a chain where it has half of a multiprocessor's: 96 of each of 256 threads. */
const accumulatorsOfTwo = 96 * 256
/** Bytes that a block takes beside its tiles: what the device reserves, and slots of exchanges. */
const besideTiles = 3 << 10

/** Blocks of a chain that one multiprocessor runs: two, so that one multiplies while the other waits or computes exponentials, where there is room. */
function chainsTogether({ tiles, sums }: NonNullable<Part['chain']>, machine: SimtMachine): number {
  const total = (of: readonly Product[], each: (p: Product) => number): number => of.reduce((n, p) => n + each(p), 0)
  const accumulators = total([...tiles, ...sums], (p) => p.rowSize * p.columnSize)
  const ring = total(tiles, (p) => p.columnSize * p.depthSize) + total(sums, (p) => p.depthSize * p.columnSize)
  const rows = total(tiles, (p) => p.rowSize * p.depthSize)
  const bytes = 2 * (tiles[0]?.halves ?? 1) * (rows + ringSlots(2) * ring) + besideTiles
  return accumulators <= accumulatorsOfTwo && 2 * bytes <= machine.maxSharedBytes ? 2 : 1
}

/** Whether everything the program does may be spread over blocks. */
function isShareable(part: Part): boolean {
  if (
    part.loops.some((l) => l.from !== undefined || l.to !== undefined) ||
    part.products.size > 0 ||
    part.stores.some((s) => part.isOrdered(s))
  )
    return false
  for (const l of part.lets.values())
    if (l.op.kind === 'stage' || l.op.kind === 'scan' || l.op.kind === 'at') return false
  return true
}

/** Whether every block has work of its own and nothing is cut into chunks. */
function fills(layout: Layout, team: LaunchShape): boolean {
  const first = Math.log2(team.threads)
  const used = new Set([...layout.axes.values()].flatMap((a) => a.bits))
  for (let b = first; b < Math.log2(team.threads * team.cluster); b++) if (!used.has(b)) return false
  return [...layout.axes.values()].every((a) => a.chunks === 1)
}

/** The fewest threads that hold the rows; half blocks where two of them fit a multiprocessor. */
function launchShapeForRow(part: Part, machine: SimtMachine): LaunchShape | undefined {
  const tiles = tilesAcrossFolds(part)
  const half = machine.maxThreads / 2
  for (let threads = 2 * half; threads <= machine.clusters * machine.maxThreads; threads *= 2) {
    const layout = mainLayout(part, machine, threads)
    const values = tiles * Math.max(...[...rowAxes(part)].map((a) => registersOf(layout.axis(a))))
    const candidates: readonly (LaunchShape & { readonly most: number })[] = [
      { threads: half, cluster: threads / half, together: 2, most: rowShare[64] },
      { threads: half, cluster: threads / half, together: 1, most: rowShare[128] },
      { threads: 2 * half, cluster: threads / (2 * half), together: 1, most: rowShare[64] },
    ]
    for (const { most, ...team } of candidates)
      if (team.cluster > 1 && team.cluster <= machine.clusters && values <= most && fills(layout, team)) return team
  }
  return undefined
}

/** The blocks that finish a program soonest, where that is clearly sooner than one block. */
function launchShapeForWork(
  part: Part,
  programs: number,
  layout: Layout,
  machine: SimtMachine,
): LaunchShape | undefined {
  const one = secondsOf(part, machine)
  const threads = Math.min(layout.threads, machine.maxThreads / 2)
  let best: { readonly team: LaunchShape; readonly seconds: number } | undefined
  for (let cluster = 2; cluster <= machine.clusters && cluster * programs <= mostBlocks; cluster *= 2) {
    const team: LaunchShape = { threads, cluster, together: 1 }
    const spread = mainLayout(part, machine, threads * cluster)
    if (!fills(spread, team)) continue
    const merges = timesOf(part, (l) =>
      isFold(l) && spread.bitsOf(foldAxes(l)).some((b) => 2 ** b >= threads) ? 1 : 0,
    )
    const seconds = one / cluster + merges * machine.mergeSeconds
    if (seconds < 0.7 * one && one - seconds > 2e-6 && seconds < (best?.seconds ?? Number.POSITIVE_INFINITY))
      best = { team, seconds }
  }
  return best?.team
}

const foldsOf = (part: Part): LetStmt[] => [...part.lets.values()].filter(isFold)

/** Sum over the statements of a program as often as they run. */
function timesOf(part: Part, each: (l: LetStmt) => number): number {
  const sum = (body: readonly Stmt[]): number =>
    body.reduce((n, s) => {
      if (s.kind === 'let') return n + each(s)
      if (s.kind === 'loop') return n + Math.ceil(part.axis(s.axis).extent / s.block) * sum(s.body)
      return n
    }, 0)
  return sum(part.part.body)
}

/** Seconds of arithmetic of one program on a multiprocessor. */
function secondsOf(part: Part, { prices, multiprocessors = 1 }: SimtMachine): number {
  const seconds = timesOf(part, (l) => {
    const points = part.nestOf(l).reduce((n, a) => n * part.axis(a).size, 1)
    return points * statementSeconds(l, (id) => part.dtypeOf(id), prices)
  })
  return seconds * multiprocessors
}

/** Most tiles along rows that are computed before a fold and used again after it; what is cheap to compute again is none. */
function tilesAcrossFolds(part: Part): number {
  const rows = rowAxes(part)
  const isTile = (id: ValueId): boolean => part.axesOf(id).some((a) => rows.has(a))
  const cheap = new Set<ValueId>()
  for (const l of part.lets.values())
    if (part.isCheap(l) && operandsOf(l.op).every((o) => !isTile(o) || cheap.has(o))) cheap.add(l.id)
  const after = (fold: ValueId): Set<ValueId> => {
    const out = new Set([fold])
    for (const l of part.lets.values()) if (operandsOf(l.op).some((o) => out.has(o))) out.add(l.id)
    return out
  }
  let most = 1
  for (const fold of foldsOf(part)) {
    if (!foldAxes(fold).some((a) => rows.has(a))) continue
    const later = after(fold.id)
    const held = new Set<ValueId>()
    const use = (ids: readonly ValueId[]): void => {
      for (const id of ids) if (isTile(id) && !later.has(id) && !cheap.has(id)) held.add(id)
    }
    // What it folds itself is there for an element at a time.
    for (const l of part.lets.values()) if (later.has(l.id) && l.id !== fold.id) use(operandsOf(l.op))
    for (const s of part.stores) if (storeValues(s).some((id) => later.has(id))) use(storeValues(s))
    most = Math.max(most, held.size)
  }
  return most
}
