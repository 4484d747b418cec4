/** Positions in memory, in elements, as index expressions over a body's axes: of what it loads, and of its largest result. */
import * as ix from '../../affine/expr.ts'
import type { TileOp } from '../../kernel/ir.ts'
import { sizeOf } from '../../types/shape.ts'
import type { Body } from '../body/body.ts'

/** Where a load reads. */
export const positionOfLoad = ({ loads }: Body, { index, param }: Extract<TileOp, { kind: 'load' }>): ix.Expr =>
  ix.flatten(index, loads.get(param)?.shape ?? [])

/** Where the largest result is stored, the first of those of one size; undefined where nothing is. */
export function positionOfLargestStore({ stores }: Body): ix.Expr | undefined {
  const [largest] = [...stores].sort((p, q) => sizeOf(q.shape) - sizeOf(p.shape))
  return largest === undefined ? undefined : ix.flatten(largest.index, largest.shape)
}

/** How far apart neighbours along an axis lie; 0 where the axis moves nothing, or by no one distance. */
export const strideAlong = (position: ix.Expr, axis: string): number => Math.abs(ix.strideOf(position, axis) ?? 0)
