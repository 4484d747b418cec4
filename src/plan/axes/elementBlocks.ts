/** How many elements a program of an elementwise kernel takes. */
import { powerWithin } from '../../affine/powers.ts'
import { dtypesIn, isFunction } from '../../schedule/price.ts'
import { nearBytes } from '../../target/loops.ts'
import type { Machine } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { type Body, pointsOf } from '../body/body.ts'
import type { Roles } from './roles.ts'

/**
 * Elements of a program at most on a machine of loops that has several functions to compute at every point: their results stand near between
 * loops of one each.
 */
function functionPoints(body: Body, { loops, prices }: Machine): number {
  if (loops === undefined) return Number.POSITIVE_INFINITY
  const dtypes = dtypesIn(body.lets)
  const every = Math.max(...body.lets.map((l) => l.axes.length))
  const functions = body.lets.filter(
    (l) => l.axes.length === every && isFunction(l, (id) => dtypes.get(id) ?? 'f32', prices),
  )
  return functions.length > 1 ? nearBytes(loops) / 8 : Number.POSITIVE_INFINITY
}

/** Elements of a program where those of the usual size would be fewer than two for each multiprocessor: a quarter at least. */
function fewPoints(points: number, { elementBlock, programShare }: Machine): number {
  if (programShare === undefined) return elementBlock
  const wanted = powerWithin((points * programShare.computing) / 2)
  return Math.min(elementBlock, Math.max(elementBlock / 4, wanted))
}

/** Elements of an elementwise program. */
export function elementPoints(body: Body, { parallel, extents }: Roles, target: Machine): number {
  const { elementBytes = Number.POSITIVE_INFINITY } = target
  const elementBlock = Math.min(fewPoints(pointsOf(extents, parallel), target), functionPoints(body, target))
  let bytes = 0
  for (const l of body.lets)
    if (l.op.kind === 'load' && [...parallel].every((a) => l.axes.includes(a))) bytes += dtypeBytes(l.dtype)
  const most = 2 ** Math.floor(Math.log2(elementBytes / Math.max(1, bytes)))
  return Math.min(elementBlock, Math.max(target.elementBlock / 4, most))
}
