/** What a matrix product costs by its blocks: the programs that it has, what they multiply, and their steps along the depth. */
import type { ValueId } from '../../kernel/ir.ts'
import { isShortProduct } from '../../schedule/loop/ir/shortOperands.ts'
import { type Machine, together } from '../../target/machine.ts'
import { type Body, pointsOf } from '../body/body.ts'
import type { MatrixRole } from './fusedReductions.ts'
import { gatherSeconds } from './gathered.ts'
import { programsOf } from './gridAxes.ts'
import { type Blocked, matrixBlocks } from './matrixBlocks.ts'
import { isForMatrixUnit } from './matrixRole.ts'

export interface ProductWork {
  /** Programs of the product, parts of the depth included. */
  readonly programs: number
  /** Seconds of its multiplications and additions with all programs at work, those beyond an extent included. */
  readonly computing: number
  /** Those among them of bringing its operands to a matrix unit. */
  readonly gathering: number
  /** Blocks of the depth that a program works through one after another. */
  readonly steps: number
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
  const { rows, columns, depth } = matrixBlocks(body, matrix, extents, target, parts)
  const batch = pointsOf(extents, matrix.batch)
  // Matrix units take whole blocks; elsewhere the last one ends with its axis.
  const points = (blocks: readonly Blocked[]): number =>
    target.dotBlock.grains === undefined
      ? pointsOf(
          extents,
          blocks.map((b) => b.axis),
        )
      : programsOf(blocks, extents) * blocks.reduce((n, b) => n * b.block, 1)
  const flops = 2 * batch * points(rows) * points(columns) * pointsOf(extents, matrix.k)
  return {
    programs: parts * batch * programsOf([...rows, ...columns], extents),
    computing: flops / productRate(body, matrix.id, target) + gathering,
    gathering,
    steps: Math.ceil(programsOf(depth, extents) / parts),
    stepOf: (axis) => depth.find((d) => d.axis === axis)?.block ?? 1,
  }
}

/** Seconds of a product of which all programs together would read and write in `moving` seconds. */
export function productSeconds(work: ProductWork, moving: number, target: Machine): number {
  const { programShare, dotBlock } = target
  const units = work.programs * (programShare?.computing ?? 1)
  const busy = units <= 1 ? units : units / Math.ceil(units)
  const alone = together(
    moving / Math.min(1, work.programs * (programShare?.moving ?? 1)),
    work.computing / busy,
    target,
  )
  return Math.max(alone, work.steps * (dotBlock.stepSeconds ?? 0))
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
  if (op.precision === undefined) return matrixRate
  return op.precision === 'tf32' ? tf32MatrixRate : tf32x3MatrixRate
}
