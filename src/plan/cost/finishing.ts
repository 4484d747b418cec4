/** What finishing stages cost: their launch where reductions are cut, reading partial results, and the rest that few programs read and fold. */
import { foldAxes, foldOrScanAxes } from '../../kernel/folds.ts'
import { type Machine, movingSeconds } from '../../target/machine.ts'
import { sizeOf } from '../../types/shape.ts'
import { partialBytes } from '../axes/partials.ts'
import type { Roles } from '../axes/roles.ts'
import { finishingStage } from '../axes/stages.ts'
import { type Body, pointsOf, tensorBytes } from '../body/body.ts'
import { roundsOf } from './stretch.ts'

/**
 * A finishing stage has programs for what each fold is of, as far as nothing there folds that again: a mean of all that a cut product leaves is
 * one program's work, as slow as one program is, and so is a product behind what was cut.
 */
export function finishingSeconds(body: Body, roles: Roles, target: Machine): number {
  const { extents, stages } = roles
  const stage = finishingStage(body, stages)
  if (stage === undefined) return 0
  const share = target.programShare?.moving ?? 1
  const again = new Set(
    body.lets.flatMap((l) => (stages.late.has(l.id) && !stages.split.has(l.id) ? foldOrScanAxes(l) : [])),
  )
  /** The share of the bandwidth that programs over the axes which are left have. */
  const useOf = (axes: Iterable<string>): number => {
    const own = [...axes].filter((a) => !again.has(a))
    return Math.min(1, share * Math.ceil(pointsOf(extents, own) / target.partialColumns))
  }
  let seconds = 0
  for (const l of body.lets) {
    const partial = stages.split.get(l.id)
    if (partial !== undefined) seconds += movingSeconds(partialBytes(partial), target) / useOf(l.axes)
  }
  for (const l of stage.lets) {
    const t = l.op.kind === 'load' ? body.loads.get(l.op.param) : undefined
    if (t === undefined) continue
    // At full rate these bytes are among the body's.
    const bytes = tensorBytes(t, Math.min(sizeOf(t.shape), pointsOf(extents, l.axes)))
    seconds += movingSeconds(bytes, target) * (1 / useOf(l.axes) - 1)
  }
  // What the stage of a product costs `depthParts` has weighed.
  const launch = roles.kind === 'reduction' ? (target.stageLaunch ?? 0) : 0
  const rounds = stage.lets.reduce(
    (n, l) => n + (foldAxes(l).length === 0 ? 0 : roundsOf(l, extents, again, target)),
    0,
  )
  return seconds + rounds * (target.dotBlock.stepSeconds ?? 0) + launch
}
