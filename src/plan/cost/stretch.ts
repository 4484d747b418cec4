/**
 * What one program of a kernel without products does at a stretch, however many there are: how many blocks of threads run it, the rounds in which it
 * goes through what its registers do not hold at once, and the bytes that it reads.
 */
import { foldAxes } from '../../kernel/folds.ts'
import type { GridAxis, LetStmt } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import { ownExtents, partialsGrid, straightGrid } from '../axes/blocks.ts'
import { rowsOfStep } from '../axes/reductionBlocks.ts'
import type { Roles } from '../axes/roles.ts'
import { type Body, heldPoints, pointsOf } from '../body/body.ts'

export interface Stretch {
  /** Blocks of threads that may run a program together. */
  readonly blocks: number
  /** Rounds of a program that loads, waits, and exchanges what its threads have folded before the next. */
  readonly rounds: number
  /** Bytes that a block of threads reads. */
  readonly bytes: number
}

/** The grid of a body with folds and without products, or of its main stage. */
const foldingGrid = (body: Body, roles: Roles, target: Machine): GridAxis[] =>
  roles.splitBy === undefined || roles.splitBy === 'result-blocks'
    ? straightGrid(body, roles, target, 'fast')
    : partialsGrid(body, roles, roles.splitBy, target)

/** The grid of a reduction's programs, and the indices of every axis that one has. */
export interface Folding {
  readonly grid: readonly GridAxis[]
  readonly own: ReadonlyMap<string, number>
}

/** The programs of a reduction on a machine whose programs are shares of it; undefined for other kernels and machines. */
export function foldingOf(body: Body, roles: Roles, target: Machine): Folding | undefined {
  if (target.programShare === undefined || roles.kind !== 'reduction') return undefined
  const grid = foldingGrid(body, roles, target)
  return { grid, own: ownExtents(roles.extents, grid) }
}

const short: Stretch = { blocks: 1, rounds: 0, bytes: 0 }

/**
 * A row that stays with its threads may be spread over a cluster. Where a fold below it runs over other axes besides, those are gone through in
 * chunks by one block: a product of one row under a normalisation.
 */
export function stretchOf(body: Body, roles: Roles, folding: Folding | undefined, target: Machine): Stretch {
  const { row, passes = 1, chunks } = roles
  const { simt } = target
  if (simt === undefined || folding === undefined || chunks !== undefined) return short
  const { own } = folding
  const main = body.lets.filter((l) => roles.stages.main?.has(l.id) !== false)
  const wide = main.filter(
    (l) => foldAxes(l).some((a) => !row.has(a)) && [...l.axes, ...foldAxes(l)].some((a) => row.has(a)),
  )
  const isWhole = row.size > 0 && roles.splitBy === undefined
  // Only rows that registers hold are spread: what streams by is gone through by one block.
  const isHeld = isWhole && passes === 1 && 4 * heldPoints(body, own, new Set(own.keys())) <= target.rowBytes
  const blocks = isHeld && wide.length === 0 ? simt.clusters : 1
  const rounds = isWhole
    ? wide.reduce((n, l) => n + roundsOf(l, own, own.keys(), target), 0)
    : stepsOf(body, roles, main, target)
  return { blocks, rounds, bytes: bytesOfProgram(body, main, own) / blocks }
}

/**
 * Rounds of a program that goes through its share of rows, some at a time: a step waits for what it loads and for each exchange of a fold of rows, about half
 * as long as a round does.
 */
function stepsOf(body: Body, roles: Roles, main: Body['lets'], target: Machine): number {
  const { splitBy, row } = roles
  if (row.size === 0 || splitBy === undefined || typeof splitBy === 'string') return 0
  const steps = Math.ceil(splitBy.block / rowsOfStep(body, roles, splitBy, target))
  const folds = main.filter((l) => foldAxes(l).some((a) => row.has(a))).length
  return (steps * (1 + folds)) / 2
}

/** Rounds after the first in which a program goes through a fold over some of its axes. */
export function roundsOf(
  l: LetStmt,
  extents: ReadonlyMap<string, number>,
  among: Iterable<string>,
  { simt }: Machine,
): number {
  if (simt === undefined) return 0
  const held = new Set(among)
  const points = pointsOf(extents, new Set([...l.axes, ...foldAxes(l)].filter((a) => held.has(a))))
  return Math.ceil(points / (simt.maxThreads * simt.registers)) - 1
}

/** Bytes that a program reads. */
function bytesOfProgram(body: Body, main: Body['lets'], own: ReadonlyMap<string, number>): number {
  let bytes = 0
  for (const l of main) {
    const t = l.op.kind === 'load' ? body.loads.get(l.op.param) : undefined
    if (t !== undefined) bytes += Math.min(sizeOf(t.shape), pointsOf(own, l.axes)) * dtypeBytes(l.dtype)
  }
  return bytes
}
