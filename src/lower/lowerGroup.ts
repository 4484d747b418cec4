/** Lowering of a planned kernel group: by the kind its roles say. Whatever the planner accepts, this lowers. */
import type { NumericsMode } from '../kernel/ir.ts'
import type { KernelGroup } from '../plan/plan.ts'
import type { Machine } from '../target/machine.ts'
import { lowerChain } from './chain.ts'
import type { Launch } from './launch.ts'
import { lowerMatrix } from './matrix.ts'
import { lowerSegments, lowerStraight } from './straight.ts'

export function lowerGroup(
  name: string,
  group: Omit<KernelGroup, 'kind' | 'members' | 'outputs'>,
  target: Machine,
  mode: NumericsMode,
): Launch {
  if (group.segments.length > 1) return lowerSegments(name, group.segments, target, mode)
  switch (group.roles.kind) {
    case 'matrix':
      return lowerMatrix(name, group.body, group.roles, target, mode)
    case 'chain':
      return lowerChain(name, group.body, group.roles, target)
    default:
      return lowerStraight(name, group.body, group.roles, target, mode)
  }
}
