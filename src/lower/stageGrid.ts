/** The grid of a finishing stage, which reads what the programs before it left. */
import * as ix from '../affine/expr.ts'
import { foldOrScanAxes } from '../kernel/folds.ts'
import type { GridAxis } from '../kernel/ir.ts'
import { parallelGrid } from '../plan/axes/parallelGrid.ts'
import { reductionPoints } from '../plan/axes/reductionBlocks.ts'
import type { Roles } from '../plan/axes/roles.ts'
import { oneStage } from '../plan/axes/stages.ts'
import type { Body } from '../plan/body/body.ts'
import type { Machine } from '../target/machine.ts'

/** Blocks of those of some axes that all results have and nothing folds: a program holds whole what some results lack, else several programs would store those. */
export function stageGrid(stage: Body, axes: Iterable<string>, target: Machine): GridAxis[] {
  const reduced = new Set(stage.lets.flatMap(foldOrScanAxes))
  const named = stage.stores.map((s) => new Set(s.index.flatMap((e) => [...ix.axesOf(e)])))
  const isParallel = (a: string): boolean => !reduced.has(a) && named.every((n) => n.has(a))
  const roles: Roles = {
    kind: 'reduction',
    extents: new Map(stage.axes.map((a) => [a.name, a.extent])),
    row: new Set(),
    reduced,
    parallel: new Set([...axes].filter(isParallel)),
    stages: oneStage,
    splitBy: undefined,
  }
  return parallelGrid(stage, roles, reductionPoints(stage, roles, target, true))
}
