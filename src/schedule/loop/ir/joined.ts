/**
 * Axes that one loop of a nest goes along: where axes stand beside each other in all that a nest touches, their indices in order are one run. The loop
 * has the name of the innermost of them, whose index runs on through the others, and these stand where they begin.
 */
import type { Axes, AxisView } from './tile.ts'

export interface Joined {
  /** The innermost axis, which names the loop. */
  readonly axis: string
  /** The axes around it, outermost first: a program may hold a block of that, and all of the others. */
  readonly with: readonly string[]
}

/** Axes as they are inside a nest that joins some of them. */
export function joinedAxes(axes: Axes, joined: Joined | undefined): Axes {
  if (joined === undefined) return axes
  const [outermost, ...whole] = joined.with.map((a) => axes.view(a))
  if (outermost === undefined) return axes
  const run = whole.reduce((n, v) => n * v.max, axes.view(joined.axis).max)
  const view: AxisView = {
    name: joined.axis,
    extent: run * outermost.max,
    max: run * outermost.max,
    moves: false,
    aligned: 2 ** 30,
    counts: outermost.counts?.map((n) => n * run),
    multiple: outermost.multiple * run,
  }
  const still = [outermost, ...whole].map((v): AxisView => ({ ...v, max: 1, counts: [1] }))
  return [view, ...still].reduce((all, v) => all.with(v), axes)
}

/** A nest's loops, each axis by itself. */
export const loopsApart = ({
  order,
  joined,
}: {
  readonly order: readonly string[]
  readonly joined?: Joined | undefined
}): readonly string[] =>
  joined === undefined ? order : order.flatMap((a) => (a === joined.axis ? [...joined.with, a] : [a]))
