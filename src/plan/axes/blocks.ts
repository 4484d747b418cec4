/** Choosing grids: which axes a program holds a block of, and how much. Below the cost model and lowering alike. */
import type { GridAxis, NumericsMode } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import { type Body, heldPoints } from '../body/body.ts'
import { elementPoints } from './elementBlocks.ts'
import { parallelGrid } from './parallelGrid.ts'
import { mostLines, partialPoints, reductionPoints, rowsOf } from './reductionBlocks.ts'
import type { Roles } from './roles.ts'
import type { RowSplit } from './split.ts'
import { splitAxes } from './stages.ts'
import { slidingGrid, windowGrid, withTaps } from './windowBlocks.ts'

/** Grid of the one kernel of a body without products, its reductions in one piece. */
export function straightGrid(body: Body, roles: Roles, target: Machine, mode: NumericsMode): GridAxis[] {
  const isElementwise = roles.kind === 'elementwise'
  const windows = isElementwise ? undefined : (windowGrid(body, roles, target) ?? slidingGrid(body, roles, target))
  if (windows !== undefined) return windows
  const wanted = isElementwise ? elementPoints(body, roles, target) : reductionPoints(body, roles, target)
  const lines = mode === 'strict' ? mostLines(body, roles, target) : undefined
  const rows = isElementwise ? target.sharedRows : 1
  const { loops: machine, minPrograms: fewest, elementBlock: most } = target
  const loops = machine === undefined ? undefined : { fewest, most, own: machine.own }
  const grid = parallelGrid(body, roles, Math.min(wanted, lines ?? wanted), { rows, loops })
  return isElementwise ? grid : withTaps(body, roles, target, withRepeats(body, roles, target, grid))
}

/** Indices that a program has of every axis. */
export function ownExtents(extents: ReadonlyMap<string, number>, grid: readonly GridAxis[]): Map<string, number> {
  const own = new Map(extents)
  for (const { axis, block } of grid) own.set(axis, Math.min(block, own.get(axis) ?? 1))
  return own
}

/** Most indices of an axis that a program computes of the same elements. */
const mostRepeats = 8

/** Of a short axis that nothing which is read varies along, a program takes all: others would read the same again. */
function withRepeats(body: Body, { extents, reduced }: Roles, target: Machine, grid: GridAxis[]): GridAxis[] {
  const loads = body.lets.filter((l) => l.op.kind === 'load')
  const extent = (axis: string): number => extents.get(axis) ?? 1
  let programs = grid.reduce((n, g) => n * Math.ceil(extent(g.axis) / g.block), 1)
  return grid.map((g) => {
    const all = extent(g.axis)
    const isRepeat = g.block < all && all <= mostRepeats && !loads.some((l) => l.axes.includes(g.axis))
    if (!isRepeat || !loads.some((l) => l.axes.some((a) => reduced.has(a)))) return g
    const left = programs / Math.ceil(all / g.block)
    if (left < target.minPrograms) return g
    programs = left
    return { axis: g.axis, block: all }
  })
}

/** Grid of the kernel that makes the partial results of reductions which the stages of a body without products split. */
export function partialsGrid(body: Body, roles: Roles, splitBy: RowSplit, target: Machine): GridAxis[] {
  if (splitBy !== 'every-index')
    return [splitBy, ...parallelGrid(body, roles, partialPoints(body, roles, splitBy, target))]
  const cut = [...splitAxes(body, roles.stages)]
  const local = heldPoints(
    body,
    roles.extents,
    new Set([...roles.row, ...roles.reduced].filter((a) => !cut.includes(a))),
  )
  const rows = rowsOf(local, target)
  const block = (axis: string): number => (axis === cut.at(-1) ? Math.min(rows, roles.extents.get(axis) ?? 1) : 1)
  return [...cut.map((axis) => ({ axis, block: block(axis) })), ...parallelGrid(body, roles, 1)]
}
