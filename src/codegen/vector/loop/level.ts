/** Emission of a level of a schedule (a part's body, a loop's body): its steps, one after another. */
import type { LevelSchedule, LoopStep } from '../../../schedule/loop/ir/schedule.ts'
import type { Values } from '../value/values.ts'
import { emitBlocks } from './blocks.ts'
import { emitPlaced } from './levelProducts.ts'
import { emitNest } from './nest.ts'
import { emitCopyStep } from './pack.ts'
import { emitScan } from './scan.ts'

export function emitLevel(values: Values, level: LevelSchedule): void {
  for (const id of level.early) values.element(id)
  for (const step of level.steps) emitStep(values, step)
}

function emitStep(values: Values, step: LoopStep): void {
  switch (step.kind) {
    case 'nest':
      emitNest(values, step)
      break
    case 'copy':
      emitCopyStep(values, step)
      break
    case 'product':
      emitPlaced(values, step)
      break
    case 'scan':
      emitScan(values, step)
      break
    case 'loop':
      emitBlocks(values, step, () => emitLevel(values, step.body))
      break
  }
}
