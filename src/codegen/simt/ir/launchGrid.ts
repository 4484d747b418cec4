/** The grid of a kernel whose extents vary: how many programs a launch has, from its launch scalars. */
import type { Kernel } from '../../../kernel/ir.ts'
import type { PartSchedule } from '../../../schedule/simt/threadSchedule.ts'

/** Blocks along an axis of the grid. */
interface GridExtent {
  /** The extent; of an open axis, the most that it is. */
  readonly extent: number
  /** The launch scalar that it is. */
  readonly open?: string
  readonly block: number
}

/** Programs of a launch: those of the parts before the last, as many as there are at most, and those of the last part. */
export interface LaunchGrid {
  readonly first: number
  readonly last: readonly GridExtent[]
}

/** The grid of a kernel, if it varies. */
export function launchGridOf({ scalars }: Kernel, parts: readonly PartSchedule[]): LaunchGrid | undefined {
  const group = parts.at(-1)
  // Members of a group are numbered one after another, as many programs each.
  if (scalars === undefined || group === undefined || group.count > 1) return undefined
  const { part, first } = group
  const last = part.grid.map(({ axis, block }): GridExtent => {
    const { extent = 1, open } = part.axes.find((a) => a.name === axis) ?? {}
    return { extent, block, ...(open === undefined ? {} : { open }) }
  })
  return last.some((a) => a.open !== undefined) ? { first, last } : undefined
}

/** Programs of a launch in which the launch scalars have these values. */
export const programsOf = ({ first, last }: LaunchGrid, scalarAt: (scalar: string) => number): number =>
  first +
  last.reduce((n, { extent, open, block }) => n * Math.ceil((open === undefined ? extent : scalarAt(open)) / block), 1)
