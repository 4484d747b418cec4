/**
 * Sectors of memory that programs of a reduction touch in part: where neighbours in memory belong to other programs, each reads or writes sectors of
 * its own for less than they hold. One that is written in part is read and written whole.
 */
import { axesOf, type Expr, flatten, strideOf } from '../../affine/expr.ts'
import type { Machine } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import { ownExtents } from '../axes/blocks.ts'
import { type Roles, unitAxis } from '../axes/roles.ts'
import { type Body, pointsOf } from '../body/body.ts'
import { foldingGrid } from './stretch.ts'

/** Bytes that a kernel moves beyond what it reads and writes, sectors of memory being moved whole. */
export function partialSectorBytes(body: Body, roles: Roles, target: Machine): number {
  const { kind, extents, matrix, chain } = roles
  const { memorySector: sector, programShare, rereadShare = 1 } = target
  if (
    sector === undefined ||
    programShare === undefined ||
    kind !== 'reduction' ||
    matrix !== undefined ||
    chain !== undefined
  )
    return 0
  const own = reachOf(body, ownExtents(extents, foldingGrid(body, roles, target)), target)
  const beyond = (index: readonly Expr[], shape: readonly number[], axes: Iterable<string>, each: number): number => {
    const run = runOf(flatten(index, shape), own) * each
    return run >= sector ? 0 : Math.min(pointsOf(extents, axes), sizeOf(shape)) * each * (sector / run - 1)
  }
  let bytes = 0
  for (const { op, axes, dtype } of body.lets) {
    const tensor = op.kind === 'load' ? body.loads.get(op.param) : undefined
    if (op.kind === 'load' && tensor !== undefined)
      bytes += rereadShare * beyond(op.index, tensor.shape, axes, dtypeBytes(dtype))
  }
  for (const s of body.stores)
    bytes += 2 * beyond(s.index, s.shape, new Set(s.index.flatMap((e) => [...axesOf(e)])), dtypeBytes(s.node.dtype))
  return bytes
}

/**
 * Indices of each axis that a program is at within a short time: all of its own, where its threads hold them at once; else those along which most is
 * contiguous, since threads spread over that axis, and one of each other.
 */
function reachOf(body: Body, own: ReadonlyMap<string, number>, { simt }: Machine): ReadonlyMap<string, number> {
  const points = [...own.values()].reduce((n, size) => n * size, 1)
  if (simt === undefined || points <= simt.maxThreads * simt.registers) return own
  const unit = unitAxis(body)
  return new Map([...own].map(([axis, size]) => [axis, axis === unit ? size : 1]))
}

/** Elements in a row in memory that one program goes over. */
function runOf(flat: Expr, own: ReadonlyMap<string, number>): number {
  const axes = [...axesOf(flat)]
  let run = 1
  for (let left = axes.length; left > 0; left--) {
    const next = axes.find((a) => Math.abs(strideOf(flat, a) ?? 0) === run && (own.get(a) ?? 1) > 1)
    if (next === undefined) break
    run *= own.get(next) ?? 1
  }
  return run
}
