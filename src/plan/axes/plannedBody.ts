/** A body as kernels are planned of it: values that are folded alike share axes, axes that go together are one, masks that others imply are gone, sums beside products are folds. */
import type { NumericsMode } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import type { Body } from '../body/body.ts'
import { collapse, longestAxis } from '../body/collapse.ts'
import { withoutImpliedMasks } from '../body/impliedMasks.ts'
import { joinProductAxes } from './joinAxes.ts'
import { shareFoldedAxes } from './sharedFolds.ts'
import { withSumsBeside } from './sumsBeside.ts'

/** The planned form of a body that was built, with products' axes joined and, `apart`, before they are. */
export function plannedBody(
  built: Body,
  target: Machine,
  mode: NumericsMode,
): { readonly body: Body; readonly apart: Body } {
  const shared = mode === 'strict' ? built : shareFoldedAxes(built)
  const apart = collapse(shared, longestAxis(target))
  const masked = withoutImpliedMasks(apart)
  return { body: joinProductAxes(mode === 'strict' ? masked : withSumsBeside(masked, target), target, mode), apart }
}
