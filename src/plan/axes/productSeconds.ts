/** What a matrix product costs by its blocks: the programs that it has, what they multiply, and their steps along the depth. */
import type { ValueId } from '../../kernel/ir.ts'
import { isShortProduct } from '../../schedule/loop/ir/shortOperands.ts'
import { ringSlots } from '../../schedule/simt/layout/launchShape.ts'
import { type Machine, together } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { type Body, pointsOf } from '../body/body.ts'
import { type ChainRole, isPair, widthsOf } from './chain.ts'
import type { MatrixRole } from './fusedReductions.ts'
import { fillingSeconds, gatherSeconds, sectorSeconds } from './gathered.ts'
import { programsOf } from './gridAxes.ts'
import { type Blocked, type MatrixBlocks, matrixBlocks } from './matrixBlocks.ts'
import { isForMatrixUnit } from './matrixRole.ts'
import { wholeWidth } from './wholeGrains.ts'

export interface ProductWork {
  /** Programs of the product, parts of the depth included. */
  readonly programs: number
  /** Seconds of its multiplications and additions with all programs at work, those beyond an extent included. */
  readonly computing: number
  /** Those among them of bringing its operands to a matrix unit element by element, and of storing its results so, beside what multiplying hides. */
  readonly gathering: number
  /** Seconds of bringing its operands' tiles, which multiplying hides if it takes longer. */
  readonly filling: number
  /** Blocks of the depth that a program works through one after another. */
  readonly steps: number
  /** Least seconds of one of them. */
  readonly stepSeconds: number
  /** Programs that run at once, by the shared memory that their rings take; infinite where that is not known. */
  readonly atOnce: number
  /** What a step takes of an axis of the depth. */
  readonly stepOf: (axis: string) => number
}

/** The work of a product whose depth is cut as its role says, or into some parts; `gathering` is the same for all. */
export function productWork(
  body: Body,
  matrix: MatrixRole,
  extents: ReadonlyMap<string, number>,
  target: Machine,
  parts = matrix.parts?.parts ?? 1,
  gathering = gatherSeconds(body, matrix, extents, target),
): ProductWork {
  const blocks = matrixBlocks(body, matrix, extents, target, parts)
  const { rows, columns, depth } = blocks
  const batch = pointsOf(extents, matrix.batch)
  // Matrix units take whole blocks; elsewhere the last one ends with its axis.
  const points = (side: readonly Blocked[]): number =>
    target.dotBlock.grains === undefined
      ? pointsOf(
          extents,
          side.map((b) => b.axis),
        )
      : programsOf(side, extents) * side.reduce((n, b) => n * b.block, 1)
  const steps = Math.ceil(programsOf(depth, extents) / parts)
  const flops = 2 * batch * points(rows) * points(columns) * pointsOf(extents, matrix.k)
  const filling = fillingSeconds(body, matrix, blocks, extents, target)
  const programs = parts * batch * programsOf([...rows, ...columns], extents)
  // Parts leave partial results, which stand side by side.
  const apart = gathering + (parts === 1 ? sectorSeconds(body, matrix, target) : 0)
  return {
    programs,
    computing: Math.max(flops / productRate(body, matrix.id, target), filling) + apart,
    gathering: apart,
    filling,
    steps,
    stepSeconds: (blocks.isDeep ? target.dotBlock.deep?.stepSeconds : target.dotBlock.stepSeconds) ?? 0,
    atOnce: programsAtOnce(body, matrix, blocks, steps, target),
    stepOf: (axis) => depth.find((d) => d.axis === axis)?.block ?? 1,
  }
}

/** Bytes between the rows of a tile in shared memory, and those that the device takes for itself for each block. */
const [rowGap, reservedBytes] = [16, 1 << 10]

/**
 * Programs of a product that run at once: multiprocessors have room for rings of their operands' tiles. Unknown, so any number, of operands that
 * are computed, which take registers and tiles besides.
 */
function programsAtOnce(
  body: Body,
  matrix: MatrixRole,
  { rows, columns, depth }: MatrixBlocks,
  steps: number,
  { simt, dotBlock, programShare }: Machine,
): number {
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const op = lets.get(matrix.id)?.op
  const unknown = Number.POSITIVE_INFINITY
  if (simt === undefined || programShare === undefined || dotBlock.grains === undefined || op?.kind !== 'dot')
    return unknown
  const [a, b] = [lets.get(op.a), lets.get(op.b)]
  if (a?.op.kind !== 'load' || b?.op.kind !== 'load') return unknown
  const points = (blocks: readonly Blocked[]): number => blocks.reduce((n, x) => n * x.block, 1)
  const step = (points(rows) + points(columns)) * (points(depth) * dtypeBytes(a.dtype) + rowGap)
  const each = Math.min(ringSlots(1), steps) * step + reservedBytes
  return Math.max(1, Math.floor((simt.maxSharedBytes + reservedBytes) / each)) / programShare.computing
}

/** Seconds of a product of which all programs together would read and write in `moving` seconds. */
export function productSeconds(work: ProductWork, moving: number, target: Machine): number {
  const { programShare } = target
  const units = work.programs * (programShare?.computing ?? 1)
  const busy = units <= 1 ? units : units / Math.ceil(units)
  // What a multiprocessor has more to read than others takes it longer, where it is known how many run at once.
  const even = Number.isFinite(work.atOnce) ? busy : 1
  const alone = together(
    moving / Math.min(even, work.programs * (programShare?.moving ?? 1)),
    work.computing / busy,
    target,
  )
  const one = work.steps * work.stepSeconds
  if (work.programs <= work.atOnce) return Math.max(alone, one)
  // Those that find no room begin when others end, and what is left may be few that have a multiprocessor to themselves.
  const left = (work.programs % work.atOnce) / work.programs
  return Math.max(alone * (1 - left), one) + (left > 0 ? Math.max(alone * left, one) : 0)
}

/** Multiplications and additions a second of a product of a chain: what widths lack to whole grains is multiplied too. */
export function chainRate(
  body: Body,
  id: ValueId,
  role: ChainRole,
  extents: ReadonlyMap<string, number>,
  machine: Machine,
): number {
  if (role.vectors !== undefined) return role.vectors.rate
  const rate = productRate(body, id, machine)
  const { rates } = machine.chains ?? {}
  if (rates === undefined || rate !== machine.matrixRate) return rate
  const widths = widthsOf(role, new Map(body.lets.map((l) => [l.id, l])), extents)
  const sum = (of: (n: number) => number): number => widths.reduce((n, w) => n + of(w), 0)
  const wide = isPair(role) ? rates.widePair : rates.wide
  const whole = widths.some((w) => w > rates.beyond) ? wide : rates.narrow
  return (whole * sum((w) => w)) / sum((w) => wholeWidth(w, machine.chains))
}

/** Multiplications and additions a second of a product by the dtypes of its operands. */
export function productRate(body: Body, id: ValueId, machine: Machine): number {
  const { matrixRate, plainMatrixRate = matrixRate } = machine
  const { integerMatrixRate = plainMatrixRate } = machine
  const { tf32MatrixRate = plainMatrixRate, tf32x3MatrixRate = plainMatrixRate } = machine
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const dot = lets.get(id)
  const op = dot?.op
  if (op?.kind !== 'dot') return plainMatrixRate
  if (dot?.dtype === 'i32') return isShortProduct(op, (x) => lets.get(x)) ? integerMatrixRate : plainMatrixRate
  if (!isForMatrixUnit(op, lets)) return plainMatrixRate
  const { oneDtypeUnit: unit } = machine
  if (op.precision === undefined) return unit?.dtype === lets.get(op.a)?.dtype ? (unit?.rate ?? matrixRate) : matrixRate
  return op.precision === 'tf32' ? tf32MatrixRate : tf32x3MatrixRate
}
